//! The express way of the commonest requests: GET of a string, and SET or MSET over such, from a session about which nothing is out of
//! the ordinary, in a keyspace that nobody watches.
//!
//! A request is taken as it came, without making a command of it first; what it does is what its handler would do. A
//! request that is anything else (another spelling, a key that is not there to be written over or has a deadline, a number) is
//! left alone, as if it had not been looked at.

use super::Server;
use crate::command::{Command, Express};
use crate::core::Core;
use crate::keyspace::{Found, Keys};
use crate::reply::Reply;
use crate::session::parser::{short_bulk, short_text};
use crate::session::{Client, Session};
use core::ops::Range;

impl Server {
    /// Carries out the requests that `bytes` holds, up to the first that must go another way; returns how many bytes they took.
    /// The session and its server are plain ([`Server::is_plain`]), and the session is between two commands.
    #[inline]
    pub(super) fn go_express(&mut self, session: &mut Session, bytes: &[u8]) -> usize {
        if self.core.config.exact_times { 0 } else { bytes.len() - self.express_batch(session, bytes).len() }
    }

    // By itself, so that it need not share registers and a frame with what is rarer.
    #[inline(never)]
    fn express_batch<'a>(&mut self, session: &mut Session, mut rest: &'a [u8]) -> &'a [u8] {
        let Session { client, out, .. } = session;
        let core = &mut self.core;
        let mut reply = Reply { out, resp3: client.resp3 };
        let roomy = &mut self.roomy;
        let mut keys = self.keyspace.keys(client.db);
        keys.touch = !client.no_touch;
        let mut present = None;
        let mut times = 0;
        while let Some((entry, n, arguments)) = core.index.find_express(rest) {
            let Some((key, mut behind)) = short_text(arguments) else { break };
            let (number, command, express) = (entry.number, entry.command, entry.express);
            if present.is_none_or(|(present, _)| present != number) {
                count(core, client, present, times);
                core.enter_run(number);
                (present, times) = (Some((number, command)), 0);
            }
            match express {
                Express::Get => match keys.read_bytes(key) {
                    Found::Bytes(bytes) => reply.bulk(bytes),
                    Found::Nothing => reply.null(),
                    Found::Other => break,
                },
                Express::Set => {
                    let Some((value, end)) = short_text(behind) else { break };
                    let may_write = keys.is_quiet() && *roomy.get_or_insert_with(|| !core.over_maxmemory());
                    if !may_write || !keys.overwrite(key, value) {
                        break;
                    }
                    keys.space.dirty += 1;
                    reply.ok();
                    behind = end;
                }
                Express::SetMany => {
                    let may_write = keys.is_quiet() && *roomy.get_or_insert_with(|| !core.over_maxmemory());
                    if !may_write || n == 0 || !n.is_multiple_of(2) {
                        break;
                    }
                    // Where one cannot be written over, the handler does it all again: that changes nothing.
                    let Some(end) = overwrite_many(&mut keys, n / 2, arguments) else { break };
                    keys.space.dirty += n as u64 / 2;
                    reply.ok();
                    behind = end;
                }
            }
            times += 1;
            rest = behind;
        }
        count(core, client, present, times);
        rest
    }
}

/// Puts `n` pairs of strings, which `arguments` begins with, over others; returns what follows them. None: not all are there,
/// or not all could be put.
fn overwrite_many<'a>(keys: &mut Keys<'_>, n: usize, arguments: &'a [u8]) -> Option<&'a [u8]> {
    if let Some((alike, end)) = Alike::find(n, arguments) {
        return keys.overwrite_all(alike.pairs()).then_some(end);
    }
    let mut pairs = Pairs::default();
    let (pairs, end) = pairs.read(n, arguments)?;
    keys.overwrite_all(pairs.iter().copied()).then_some(end)
}

/// Pairs whose keys are of one length, and whose values are: where each begins need not be found out one by one.
struct Alike<'a> {
    bytes: &'a [u8],
    /// Length of a pair, with its headers and line ends.
    pair: usize,
    /// Where in a pair the key lies, and the value.
    key: Range<usize>,
    value: Range<usize>,
}

impl<'a> Alike<'a> {
    /// The `n` pairs that `arguments` begins with, and what follows them, if they are all there and alike.
    #[inline]
    fn find(n: usize, arguments: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, len, behind) = short_bulk(arguments)?;
        let key = header..header + len;
        let value_at = arguments.len() - behind.len();
        let (header, len, rest) = short_bulk(behind)?;
        let value = value_at + header..value_at + header + len;
        let pair = arguments.len() - rest.len();
        let (bytes, end) = arguments.split_at_checked(n.checked_mul(pair)?)?;
        let headers = (arguments.first_chunk::<4>(), behind.first_chunk::<4>());
        let like = |pair: &[u8]| (pair.first_chunk(), pair.get(value_at..).and_then(<[u8]>::first_chunk)) == headers;
        bytes.chunks_exact(pair).all(like).then_some((Self { bytes, pair, key, value }, end))
    }

    fn pairs(&self) -> impl Iterator<Item = Pair<'a>> {
        let (key, value) = (self.key.clone(), self.value.clone());
        // Both ranges lie in a pair.
        self.bytes
            .chunks_exact(self.pair)
            .map(move |pair| (pair.get(key.clone()).unwrap_or_default(), pair.get(value.clone()).unwrap_or_default()))
    }
}

/// Most pairs of different lengths that go the express way.
const PAIRS: usize = 16;

/// A key and a value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// Keys and values of one request.
#[derive(Default)]
struct Pairs<'a>([Pair<'a>; PAIRS]);

impl<'a> Pairs<'a> {
    /// Finds `n` pairs, and what follows them. None: they are too many, or not all are there.
    fn read(&mut self, n: usize, arguments: &'a [u8]) -> Option<(&[Pair<'a>], &'a [u8])> {
        let pairs = self.0.get_mut(..n)?;
        let mut rest = arguments;
        for (key, value) in &mut *pairs {
            (*key, rest) = short_text(rest)?;
            (*value, rest) = short_text(rest)?;
        }
        Some((pairs, rest))
    }
}

/// Counts requests that were carried out.
fn count(core: &mut Core, client: &mut Client, what: Option<(usize, &'static Command)>, times: u32) {
    let (Some((number, command)), 1..) = (what, times) else { return };
    core.count_run(times);
    core.stats.processed += u64::from(times);
    if let Some(s) = core.stats.commands.get_mut(number) {
        s.calls += u64::from(times);
    }
    client.commands += u64::from(times);
    client.last_command = Some(command);
}

#[cfg(test)]
mod tests {
    use crate::random::Rng;
    use crate::session::Fate;
    use crate::testing::Bench;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    fn request(words: &[&str]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|w| request += &format!("${}\r\n{w}\r\n", w.len()));
        request.into_bytes()
    }

    /// A pipeline in which GET and SET of strings stand beside what looks like it and is not.
    fn pipeline(rng: &mut Rng) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..rng.below(40) {
            let key = format!("{:0width$}", rng.below(6), width = [1, 9, 10, 99, 120][rng.below(5)]);
            let value = "v".repeat([0, 1, 3, 8, 9, 10, 20, 99, 200, 5_000][rng.below(10)]);
            let (get, set) = if rng.below(2) == 0 { ("GET", "SET") } else { ("gEt", "set") };
            let other = format!("{}", rng.below(6));
            bytes.extend(match rng.below(21) {
                0..5 => request(&[get, &key]),
                5..10 => request(&[set, &key, &value]),
                10 => request(&["INCR", &key]),
                11 => request(&["SET", &key, "123"]),
                16 => request(&["MSET", &key, &value, &other, "x", &key, "y"]),
                17 => request(&[[&["mSEt"][..], &[other.as_str(), "abc"].repeat(rng.below(18))].concat()].concat()),
                19 => request(&["MSET"]),
                20 => request(&["MSET", &key, "abc", &other, "abd", &key, "12"]),
                18 => request(&["MSET", &key, &value, &other]),
                12 => request(&["PEXPIRE", &key, "100000"]),
                13 => request(&["DEL", &key]),
                14 => request(&["LPUSH", &key, "a"]),
                _ => [request(&["GET"]), request(&["SET", &key, "a", "KEEPTTL"]), request(&["GEO", &key])].concat(),
            });
        }
        bytes
    }

    /// What is left of a figure of INFO that does not depend on time.
    fn figures(bench: &mut Bench, section: &str) -> String {
        let client = bench.client();
        let info = bench.run(client, &format!("INFO {section}"));
        bench.server().disconnect(client);
        let kept = |line: &&str| {
            ["keyspace_", "total_commands", "rdb_changes", "cmdstat_", "errorstat", "db0"]
                .iter()
                .any(|p| line.contains(p))
        };
        let lines = info.lines().filter(kept);
        lines.map(|l| l.split(",usec").next().unwrap_or(l)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn leaves_what_the_handlers_leave() {
        // Who notices what takes less than a millisecond has every command timed by itself, and none goes this way.
        let (mut express, mut other) = (Bench::new(&[]), Bench::new(&[("slowlog-log-slower-than", "0")]));
        let (a, b) = (express.client(), other.client());
        let mut rng = Rng::new(5);
        for _ in 0..300 {
            let mut bytes = pipeline(&mut rng);
            let whole = bytes.len();
            while !bytes.is_empty() {
                let n = if rng.below(2) == 0 { bytes.len() } else { rng.below(bytes.len()) + 1 };
                let piece: Vec<u8> = bytes.drain(..n).collect();
                assert_eq!(express.feed(a, &piece), n);
                assert_eq!(other.feed(b, &piece), n);
                assert_eq!(String::from_utf8_lossy(&express.read_raw(a)), String::from_utf8_lossy(&other.read_raw(b)));
            }
            if rng.below(10) == 0 {
                express.pass_ms(30_000);
                other.pass_ms(30_000);
            }
            assert!(whole == 0 || express.server().fate(a) == Fate::Open);
            for section in ["stats", "persistence", "commandstats", "errorstats", "keyspace"] {
                assert_eq!(figures(&mut express, section), figures(&mut other, section));
            }
        }
        assert!(figures(&mut express, "commandstats").contains("cmdstat_get:calls="));
    }

    #[test]
    fn who_watches_is_told() {
        let mut bench = Bench::new(&[]);
        let (a, b) = (bench.client(), bench.client());
        bench.run(a, "SET k abc");
        bench.run(b, "WATCH k");
        bench.run(b, "MULTI");
        bench.run(b, "PING");
        bench.run(a, "SET k abd");
        assert_eq!(bench.run(b, "EXEC"), "nil");
        bench.run(b, "CONFIG SET notify-keyspace-events KEA");
        bench.run(b, "SUBSCRIBE __keyspace@0__:k");
        bench.run(a, "SET k abe");
        assert!(bench.read(b).contains("set"));
    }

    #[test]
    fn writes_are_refused_when_memory_is_short() {
        let mut bench = Bench::new(&[]);
        let a = bench.client();
        bench.run(a, "SET k abc");
        bench.run(a, "CONFIG SET maxmemory 1");
        assert!(bench.run(a, "SET k abd").contains("OOM"));
        assert_eq!(bench.run(a, "GET k"), "abc");
    }
}
