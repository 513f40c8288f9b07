//! Numbers as text, exactly as Redis reads and writes them.
//!
//! [`parse_i64`] and [`format_i64`] are the integers of every command; [`double`] holds sorted-set scores and RESP3
//! doubles; [`long_double`] the 80-bit arithmetic behind INCRBYFLOAT and HINCRBYFLOAT. All of that is integer
//! arithmetic: results do not depend on the target's floating point unit. [`trig`] is for distances on the globe.

pub mod double;
mod grisu;
pub mod long_double;
mod round;
pub mod trig;

pub use double::{F64_CHARS, double_to_i64, format_f64, format_g17, parse_bound, parse_f64};
pub use long_double::LongDouble;

/// Two decimal digits for each value below 100.
static PAIRS: [u8; 200] = pairs();

const fn pairs() -> [u8; 200] {
    let mut table = [0; 200];
    let mut i = 0;
    while i < 100 {
        table[2 * i] = b'0' + (i / 10) as u8;
        table[2 * i + 1] = b'0' + (i % 10) as u8;
        i += 1;
    }
    table
}

/// Reads a signed 64-bit integer in the one canonical form: no sign but '-', no leading zero, no "-0", no space.
///
/// ```
/// # use barium_kvstore::number::parse_i64;
/// assert_eq!(parse_i64(b"-12"), Some(-12));
/// assert_eq!(parse_i64(b"012"), None);
/// ```
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (&first, rest) = digits.split_first()?;
    if first == b'0' {
        return (rest.is_empty() && !negative).then_some(0);
    }
    if !first.is_ascii_digit() || digits.len() > 19 {
        return None;
    }
    // At most 19 digits: the sum stays below 10^19 < 2^64.
    let mut value = u64::from(first - b'0');
    for &byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    if negative { (value <= 1 << 63).then(|| value.wrapping_neg() as i64) } else { i64::try_from(value).ok() }
}

/// Reads an unsigned 64-bit integer in canonical form (as [`parse_i64`], but without '-').
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    match text {
        [b'0'] => return Some(0),
        [b'1'..=b'9', ..] if text.len() <= 20 => {}
        _ => return None,
    }
    text.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Bytes that the longest `i64` or `u64` takes in decimal.
pub const I64_CHARS: usize = 20;

/// Writes `value` in decimal at the end of `buf` and returns the digits.
#[inline]
pub fn format_u64(buf: &mut [u8; I64_CHARS], value: u64) -> &[u8] {
    let start = write_digits(buf, value);
    &buf[start..]
}

/// Writes `value` in decimal at the end of `buf` and returns the text.
#[inline]
pub fn format_i64(buf: &mut [u8; I64_CHARS], value: i64) -> &[u8] {
    let mut start = write_digits(buf, value.unsigned_abs());
    if value < 0 {
        start -= 1;
        buf[start] = b'-';
    }
    &buf[start..]
}

#[inline]
fn write_digits(buf: &mut [u8; I64_CHARS], mut value: u64) -> usize {
    let mut at = I64_CHARS;
    while value >= 100 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        buf[at] = PAIRS[pair];
        buf[at + 1] = PAIRS[pair + 1];
    }
    if value >= 10 {
        let pair = value as usize * 2;
        at -= 2;
        buf[at] = PAIRS[pair];
        buf[at + 1] = PAIRS[pair + 1];
    } else {
        at -= 1;
        buf[at] = b'0' + value as u8;
    }
    at
}

/// Bytes that C's `isspace` takes for white space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The sum of `len` sizes, taken from the first `samples` of them.
pub fn estimated_sum(sizes: impl Iterator<Item = usize>, len: usize, samples: usize) -> usize {
    let (mut sum, mut n) = (0, 0);
    for size in sizes.take(samples) {
        sum += size;
        n += 1;
    }
    (sum as u128 * len as u128).checked_div(n).unwrap_or(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_in_canonical_form_only() {
        let good: [(&[u8], i64); 7] = [
            (b"0", 0),
            (b"1", 1),
            (b"-1", -1),
            (b"9223372036854775807", i64::MAX),
            (b"-9223372036854775808", i64::MIN),
            (b"1000000000000000000", 1_000_000_000_000_000_000),
            (b"-90", -90),
        ];
        for (text, value) in good {
            assert_eq!(parse_i64(text), Some(value));
            assert_eq!(format_i64(&mut [0; I64_CHARS], value), text);
        }
        let bad: [&[u8]; 13] = [
            b"",
            b"-",
            b"-0",
            b"00",
            b"01",
            b"+1",
            b" 1",
            b"1 ",
            b"1a",
            b"9223372036854775808",
            b"-9223372036854775809",
            b"99999999999999999999",
            b"1\0",
        ];
        for text in bad {
            assert_eq!(parse_i64(text), None, "{text:?}");
        }
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(format_u64(&mut [0; I64_CHARS], u64::MAX), b"18446744073709551615");
    }
}
