//! Random rules of ACL SETUSER: what ACL LIST, GETUSER and CAT show afterwards, and what ACL DRYRUN says of random commands.
//! `SECONDS_EACH`, `SEED` and the programs' names as for the families.
//!
//! Valkey shows rules as Redis 7.2 does: there all is compared. Redis 7.0 makes up the command rules anew, does not show
//! `sanitize-payload`, and does not name the user in DRYRUN: those are left out of what is compared with it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use barium_differential::differences::Reference;
use barium_differential::grammar::{Grammar, World, common_commands};
use barium_differential::server::Server;
use barium_differential::settings::number;
use barium_differential::values::Draw;
use barium_differential::wire::{Command, Connection, Reply, shown, words};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// Sequences between two looks at the clock.
const BATCH: u32 = 20;
/// How often each answer of DRYRUN must have come at least, a second of the time given.
const EACH_ANSWER: u64 = 5;

/// A connection to each server, and what both know.
struct Players {
    ours: Connection,
    theirs: Connection,
    reference: Reference,
    /// Commands and subcommands that both have.
    common: Vec<String>,
    grammar: Grammar,
    /// How often DRYRUN gave each kind of answer.
    answers: BTreeMap<&'static str, u64>,
}

/// Names in an array reply.
fn names(reply: &Reply) -> BTreeSet<String> {
    reply.items().iter().map(|name| String::from_utf8_lossy(name.text()).into_owned()).collect()
}

impl Players {
    fn new(ours: u16, theirs: u16, reference: Reference) -> Self {
        Self::of(ours, theirs, reference, &|_, _| true)
    }

    /// With the commands that `wanted` says yes to, by group and name.
    fn of(ours: u16, theirs: u16, reference: Reference, wanted: &dyn Fn(&str, &str) -> bool) -> Self {
        let mut ours = Connection::open(ours).expect("connect");
        let mut theirs = Connection::open(theirs).expect("connect");
        let common = common_commands([&mut ours, &mut theirs]).expect("COMMAND LIST");
        let world = World { old: reference == Reference::Redis, ..World::default() };
        let grammar = Grammar::of_common(&mut ours, &common, wanted, world).expect("COMMAND DOCS");
        Self { ours, theirs, reference, common: common.into_iter().collect(), grammar, answers: BTreeMap::new() }
    }

    /// Sends a command to both; what differs.
    fn compare(&mut self, command: &Command) -> Result<Reply, String> {
        let each = [&mut self.ours, &mut self.theirs].map(|connection| {
            connection.send(std::slice::from_ref(command)).and_then(|()| connection.reply()).expect("a reply")
        });
        let [ours, theirs] =
            each.each_ref().map(|reply| if self.reference == Reference::Redis { of_7_0(reply) } else { reply.clone() });
        // Some commands take more arguments in 7.2.
        let arity = self.reference == Reference::Redis && theirs.text().starts_with(b"ERR wrong number of arguments");
        if ours == theirs || arity {
            return Ok(each.into_iter().next().expect("two replies"));
        }
        Err(format!("{}\n  barium    {ours:?}\n  reference {theirs:?}", shown(command)))
    }

    /// Plays rules and trials on two users, of whom one may use every command to begin with.
    fn play(&mut self, resp3: bool, seeds: &[u64]) -> Result<(), String> {
        for connection in [&mut self.ours, &mut self.theirs] {
            connection.ask(if resp3 { "HELLO 3" } else { "HELLO 2" }).expect("HELLO");
            connection.ask("ACL DELUSER u v").expect("ACL DELUSER");
            connection.ask("ACL SETUSER u +@all").expect("ACL SETUSER");
            connection.ask("ACL SETUSER v").expect("ACL SETUSER");
        }
        for seed in seeds {
            for command in self.step(*seed) {
                let reply = self.compare(&command)?;
                if command[1] == b"DRYRUN" {
                    let text = String::from_utf8_lossy(reply.text()).into_owned();
                    let answer = ["command", "key", "channel"].into_iter().find(|word| text.ends_with(word));
                    let answer = if reply.is_error() { "error" } else { answer.unwrap_or("OK") };
                    *self.answers.entry(answer).or_default() += 1;
                }
            }
        }
        Ok(())
    }

    /// The commands that a number stands for: a change and what is to be seen then, or commands that are tried out.
    fn step(&self, seed: u64) -> Vec<Command> {
        let mut draw = Draw::new(seed);
        let user = if draw.chance(70) { "u" } else { "v" };
        if draw.chance(40) {
            let mut change = words(&format!("ACL SETUSER {user}"));
            for _ in 0..draw.below(6) {
                change.extend(self.rule_or_selector(&mut draw));
            }
            return vec![change, words("ACL LIST"), words(&format!("ACL GETUSER {user}"))];
        }
        let called = if draw.chance(10) {
            let verb = draw.one(&["PUBLISH", "SPUBLISH", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE"]);
            let channel = |draw: &mut Draw| *draw.one(&["ch1", "ch*", "x1", "s2", "*", "\\", ""]);
            vec![words(&format!("{verb} {} {}", channel(&mut draw), channel(&mut draw)))]
        } else {
            self.grammar.commands(draw.below(usize::MAX) as u64)
        };
        let trial = |call: Command| words(&format!("ACL DRYRUN {user}")).into_iter().chain(call).collect();
        called.into_iter().map(trial).collect()
    }

    fn rule_or_selector(&self, draw: &mut Draw) -> Vec<Vec<u8>> {
        if draw.chance(85) {
            return vec![self.rule(draw, false)];
        }
        let inner: Vec<Vec<u8>> = (0..draw.below(4)).map(|_| self.rule(draw, true)).collect();
        let whole = [b"(".as_slice(), &inner.join(&b' '), b")"].concat();
        // As one word or as several.
        if draw.chance(50) { vec![whole] } else { whole.split(|b| *b == b' ').map(<[u8]>::to_vec).collect() }
    }

    fn rule(&self, draw: &mut Draw, in_selector: bool) -> Vec<u8> {
        const CATEGORIES: [&str; 24] = [
            "keyspace",
            "read",
            "write",
            "set",
            "sortedset",
            "list",
            "hash",
            "string",
            "bitmap",
            "hyperloglog",
            "geo",
            "stream",
            "pubsub",
            "admin",
            "fast",
            "slow",
            "blocking",
            "dangerous",
            "connection",
            "transaction",
            "all",
            "all",
            "nosuch",
            "",
        ];
        const PATTERNS: [&str; 14] =
            ["s*", "l1", "*", "[thz]*", "?2", "x1", "g*", "", "x)", "(y", "\"q\"", "\\", "\u{e9}", "ch*"];
        const ACCESS: [&str; 11] = ["~", "~", "%R~", "%W~", "%RW~", "%rw~", "%r~", "%~", "%R", "%RR~", "%X~"];
        const WHOLE: [&str; 10] = [
            "allkeys",
            "resetkeys",
            "allchannels",
            "resetchannels",
            "allcommands",
            "nocommands",
            "~*",
            "&*",
            "+@all",
            "-@all",
        ];
        const OF_USERS: [&str; 20] = [
            "on",
            "off",
            "nopass",
            "resetpass",
            "reset",
            "clearselectors",
            "skip-sanitize-payload",
            "sanitize-payload",
            ">p1",
            ">p2",
            "<p1",
            "<p2",
            "#2ba9c1b4b0b0d6a1c6a1d5a6c3b0f0e3e1b5a2a4a7c0d9f8e7b6c5d4e3f2a1b0",
            "!2ba9c1b4b0b0d6a1c6a1d5a6c3b0f0e3e1b5a2a4a7c0d9f8e7b6c5d4e3f2a1b0",
            "#abc",
            "!abc",
            "foo",
            "",
            "(",
            ")",
        ];
        const ODD: [&str; 12] = [
            "nosuch",
            "get|x",
            "config|nosuch",
            "config|",
            "|",
            "",
            "select|0",
            "SET|NX",
            "get|",
            "config|get|x",
            "acl",
            "select|1",
        ];
        let sign = |draw: &mut Draw| if draw.chance(60) { "+" } else { "-" };
        let rule = match draw.below(20) {
            0..6 => format!("{}{}", sign(draw), self.common[draw.below(self.common.len())]),
            6 => format!("{}{}", sign(draw), draw.one(&ODD)),
            7..10 => format!("{}@{}", sign(draw), draw.one(&CATEGORIES)),
            10..13 => format!("{}{}", draw.one(&ACCESS), draw.one(&PATTERNS)),
            13..15 => format!("&{}", draw.one(&PATTERNS)),
            15..17 => draw.one(&WHOLE).to_string(),
            _ if in_selector => draw.one(&WHOLE).to_string(),
            // A parenthesis inside of a selector begins it anew in 7.0, and is wrong since.
            _ if self.reference == Reference::Redis => draw.one(&OF_USERS[..OF_USERS.len() - 2]).to_string(),
            _ => draw.one(&OF_USERS).to_string(),
        };
        if draw.chance(70) || rule.starts_with(['#', '!']) {
            return rule.into_bytes();
        }
        rule.bytes().map(|b| if draw.chance(50) { b.to_ascii_uppercase() } else { b.to_ascii_lowercase() }).collect()
    }
}

/// A reply without what Redis 7.0 shows in another way.
fn of_7_0(reply: &Reply) -> Reply {
    match reply {
        Reply::Many(kind, Some(items)) => {
            let kept = items.iter().filter(|item| item.text() != b"sanitize-payload");
            Reply::Many(*kind, Some(kept.map(of_7_0).collect()))
        }
        Reply::Bulk(kind, Some(text)) => Reply::Bulk(*kind, Some(line_of_7_0(text))),
        other => other.clone(),
    }
}

fn line_of_7_0(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    // It ends names at a NUL, too.
    if let Some((_, rest)) = text.split_once(" has no permissions") {
        return rest.rsplit(' ').next().unwrap_or_default().as_bytes().to_vec();
    }
    let is_command =
        |word: &str| word.starts_with(['+', '-']) && !["+@all", "-@all"].contains(&word.trim_end_matches(')'));
    let mut words: Vec<&str> = Vec::new();
    for word in text.split(' ').filter(|word| *word != "sanitize-payload") {
        if !is_command(word) {
            words.push(word);
        } else if word.ends_with(')') {
            // The end of a selector.
            words.push(")");
        }
    }
    words.join(" ").replace(" )", ")").into_bytes()
}

/// Half the time that a test has: each of them plays twice, or plays one of two things.
fn limit() -> Duration {
    Duration::from_secs(number("SECONDS_EACH", 10)) / 2
}

/// Calls `run` with one runner after the other until the time is over.
fn repeat(mut run: impl FnMut(&mut TestRunner)) {
    let (started, mut seed) = (Instant::now(), number("SEED", 1));
    let config = Config {
        cases: BATCH,
        failure_persistence: None,
        max_shrink_iters: 3000,
        max_shrink_time: 30_000,
        ..Config::default()
    };
    while started.elapsed() < limit() {
        let mut seed_bytes = [0; 32];
        seed_bytes[..8].copy_from_slice(&seed.to_le_bytes());
        seed = seed.wrapping_add(1 << 32);
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes);
        run(&mut TestRunner::new_with_rng(config.clone(), rng));
    }
}

fn compare_with(reference: Reference) {
    let barium = Server::barium().expect("barium-host");
    let Some(other) = Server::reference(reference).expect("reference server") else {
        println!("ACL: SKIPPED against {reference:?}, which is not there");
        return;
    };
    let players = RefCell::new(Players::new(barium.port, other.port, reference));
    let sequences = (any::<bool>(), prop::collection::vec(any::<u64>().no_shrink(), 1..40));
    repeat(|runner| {
        let result = runner
            .run(&sequences, |(resp3, seeds)| players.borrow_mut().play(resp3, &seeds).map_err(TestCaseError::fail));
        if let Err(TestError::Fail(reason, (resp3, seeds))) = result {
            let steps: Vec<Command> = seeds.iter().flat_map(|seed| players.borrow().step(*seed)).collect();
            let lines: Vec<String> = steps.iter().map(shown).collect();
            panic!("ACL, RESP{}:\n  {}\n{reference:?} differs: {reason}", 2 + u8::from(resp3), lines.join("\n  "));
        }
    });
    let answers = players.into_inner().answers;
    println!("ACL: answers of DRYRUN compared with {reference:?}: {answers:?}");
    for answer in ["OK", "command", "key", "channel"] {
        let times = answers.get(answer).copied().unwrap_or(0);
        assert!(times >= EACH_ANSWER * limit().as_secs(), "DRYRUN answered {answer} {times} times only");
    }
}

#[test]
fn rules_of_valkey() {
    compare_with(Reference::Valkey);
}

#[test]
fn rules_of_redis() {
    compare_with(Reference::Redis);
}

/// Commands that a session can be asked without waiting, without another protocol and without other sessions ending.
fn is_tame(group: &str, name: &str) -> bool {
    ["string", "bitmap", "list", "set", "hash", "sorted-set", "geo", "hyperloglog", "generic"].contains(&group)
        && !["blpop", "brpop", "blmove", "blmpop", "brpoplpush", "bzpopmin", "bzpopmax", "bzmpop", "wait", "waitaof"]
            .contains(&name)
}

/// What a session was refused, at the top or in EXEC's reply; anything else is the families' matter.
fn refusals(reply: &Reply) -> Vec<Reply> {
    const CODES: [&str; 4] = ["NOPERM", "WRONGPASS", "NOAUTH", "EXECABORT"];
    let refused = |text: &[u8]| CODES.iter().any(|code| text.starts_with(code.as_bytes()));
    match reply {
        Reply::Line(b'-', text) if refused(text) => vec![reply.clone()],
        Reply::Many(_, Some(items)) => items.iter().flat_map(refusals).collect(),
        _ => Vec::new(),
    }
}

/// An entry of ACL LOG without times, numbers and the session.
fn logged(log: &Reply) -> Vec<Vec<Reply>> {
    log.items().iter().map(|entry| entry.items().iter().take(10).cloned().collect()).collect()
}

/// A session and one that changes its user's rules, on either server.
struct Sessions {
    admins: [Connection; 2],
    users: [Connection; 2],
    /// How much was refused.
    refused: u64,
    /// What has been sent in the present sequence.
    sent: Vec<String>,
    /// Whether the session may be inside a transaction.
    queueing: bool,
}

impl Sessions {
    /// Asks both servers; what each answers.
    fn both(pair: &mut [Connection; 2], command: &Command) -> Result<[Reply; 2], String> {
        let mut ask = |at: usize| {
            let connection = &mut pair[at];
            let reply = connection.send(std::slice::from_ref(command)).and_then(|()| connection.reply());
            reply.map_err(|e| format!("{}: {}: {e}", ["barium", "reference"][at], shown(command)))
        };
        Ok([ask(0)?, ask(1)?])
    }

    fn play(&mut self, players: &Players, seeds: &[u64]) -> Result<(), String> {
        const LOGINS: [&str; 6] = ["AUTH u p", "AUTH v x", "AUTH u p1", "auth p", "HELLO 2 AUTH u p2", "RESET"];
        const CONTROL: [&str; 6] = ["EXEC", "EXEC", "EXEC", "DISCARD", "PUBLISH ch1 m", "ACL WHOAMI"];
        self.sent.clear();
        self.queueing = false;
        for line in
            ["FLUSHALL", "ACL LOG RESET", "ACL SETUSER u reset on >p +@all ~* &*", "ACL SETUSER v reset on nopass"]
        {
            Self::both(&mut self.admins, &words(line))?;
        }
        for line in ["RESET", "AUTH u p"] {
            Self::both(&mut self.users, &words(line))?;
        }
        for seed in seeds {
            let mut draw = Draw::new(*seed);
            // Where a login fails behind other replies, Redis 7.2 leaves its error out (and Valkey after it), so that no client
            // knows any more which reply is which. Here it is sent, and not compared.
            let sent = match draw.below(10) {
                0..2 => {
                    let user = draw.one(&["u", "u", "v"]);
                    let n = draw.below(4);
                    let rules = (0..n).flat_map(|_| players.rule_or_selector(&mut draw));
                    let change: Command = words(&format!("ACL SETUSER {user}")).into_iter().chain(rules).collect();
                    self.sent.push(shown(&change));
                    Self::both(&mut self.admins, &change)?;
                    continue;
                }
                2 if !self.queueing => vec![words(draw.one::<&str>(&LOGINS))],
                3 if !self.queueing && draw.chance(60) => vec![words("MULTI")],
                3 => vec![words(draw.one::<&str>(&CONTROL))],
                _ => players.grammar.commands(draw.below(usize::MAX) as u64),
            };
            for command in sent {
                self.sent.push(shown(&command));
                let [ours, theirs] = Self::both(&mut self.users, &command)?.map(|reply| refusals(&reply));
                self.refused += ours.len() as u64;
                match command[0].as_slice() {
                    b"MULTI" => self.queueing = theirs.is_empty(),
                    // Refused, it ends the transaction all the same.
                    b"EXEC" | b"RESET" => self.queueing = false,
                    b"DISCARD" => self.queueing &= !theirs.is_empty(),
                    _ => {}
                }
                if ours != theirs {
                    return Err(format!("{}\n  barium    {ours:?}\n  reference {theirs:?}", shown(&command)));
                }
            }
        }
        let [ours, theirs] = Self::both(&mut self.admins, &words("ACL LOG 100"))?.map(|log| logged(&log));
        if ours != theirs {
            return Err(format!("ACL LOG\n  barium    {ours:?}\n  reference {theirs:?}"));
        }
        Ok(())
    }
}

/// What happens to a session whose user's rules change under it, and what the log says afterwards.
#[test]
fn sessions_under_changing_rules() {
    let barium = Server::barium().expect("barium-host");
    let Some(valkey) = Server::reference(Reference::Valkey).expect("reference server") else {
        println!("ACL: SKIPPED against Valkey, which is not there");
        return;
    };
    let players = Players::of(barium.port, valkey.port, Reference::Valkey, &is_tame);
    let open = || [barium.port, valkey.port].map(|port| Connection::open(port).expect("connect"));
    let sessions =
        RefCell::new(Sessions { admins: open(), users: open(), refused: 0, sent: Vec::new(), queueing: false });
    let sequences = prop::collection::vec(any::<u64>().no_shrink(), 1..60);
    repeat(|runner| {
        let result =
            runner.run(&sequences, |seeds| sessions.borrow_mut().play(&players, &seeds).map_err(TestCaseError::fail));
        if let Err(TestError::Fail(reason, seeds)) = result {
            // Once more, for what is sent.
            let _ = sessions.borrow_mut().play(&players, &seeds);
            panic!("ACL:\n  {}\nValkey differs: {reason}", sessions.borrow().sent.join("\n  "));
        }
    });
    let refused = sessions.into_inner().refused;
    println!("ACL: {refused} refusals compared");
    assert!(refused >= EACH_ANSWER * limit().as_secs(), "{refused} refusals only");
}

/// Every category has the same commands, as far as both servers know them.
#[test]
fn categories() {
    let barium = Server::barium().expect("barium-host");
    for reference in [Reference::Redis, Reference::Valkey] {
        let Some(other) = Server::reference(reference).expect("reference server") else { continue };
        let mut players = Players::new(barium.port, other.port, reference);
        let mine = names(&players.ours.ask("ACL CAT").expect("ACL CAT"));
        assert_eq!(mine, names(&players.theirs.ask("ACL CAT").expect("ACL CAT")));
        for category in mine {
            let line = format!("ACL CAT {category}");
            let [ours, theirs] =
                [&mut players.ours, &mut players.theirs].map(|c| names(&c.ask(&line).expect("ACL CAT")));
            let common = |all: BTreeSet<String>| -> Vec<String> {
                // WAIT is a command that blocks since 7.2.
                let newer = |name: &String| reference == Reference::Redis && category == "blocking" && name == "wait";
                all.into_iter().filter(|name| players.common.contains(name) && !newer(name)).collect()
            };
            assert_eq!(common(ours), common(theirs), "{category} against {reference:?}");
        }
    }
}
