//! Rounding an exact binary value to a floating point format, to nearest, ties to even (IEEE 754-2019, section 4.3.1).

/// A binary floating point format with `precision` bits of significand.
pub(super) struct Format {
    /// Bits of the significand, the leading one included.
    pub precision: u32,
    /// Exponent of the least significant bit of the smallest subnormal.
    pub min_exp: i32,
    /// Exponent of the least significant bit of the largest finite value.
    pub max_exp: i32,
}

/// IEEE double.
pub(super) const DOUBLE: Format = Format { precision: 53, min_exp: -1074, max_exp: 971 };
/// The x87 80-bit extended format.
pub(super) const EXTENDED: Format = Format { precision: 64, min_exp: -16445, max_exp: 16320 };

/// `mantissa * 2^exp`, or out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounded {
    /// In range; a mantissa of zero is an underflow (or zero).
    Finite { mantissa: u64, exp: i32 },
    /// Beyond the largest finite value.
    Overflow,
}

impl Format {
    /// Rounds `mantissa * 2^exp`, where `sticky` says that nonzero bits below were cut off. With `sticky`, `mantissa` has
    /// to have at least two bits more than the precision.
    pub(super) fn round(&self, mantissa: u128, exp: i32, sticky: bool) -> Rounded {
        if mantissa == 0 {
            return Rounded::Finite { mantissa: 0, exp: self.min_exp };
        }
        let bits = 128 - mantissa.leading_zeros() as i32;
        let mut shift = bits - self.precision as i32;
        if exp.saturating_add(shift) < self.min_exp {
            shift = self.min_exp.saturating_sub(exp);
        }
        let mut exp = exp.saturating_add(shift);
        let mut kept = match shift {
            ..=0 => mantissa << -shift,
            1..=127 => mantissa >> shift,
            _ => 0,
        } as u64;
        if shift > 0 && shift <= 128 {
            let half = 1u128 << (shift - 1);
            let rest = if shift == 128 { mantissa } else { mantissa & ((1 << shift) - 1) };
            if rest > half || (rest == half && (sticky || kept & 1 == 1)) {
                (kept, exp) = match kept.checked_add(1) {
                    None => (1 << 63, exp + 1),
                    Some(sum) if self.precision < 64 && sum >> self.precision != 0 => (sum >> 1, exp + 1),
                    Some(sum) => (sum, exp),
                };
            }
        }
        if exp > self.max_exp { Rounded::Overflow } else { Rounded::Finite { mantissa: kept, exp } }
    }
}

/// The digits of a C99 hexadecimal floating constant without sign ("0x1.8p3"): mantissa, binary exponent, and whether
/// nonzero digits were cut off. `None` when the whole of `text` is not one.
pub(super) fn parse_hex(text: &[u8]) -> Option<(u128, i32, bool)> {
    let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X"))?;
    let (mut mantissa, mut exp, mut sticky) = (0u128, 0i64, false);
    let (mut seen, mut point) = (false, false);
    let mut at = 0;
    while let Some(&byte) = digits.get(at) {
        at += 1;
        let digit = match byte {
            b'.' if !point => {
                point = true;
                continue;
            }
            b'p' | b'P' => {
                exp += parse_exponent(&digits[at..])?;
                at = digits.len();
                break;
            }
            _ => (byte as char).to_digit(16)?,
        };
        seen = true;
        if mantissa >> 120 == 0 {
            mantissa = mantissa << 4 | u128::from(digit);
            exp -= 4 * i64::from(point);
        } else {
            sticky |= digit != 0;
            exp += 4 * i64::from(!point);
        }
    }
    if !seen || at != digits.len() {
        return None;
    }
    // Clamped far outside of every format's range.
    Some((mantissa, exp.clamp(-1_000_000, 1_000_000) as i32, sticky))
}

/// A decimal exponent with an optional sign; the whole of `text`. Saturates far outside of every format's range.
pub(super) fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0i64, |sum, &byte| (sum * 10 + i64::from(byte - b'0')).min(1 << 40));
    Some(if negative { -value } else { value })
}

/// Splits an optional sign off: (negative, rest).
pub(super) fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}
