//! The digits of a double: Grisu2 (F. Loitsch, "Printing Floating-Point Numbers Quickly and Accurately with Integers",
//! PLDI 2010).
//!
//! Not the crates that give the shortest digits always: Redis 7.2 uses Grisu2, which in about one of a thousand cases gives
//! one digit more than needed, and clients see (and compare) that text. The cached powers and the choice among them are
//! therefore the usual ones too: every eighth power of ten from 10^-348, searched from the same estimate.

/// A number `frac * 2^exp`.
#[derive(Clone, Copy)]
struct Scaled {
    frac: u64,
    exp: i32,
}

/// The power of ten of the first entry of [`POWERS`], and their distance.
const FIRST_POWER: i32 = -348;
const POWER_STEP: i32 = 8;

/// Significands of 10^(-348 + 8 i), rounded to 64 bits.
#[rustfmt::skip]
static POWERS: [u64; 87] = [
    0xfa8fd5a0081c0288, 0xbaaee17fa23ebf76, 0x8b16fb203055ac76, 0xcf42894a5dce35ea,
    0x9a6bb0aa55653b2d, 0xe61acf033d1a45df, 0xab70fe17c79ac6ca, 0xff77b1fcbebcdc4f,
    0xbe5691ef416bd60c, 0x8dd01fad907ffc3c, 0xd3515c2831559a83, 0x9d71ac8fada6c9b5,
    0xea9c227723ee8bcb, 0xaecc49914078536d, 0x823c12795db6ce57, 0xc21094364dfb5637,
    0x9096ea6f3848984f, 0xd77485cb25823ac7, 0xa086cfcd97bf97f4, 0xef340a98172aace5,
    0xb23867fb2a35b28e, 0x84c8d4dfd2c63f3b, 0xc5dd44271ad3cdba, 0x936b9fcebb25c996,
    0xdbac6c247d62a584, 0xa3ab66580d5fdaf6, 0xf3e2f893dec3f126, 0xb5b5ada8aaff80b8,
    0x87625f056c7c4a8b, 0xc9bcff6034c13053, 0x964e858c91ba2655, 0xdff9772470297ebd,
    0xa6dfbd9fb8e5b88f, 0xf8a95fcf88747d94, 0xb94470938fa89bcf, 0x8a08f0f8bf0f156b,
    0xcdb02555653131b6, 0x993fe2c6d07b7fac, 0xe45c10c42a2b3b06, 0xaa242499697392d3,
    0xfd87b5f28300ca0e, 0xbce5086492111aeb, 0x8cbccc096f5088cc, 0xd1b71758e219652c,
    0x9c40000000000000, 0xe8d4a51000000000, 0xad78ebc5ac620000, 0x813f3978f8940984,
    0xc097ce7bc90715b3, 0x8f7e32ce7bea5c70, 0xd5d238a4abe98068, 0x9f4f2726179a2245,
    0xed63a231d4c4fb27, 0xb0de65388cc8ada8, 0x83c7088e1aab65db, 0xc45d1df942711d9a,
    0x924d692ca61be758, 0xda01ee641a708dea, 0xa26da3999aef774a, 0xf209787bb47d6b85,
    0xb454e4a179dd1877, 0x865b86925b9bc5c2, 0xc83553c5c8965d3d, 0x952ab45cfa97a0b3,
    0xde469fbd99a05fe3, 0xa59bc234db398c25, 0xf6c69a72a3989f5c, 0xb7dcbf5354e9bece,
    0x88fcf317f22241e2, 0xcc20ce9bd35c78a5, 0x98165af37b2153df, 0xe2a0b5dc971f303a,
    0xa8d9d1535ce3b396, 0xfb9b7cd9a4a7443c, 0xbb764c4ca7a44410, 0x8bab8eefb6409c1a,
    0xd01fef10a657842c, 0x9b10a4e5e9913129, 0xe7109bfba19c0c9d, 0xac2820d9623bf429,
    0x80444b5e7aa7cf85, 0xbf21e44003acdd2d, 0x8e679c2f5e44ff8f, 0xd433179d9c8cb841,
    0x9e19db92b4e31ba9, 0xeb96bf6ebadf77d9, 0xaf87023b9bf0ee6b,
];

impl Scaled {
    fn normalized(self) -> Self {
        let shift = self.frac.leading_zeros();
        Self { frac: self.frac << shift, exp: self.exp - shift as i32 }
    }

    /// The product's upper 64 bits, rounded.
    fn times(self, other: Self) -> Self {
        let product = u128::from(self.frac) * u128::from(other.frac);
        Self { frac: ((product + (1 << 63)) >> 64) as u64, exp: self.exp + other.exp + 64 }
    }
}

/// A power of ten that brings a number with binary exponent `exp` into Grisu's target range, and its decimal exponent.
fn cached_power(exp: i32) -> (Scaled, i32) {
    const TARGET: core::ops::RangeInclusive<i32> = -60..=-32;
    // -(exp + 87) * log10(2), truncated towards zero.
    let estimate = (i64::from(-(exp + 87)) * 1_292_913_986) / (1 << 32);
    let mut index = ((estimate as i32 - FIRST_POWER) / POWER_STEP).clamp(0, POWERS.len() as i32 - 1);
    loop {
        let power = FIRST_POWER + POWER_STEP * index;
        let power_exp = ((power * 217_706) >> 16) - 63;
        let scaled = exp + power_exp + 64;
        if scaled < *TARGET.start() && index + 1 < POWERS.len() as i32 {
            index += 1;
        } else if scaled > *TARGET.end() && index > 0 {
            index -= 1;
        } else {
            return (Scaled { frac: POWERS[index as usize], exp: power_exp }, power);
        }
    }
}

/// Digits (ASCII) and their number, and the power of ten of the last one, of the positive finite double with these bits.
pub(super) fn shortest(bits: u64) -> ([u8; 18], usize, i32) {
    const HIDDEN: u64 = 1 << 52;
    let value = match (bits >> 52) as i32 {
        0 => Scaled { frac: bits, exp: -1074 },
        biased => Scaled { frac: (bits & (HIDDEN - 1)) | HIDDEN, exp: biased - 1075 },
    };
    // Halfway to the neighbours: what lies between reads back as this value.
    let upper = Scaled { frac: value.frac * 2 + 1, exp: value.exp - 1 }.normalized();
    let lower_shift = if value.frac == HIDDEN { 2 } else { 1 };
    let lower = Scaled { frac: (value.frac << lower_shift) - 1, exp: value.exp - lower_shift };
    let lower = Scaled { frac: lower.frac << (lower.exp - upper.exp), exp: upper.exp };
    let (power, decimal) = cached_power(upper.exp);
    let value = value.normalized().times(power);
    let upper = upper.times(power);
    let lower = lower.times(power);
    // One unit inside, for the error of the products.
    generate(value, upper.frac - 1, lower.frac + 1, -decimal)
}

/// Generates the digits of a number between `lower` and `upper` close to `value`; all have `value`'s exponent.
fn generate(value: Scaled, upper: u64, lower: u64, mut decimal: i32) -> ([u8; 18], usize, i32) {
    let mut digits = [0u8; 18];
    let mut n = 0;
    let fraction_bits = -value.exp as u32;
    let one = 1u64 << fraction_bits;
    let mut distance = upper - value.frac;
    let mut delta = upper - lower;
    let mut whole = upper >> fraction_bits;
    let mut fraction = upper & (one - 1);
    let mut power = 1_000_000_000u64;
    for left in (0..10).rev() {
        let digit = whole / power;
        if digit != 0 || n != 0 {
            digits[n] = b'0' + digit as u8;
            n += 1;
        }
        whole %= power;
        let rest = (whole << fraction_bits) + fraction;
        if rest <= delta {
            decimal += left;
            approach(&mut digits[..n], delta, rest, power << fraction_bits, distance);
            return (digits, n, decimal);
        }
        power /= 10;
    }
    loop {
        fraction = fraction.wrapping_mul(10);
        delta = delta.wrapping_mul(10);
        distance = distance.wrapping_mul(10);
        decimal -= 1;
        let digit = fraction >> fraction_bits;
        if (digit != 0 || n != 0) && n < digits.len() {
            digits[n] = b'0' + digit as u8;
            n += 1;
        }
        fraction &= one - 1;
        if fraction < delta {
            approach(&mut digits[..n], delta, fraction, one, distance);
            return (digits, n, decimal);
        }
    }
}

/// Lowers the last digit while that comes closer to the value, which lies `distance` below the upper bound.
fn approach(digits: &mut [u8], delta: u64, mut rest: u64, unit: u64, distance: u64) {
    let Some(last) = digits.last_mut() else { return };
    while rest < distance
        && delta - rest >= unit
        && (rest + unit < distance || distance - rest > rest + unit - distance)
    {
        *last -= 1;
        rest += unit;
    }
}
