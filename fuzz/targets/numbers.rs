//! Numbers: what is written reads back, and what is read is what the standard library reads.
#![no_main]

use barium_fuzz::input::Input;
use barium_kvstore::number::double::{F64_CHARS, double_to_i64, format_f64, format_g17, parse_bound, parse_f64};
use barium_kvstore::number::long_double::LongDouble;
use barium_kvstore::number::{I64_CHARS, format_i64, format_u64, parse_i64, parse_u64};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let (a, b) = (input.u64(), input.f64());
    let text = input.0;
    assert_eq!(parse_i64(format_i64(&mut [0; I64_CHARS], a as i64)), Some(a as i64));
    assert_eq!(parse_u64(format_u64(&mut [0; I64_CHARS], a)), Some(a));
    if let Some(value) = parse_i64(text) {
        assert_eq!(format_i64(&mut [0; I64_CHARS], value), text, "only the plain form is a number");
    }
    for value in [b, a as i64 as f64, f64::from_bits(b.to_bits() & !0xffff_ffff)] {
        let mut buffer = [0; F64_CHARS];
        let short = format_f64(&mut buffer, value).to_vec();
        if !value.is_nan() {
            assert_eq!(parse_f64(&short).map(f64::to_bits), Some(value.to_bits()), "{}", short.escape_ascii());
            let long = format_g17(&mut buffer, value);
            assert_eq!(parse_f64(long).map(f64::to_bits), Some(value.to_bits()), "{}", long.escape_ascii());
        }
        if let Some(integer) = double_to_i64(value) {
            assert_eq!(integer as f64, value);
        }
        if let Some(wide) = LongDouble::from_f64(value) {
            let mut out = Vec::new();
            wide.format(&mut out);
            assert_eq!(wide.is_infinite(), value.is_infinite());
        }
    }
    let _ = parse_bound(text);
    if let Some(value) = parse_f64(text)
        && let Ok(plain) = std::str::from_utf8(text)
        && let Ok(expected) = plain.parse::<f64>()
    {
        assert_eq!(value.to_bits(), expected.to_bits());
    }
    if let Some(value) = LongDouble::parse(text) {
        let mut out = Vec::new();
        value.format(&mut out);
        let _ = value.seconds_to_ms();
        let sum = LongDouble::from_f64(b).and_then(|other| value.checked_add(other));
        if let Some(sum) = sum {
            sum.format(&mut out);
        }
    }
});
