//! The x87 80-bit extended format in integer arithmetic: INCRBYFLOAT and HINCRBYFLOAT have its results in Redis, on
//! whatever machine Barium runs.

use alloc::vec::Vec;

use super::round::{EXTENDED, Rounded, parse_exponent, parse_hex, split_sign};

/// Longest text that Redis reads as a long double.
const MAX_CHARS: usize = 5 * 1024 - 1;
/// Digits after the point in Redis's output.
const FRACTION_DIGITS: u32 = 17;
const FRACTION_SCALE: u64 = 100_000_000_000_000_000;
/// The largest power of five, and of ten, in 64 bits.
const MAX_POW5: u32 = 27;
const TEN_19: u64 = 10_000_000_000_000_000_000;

/// A value of the 80-bit extended format. Never a NaN: what would give one gives `None`.
///
/// ```
/// # use barium_kvstore::number::LongDouble;
/// let sum = LongDouble::parse(b"10.5").unwrap().checked_add(LongDouble::parse(b"0.1").unwrap()).unwrap();
/// let mut text = Vec::new();
/// sum.format(&mut text);
/// assert_eq!(text, b"10.6");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    infinite: bool,
    /// Significand with its leading bit explicit; that bit is clear for zero and subnormals only.
    mantissa: u64,
    /// Exponent of the significand's least significant bit.
    exp: i32,
}

impl LongDouble {
    /// Zero.
    pub const ZERO: Self = Self { negative: false, infinite: false, mantissa: 0, exp: EXTENDED.min_exp };

    /// Reads a number as Redis's `string2ld`: what `strtold` takes as a whole, without white space, neither NaN nor a number
    /// that overflows or vanishes. Infinity by name is read: what may be done with it is the caller's matter.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.is_empty() || text.len() > MAX_CHARS {
            return None;
        }
        let (negative, body) = split_sign(text);
        if body.eq_ignore_ascii_case(b"inf") || body.eq_ignore_ascii_case(b"infinity") {
            return Some(Self { negative, infinite: true, ..Self::ZERO });
        }
        let (rounded, is_zero) = if let [b'0', b'x' | b'X', ..] = body {
            let (mantissa, exp, sticky) = parse_hex(body)?;
            (EXTENDED.round(mantissa, exp, sticky), mantissa == 0)
        } else {
            let decimal = Decimal::parse(body)?;
            (decimal.round(), decimal.digits.is_empty())
        };
        match rounded {
            Rounded::Overflow => None,
            Rounded::Finite { mantissa: 0, .. } if !is_zero => None,
            Rounded::Finite { mantissa, exp } => Some(Self { negative, infinite: false, mantissa, exp }),
        }
    }

    /// The integer's value, exactly.
    pub fn from_i64(value: i64) -> Self {
        Self::from_rounded(value < 0, EXTENDED.round(u128::from(value.unsigned_abs()), 0, false))
    }

    /// The double's value, exactly; `None` for NaN.
    pub fn from_f64(value: f64) -> Option<Self> {
        let bits = value.to_bits();
        let negative = bits >> 63 == 1;
        let fraction = bits & ((1 << 52) - 1);
        match (bits >> 52) & 0x7ff {
            0x7ff if fraction != 0 => None,
            0x7ff => Some(Self { negative, infinite: true, ..Self::ZERO }),
            0 => Some(Self::from_rounded(negative, EXTENDED.round(u128::from(fraction), -1074, false))),
            biased => {
                let mantissa = u128::from(fraction | 1 << 52);
                Some(Self::from_rounded(negative, EXTENDED.round(mantissa, biased as i32 - 1075, false)))
            }
        }
    }

    fn from_rounded(negative: bool, rounded: Rounded) -> Self {
        match rounded {
            Rounded::Overflow => Self { negative, infinite: true, ..Self::ZERO },
            Rounded::Finite { mantissa, exp } => Self { negative, infinite: false, mantissa, exp },
        }
    }

    /// Whether the value is infinite.
    pub fn is_infinite(self) -> bool {
        self.infinite
    }

    /// Whether the sign bit is set (also for -0).
    pub fn is_sign_negative(self) -> bool {
        self.negative
    }

    /// The sum, rounded to nearest even; infinite on overflow, `None` where it would be NaN.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        if self.infinite || other.infinite {
            if self.infinite && other.infinite && self.negative != other.negative {
                return None;
            }
            return Some(if self.infinite { self } else { other });
        }
        let (big, small) =
            if (self.exp, self.mantissa) >= (other.exp, other.mantissa) { (self, other) } else { (other, self) };
        // 62 guard bits below the larger significand; what the shift cuts off below them only has to be known as nonzero.
        const GUARD: u32 = 62;
        let distance = (big.exp - small.exp) as u32;
        let wide = u128::from(big.mantissa) << GUARD;
        let aligned = u128::from(small.mantissa) << GUARD;
        let aligned = match aligned.checked_shr(distance) {
            Some(kept) if kept << distance == aligned => kept,
            Some(kept) => kept | 1,
            None => u128::from(aligned != 0),
        };
        let (negative, sum) = if big.negative == small.negative {
            (big.negative, wide + aligned)
        } else if wide >= aligned {
            (big.negative, wide - aligned)
        } else {
            // Possible between subnormals and the smallest normals only, where exponents are equal.
            (small.negative, aligned - wide)
        };
        if sum == 0 {
            // x + -x is +0 in round-to-nearest; -0 + -0 is -0.
            return Some(Self { negative: self.negative && other.negative, ..Self::ZERO });
        }
        Some(Self::from_rounded(negative, EXTENDED.round(sum, big.exp - GUARD as i32, false)))
    }

    /// A number of seconds as whole milliseconds, rounded up as `ceill(x * 1000.0L)` does; `None` beyond `i64`'s range.
    pub fn seconds_to_ms(self) -> Option<i64> {
        if self.infinite {
            return None;
        }
        let product =
            Self::from_rounded(self.negative, EXTENDED.round(u128::from(self.mantissa) * 1000, self.exp, false));
        if product.infinite {
            return None;
        }
        let magnitude = match product.exp {
            0.. if product.mantissa == 0 => 0,
            0..64 => u128::from(product.mantissa) << product.exp,
            64.. => return None,
            -63..0 => {
                let whole = product.mantissa >> -product.exp;
                let cut = whole << -product.exp != product.mantissa;
                u128::from(whole + u64::from(cut && !self.negative))
            }
            _ => u128::from(product.mantissa != 0 && !self.negative),
        };
        let value = i64::try_from(magnitude).ok();
        if self.negative { value.map(|v| -v).or((magnitude == 1 << 63).then_some(i64::MIN)) } else { value }
    }

    /// Appends the value as C's "%.17Lf" gives it, without trailing zeros after the point and without the sign of zero.
    pub fn format(self, out: &mut Vec<u8>) {
        let start = out.len();
        if self.negative {
            out.push(b'-');
        }
        if self.infinite {
            out.extend_from_slice(b"inf");
            return;
        }
        if self.exp >= 0 {
            let mut whole = BigUint::from_u128(u128::from(self.mantissa));
            whole.shift_left(self.exp as u32);
            whole.format(out);
        } else {
            // In units of the last digit written: below 2^64 * 10^17 < 2^121.
            let scaled = u128::from(self.mantissa) * u128::from(FRACTION_SCALE);
            let shift = -self.exp as u32;
            let units = match scaled.checked_shr(shift) {
                Some(kept) => {
                    let rest = scaled - (kept << shift);
                    let half = 1u128 << (shift - 1);
                    kept + u128::from(rest > half || (rest == half && kept & 1 == 1))
                }
                None => 0,
            };
            let (whole, fraction) = (units / u128::from(FRACTION_SCALE), (units % u128::from(FRACTION_SCALE)) as u64);
            BigUint::from_u128(whole).format(out);
            if fraction != 0 {
                out.push(b'.');
                push_padded(out, fraction, FRACTION_DIGITS as usize);
                while out.last() == Some(&b'0') {
                    out.pop();
                }
            }
        }
        if &out[start..] == b"-0" {
            out.remove(start);
        }
    }
}

/// Appends `value` with leading zeros to `width` digits.
fn push_padded(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let start = out.len();
    out.resize(start + width, b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// A decimal constant without sign: `digits * 10^exp`, with no zeros at either end of the digits.
struct Decimal {
    digits: Vec<u8>,
    exp: i64,
}

impl Decimal {
    fn parse(text: &[u8]) -> Option<Self> {
        let end = text.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(text.len());
        let mut exp = if end < text.len() { parse_exponent(&text[end + 1..])? } else { 0 };
        let mut digits = Vec::with_capacity(end);
        let mut point = false;
        let mut seen = false;
        for &byte in &text[..end] {
            match byte {
                b'.' if !point => point = true,
                b'0'..=b'9' => {
                    seen = true;
                    exp -= i64::from(point);
                    if byte != b'0' || !digits.is_empty() {
                        digits.push(byte - b'0');
                    }
                }
                _ => return None,
            }
        }
        while digits.last() == Some(&0) {
            digits.pop();
            exp += 1;
        }
        seen.then_some(Self { digits, exp })
    }

    fn round(&self) -> Rounded {
        if self.digits.is_empty() {
            return Rounded::Finite { mantissa: 0, exp: EXTENDED.min_exp };
        }
        // The value lies between 10^(magnitude - 1) and 10^magnitude; the format ends near 10^4932 and 10^-4951.
        let magnitude = self.exp + self.digits.len() as i64;
        if magnitude > 5000 {
            return Rounded::Overflow;
        }
        if magnitude < -5000 {
            return Rounded::Finite { mantissa: 0, exp: EXTENDED.min_exp };
        }
        let exp = self.exp as i32;
        let power = exp.unsigned_abs();
        if self.digits.len() <= 19 && power <= MAX_POW5 {
            let digits = self.digits.iter().fold(0u64, |sum, &digit| sum * 10 + u64::from(digit));
            let pow5 = 5u64.pow(power);
            return if exp >= 0 {
                EXTENDED.round(u128::from(digits) * u128::from(pow5), exp, false)
            } else {
                // The quotient keeps at least 64 bits of significand and one for rounding.
                let shift = u128::from(digits).leading_zeros();
                let wide = u128::from(digits) << shift;
                let (quotient, rest) = (wide / u128::from(pow5), wide % u128::from(pow5));
                EXTENDED.round(with_sticky(quotient, rest != 0), exp - shift as i32, false)
            };
        }
        let mut digits = BigUint::from_digits(&self.digits);
        if exp >= 0 {
            digits.multiply_pow5(power);
            let (top, cut_exp, sticky) = digits.top_bits();
            EXTENDED.round(with_sticky(top, sticky), exp + cut_exp, false)
        } else {
            let mut divisor = BigUint::from_u128(1);
            divisor.multiply_pow5(power);
            let (quotient, quotient_exp, sticky) = digits.divide(divisor);
            EXTENDED.round(with_sticky(quotient, sticky), exp + quotient_exp, false)
        }
    }
}

/// Appends a bit that stands for everything cut off. The value has at most 127 bits, or its last bit is not needed.
fn with_sticky(value: u128, sticky: bool) -> u128 {
    value | u128::from(sticky)
}

/// A natural number of any size; limbs of 64 bits, the least significant first, the last one not zero.
struct BigUint {
    limbs: Vec<u64>,
}

impl BigUint {
    fn from_u128(value: u128) -> Self {
        let mut number = Self { limbs: alloc::vec![value as u64, (value >> 64) as u64] };
        number.trim();
        number
    }

    /// From decimal digits, the most significant first.
    fn from_digits(digits: &[u8]) -> Self {
        let mut number = Self { limbs: Vec::with_capacity(digits.len() / 19 + 1) };
        for chunk in digits.chunks(19) {
            let value = chunk.iter().fold(0u64, |sum, &digit| sum * 10 + u64::from(digit));
            number.multiply_add(10u64.pow(chunk.len() as u32), value);
        }
        number
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    fn bits(&self) -> u32 {
        self.limbs.last().map_or(0, |top| self.limbs.len() as u32 * 64 - top.leading_zeros())
    }

    fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = u128::from(addend);
        for limb in &mut self.limbs {
            carry += u128::from(*limb) * u128::from(factor);
            *limb = carry as u64;
            carry >>= 64;
        }
        if carry != 0 {
            self.limbs.push(carry as u64);
        }
    }

    fn multiply_pow5(&mut self, mut power: u32) {
        while power > 0 {
            let step = power.min(MAX_POW5);
            self.multiply_add(5u64.pow(step), 0);
            power -= step;
        }
    }

    fn shift_left(&mut self, by: u32) {
        let (limbs, bits) = (by as usize / 64, by % 64);
        if bits != 0 {
            let mut carry = 0;
            for limb in &mut self.limbs {
                (*limb, carry) = (*limb << bits | carry, *limb >> (64 - bits));
            }
            if carry != 0 {
                self.limbs.push(carry);
            }
        }
        if !self.limbs.is_empty() {
            self.limbs.splice(0..0, core::iter::repeat_n(0, limbs));
        }
    }

    fn shift_right_one(&mut self) {
        let mut carry = 0;
        for limb in self.limbs.iter_mut().rev() {
            (*limb, carry) = (*limb >> 1 | carry << 63, *limb & 1);
        }
        self.trim();
    }

    fn at_least(&self, other: &Self) -> bool {
        self.limbs
            .len()
            .cmp(&other.limbs.len())
            .then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
            .is_ge()
    }

    /// Subtracts a number that is not larger.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (at, limb) in self.limbs.iter_mut().enumerate() {
            let subtrahend = other.limbs.get(at).copied().unwrap_or(0);
            let (difference, under) = limb.overflowing_sub(subtrahend);
            let (difference, under_again) = difference.overflowing_sub(u64::from(borrow));
            *limb = difference;
            borrow = under || under_again;
        }
        self.trim();
    }

    /// The upper limbs as at most 128 bits (at least 65 where the number has them), the exponent of their last bit, and
    /// whether anything below is not zero.
    fn top_bits(&self) -> (u128, i32, bool) {
        let n = self.limbs.len();
        let limb = |at: usize| u128::from(self.limbs[at]);
        match n {
            0 => (0, 0, false),
            1 => (limb(0), 0, false),
            2 => (limb(1) << 64 | limb(0), 0, false),
            _ => {
                // Three limbs' upper 128 bits, so that the rounding bit and more are there whatever the top limb holds.
                let shift = self.limbs[n - 1].leading_zeros();
                let top = limb(n - 1) << 64 | limb(n - 2);
                let low = self.limbs[n - 3];
                let (top, cut) = if shift == 0 {
                    (top, low)
                } else {
                    (top << shift | u128::from(low >> (64 - shift)), low << shift)
                };
                let sticky = cut != 0 || self.limbs[..n - 3].iter().any(|&limb| limb != 0);
                (top, (n as i32 - 2) * 64 - shift as i32, sticky)
            }
        }
    }

    /// The leading 68 or 69 bits of the quotient, the exponent of the last one, and whether the rest is not zero.
    fn divide(mut self, mut divisor: Self) -> (u128, i32, bool) {
        const QUOTIENT_BITS: i32 = 68;
        let shift = QUOTIENT_BITS - (self.bits() as i32 - divisor.bits() as i32);
        if shift >= 0 {
            self.shift_left(shift as u32);
        } else {
            divisor.shift_left(-shift as u32);
        }
        divisor.shift_left(QUOTIENT_BITS as u32);
        let mut quotient = 0u128;
        for _ in 0..=QUOTIENT_BITS {
            quotient <<= 1;
            if self.at_least(&divisor) {
                self.subtract(&divisor);
                quotient |= 1;
            }
            divisor.shift_right_one();
        }
        (quotient, -shift, !self.limbs.is_empty())
    }

    /// Appends the number in decimal.
    fn format(mut self, out: &mut Vec<u8>) {
        let mut groups = Vec::with_capacity(self.limbs.len() + 1);
        while !self.limbs.is_empty() {
            let mut rest = 0u128;
            for limb in self.limbs.iter_mut().rev() {
                rest = rest << 64 | u128::from(*limb);
                *limb = (rest / u128::from(TEN_19)) as u64;
                rest %= u128::from(TEN_19);
            }
            self.trim();
            groups.push(rest as u64);
        }
        let mut digits = [0; super::I64_CHARS];
        out.extend_from_slice(super::format_u64(&mut digits, groups.pop().unwrap_or(0)));
        while let Some(group) = groups.pop() {
            push_padded(out, group, 19);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn text(value: LongDouble) -> String {
        let mut out = Vec::new();
        value.format(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    fn sum(a: &str, b: &str) -> Option<String> {
        Some(text(LongDouble::parse(a.as_bytes())?.checked_add(LongDouble::parse(b.as_bytes())?)?))
    }

    #[test]
    fn sums_are_those_of_the_x87() {
        for (a, b, expected) in [
            ("10.5", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3.0", "1.000000000000005", "4.000000000000005"),
            ("4.000000000000005", "0.1", "4.100000000000005"),
            ("0", "-0.0", "0"),
            ("-0", "-0", "0"),
            ("1", "-1", "0"),
            ("1e-17", "0", "0.00000000000000001"),
            ("0.5e-17", "0", "0"),
            ("0.50000001e-17", "0", "0.00000000000000001"),
            ("-1e-30", "0", "-0.00000000000000000"),
            ("123456789012345678901234567890", "1", "123456789012345678899921813504"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("0x10", "0x0.8", "16.5"),
            ("1e4932", "-1e4932", "0"),
        ] {
            let expected = if expected == "-0.00000000000000000" { "0" } else { expected };
            assert_eq!(sum(a, b).as_deref(), Some(expected), "{a} + {b}");
        }
        assert_eq!(sum("inf", "-inf"), None);
        assert_eq!(sum("inf", "1").as_deref(), Some("inf"));
        let biggest = LongDouble::parse(b"1.189731495357231765e4932").unwrap_or(LongDouble::ZERO);
        assert!(biggest.checked_add(biggest).is_some_and(LongDouble::is_infinite));
        assert_eq!(text(biggest).len(), 4933);
    }

    #[test]
    fn numbers_are_read_as_strtold_does() {
        for bad in
            ["", " 1", "1 ", "1e", "e", ".", "nan", "1e5000", "1e-5000", "1.2.3", "0x", "1e99999999999999999999", "+-1"]
        {
            assert_eq!(LongDouble::parse(bad.as_bytes()), None, "{bad}");
        }
        for good in ["1.", ".1", "+1", "1E5", "1e+5", "INF", "-infinity", "0e99999999999", "1e-4950", "3.7e-4951"] {
            assert!(LongDouble::parse(good.as_bytes()).is_some(), "{good}");
        }
        let long: String = core::iter::repeat_n('1', 4900).collect();
        assert!(LongDouble::parse(long.as_bytes()).is_some());
    }

    #[test]
    fn short_and_long_ways_to_read_agree() {
        // The same number with more zeros than the short way takes.
        for number in ["1", "123.456", "0.1", "9007199254740993.000000001", "7e20", "1.7e-20", "18446744073709551615"] {
            let (mantissa, exp) = number.split_once('e').unwrap_or((number, "0"));
            let point = if mantissa.contains('.') { "" } else { "." };
            let exp: i32 = exp.parse().unwrap_or(0);
            let zeros: String = core::iter::repeat_n('0', 40).collect();
            let padded = alloc::format!("{mantissa}{point}{zeros}1e{exp}");
            let exact = LongDouble::parse(number.as_bytes());
            assert_eq!(LongDouble::parse(padded.as_bytes()), exact, "{padded}");
        }
    }

    #[test]
    fn seconds_become_milliseconds_rounded_up() {
        let ms = |s: &str| LongDouble::parse(s.as_bytes()).and_then(LongDouble::seconds_to_ms);
        assert_eq!(ms("0"), Some(0));
        assert_eq!(ms("0.1"), Some(100));
        assert_eq!(ms("0.0001"), Some(1));
        assert_eq!(ms("-0.0001"), Some(0));
        assert_eq!(ms("-1"), Some(-1000));
        assert_eq!(ms("1e-300"), Some(1));
        assert_eq!(ms("9223372036854775"), Some(9223372036854775000));
        assert_eq!(ms("9223372036854776"), None);
        assert_eq!(ms("1e300"), None);
        assert_eq!(ms("inf"), None);
    }

    #[test]
    fn doubles_convert_exactly() {
        let show = |v: f64| LongDouble::from_f64(v).map(text);
        assert_eq!(show(13.361389338970184).as_deref(), Some("13.36138933897018433"));
        assert_eq!(show(5e-324).as_deref(), Some("0"));
        assert_eq!(show(-2.5).as_deref(), Some("-2.5"));
        assert_eq!(show(f64::NAN), None);
        assert_eq!(text(LongDouble::from_i64(i64::MIN)), "-9223372036854775808");
    }
}
