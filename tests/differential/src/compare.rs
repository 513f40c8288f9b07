//! When two replies to the same command count as the same.

use crate::differences::{Reference, Seen, explanation};
use crate::wire::{Command, Reply};

/// What the comparison of two replies says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They agree.
    Same,
    /// They agree but for the order of elements, which is right where it is a hash table's.
    Unordered,
    /// They do not agree.
    Different,
}

impl Verdict {
    fn of(same: bool) -> Verdict {
        if same { Verdict::Same } else { Verdict::Different }
    }

    fn bag(same: bool) -> Verdict {
        if same { Verdict::Unordered } else { Verdict::Different }
    }
}

/// Whether the replies agree: byte for byte, but for orders that are a hash table's, random choices, the clock, and the
/// differences that are [known](crate::differences).
pub fn compare(reference: Reference, command: &Command, ours: &Reply, theirs: &Reply) -> Verdict {
    if ours == theirs {
        return Verdict::Same;
    }
    let known = || explanation(reference, &Seen { command, ours, theirs }).is_some();
    if ours.is_error() || theirs.is_error() {
        return Verdict::of(known());
    }
    let word = |at: usize| command.get(at).map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    let given = |text: &[u8]| command.iter().any(|word| word.eq_ignore_ascii_case(text));
    if known() {
        return Verdict::Same;
    }
    match &word(0)[..] {
        b"smembers" | b"sinter" | b"sunion" | b"sdiff" | b"hkeys" | b"hvals" => Verdict::bag(same_bag(ours, theirs, 1)),
        b"keys" | b"spop" => Verdict::of(same_bag(ours, theirs, 1)),
        b"hgetall" => Verdict::bag(same_bag(ours, theirs, 2)),
        b"scan" => Verdict::of(same_scan(command, ours, theirs, 1)),
        b"sscan" => Verdict::bag(same_scan(command, ours, theirs, 1)),
        b"hscan" | b"zscan" => Verdict::bag(same_scan(command, ours, theirs, 2)),
        // Without an order to sort by, a set has none.
        b"sort" | b"sort_ro" if given(b"BY") => Verdict::bag(same_bag(ours, theirs, 1)),
        b"srandmember" | b"hrandfield" | b"zrandmember" | b"randomkey" => Verdict::of(same_form(ours, theirs)),
        b"acl" if word(1) == b"genpass" => Verdict::of(ours.text().len() == theirs.text().len()),
        b"pubsub" if word(1).ends_with(b"channels") => Verdict::of(same_bag(ours, theirs, 1)),
        b"acl" if word(1) == b"cat" => Verdict::of(same_bag(ours, theirs, 1)),
        b"command" if word(1) == b"list" => Verdict::of(same_bag(ours, theirs, 1)),
        b"config" if word(1) == b"get" => Verdict::of(same_bag(ours, theirs, 2)),
        b"ttl" | b"expiretime" => Verdict::of(near(ours, theirs, 30)),
        b"pttl" | b"pexpiretime" => Verdict::of(near(ours, theirs, 30_000)),
        b"object" if word(1) == b"idletime" => Verdict::of(near(ours, theirs, 30)),
        b"xpending" => Verdict::of(without_idle(ours) == without_idle(theirs)),
        b"xinfo" => {
            let (ours, theirs) = (timeless(ours), timeless(theirs));
            let seen = Seen { command, ours: &ours, theirs: &theirs };
            Verdict::of(ours == theirs || explanation(reference, &seen).is_some())
        }
        _ => Verdict::Different,
    }
}

/// XPENDING's reply without the times since entries were delivered.
fn without_idle(reply: &Reply) -> Reply {
    let Reply::Many(kind, Some(entries)) = reply else { return reply.clone() };
    let entry = |entry: &Reply| match entry {
        Reply::Many(kind, Some(parts)) if parts.len() == 4 => {
            let mut parts = parts.clone();
            parts.remove(2);
            Reply::Many(*kind, Some(parts))
        }
        other => other.clone(),
    };
    Reply::Many(*kind, Some(entries.iter().map(entry).collect()))
}

/// XINFO's reply with times of day all the same, and without the fields that count from them.
fn timeless(reply: &Reply) -> Reply {
    const AFTER_2017: i64 = 1_500_000_000_000;
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
    match reply {
        Reply::Line(b':', text) if number(text).is_some_and(|number| number > AFTER_2017) => {
            Reply::Line(b':', b"now".to_vec())
        }
        Reply::Many(kind, Some(items)) => {
            let mut kept: Vec<Reply> = items.iter().map(timeless).collect();
            for at in 1..kept.len() {
                let counts = |text: &[u8]| [&b"idle"[..], b"inactive"].contains(&text);
                if matches!(&kept[at - 1], Reply::Bulk(b'$', Some(name)) if counts(name))
                    && number(kept[at].text()).is_some_and(|since| since >= 0)
                {
                    kept[at] = Reply::Line(b':', b"since".to_vec());
                }
            }
            Reply::Many(*kind, Some(kept))
        }
        other => other.clone(),
    }
}

/// The same elements, in groups of `each`, in any order.
fn same_bag(ours: &Reply, theirs: &Reply, each: usize) -> bool {
    let (Reply::Many(a, Some(ours)), Reply::Many(b, Some(theirs))) = (ours, theirs) else { return false };
    let sorted = |items: &[Reply]| {
        let mut groups: Vec<Vec<Reply>> = items.chunks(each).map(<[Reply]>::to_vec).collect();
        groups.sort();
        groups
    };
    a == b && sorted(ours) == sorted(theirs)
}

/// Scan replies: where both give all there is in one reply, the same elements; a score may be printed in another way.
fn same_scan(command: &Command, ours: &Reply, theirs: &Reply, each: usize) -> bool {
    let ([our_cursor, our_items], [their_cursor, their_items]) = (ours.items(), theirs.items()) else { return false };
    let from = if command[0].eq_ignore_ascii_case(b"scan") { command.get(1) } else { command.get(2) };
    let whole = from.is_some_and(|cursor| cursor == b"0") && our_cursor.text() == b"0" && their_cursor.text() == b"0";
    if !whole {
        return true;
    }
    let numbers = |items: &Reply| {
        let plain = items.items().iter().map(|item| match std::str::from_utf8(item.text()).map(str::parse::<f64>) {
            Ok(Ok(number)) if each == 2 => Reply::Bulk(b'$', Some(number.to_string().into_bytes())),
            _ => item.clone(),
        });
        Reply::Many(b'*', Some(plain.collect()))
    };
    same_bag(our_items, their_items, each) || same_bag(&numbers(our_items), &numbers(their_items), each)
}

/// The same types and lengths; the elements are each server's choice.
fn same_form(ours: &Reply, theirs: &Reply) -> bool {
    match (ours, theirs) {
        (Reply::Many(a, Some(ours)), Reply::Many(b, Some(theirs))) => {
            a == b && ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| same_form(a, b))
        }
        (Reply::Bulk(a, Some(_)), Reply::Bulk(b, Some(_))) => a == b,
        (Reply::Line(a, _), Reply::Line(b, _)) => a == b,
        _ => false,
    }
}

/// Integers that the time between the two servers' answers may set apart, seconds on a busy machine.
fn near(ours: &Reply, theirs: &Reply, apart: i64) -> bool {
    let number = |reply: &Reply| std::str::from_utf8(reply.text()).ok().and_then(|text| text.parse::<i64>().ok());
    match (ours, theirs, number(ours), number(theirs)) {
        // -1 and -2 are no times.
        (Reply::Line(b':', _), Reply::Line(b':', _), Some(a), Some(b)) => a >= 0 && b >= 0 && (a - b).abs() <= apart,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(command: &Command, ours: &Reply, theirs: &Reply) -> bool {
        compare(Reference::Redis, command, ours, theirs) != Verdict::Different
    }

    fn words(text: &str) -> Command {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(b'$', Some(text.as_bytes().to_vec()))
    }

    fn array(items: &[&str]) -> Reply {
        Reply::Many(b'*', Some(items.iter().map(|item| bulk(item)).collect()))
    }

    #[test]
    fn order_counts_only_where_it_is_defined() {
        let (ab, ba) = (array(&["a", "b"]), array(&["b", "a"]));
        assert!(same(&words("SMEMBERS k"), &ab, &ba));
        assert!(!same(&words("LRANGE k 0 -1"), &ab, &ba));
        assert!(!same(&words("SMEMBERS k"), &ab, &array(&["a", "c"])));
        // A field keeps its value.
        assert!(same(&words("hgetall k"), &array(&["a", "1", "b", "2"]), &array(&["b", "2", "a", "1"])));
        assert!(!same(&words("hgetall k"), &array(&["a", "1", "b", "2"]), &array(&["b", "1", "a", "2"])));
    }

    #[test]
    fn scores_may_be_shorter_but_not_other() {
        let command = words("ZSCORE k m");
        assert!(same(&command, &bulk("0.1"), &bulk("0.10000000000000001")));
        assert!(!same(&command, &bulk("0.2"), &bulk("0.10000000000000001")));
        assert!(!same(&command, &bulk("0.10000000000000001"), &bulk("0.1")));
        assert!(!same(&words("GET k"), &bulk("0.1"), &bulk("0.10000000000000001")));
    }

    #[test]
    fn error_texts_count() {
        let error = |text: &str| Reply::Line(b'-', text.as_bytes().to_vec());
        assert!(!same(&words("SMEMBERS k"), &error("ERR a"), &error("ERR b")));
        assert!(!same(&words("TTL k"), &error("ERR a"), &Reply::Line(b':', b"1".to_vec())));
    }

    #[test]
    fn times_may_be_a_little_apart() {
        let number = |text: &str| Reply::Line(b':', text.as_bytes().to_vec());
        assert!(same(&words("TTL k"), &number("99"), &number("100")));
        assert!(!same(&words("TTL k"), &number("-1"), &number("0")));
        assert!(!same(&words("TTL k"), &number("99"), &number("1000")));
        assert!(!same(&words("STRLEN k"), &number("99"), &number("100")));
    }
}
