//! Integers and their decimal text, by Redis's rule for what counts as an integer.

/// Longest decimal text of an `i64`: sign and 19 digits.
pub const MAX_DECIMAL_LEN: usize = 20;

/// Parses `s` when it is the one canonical decimal text of an `i64` (no leading zeros or plus sign, no `-0`, nothing
/// around it): exactly the strings that can be stored as numbers and printed again without a difference.
pub fn parse_i64(s: &[u8]) -> Option<i64> {
    let (negative, digits) = match s.split_first()? {
        (b'-', rest) => (true, rest),
        _ => (false, s),
    };
    match digits.first()? {
        b'1'..=b'9' => {}
        b'0' if !negative && digits.len() == 1 => return Some(0),
        _ => return None,
    }
    if digits.len() > 19 {
        return None;
    }
    let mut value: u64 = 0;
    for &c in digits {
        let d = c.wrapping_sub(b'0');
        if d > 9 {
            return None;
        }
        // 19 digits always fit in 64 unsigned bits.
        value = value * 10 + u64::from(d);
    }
    if negative { (value <= 1 << 63).then(|| (value as i64).wrapping_neg()) } else { i64::try_from(value).ok() }
}

/// Writes `value` in decimal at the end of `buf` and returns the used part.
pub fn decimal(value: i64, buf: &mut [u8; MAX_DECIMAL_LEN]) -> &[u8] {
    let mut at = buf.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        buf[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        buf[at] = b'-';
    }
    &buf[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_texts_only() {
        for v in [0, 1, -1, 9, 10, -10, 127, 128, i64::MAX, i64::MIN, i64::MIN + 1] {
            let mut buf = [0; MAX_DECIMAL_LEN];
            assert_eq!(parse_i64(decimal(v, &mut buf)), Some(v));
        }
        for s in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "+1",
            " 1",
            "1 ",
            "1a",
            "9223372036854775808",
            "-9223372036854775809",
            "10000000000000000000",
            "99999999999999999999",
            "1.0",
        ] {
            assert_eq!(parse_i64(s.as_bytes()), None, "{s}");
        }
    }
}
