//! MIGRATE: keys on their way to another server. What it says is read here; [`server::migrate`](crate::server::migrate)
//! does the work, in steps.

use super::extract::leading_integer;
use crate::blocking::{Wait, WaitRequest};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::server::migrate::{CONNECTING, Migration, Order};
use crate::session::Endpoint;
use crate::session::args::{Args, OwnedArgs};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[Command {
    name: "migrate",
    group: Group::Generic,
    since: "2.6.0",
    summary: "Atomically transfers a key from one instance to another.",
    complexity: "This command actually executes a DUMP+DEL in the source instance, and a RESTORE in the target instance. See the pages of these commands for time complexity. Also an O(N) data transfer between the two instances is performed.",
    arity: -6,
    flags: flag::WRITE | flag::WAITS,
    acl: acl::DANGEROUS | acl::KEYSPACE,
    keys: &[KeySpec::range(KEY_FLAGS, 3, 0, 1), KeySpec::keyword(KEY_FLAGS | key::INCOMPLETE, "KEYS", -2).last(-1)],
    args: &[
        Arg::string("host"),
        Arg::integer("port"),
        Arg::one_of("key-selector", &[Arg::key("key", 0), Arg::word("empty-string", "")]),
        Arg::integer("destination-db"),
        Arg::integer("timeout"),
        Arg::word("copy", "COPY").since("3.0.0").optional(),
        Arg::word("replace", "REPLACE").since("3.0.0").optional(),
        Arg::one_of(
            "authentication",
            &[
                Arg::string("auth").display("password").token("AUTH").since("4.0.7"),
                Arg::block("auth2", &[Arg::string("username"), Arg::string("password")]).token("AUTH2").since("6.0.0"),
            ],
        )
        .optional(),
        Arg::key("keys", 1).display("key").token("KEYS").since("3.0.6").optional().multiple(),
    ],
    history: &[
        ("3.0.0", "Added the `COPY` and `REPLACE` options."),
        ("3.0.6", "Added the `KEYS` option."),
        ("4.0.7", "Added the `AUTH` option."),
        ("6.0.0", "Added the `AUTH2` option."),
    ],
    tips: &["nondeterministic_output"],
    run: Some(migrate),
    ..Command::DEFAULT
}];

const KEY_FLAGS: u16 = key::RW | key::ACCESS | key::DELETE;
/// Where the options begin.
const OPTIONS: usize = 6;
/// What a timeout that is none stands for, in ms.
const DEFAULT_TIMEOUT_MS: i64 = 1_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Copy,
    Replace,
    Auth,
    Auth2,
    Keys,
}

/// The option whose word stands at `at`, and how many arguments belong to it (all that follow to KEYS).
fn option(args: Args<'_>, at: usize) -> Option<(Word, usize)> {
    const WORDS: [(&str, Word, usize); 5] = [
        ("COPY", Word::Copy, 0),
        ("REPLACE", Word::Replace, 0),
        ("AUTH", Word::Auth, 1),
        ("AUTH2", Word::Auth2, 2),
        ("KEYS", Word::Keys, 0),
    ];
    WORDS.into_iter().find(|(word, ..)| args.is(at, word)).map(|(_, word, n)| (word, n))
}

/// The arguments that are keys: the one that is named, or those after KEYS. None: both are there.
pub(super) fn keys(args: Args<'_>) -> Option<Vec<(usize, u16)>> {
    let mut at = OPTIONS;
    while at < args.len() {
        match option(args, at) {
            Some((Word::Keys, _)) if !args.get(3).is_empty() => return None,
            Some((Word::Keys, _)) if at + 1 < args.len() => {
                return Some((at + 1..args.len()).map(|i| (i, KEY_FLAGS)).collect());
            }
            Some((_, n)) => at += n + 1,
            None => at += 1,
        }
    }
    Some(Vec::from([(3, KEY_FLAGS)]))
}

/// Whether an argument is a user name or password for the other server.
pub(crate) fn is_secret(args: Args<'_>, secret: usize) -> bool {
    let mut at = OPTIONS;
    while at < secret {
        match option(args, at) {
            Some((Word::Keys, _)) | None => return false,
            Some((_, n)) if at + n >= secret => return true,
            Some((_, n)) => at += n + 1,
        }
    }
    false
}

/// The server that host and port name. Nothing here asks a name server: a host is an address, or this machine itself.
fn endpoint(host: &[u8], port: &[u8]) -> Result<Endpoint, Error> {
    let text = core::str::from_utf8(host).map_err(|_| CONNECTING)?;
    let addr: Ipv4Addr = if text.eq_ignore_ascii_case("localhost") {
        Ipv4Addr::LOCALHOST
    } else {
        text.parse().map_err(|_| CONNECTING)?
    };
    let port = leading_integer(port);
    if port < 0 {
        return Err(CONNECTING);
    }
    // As it becomes sixteen bits there.
    Ok(Endpoint { addr: addr.octets(), port: port as u16 })
}

fn migrate(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (mut copy, mut replace) = (false, false);
    let mut auth: Vec<&[u8]> = Vec::new();
    let mut keys = 3..4;
    let mut at = OPTIONS;
    while at < ctx.argc() {
        let (word, n) = option(ctx.args, at).ok_or(Error::Syntax)?;
        if at + n >= ctx.argc() {
            return Err(Error::Syntax);
        }
        match word {
            Word::Copy => copy = true,
            Word::Replace => replace = true,
            Word::Auth | Word::Auth2 => {
                auth = core::iter::once(&b"AUTH"[..]).chain((at + 1..=at + n).map(|i| ctx.arg(i))).collect();
            }
            Word::Keys if !ctx.arg(3).is_empty() => {
                return Err(Error::Fixed(
                    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                ));
            }
            Word::Keys => {
                keys = at + 1..ctx.argc();
                break;
            }
        }
        at += n + 1;
    }
    let timeout_ms = ctx.int(5)?;
    let target_db = ctx.int(4)?;
    let timeout_ms = if timeout_ms <= 0 { DEFAULT_TIMEOUT_MS } else { timeout_ms };
    // The keys' names are kept, for the work and for the slow log.
    if !ctx.affordable(ctx.args.total_len().saturating_mul(3)) {
        return Err(Error::OutOfMemory);
    }
    let mut found: Vec<Box<[u8]>> = Vec::new();
    found.try_reserve(keys.len())?;
    for at in keys {
        let key = ctx.arg(at);
        if ctx.keys.read(key).is_some() {
            found.push(key.into());
        }
    }
    if found.is_empty() {
        ctx.reply.simple("NOKEY");
        return Ok(());
    }
    if ctx.deny_blocking {
        return Err(Error::Fixed("ERR MIGRATE cannot wait for another server inside a transaction"));
    }
    let order = Order {
        to: endpoint(ctx.arg(1), ctx.arg(2))?,
        auth: OwnedArgs::from_slices(&auth),
        target_db,
        timeout_us: (timeout_ms as u64).saturating_mul(1_000),
        copy,
        replace,
        db: ctx.client.db,
        keys: found,
    };
    let tracks = ctx.client.tracking.is_some();
    ctx.core.begin_migration(|core| Migration::new(core, ctx.client.handle, tracks, order));
    ctx.core.wait_request = Some(WaitRequest {
        wait: Wait::Migration,
        even_without_key: false,
        args: None,
        keys: Vec::new(),
        until_us: None,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::links::{LinkError, LinkId};
    use crate::session::{ClientId, Endpoint, Fate};
    use crate::testing::Bench;
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    /// Takes the request for a link, and opens it.
    fn answer(bench: &mut Bench) -> LinkId {
        let request = bench.server().next_link().expect("a link is wanted");
        assert_eq!(request.to, Endpoint { addr: [10, 0, 0, 2], port: 6379 });
        assert!(bench.server().link_opened(request.id));
        bench.pass_ms(0);
        request.id
    }

    /// What was sent over a link since it was last looked: the words of the commands, payloads left out.
    fn heard(bench: &mut Bench, link: LinkId) -> String {
        let mut raw = Vec::new();
        loop {
            let piece = bench.server().link_output(link).to_vec();
            if piece.is_empty() {
                break;
            }
            bench.server().link_sent(link, piece.len());
            raw.extend(piece);
        }
        let text = String::from_utf8_lossy(&raw).into_owned();
        let words = text.split("\r\n").filter(|w| !w.starts_with(['*', '$']) && !w.contains('\0'));
        words.collect::<Vec<_>>().join(" ").trim().to_string()
    }

    fn say(bench: &mut Bench, link: LinkId, text: &str) {
        assert_eq!(bench.server().link_received(link, text.as_bytes()), text.len());
        bench.pass_ms(0);
    }

    fn two(config: &[(&str, &str)]) -> (Bench, ClientId, ClientId) {
        let mut bench = Bench::new(config);
        let (a, b) = (bench.client(), bench.client());
        bench.run(a, "MSET a 1 b 2 c 3");
        bench.run(a, "PEXPIRE b 5000");
        (bench, a, b)
    }

    #[test]
    fn keys_that_are_acknowledged_go_and_writes_wait_for_it() {
        let (mut bench, c, other) = two(&[("notify-keyspace-events", "Eg")]);
        bench.run(other, "SUBSCRIBE __keyevent@0__:del");
        let writer = bench.client();
        assert_eq!(bench.run(writer, "MULTI"), "OK");
        assert_eq!(bench.run(writer, "INCR a"), "QUEUED");
        let reader = bench.client();
        assert_eq!(bench.run(c, "MIGRATE 10.0.2.2 6379 x 7 500"), "NOKEY");
        assert_eq!(bench.run(c, "MIGRATE 10.0.0.2 6379 '' 7 500 AUTH2 me pw REPLACE KEYS a x b"), "");
        let link = answer(&mut bench);
        assert_eq!(heard(&mut bench, link), "AUTH me pw SELECT 7 RESTORE a 0 REPLACE RESTORE b 5000 REPLACE");
        // Reads go on, writes wait, alone or in a transaction.
        assert_eq!(bench.run(reader, "GET a"), "1");
        assert_eq!(bench.run(writer, "EXEC"), "");
        say(&mut bench, link, "+OK\r\n+OK\r\n+O");
        assert_eq!((bench.read(c), bench.read(writer)), (String::new(), String::new()));
        assert_eq!(bench.server().link_fate(link), Fate::Open);
        say(&mut bench, link, "K\r\n+OK\r\n");
        assert_eq!(bench.read(c), "OK");
        assert_eq!(bench.read(writer), "[1]", "counted from nothing");
        assert_eq!(bench.server().link_fate(link), Fate::Open);
        assert_eq!(bench.read(other), "[message __keyevent@0__:del a] [message __keyevent@0__:del b]");
        assert_eq!(bench.run(c, "EXISTS a b c"), "2");
    }

    #[test]
    fn what_the_other_server_refuses_stays() {
        let (mut bench, c, _) = two(&[]);
        let migrate = "MIGRATE 10.0.0.2 6379 '' 0 500 KEYS a b c";
        bench.run(c, migrate);
        let link = answer(&mut bench);
        say(&mut bench, link, "+OK\r\n+OK\r\n-BUSYKEY there\r\n+OK\r\n");
        assert_eq!(bench.read(c), "-ERR Target instance replied with error: BUSYKEY there");
        assert_eq!(
            (bench.run(c, "EXISTS a"), bench.run(c, "EXISTS b"), bench.run(c, "EXISTS c")),
            ("0".into(), "1".into(), "0".into())
        );
        // A wrong database: whatever is said of the keys, they are not where they should be.
        bench.run(c, migrate);
        say(&mut bench, link, "");
        say(&mut bench, link, "-ERR no such db\r\n+OK\r\n");
        assert_eq!(bench.read(c), "-ERR Target instance replied with error: ERR no such db");
        assert_eq!(bench.run(c, "EXISTS b"), "1");
        // COPY.
        bench.run(c, "MIGRATE 10.0.0.2 6379 b 0 500 COPY");
        say(&mut bench, link, "");
        say(&mut bench, link, "+OK\r\n+OK\r\n");
        assert_eq!((bench.read(c), bench.run(c, "EXISTS b")), ("OK".into(), "1".into()));
    }

    #[test]
    fn a_link_that_breaks_is_tried_again_while_nothing_was_answered() {
        let (mut bench, c, _) = two(&[]);
        let migrate = "MIGRATE 10.0.0.2 6379 '' 0 500 KEYS a b";
        bench.run(c, migrate);
        for _ in 0..2 {
            let link = answer(&mut bench);
            heard(&mut bench, link);
            say(&mut bench, link, "+OK\r\n");
            bench.server().link_closed(link);
            bench.pass_ms(0);
        }
        assert_eq!(bench.read(c), "-IOERR error or timeout reading to target instance");
        assert!(bench.server().next_link().is_none());
        bench.run(c, migrate);
        let link = answer(&mut bench);
        heard(&mut bench, link);
        say(&mut bench, link, "+OK\r\n+OK\r\n");
        bench.server().link_finished(link);
        bench.pass_ms(0);
        assert_eq!(bench.read(c), "-IOERR error or timeout reading to target instance");
        assert_eq!(bench.run(c, "EXISTS a b"), "1");
    }

    #[test]
    fn time_runs_out_only_without_progress() {
        let (mut bench, c, _) = two(&[]);
        for (dialled, error) in [(false, "writing"), (true, "reading")] {
            bench.run(c, "MIGRATE 10.0.0.2 6379 '' 0 500 KEYS a b");
            let request = bench.server().next_link().expect("a link is wanted");
            assert_eq!(request.timeout_us, 500_000);
            if dialled {
                bench.pass_ms(400);
                bench.server().link_opened(request.id);
                bench.pass_ms(400);
                heard(&mut bench, request.id);
                bench.pass_ms(400);
                say(&mut bench, request.id, "+OK\r\n");
            }
            bench.pass_ms(499);
            assert_eq!(bench.read(c), "");
            bench.pass_ms(1);
            assert_eq!(bench.read(c), format!("-IOERR error or timeout {error} to target instance"));
            // It comes too late.
            assert!(dialled || !bench.server().link_opened(request.id));
        }
        for (why, error) in
            [(LinkError::Refused, "writing to target instance"), (LinkError::Unreachable, "connecting to the client")]
        {
            bench.run(c, "MIGRATE 10.0.0.2 6379 a 0 0");
            let request = bench.server().next_link().expect("a link is wanted");
            assert_eq!(request.timeout_us, 1_000_000);
            bench.server().link_failed(request.id, why);
            bench.pass_ms(0);
            assert_eq!(bench.read(c), format!("-IOERR error or timeout {error}"));
        }
        assert_eq!(bench.run(c, "EXISTS a b"), "2");
    }

    #[test]
    fn many_keys_go_in_steps() {
        let mut bench = Bench::new(&[]);
        let c = bench.client();
        let other = bench.client();
        let mut words = String::from("MIGRATE 10.0.0.2 6379 '' 0 500 KEYS");
        for n in 0..5_000 {
            bench.run(c, &format!("SET key:{n} {}", "v".repeat(100)));
            words.push_str(&format!(" key:{n}"));
        }
        bench.run(c, &words);
        let link = answer(&mut bench);
        let mut sent = 0;
        say(&mut bench, link, "+OK\r\n");
        for _ in 0..100 {
            let now = heard(&mut bench, link).matches("RESTORE").count();
            assert!(now <= 512, "{now} in one step");
            sent += now;
            let before: usize = bench.run(other, "DBSIZE").parse().unwrap();
            say(&mut bench, link, &"+OK\r\n".repeat(now));
            let after: usize = bench.run(other, "DBSIZE").parse().unwrap();
            assert!(before - after <= 1_024, "{before} {after}");
        }
        assert_eq!(sent, 5_000);
        bench.pass_ms(0);
        assert_eq!(bench.read(c), "OK");
        assert_eq!(bench.run(c, "DBSIZE"), "0");
    }

    #[test]
    fn a_client_that_goes_leaves_the_work_and_the_next_waits_its_turn() {
        let (mut bench, c, other) = two(&[]);
        bench.run(c, "MIGRATE 10.0.0.2 6379 a 0 500");
        assert_eq!(bench.run(other, "MIGRATE 10.0.0.2 6379 b 0 500"), "");
        let link = answer(&mut bench);
        assert!(bench.server().next_link().is_none());
        bench.server().disconnect(c);
        say(&mut bench, link, "+OK\r\n+OK\r\n");
        say(&mut bench, link, "+OK\r\n");
        assert_eq!(bench.read(other), "OK");
        assert_eq!(bench.run(other, "EXISTS a b"), "0");
    }

    #[test]
    fn a_connection_is_kept_for_ten_seconds_for_the_same_login() {
        let (mut bench, c, other) = two(&[]);
        let cached = |bench: &mut Bench| {
            let info = bench.run(other, "INFO stats");
            info.lines().find_map(|line| line.strip_prefix("migrate_cached_sockets:")).map(String::from)
        };
        bench.run(c, "MIGRATE 10.0.0.2 6379 a 3 500 COPY");
        let link = answer(&mut bench);
        say(&mut bench, link, "+OK\r\n+OK\r\n");
        heard(&mut bench, link);
        assert_eq!((bench.read(c), cached(&mut bench)), ("OK".into(), Some("1".into())));
        bench.run(c, "MIGRATE 10.0.0.2 6379 a 3 500 COPY");
        bench.pass_ms(0);
        assert_eq!(heard(&mut bench, link), "RESTORE a 0", "over the same, where the database is selected");
        say(&mut bench, link, "-BUSYKEY\r\n");
        bench.run(c, "MIGRATE 10.0.0.2 6379 a 3 500 COPY");
        bench.pass_ms(0);
        assert_eq!(heard(&mut bench, link), "SELECT 3 RESTORE a 0", "after an error nothing is known");
        // One that has broken meanwhile is replaced.
        bench.server().link_closed(link);
        bench.pass_ms(0);
        let link = answer(&mut bench);
        assert_eq!(heard(&mut bench, link), "SELECT 3 RESTORE a 0");
        say(&mut bench, link, "+OK\r\n+OK\r\n");
        // Another login has a connection of its own.
        bench.run(c, "MIGRATE 10.0.0.2 6379 a 3 500 COPY AUTH pw");
        let own = answer(&mut bench);
        say(&mut bench, own, "+OK\r\n+OK\r\n+OK\r\n");
        assert_eq!(cached(&mut bench), Some("2".into()));
        bench.pass_ms(9_999);
        assert_eq!(cached(&mut bench), Some("2".into()));
        bench.server().link_finished(own);
        bench.pass_ms(0);
        assert_eq!((cached(&mut bench), bench.server().link_fate(own)), (Some("1".into()), Fate::CloseAfterOutput));
        bench.pass_ms(1);
        assert_eq!((cached(&mut bench), bench.server().link_fate(link)), (Some("0".into()), Fate::CloseAfterOutput));
    }

    #[test]
    fn it_is_counted_with_all_the_time_that_it_took() {
        let (mut bench, c, other) = two(&[]);
        bench.run(c, "MIGRATE 10.0.0.2 6379 a 3 500 AUTH secret");
        let link = answer(&mut bench);
        bench.pass_ms(300);
        assert!(!bench.run(other, "INFO commandstats").contains("migrate"));
        say(&mut bench, link, "+OK\r\n+OK\r\n-NO\r\n");
        let stats = bench.run(other, "INFO commandstats");
        let line = "cmdstat_migrate:calls=1,usec=300000,usec_per_call=300000.00,rejected_calls=0,failed_calls=1";
        assert!(stats.contains(line), "{stats}");
        let slow = bench.run(other, "SLOWLOG GET");
        assert!(slow.contains("300000 [MIGRATE 10.0.0.2 6379 a 3 500 AUTH (redacted)]"), "{slow}");
    }

    #[test]
    fn arguments_are_read_as_redis_reads_them() {
        let (mut bench, c, _) = two(&[]);
        for (words, reply) in [
            ("h 1 a 0 5 FOO", "-ERR syntax error"),
            ("h 1 a 0 5 AUTH", "-ERR syntax error"),
            ("h 1 a 0 5 AUTH2 u", "-ERR syntax error"),
            ("h 1 a 0 x AUTH", "-ERR syntax error"),
            ("h 1 x 0 x", "-ERR value is not an integer or out of range"),
            ("h 1 x x 5", "-ERR value is not an integer or out of range"),
            ("h 1 '' 0 5 KEYS", "NOKEY"),
            (
                "h 1 a 0 5 COPY KEYS b",
                "-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
            ),
            ("h 1 a 0 5", "-IOERR error or timeout connecting to the client"),
            ("10.0.0.256 1 a 0 5", "-IOERR error or timeout connecting to the client"),
            ("10.0.0.2 -1 a 0 5", "-IOERR error or timeout connecting to the client"),
        ] {
            assert_eq!(bench.run(c, &format!("MIGRATE {words}")), reply, "{words}");
        }
        for (words, keys) in [
            ("h p k 0 5", "[k]"),
            ("h p '' 0 5", "[]"),
            ("h p '' 0 5 KEYS a b", "[a b]"),
            ("h p '' 0 5 AUTH keys keys a KEYS", "[a KEYS]"),
            ("h p '' 0 5 AUTH2 keys keys KEYS a", "[a]"),
            ("h p '' 0 5 AUTH x KEYS", "[]"),
            ("h p k 0 5 KEYS a", "-ERR Invalid arguments specified for command"),
        ] {
            assert_eq!(bench.run(c, &format!("COMMAND GETKEYS MIGRATE {words}")), keys, "{words}");
        }
        bench.run(c, "MULTI");
        bench.run(c, "MIGRATE 10.0.0.2 1 a 0 5");
        let reply = "[-ERR MIGRATE cannot wait for another server inside a transaction]";
        assert_eq!(bench.run(c, "EXEC"), reply);
        assert!(bench.server().next_link().is_none());
    }
}
