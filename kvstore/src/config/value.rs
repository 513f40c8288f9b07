//! How parameters are read and written as text.

use super::OutputLimit;
use crate::keyspace::event;
use crate::number::parse_i64;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Type of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// An integer within bounds.
    Int(i64, i64),
    /// A size within bounds, with or without a unit.
    Memory(i64, i64),
    /// A size of up to 64 bits, which are kept as they are.
    LargeMemory,
    /// A size, or a share of `maxmemory` in percent, which is kept as a negative number.
    MemoryOrPercent,
    /// Percentiles, each between 0 and 100.
    Percentiles,
    /// Any text.
    Text,
    /// One of some words.
    Word(&'static [&'static str]),
    /// `client-output-buffer-limit`.
    OutputLimits,
    /// `notify-keyspace-events`.
    Events,
}

/// Value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A boolean, an integer, a size or a mask.
    Number(i64),
    /// Text.
    Text(Vec<u8>),
    /// `client-output-buffer-limit`.
    OutputLimits([OutputLimit; 3]),
}

/// Most digits of a size.
const MAX_DIGITS: usize = 127;

/// Reads a size: digits, or none for 0, and one of the units that Redis takes (b, k, kb, m, mb, g, gb in any case). A number
/// that is too large is the largest; what it is a number of may then overflow, as in Redis.
pub fn parse_memory(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let factor: u64 = match text[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let digit = |n: u64, d: &u8| n.checked_mul(10)?.checked_add(u64::from(d - b'0'));
    let number = text[..digits].iter().try_fold(0, digit).unwrap_or(u64::MAX);
    (digits <= MAX_DIGITS).then_some(number.wrapping_mul(factor))
}

/// A size for people, as INFO's `_human` fields show it.
pub fn format_memory(bytes: u64) -> String {
    let unit = |shift: u32, name: &str| {
        let hundredths = (u128::from(bytes) * 100 + (1 << shift >> 1)) >> shift;
        format!("{}.{:02}{name}", hundredths / 100, hundredths % 100)
    };
    match bytes {
        0..1024 => format!("{bytes}B"),
        0x400..0x10_0000 => unit(10, "K"),
        0x10_0000..0x4000_0000 => unit(20, "M"),
        0x4000_0000..0x100_0000_0000 => unit(30, "G"),
        _ => unit(40, "T"),
    }
}

const EVENTS: &[(u8, u32)] = &[
    (b'g', event::GENERIC),
    (b'$', event::STRING),
    (b'l', event::LIST),
    (b's', event::SET),
    (b'h', event::HASH),
    (b'z', event::ZSET),
    (b'x', event::EXPIRED),
    (b'e', event::EVICTED),
    (b't', event::STREAM),
    (b'd', event::MODULE),
    (b'n', event::NEW),
    (b'K', event::KEYSPACE),
    (b'E', event::KEYEVENT),
    (b'm', event::KEY_MISS),
];

fn parse_events(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0, |mask, &b| {
        if b == b'A' {
            return Some(mask | event::ALL);
        }
        EVENTS.iter().find(|(letter, _)| *letter == b).map(|(_, bit)| mask | bit)
    })
}

fn format_events(mask: u32) -> String {
    let all = mask & event::ALL == event::ALL;
    let mut text = String::new();
    if all {
        text.push('A');
    }
    for &(letter, bit) in EVENTS {
        // With "A", Redis does not say whether "n" is set.
        if mask & bit != 0 && !(all && (event::ALL | event::NEW) & bit != 0) {
            text.push(letter as char);
        }
    }
    text
}

const CLASSES: [&[&str]; 3] = [&["normal"], &["slave", "replica"], &["pubsub"]];

fn parse_output_limits(text: &[u8], old: [OutputLimit; 3]) -> Result<[OutputLimit; 3], String> {
    let words: Vec<&[u8]> = text.split(|b| *b == b' ').filter(|w| !w.is_empty()).collect();
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut limits = old;
    for group in words.chunks(4) {
        let class = CLASSES.iter().position(|names| names.iter().any(|n| group[0].eq_ignore_ascii_case(n.as_bytes())));
        let Some(class) = class else {
            return Err("Invalid client class specified in buffer limit configuration.".into());
        };
        let size = parse_memory;
        // Kept in 32 bits, as Redis keeps them.
        let seconds = parse_i64(group[3]).and_then(|n| u64::try_from(n as i32).ok());
        match (size(group[1]), size(group[2]), seconds) {
            (Some(hard), Some(soft), Some(soft_seconds)) => limits[class] = OutputLimit { hard, soft, soft_seconds },
            _ => return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.".into()),
        }
    }
    Ok(limits)
}

/// Reads percentiles, separated by spaces. The error is CONFIG SET's.
pub fn parse_percentiles(text: &[u8]) -> Result<Vec<f64>, String> {
    let words = text.split(|b| *b == b' ').filter(|word| !word.is_empty());
    words
        .map(|word| {
            let share = crate::number::parse_f64(word);
            let share = share.ok_or("Invalid latency-tracking-info-percentiles parameters")?;
            if !(0.0..=100.0).contains(&share) {
                return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into());
            }
            Ok(share)
        })
        .collect()
}

impl Kind {
    /// Reads a value. The error is what CONFIG SET says of it.
    pub fn parse(self, text: &[u8]) -> Result<Value, String> {
        self.parse_over(text, &Value::OutputLimits([OutputLimit::default(); 3]))
    }

    /// Reads a value that may state only a part of the parameter; the rest stays as in `old`.
    pub fn parse_over(self, text: &[u8], old: &Value) -> Result<Value, String> {
        let in_range = |n: i64, low: i64, high: i64| {
            if (low..=high).contains(&n) {
                Ok(Value::Number(n))
            } else {
                Err(format!("argument must be between {low} and {high} inclusive"))
            }
        };
        match self {
            Kind::Bool if text.eq_ignore_ascii_case(b"yes") => Ok(Value::Number(1)),
            Kind::Bool if text.eq_ignore_ascii_case(b"no") => Ok(Value::Number(0)),
            Kind::Bool => Err("argument must be 'yes' or 'no'".into()),
            Kind::Int(low, high) => {
                in_range(parse_i64(text).ok_or("argument couldn't be parsed into an integer")?, low, high)
            }
            Kind::LargeMemory => match parse_memory(text) {
                Some(n) => Ok(Value::Number(n.cast_signed())),
                None => Err("argument must be a memory value".into()),
            },
            Kind::Memory(low, high) => match parse_memory(text) {
                Some(n) => in_range(i64::try_from(n).unwrap_or(i64::MIN), low, high),
                None => Err("argument must be a memory value".into()),
            },
            Kind::MemoryOrPercent => match text.strip_suffix(b"%") {
                Some(digits) => match parse_i64(digits) {
                    Some(n @ 0..=100) => Ok(Value::Number(-n)),
                    Some(101..) => Err("percentage argument must be less or equal to 100".into()),
                    _ => Err("argument must be a memory or percent value".into()),
                },
                // One that is too large is taken for a percentage here.
                None => match parse_memory(text).map(u64::cast_signed) {
                    Some(..-100) => Err("percentage argument must be less or equal to 100".into()),
                    Some(n) => Ok(Value::Number(n)),
                    None => Err("argument must be a memory or percent value".into()),
                },
            },
            Kind::Percentiles => parse_percentiles(text).map(|all| {
                let shown: Vec<String> = all.iter().map(f64::to_string).collect();
                Value::Text(shown.join(" ").into_bytes())
            }),
            Kind::Text => Ok(Value::Text(text.to_vec())),
            Kind::Word(words) => match words.iter().find(|w| w.as_bytes().eq_ignore_ascii_case(text)) {
                Some(w) => Ok(Value::Text(w.as_bytes().to_vec())),
                None => Err(format!("argument(s) must be one of the following: {}", words.join(", "))),
            },
            Kind::OutputLimits => {
                let Value::OutputLimits(old) = old else { return Err("not a list of limits".into()) };
                parse_output_limits(text, *old).map(Value::OutputLimits)
            }
            Kind::Events => parse_events(text)
                .map(|mask| Value::Number(i64::from(mask)))
                .ok_or_else(|| "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
        }
    }

    /// Writes a value.
    pub fn format(self, value: &Value) -> String {
        match (self, value) {
            (Kind::Bool, Value::Number(n)) => if *n != 0 { "yes" } else { "no" }.into(),
            (Kind::Events, Value::Number(mask)) => format_events(*mask as u32),
            (Kind::MemoryOrPercent, Value::Number(n)) if *n < 0 => format!("{}%", -n),
            (Kind::LargeMemory, Value::Number(n)) => n.cast_unsigned().to_string(),
            (_, Value::Number(n)) => n.to_string(),
            (_, Value::Text(t)) => String::from_utf8_lossy(t).into_owned(),
            (_, Value::OutputLimits(limits)) => CLASSES
                .iter()
                .zip(limits)
                .map(|(names, l)| format!("{} {} {} {}", names[0], l.hard, l.soft, l.soft_seconds))
                .collect::<Vec<_>>()
                .join(" "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, n) in [("1", 1), ("2k", 2_000), ("2Kb", 2_048), ("64mb", 64 << 20), ("1gb", 1 << 30), ("3b", 3)] {
            assert_eq!(parse_memory(text.as_bytes()), Some(n));
        }
        assert_eq!((parse_memory(b""), parse_memory(b"mb")), (Some(0), Some(0)));
        assert_eq!(parse_memory(b"18446744073709551616"), Some(u64::MAX));
        assert_eq!(parse_memory(b"18446744074gb"), Some(1_360_296_555_168_399_360));
        assert_eq!(parse_memory(&[b'1'; 127]), Some(u64::MAX));
        assert_eq!(parse_memory(&[b'0'; 128]), None);
        for text in ["-1", "1tb", "1.5mb", "x"] {
            assert_eq!(parse_memory(text.as_bytes()), None, "{text}");
        }
        assert_eq!(format_memory(1023), "1023B");
        assert_eq!(format_memory(1536), "1.50K");
        assert_eq!(format_memory(3 << 30), "3.00G");
    }

    #[test]
    fn borders_of_sizes() {
        let check = |kind: Kind, text: &str, expected: Result<&str, &str>| {
            let shown = kind.parse(text.as_bytes()).map(|value| kind.format(&value));
            assert_eq!(shown.as_deref().map_err(|e| &**e), expected, "{text}");
        };
        check(Kind::LargeMemory, "18446744073709551616", Ok("18446744073709551615"));
        check(Kind::LargeMemory, "9223372036854775808", Ok("9223372036854775808"));
        check(Kind::LargeMemory, "-1", Err("argument must be a memory value"));
        check(Kind::MemoryOrPercent, "18446744073709551616", Ok("1%"));
        let percent = "percentage argument must be less or equal to 100";
        check(Kind::MemoryOrPercent, "9223372036854775808", Err(percent));
        check(Kind::MemoryOrPercent, "101%", Err(percent));
        let bounds = "argument must be between 0 and 9223372036854775807 inclusive";
        check(Kind::Memory(0, i64::MAX), "9223372036854775808", Err(bounds));
    }

    #[test]
    fn event_masks() {
        for text in ["", "AKE", "g$K", "AKEm", "xE"] {
            let Ok(v) = Kind::Events.parse(text.as_bytes()) else { panic!("{text}") };
            assert_eq!(Kind::Events.format(&v).len(), text.len());
        }
        assert!(Kind::Events.parse(b"Q").is_err());
    }
}
