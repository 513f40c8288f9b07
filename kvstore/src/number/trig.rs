//! Sine, cosine and arc sine, rounded correctly but for about one result in a thousand: as C's library gives them, so that
//! distances on the globe are the same to the last bit on whatever machine Barium runs. (Those of the `libm` crate differ
//! from glibc's in three to six of a hundred.)
//!
//! Values are carried as unevaluated sums of two doubles where that decides the rounding (Dekker 1971). Sine and cosine
//! reduce their argument to the nearest multiple of pi/64, whose sine and cosine are in a table (Gal's method without his
//! search for lucky arguments, for the table's entries have two parts).

use core::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_2};

/// An unevaluated sum; the second part is at most half a unit in the last place of the first.
type Pair = (f64, f64);

/// pi/64 in three parts: products of the first two with a small integer are exact.
const STEP: [f64; 3] = [0.049087385210441425, 1.8990939082199894e-12, 6.319582027487346e-23];
const STEPS_PER_UNIT: f64 = 20.371832715762604;
/// What pi/2 has beyond a double.
const FRAC_PI_2_LOW: f64 = 6.123233995736766e-17;
/// Largest argument that is reduced with full precision.
const MAX_ARGUMENT: f64 = 8.0;

/// Sines of 0, pi/64 ... pi/2.
const SINES: [Pair; 33] = [
    (0.0, 0.0),
    (0.049067674327418015, -6.79610372051828e-19),
    (0.0980171403295606, -1.634582362244256e-18),
    (0.14673047445536175, 3.726947147046568e-18),
    (0.19509032201612828, -7.991079068461731e-18),
    (0.2429801799032639, -8.751431529719663e-18),
    (0.2902846772544624, -1.892797870777425e-17),
    (0.33688985339222005, -4.200094003347509e-19),
    (0.3826834323650898, -1.0050772696461588e-17),
    (0.4275550934302821, 9.411189816295473e-18),
    (0.47139673682599764, 6.516678136069013e-18),
    (0.5141027441932218, -4.5712707523615624e-17),
    (0.5555702330196022, 4.709410940561677e-17),
    (0.5956993044924334, -1.3438641936579467e-17),
    (0.6343932841636455, 1.0420901929280035e-17),
    (0.6715589548470184, -4.048903774929669e-17),
    (FRAC_1_SQRT_2, -4.833646656726457e-17),
    (0.7409511253549591, -1.4708616952297345e-17),
    (0.773010453362737, -3.256590703364977e-17),
    (0.8032075314806449, -3.306060980481491e-17),
    (0.8314696123025452, 1.4073856984728024e-18),
    (0.8577286100002721, -4.818344793633662e-17),
    (0.881921264348355, -1.9843248405890562e-17),
    (0.9039892931234433, -6.609754468748431e-18),
    (0.9238795325112867, 1.7645047084336677e-17),
    (0.9415440651830208, -2.789637954769834e-17),
    (0.9569403357322088, 4.05538698618757e-17),
    (0.970031253194544, 1.8365300348428844e-17),
    (0.9807852804032304, 1.8546939997825006e-17),
    (0.989176509964781, -4.098730993704711e-17),
    (0.9951847266721969, -4.248691367830441e-17),
    (0.9987954562051724, -1.2291693337075465e-17),
    (1.0, 0.0),
];

/// The sum, exactly.
const fn two_sum(a: f64, b: f64) -> Pair {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// The product, exactly, for numbers that are neither huge nor tiny.
const fn two_product(a: f64, b: f64) -> Pair {
    /// 2^27 + 1: splits a double into halves.
    const SPLIT: f64 = 134_217_729.0;
    let (ca, cb) = (SPLIT * a, SPLIT * b);
    let (ah, bh) = (ca - (ca - a), cb - (cb - b));
    let (al, bl) = (a - ah, b - bh);
    let product = a * b;
    (product, ((ah * bh - product) + ah * bl + al * bh) + al * bl)
}

/// Sine of k * pi/64.
const fn table_sine(k: i64) -> Pair {
    let k = k & 127;
    let (sign, k) = if k >= 64 { (-1.0, k - 64) } else { (1.0, k) };
    let (high, low) = SINES[if k > 32 { 64 - k } else { k } as usize];
    (sign * high, sign * low)
}

/// Sine of `x` + `quarters` * pi/2, for `x` up to [`MAX_ARGUMENT`] in magnitude.
fn sine_pair(x: f64, quarters: i64) -> Pair {
    let n = libm::rint(x * STEPS_PER_UNIT);
    let k = n as i64 + 32 * quarters;
    let (r, r_low) = two_sum(x - n * STEP[0], -(n * STEP[1]));
    let r_low = r_low - n * STEP[2];

    let square = r * r;
    // Sine of the rest: r + sine_low.
    let sine_low = r_low * (1.0 - 0.5 * square)
        + r * square * (-1.0 / 6.0 + square * (1.0 / 120.0 + square * (-1.0 / 5_040.0 + square / 362_880.0)));
    // Its cosine less 1; 3e-4 at most.
    let cosine_less_1 =
        square * (-0.5 + square * (1.0 / 24.0 + square * (-1.0 / 720.0 + square / 40_320.0))) - r * r_low;

    let (sine, sine_rest) = table_sine(k);
    let (cosine, cosine_rest) = table_sine(k + 32);
    let (product, product_low) = two_product(cosine, r);
    let (high, low) = two_sum(sine, product);
    let small = sine_rest + product_low + cosine_rest * r + low;
    two_sum(high, small + (cosine * sine_low + sine * cosine_less_1))
}

/// Sine of an angle in radians.
pub fn sin(x: f64) -> f64 {
    // Below, the sine's difference from the angle is less than a unit in the last place.
    if (1e-8..=MAX_ARGUMENT).contains(&x.abs()) { sine_pair(x, 0).0 } else { libm::sin(x) }
}

/// Cosine of an angle in radians.
pub fn cos(x: f64) -> f64 {
    if x.abs() <= MAX_ARGUMENT { sine_pair(x, 1).0 } else { libm::cos(x) }
}

/// Arc sine, in radians.
pub fn asin(x: f64) -> f64 {
    let magnitude = x.abs();
    // Out of range, exact, not a number, or so small that the result is the argument.
    if !(1e-8..1.0).contains(&magnitude) {
        return libm::asin(x);
    }
    let result = if magnitude < 0.9 {
        let (high, low) = asin_pair((magnitude, 0.0));
        high + low
    } else {
        // asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)); the difference and the half are exact.
        let square = (1.0 - magnitude) / 2.0;
        let root = libm::sqrt(square);
        let (back, back_low) = two_product(root, root);
        let root_low = ((square - back) - back_low) / (2.0 * root);
        let (high, low) = asin_pair((root, root_low));
        let (sum, rest) = two_sum(FRAC_PI_2, -2.0 * high);
        sum + (rest + (FRAC_PI_2_LOW - 2.0 * low))
    };
    if x < 0.0 { -result } else { result }
}

/// Arc sine of a positive number below 0.9: one step of Newton's method from a rounded result.
fn asin_pair((x, x_low): Pair) -> Pair {
    let start = libm::asin(x);
    let (sine, sine_low) = sine_pair(start, 0);
    let (cosine, _) = sine_pair(start, 1);
    (start, ((x - sine) - sine_low + x_low) / cosine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::f64::consts::PI;

    #[test]
    fn special_values() {
        assert_eq!((sin(0.0), cos(0.0), asin(0.0)), (0.0, 1.0, 0.0));
        assert!(sin(-0.0).is_sign_negative());
        assert_eq!((sin(FRAC_PI_2), asin(1.0), asin(-1.0)), (1.0, FRAC_PI_2, -FRAC_PI_2));
        // What a double lacks to be pi.
        assert_eq!(sin(PI), 1.2246467991473532e-16);
        assert_eq!(cos(FRAC_PI_2), FRAC_PI_2_LOW);
        assert_eq!((sin(1e-300), asin(1e-300)), (1e-300, 1e-300));
        assert!(asin(1.1).is_nan() && sin(f64::INFINITY).is_nan() && cos(f64::NAN).is_nan());
        assert_eq!(cos(1e22), libm::cos(1e22));
    }

    #[test]
    fn rounded_correctly() {
        // By arithmetic with 60 digits.
        for (x, expected) in [
            (1.931372352463186, 0.9356937494206276),
            (2.465, 0.6261399193902852),
            (2.605, 0.511210502152723),
            (2.012, 0.9042383160074398),
            (0.351825284460094, 0.34461185770848524),
            (2.692312473923931, 0.4343172613463127),
            (1.686, 0.9933713928841915),
            (0.042, 0.04198765308904786),
            (1.266, 0.9539080944566608),
            (2.840754307234703, 0.29632100558163593),
        ] {
            assert_eq!(sin(x), expected, "sin({x})");
            assert_eq!(sin(-x), -expected, "sin(-{x})");
        }
        for (x, expected) in [
            (1.931372352463186, -0.3528132753953114),
            (2.465, -0.7797107164493298),
            (2.605, -0.8594555384013537),
            (2.012, -0.4270281815805949),
            (0.351825284460094, 0.9387452623191803),
            (2.692312473923931, -0.9007599660823291),
            (1.686, -0.11494901391191367),
            (0.042, 0.9991181296463766),
            (1.266, 0.3000988959161001),
            (2.840754307234703, -0.955088405149538),
        ] {
            assert_eq!(cos(x), expected, "cos({x})");
        }
        for (x, expected) in [
            (0.16, 0.1606906529519106),
            (0.139489883562105, 0.13994624316236556),
            (0.127, 0.1273438990977391),
            (0.971, 1.329378594092521),
            (0.21, 0.2115749597580956),
            (0.959, 1.283452383799738),
            (0.871662949905928, 1.0585851931251329),
            (0.9, 1.1197695149986342),
            (0.99999, 1.5663241871131188),
            (0.999999999, 1.5707516054359754),
        ] {
            assert_eq!(asin(x), expected, "asin({x})");
        }
    }
}
