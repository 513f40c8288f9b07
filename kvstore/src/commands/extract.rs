//! Which arguments of a call are keys, read from the command's key specifications.

use crate::command::{Begin, Command, Find, KeySpec, key};
use crate::number::parse_i64;
use crate::session::args::Args;
use crate::text::is_space;
use alloc::vec::Vec;

/// The keys' argument numbers and what is done with each. None: the arguments make no sense (a count of keys that is not
/// a number, or larger than what follows).
pub fn keys(command: &Command, args: Args<'_>) -> Option<Vec<(usize, u16)>> {
    if command.name == "migrate" {
        return super::migrate::keys(args);
    }
    let mut found = Vec::new();
    for spec in command.keys.iter().filter(|spec| spec.flags & key::NOT_KEY == 0) {
        if by_spec(spec, args, &mut found).is_none() {
            return by_careless_count(command, args);
        }
    }
    match command.name {
        "sort" => sort_store(args, &mut found),
        "set" => found.iter_mut().for_each(|(_, flags)| *flags = set_flags(args)),
        "bitfield" => found.iter_mut().for_each(|(_, flags)| *flags = bitfield_flags(args)),
        _ => {}
    }
    Some(found)
}

fn by_spec(spec: &KeySpec, args: Args<'_>, found: &mut Vec<(usize, u16)>) -> Option<()> {
    let first = match spec.begin {
        Begin::Index(i) => i,
        Begin::Keyword(word, from) => match keyword(args, word, from) {
            Some(at) => at + 1,
            None => return Some(()),
        },
        Begin::Unknown => return Some(()),
    };
    let len = args.len();
    let (first, last, step) = match spec.find {
        Find::Range { last, step, limit } => {
            let last = if last >= 0 {
                first + last as usize
            } else if limit <= 1 {
                len.checked_sub(last.unsigned_abs() as usize)?
            } else {
                first + ((len - first) / limit).checked_sub(last.unsigned_abs() as usize)?
            };
            (first, last, step)
        }
        Find::Count { index, first: offset, step } => {
            if first + index >= len {
                return None;
            }
            let n = usize::try_from(parse_i64(args.get(first + index))?).ok().filter(|n| *n > 0)?;
            let start = first + offset;
            (start, start.checked_add(n.checked_mul(step)?)? - 1, step)
        }
        Find::Unknown => return Some(()),
    };
    if last >= len || last < first {
        // An optional key that is not there is none; a count that leads beyond the end is wrong.
        return matches!(spec.begin, Begin::Keyword(..)).then_some(());
    }
    for i in (first..=last).step_by(step.max(1)) {
        found.push((i, spec.flags));
    }
    Some(())
}

/// What Redis falls back to where a count of keys is not a number: it is read as far as it is one, and nothing is known of
/// what is done with the keys. Such a call fails, but which keys it names shows in COMMAND GETKEYS and in ACL's refusals.
fn by_careless_count(command: &Command, args: Args<'_>) -> Option<Vec<(usize, u16)>> {
    let (at, first) = command.keys.iter().find_map(|spec| match (spec.begin, spec.find) {
        (Begin::Index(i), Find::Count { index, first, step: 1 }) => Some((i + index, i + first)),
        _ => None,
    })?;
    let n = usize::try_from(leading_integer(args.get(at))).ok()?;
    if n == 0 || n > args.len().saturating_sub(first) {
        return None;
    }
    let destination = command.keys.iter().any(|spec| matches!(spec.find, Find::Range { .. })).then_some(1);
    Some((first..first + n).chain(destination).map(|i| (i, 0)).collect())
}

/// The number that a text begins with, as C's `atoi` reads it; 0 if it begins with none.
pub(super) fn leading_integer(text: &[u8]) -> i64 {
    let text = &text[text.iter().take_while(|b| is_space(**b)).count()..];
    let signed = matches!(text.first(), Some(b'+' | b'-'));
    let digits = text[usize::from(signed)..].iter().take_while(|b| b.is_ascii_digit());
    let n = digits.fold(0i64, |n, b| n.saturating_mul(10).saturating_add(i64::from(b - b'0')));
    if text.first() == Some(&b'-') { -n } else { n }
}

/// With GET, SET reads what it overwrites.
fn set_flags(args: Args<'_>) -> u16 {
    if (3..args.len()).any(|i| args.is(i, "GET")) { key::RW | key::ACCESS | key::UPDATE } else { key::OW | key::UPDATE }
}

/// BITFIELD with nothing but GETs only reads.
fn bitfield_flags(args: Args<'_>) -> u16 {
    let mut i = 2;
    while i < args.len() {
        let left = args.len() - i - 1;
        if args.is(i, "GET") && left >= 2 {
            i += 3;
        } else if args.is(i, "OVERFLOW") && left >= 1 {
            i += 2;
        } else {
            return key::RW | key::ACCESS | key::UPDATE;
        }
    }
    key::RO | key::ACCESS
}

/// Where a keyword stands; searched from argument `from` on, or backwards from the end.
fn keyword(args: Args<'_>, word: &str, from: i32) -> Option<usize> {
    if from >= 0 {
        (from as usize..args.len()).find(|i| args.is(*i, word))
    } else {
        let start = args.len().checked_sub(from.unsigned_abs() as usize)?;
        (1..=start).rev().find(|i| args.is(*i, word))
    }
}

/// SORT's STORE can stand anywhere among its options; the last one counts.
fn sort_store(args: Args<'_>, found: &mut Vec<(usize, u16)>) {
    let mut store = None;
    let mut i = 2;
    while i < args.len() {
        if args.is(i, "LIMIT") {
            i += 2;
        } else if args.is(i, "GET") || args.is(i, "BY") {
            i += 1;
        } else if args.is(i, "STORE") && i + 1 < args.len() {
            store = Some(i + 1);
            i += 1;
        }
        i += 1;
    }
    found.extend(store.map(|at| (at, key::OW | key::UPDATE)));
}
