//! Takes out of a generated command what would make two right servers differ or one never answer.

use crate::grammar::World;
use crate::values::{Draw, Kind};
use crate::wire::Command;

/// Longer than the shortest time to live that is generated, which is a millisecond.
const PASS: &str = "DEBUG SLEEP 0.002";

/// Numbers that are too large or too small for a double.
const EXTREME: [&str; 6] =
    ["5e-324", "4.9406564584124654e-324", "2.2250738585072011e-308", "1e400", "-1e400", "1e-400"];

/// The command that `words`, generated for the command of this name, becomes, and what has to follow it.
pub fn tame(name: &str, words: &mut Command, draw: &mut Draw, world: &World) -> Vec<Command> {
    if world.sorts {
        // A number out of range leaves an errno behind in Redis at which a later SORT fails.
        for word in words.iter_mut().filter(|word| EXTREME.contains(&String::from_utf8_lossy(word).as_ref())) {
            *word = b"1".to_vec();
        }
    }
    // A user that is switched off or must not do anything would end the comparison.
    if name == "acl|setuser"
        && let Some(user) = words.get_mut(2).filter(|user| *user == b"default")
    {
        *user = b"u".to_vec();
    }
    match name {
        // The clock's IDs are each server's own.
        "xadd" => {
            for word in words.iter_mut().filter(|word| *word == b"*") {
                *word = draw.stream_id();
            }
        }
        "xsetid" => {
            if let Some(id) = words.get_mut(2) {
                *id = if draw.chance(90) { format!("{}-3", 19 + draw.below(3)) } else { "x".into() }.into_bytes();
            }
            if world.old
                && let Some(at) = words.iter().position(|word| word == b"MAXDELETEDID")
            {
                words.truncate(at);
            }
        }
        // As many IDs as keys, nearly always.
        "xread" | "xreadgroup" => {
            if let Some(at) = words.iter().position(|word| word == b"STREAMS")
                && draw.chance(95)
            {
                // Who is served while waiting for several looks at the others as well (7.2), which keymiss tells.
                let n = if world.old && world.patient { 1 } else { 1 + draw.below(2) };
                words.truncate(at + 1);
                words.extend((0..n).map(|_| draw.key(Kind::Letter(b'x'))).collect::<Vec<_>>());
                for _ in 0..n {
                    let own = if name == "xread" { b"$" } else { b">" };
                    let id = if draw.chance(60) { own.to_vec() } else { draw.stream_id() };
                    words.push(if name == "xread" && draw.chance(50) { b"0".to_vec() } else { id });
                }
            }
            // To Valkey it is an ID, which XREAD would wait with; without, it is a known difference of the reply.
            if !world.old && name == "xread" && words.iter().any(|word| word == b"BLOCK") {
                words.iter_mut().filter(|word| *word == b"+").for_each(|word| *word = b"$".to_vec());
            }
        }
        // Redis adds the time to it without a look.
        "restore" => {
            if let Some(ttl) = words.get_mut(2).filter(|ttl| ttl.len() > 15) {
                *ttl = b"1000000".to_vec();
            }
        }
        // Valkey deletes at once what has a time in the past.
        "set" if !world.old => {
            for at in 1..words.len() {
                let token = words[at - 1].to_ascii_uppercase();
                let past = if token == b"PXAT" { words[at].len() <= 12 } else { words[at] == b"1" };
                if token.ends_with(b"XAT") && past && words[at].iter().all(u8::is_ascii_digit) {
                    words[at] = b"4000000000000".to_vec();
                }
            }
        }
        // No replica is there to be waited for.
        "wait" | "waitaof" => {
            if let Some(timeout) = words.get_mut(if name == "wait" { 2 } else { 3 }) {
                let times = if world.patient { ["0", "100000", "0", "-1", "x"] } else { ["1", "2", "1", "-1", "x"] };
                *timeout = draw.one(&times).as_bytes().to_vec();
            }
            if let Some(replicas) = words.get_mut(1) {
                *replicas = draw.one(&["0", "1", "3", "-1", "x", "2147483647"]).as_bytes().to_vec();
            }
        }
        // 7.0 takes a name before it looks at what follows it.
        "hello" if world.old && words.iter().any(|word| word.eq_ignore_ascii_case(b"SETNAME")) => {
            words.truncate(1);
            words.extend([b"3".to_vec(), b"SETNAME".to_vec(), b"name".to_vec()]);
        }
        // A prefix that another one overlaps is answered twice there.
        "client|tracking" => {
            let mut seen = false;
            let mut kept = Command::new();
            for word in std::mem::take(words) {
                let is_prefix = kept.last().is_some_and(|last: &Vec<u8>| last == b"PREFIX");
                if is_prefix && std::mem::replace(&mut seen, true) {
                    kept.pop();
                } else {
                    kept.push(word);
                }
            }
            *words = kept;
        }
        // Looked at up to a zero byte there.
        "client|setinfo" | "client|setname" => {
            for word in words.iter_mut().skip(2).filter(|word| word.contains(&0)) {
                *word = b"x".to_vec();
            }
        }
        // 7.0 wants one word more.
        "command|getkeys" | "command|getkeysandflags" if world.old && words.len() == 3 => words.push(b"k".to_vec()),
        "config|set" => {
            words.truncate(2);
            for _ in 0..1 + draw.below(3) {
                words.extend(draw.parameter());
            }
        }
        // Without a filter it lists commands that are not there yet.
        "command|list" => {
            words.truncate(2);
            words.push(b"FILTERBY".to_vec());
            let by = *draw.one(&["PATTERN", "ACLCAT", "MODULE"]);
            let argument = by.to_ascii_lowercase().replace("aclcat", "category");
            words.push(by.into());
            words.extend(draw.admin(name, &argument));
        }
        "acl|cat" if words.len() < 3 => words.extend(draw.admin(name, "category")),
        "debug" => {
            words.truncate(1);
            words.extend(draw.debug());
        }
        // Neither reference survives that a client is unblocked which only waits for the end of a pause.
        "client|pause" => {
            if let Some(timeout) = words.get_mut(2).filter(|timeout| *timeout == b"1") {
                *timeout = b"0".to_vec();
            }
        }
        // A selector that is not closed ends at the next one in 7.0.
        "acl|setuser" if world.old => words.retain(|word| word.first() != Some(&b'(') || word.last() == Some(&b')')),
        // Where neither of two weights is there, elements stay in the order in which they came, a hash table's.
        "sort" | "sort_ro"
            if [&b"BY"[..], b"ALPHA"].iter().all(|token| words.iter().any(|w| w.eq_ignore_ascii_case(token))) =>
        {
            for (token, len) in [(&b"STORE"[..], 2), (b"LIMIT", 3)] {
                if let Some(at) = words.iter().position(|word| word.eq_ignore_ascii_case(token)) {
                    words.drain(at..words.len().min(at + len));
                }
            }
        }
        // Which members go is each server's own choice: let all go, or none be there.
        "spop" => {
            words.truncate(2);
            // None of the odd words is a small positive number. Without a key, the word would become one.
            let count = if draw.chance(80) { b"1000".to_vec() } else { draw.odd() };
            if words.len() == 2 {
                words.push(count);
            }
        }
        // 7.2 refuses the smallest integer as count and rank.
        "lrem" | "lpos" if world.old => {
            for word in words.iter_mut().filter(|word| *word == b"-9223372036854775808") {
                *word = b"-9223372036854775807".to_vec();
            }
        }
        // Valkey takes an index beyond 32 bits by its lower half.
        "lset" if !world.old => {
            let far = |word: &Vec<u8>| {
                std::str::from_utf8(word)
                    .ok()
                    .and_then(|text| text.parse::<i64>().ok())
                    .is_some_and(|index| i32::try_from(index).is_err())
            };
            if let Some(index) = words.get_mut(2).filter(|word| far(word)) {
                *index = b"-7".to_vec();
            }
        }
        // A whole iteration in one reply, so that its cursor is 0 on both sides.
        "scan" | "sscan" | "hscan" | "zscan" => {
            let cursor = words.get_mut(if name == "scan" { 1 } else { 2 });
            let cursor = cursor.filter(|word| !word.iter().all(u8::is_ascii_digit));
            // Valkey refuses other cursors than Redis, before a key is missed.
            if let Some(cursor) = cursor.filter(|_| world.patient && !world.old) {
                *cursor = b"0".to_vec();
            }
            words.extend([b"COUNT".to_vec(), b"10000".to_vec()]);
        }
        // A fourth word is no option in 7.0, whose refusal of it would end a transaction.
        "zrank" | "zrevrank" if world.old => words.truncate(3),
        // Members in a range of members are specified only where all scores are the same: such sets have keys of their own.
        _ if name.contains("lex") || words.iter().any(|word| word.eq_ignore_ascii_case(b"bylex")) => {
            let key = if name == "zrangestore" { 2 } else { 1 };
            if let Some(word) = words.get_mut(key) {
                *word = same_score_key(draw);
            }
        }
        "zadd" if draw.chance(25) => {
            words.truncate(1);
            words.push(same_score_key(draw));
            for _ in 0..=draw.below(6) {
                words.extend([b"0".to_vec(), draw.value()]);
            }
        }
        _ => {}
    }
    if name.starts_with('z')
        && !world.old
        && let Some(at) = words.iter().position(|word| word.eq_ignore_ascii_case(b"LIMIT"))
        && let Some(offset) = words.get_mut(at + 1).filter(|offset| offset.first() == Some(&b'-'))
    {
        *offset = b"3".to_vec();
    }
    let mut commands = vec![words.clone()];
    // Valkey leaves expired keys of other types alone, which events tell: a look at all keys goes before.
    if name == "scan" && world.patient && !world.old {
        commands.insert(0, ["SCAN", "0", "COUNT", "10000"].map(|word| word.as_bytes().to_vec()).to_vec());
    }
    if passes(name, words) {
        commands.push(PASS.split(' ').map(|word| word.as_bytes().to_vec()).collect());
    }
    commands
}

/// Whether the command gives a key a millisecond to live: it has to be over before anybody looks.
fn passes(name: &str, words: &Command) -> bool {
    let at = |at: usize| words.get(at).is_some_and(|word| word == b"1");
    let after = |token: &[u8]| words.windows(2).any(|two| two[0].eq_ignore_ascii_case(token) && two[1] == b"1");
    match name {
        "pexpire" | "psetex" | "restore" => at(2),
        "set" | "getex" => after(b"PX"),
        _ => false,
    }
}

fn same_score_key(draw: &mut Draw) -> Vec<u8> {
    format!("zlex{}", draw.below(2)).into_bytes()
}
