//! When two replies to the same command count as the same.

use crate::known;
use crate::wire::{Command, Reply};

/// Whether the replies agree: byte for byte, but for orders that are a hash table's, random choices, the clock, and the
/// differences that [`known`] lists.
pub fn same(command: &Command, ours: &Reply, theirs: &Reply) -> bool {
    if ours == theirs {
        return true;
    }
    if ours.is_error() || theirs.is_error() {
        return known::version_difference(command, ours, theirs);
    }
    let name = command.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    match &name[..] {
        b"keys" | b"smembers" | b"sinter" | b"sunion" | b"sdiff" | b"hkeys" | b"hvals" => same_bag(ours, theirs, 1),
        b"hgetall" => same_bag(ours, theirs, 2),
        b"scan" | b"sscan" => same_scan(command, ours, theirs, 1),
        b"hscan" | b"zscan" => same_scan(command, ours, theirs, 2),
        b"spop" => same_bag(ours, theirs, 1),
        b"srandmember" | b"hrandfield" | b"zrandmember" | b"randomkey" => same_form(ours, theirs),
        b"ttl" | b"expiretime" => near(ours, theirs, 30),
        b"pttl" | b"pexpiretime" => near(ours, theirs, 30_000),
        b"object" if command.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"idletime")) => {
            near(ours, theirs, 30)
        }
        b"xpending" => without_idle(ours) == without_idle(theirs),
        _ => known::version_difference(command, ours, theirs),
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
