//! IEEE doubles: sorted-set scores, their range bounds, RESP3 doubles.

use core::fmt::Write;

use super::round::{DOUBLE, Rounded, parse_hex, split_sign};
use super::{I64_CHARS, format_i64, grisu, is_space};

/// Bytes that the longest double takes as [`format_f64`] writes it ("-2.2250738585072014e-308" and its like).
pub const F64_CHARS: usize = 32;

/// Reads a double as Redis reads a command argument: what C's `strtod` takes as a whole (decimal, hexadecimal, "inf",
/// "infinity"), without white space; neither NaN nor a number that overflows or vanishes.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    if let Some(small) = parse_small_integer(text) {
        return Some(small);
    }
    let value = strtod(text)?;
    let named_infinity = || matches!(split_sign(text).1.first(), Some(b'i' | b'I'));
    let has_digits = || {
        let (_, digits) = split_sign(text);
        match digits {
            [b'0', b'x' | b'X', hex @ ..] => {
                hex.iter().take_while(|b| !b.eq_ignore_ascii_case(&b'p')).any(|b| !matches!(b, b'0' | b'.'))
            }
            _ => digits.iter().take_while(|b| !b.eq_ignore_ascii_case(&b'e')).any(|b| matches!(b, b'1'..=b'9')),
        }
    };
    if value.is_nan() || (value.is_infinite() && !named_infinity()) || (value == 0.0 && has_digits()) {
        return None;
    }
    Some(value)
}

/// Reads the number of a score range's bound, after its "(" was cut off: as `strtod` reads it up to a NUL byte, so that
/// white space before it, an empty text (0) and an overflow (infinity) are taken, unlike in [`parse_f64`]. Not NaN.
pub fn parse_bound(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let start = text.iter().position(|&byte| !is_space(byte))?;
    strtod(&text[start..]).filter(|value| !value.is_nan())
}

/// What C's `strtod` makes of the whole of `text` in round-to-nearest; `None` if it would stop before the end.
fn strtod(text: &[u8]) -> Option<f64> {
    let (negative, digits) = split_sign(text);
    if let [b'0', b'x' | b'X', ..] = digits {
        let (mantissa, exp, sticky) = parse_hex(digits)?;
        let magnitude = match DOUBLE.round(mantissa, exp, sticky) {
            Rounded::Overflow => f64::INFINITY,
            Rounded::Finite { mantissa, exp } if mantissa >> 52 == 0 => {
                debug_assert!(mantissa == 0 || exp == DOUBLE.min_exp);
                f64::from_bits(mantissa)
            }
            Rounded::Finite { mantissa, exp } => {
                f64::from_bits((mantissa & ((1 << 52) - 1)) | ((exp - DOUBLE.min_exp + 1) as u64) << 52)
            }
        };
        return Some(if negative { -magnitude } else { magnitude });
    }
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// Integers of up to 15 digits: exact in a double, and nearly all scores.
fn parse_small_integer(text: &[u8]) -> Option<f64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    let mut value = 0i64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    let magnitude = value as f64;
    Some(if negative { -magnitude } else { magnitude })
}

/// The integer that `value` is, if it is one of at most 2^62 in magnitude (Redis's `double2ll`). -0.0 gives 0.
pub fn double_to_i64(value: f64) -> Option<i64> {
    // In integers: this runs for every score written, on targets without floating point registers too.
    const LIMIT: u64 = 0x43d0_0000_0000_0000; // 2^62
    let bits = value.to_bits();
    let magnitude = bits & !(1 << 63);
    if magnitude == 0 {
        return Some(0);
    }
    let exp = (magnitude >> 52) as i32 - 1023;
    if exp < 0 || magnitude > LIMIT {
        return None;
    }
    let mantissa = (magnitude & ((1 << 52) - 1)) | 1 << 52;
    let integer = if exp >= 52 {
        mantissa << (exp - 52)
    } else {
        let fraction_bits = 52 - exp;
        if mantissa & ((1 << fraction_bits) - 1) != 0 {
            return None;
        }
        mantissa >> fraction_bits
    } as i64;
    Some(if bits >> 63 == 1 { -integer } else { integer })
}

/// Writes `value` as Redis 7.2 does in replies and listpacks and returns the text: an integer up to 2^62 plainly, else
/// as [`format_shortest`] does.
pub fn format_f64(buf: &mut [u8; F64_CHARS], value: f64) -> &[u8] {
    let Some(integer) = double_to_i64(value).filter(|n| *n != 0) else { return format_shortest(buf, value) };
    let mut digits = [0; I64_CHARS];
    let text = format_i64(&mut digits, integer);
    let n = text.len();
    buf[..n].copy_from_slice(text);
    &buf[..n]
}

/// Writes the short form that reads back as the same value, with an exponent where the number is very large or small or
/// ends in many zeros.
pub fn format_shortest(buf: &mut [u8; F64_CHARS], value: f64) -> &[u8] {
    let bits = value.to_bits();
    let negative = bits >> 63 == 1;
    let special: &[u8] = match (bits & !(1 << 63), negative) {
        (0, false) => b"0",
        (0, true) => b"-0",
        (0x7ff0_0000_0000_0000, false) => b"inf",
        (0x7ff0_0000_0000_0000, true) => b"-inf",
        (0x7ff0_0000_0000_0001.., _) => b"nan",
        _ => {
            let (digits, n, exp) = grisu::shortest(bits & !(1 << 63));
            let mut out = Layout { buf, len: 0 };
            if negative {
                out.put(b"-");
            }
            out.number(&digits[..n], exp, negative);
            let n = out.len;
            return &buf[..n];
        }
    };
    buf[..special.len()].copy_from_slice(special);
    &buf[..special.len()]
}

/// Writes `value`, which is not NaN, as C's "%.17g" does: with ZSCAN's scores in large sets Redis still gives these digits.
pub fn format_g17(buf: &mut [u8; F64_CHARS], value: f64) -> &[u8] {
    /// Significant digits.
    const PRECISION: i32 = 17;
    if value == 0.0 || value.is_infinite() {
        return format_f64(buf, value);
    }
    // "d.dddddddddddddddde-308": correctly rounded, ties to even.
    let mut text = Layout { buf: &mut [0; F64_CHARS], len: 0 };
    if write!(text, "{:.16e}", value.abs()).is_err() {
        return &[];
    }
    let exp_at = text.buf.iter().position(|&byte| byte == b'e').unwrap_or(text.len);
    let exp =
        core::str::from_utf8(&text.buf[exp_at + 1..text.len]).ok().and_then(|exp| exp.parse().ok()).unwrap_or(0i32);
    let mut digits = [0; PRECISION as usize];
    digits[0] = text.buf[0];
    digits[1..].copy_from_slice(&text.buf[2..=PRECISION as usize]);
    let n = digits.iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1);
    let digits = &digits[..n];
    let mut out = Layout { buf, len: 0 };
    if value < 0.0 {
        out.put(b"-");
    }
    if (-4..PRECISION).contains(&exp) {
        out.plain(digits, exp + 1 - n as i32);
    } else {
        out.put(&digits[..1]);
        if n > 1 {
            out.put(b".");
            out.put(&digits[1..]);
        }
        out.put(if exp < 0 { b"e-" } else { b"e+" });
        if exp.abs() < 10 {
            out.put(b"0");
        }
        out.put(format_i64(&mut [0; I64_CHARS], i64::from(exp.abs())));
    }
    let n = out.len;
    &buf[..n]
}

/// Writes digits in the layout of Redis's formatter.
struct Layout<'a> {
    buf: &'a mut [u8; F64_CHARS],
    len: usize,
}

impl core::fmt::Write for Layout<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        if self.len + text.len() > F64_CHARS {
            return Err(core::fmt::Error);
        }
        self.put(text.as_bytes());
        Ok(())
    }
}

impl Layout<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.buf[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn zeros(&mut self, n: usize) {
        self.buf[self.len..self.len + n].fill(b'0');
        self.len += n;
    }

    /// `digits * 10^exp` without an exponent.
    fn plain(&mut self, digits: &[u8], exp: i32) {
        let before_point = digits.len() as i32 + exp;
        if exp >= 0 {
            self.put(digits);
            self.zeros(exp as usize);
        } else if before_point <= 0 {
            self.put(b"0.");
            self.zeros(-before_point as usize);
            self.put(digits);
        } else {
            let (whole, fraction) = digits.split_at(before_point as usize);
            self.put(whole);
            self.put(b".");
            self.put(fraction);
        }
    }

    /// `digits * 10^exp`.
    fn number(&mut self, digits: &[u8], exp: i32, negative: bool) {
        let n = digits.len() as i32;
        // The power of ten of the first digit.
        let scientific = exp + n - 1;
        if (exp >= 0 && scientific < n + 7) || (exp < 0 && (exp > -7 || scientific.abs() < 4)) {
            self.plain(digits, exp);
        } else {
            // The original's buffer holds no more than 18 digits and sign here.
            let digits = &digits[..digits.len().min(18 - usize::from(negative))];
            let exp10 = exp + digits.len() as i32 - 1;
            self.put(&digits[..1]);
            if digits.len() > 1 {
                self.put(b".");
                self.put(&digits[1..]);
            }
            self.put(if exp10 < 0 { b"e-" } else { b"e+" });
            let mut text = [0; I64_CHARS];
            self.put(format_i64(&mut text, i64::from(scientific.abs())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn text(value: f64) -> String {
        String::from_utf8_lossy(format_f64(&mut [0; F64_CHARS], value)).into_owned()
    }

    #[test]
    fn doubles_look_as_in_redis() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (0.1, "0.1"),
            (-1.5, "-1.5"),
            (1e21, "1e+21"),
            (4611686018427387904.0, "4611686018427387904"),
            (4611686018427388928.0, "4611686018427389000"),
            (1e22, "1e+22"),
            (1.2345e22, "1.2345e+22"),
            (1e-5, "0.00001"),
            (1e-7, "1e-7"),
            (1.25e-7, "1.25e-7"),
            (0.000123456789, "1.23456789e-4"),
            (1e-100, "1e-100"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (3.141592653589893, "3.141592653589893"),
            (0.30000000000000004, "0.30000000000000004"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn doubles_read_back_as_themselves() {
        let mut state = 1u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let value = f64::from_bits(state ^ state >> 29);
            if value.is_finite() {
                let text = text(value);
                assert_eq!(parse_f64(text.as_bytes()).map(f64::to_bits), Some(value.to_bits()), "{text}");
            }
        }
    }

    #[test]
    fn doubles_are_read_as_strtod_does() {
        for (text, expected) in [
            ("1", Some(1.0)),
            ("+1", Some(1.0)),
            ("007", Some(7.0)),
            ("-0", Some(-0.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("1e3", Some(1000.0)),
            ("1e", None),
            ("e1", None),
            (".", None),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("0x10", Some(16.0)),
            ("-0x1.8p1", Some(-3.0)),
            ("0x", None),
            ("0x.p1", None),
            ("0x1p-1074", Some(5e-324)),
            ("0x1p-1075", None),
            ("0x1.8p-1075", Some(5e-324)),
            ("0x1.fffffffffffff8p1023", None),
            ("0x1.fffffffffffff7fp1023", Some(f64::MAX)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("infinit", None),
            ("nan", None),
            ("1e400", None),
            ("1e-400", None),
            ("0e-400", Some(0.0)),
            ("1e-320", Some(1e-320)),
            ("1_0", None),
        ] {
            assert_eq!(parse_f64(text.as_bytes()).map(f64::to_bits), expected.map(f64::to_bits), "{text}");
        }
        assert_eq!(parse_bound(b""), Some(0.0));
        assert_eq!(parse_bound(b" 1"), Some(1.0));
        assert_eq!(parse_bound(b"1e400"), Some(f64::INFINITY));
        assert_eq!(parse_bound(b"1\0x"), Some(1.0));
        assert_eq!(parse_bound(b" "), None);
        assert_eq!(parse_bound(b"nan"), None);
        assert_eq!(parse_bound(b"1 "), None);
    }

    #[test]
    fn seventeen_digits_look_as_in_c() {
        for (value, expected) in [
            (0.1, "0.10000000000000001"),
            (3.0, "3"),
            (-1.5e-7, "-1.4999999999999999e-07"),
            (1e22, "1e+22"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (f64::MAX, "1.7976931348623157e+308"),
            (-0.0, "-0"),
            (f64::NEG_INFINITY, "-inf"),
            (123456789012345.68, "123456789012345.69"),
        ] {
            assert_eq!(format_g17(&mut [0; F64_CHARS], value), expected.as_bytes());
        }
    }

    #[test]
    fn integers_are_recognised() {
        assert_eq!(double_to_i64(-0.0), Some(0));
        assert_eq!(double_to_i64(-7.0), Some(-7));
        assert_eq!(double_to_i64(0.5), None);
        assert_eq!(double_to_i64(1.5), None);
        assert_eq!(double_to_i64(4611686018427387904.0), Some(1 << 62));
        assert_eq!(double_to_i64(4611686018427388928.0), None);
        assert_eq!(double_to_i64(f64::INFINITY), None);
        assert_eq!(double_to_i64(f64::NAN), None);
    }
}
