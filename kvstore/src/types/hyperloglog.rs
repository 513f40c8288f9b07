//! HyperLogLog: how many different elements were added, within 0.81 %, in at most 12 KiB.
//!
//! A value is a string in Redis's own format, which clients may GET and SET: a header of 16 bytes (magic, encoding, cached
//! cardinality) and 16,384 registers of 6 bits. Dense registers are packed from the lowest bit on; sparse ones are runs:
//! `00xxxxxx` is x + 1 zeros, `01xxxxxx yyyyyyyy` is xy + 1 zeros, `1vvvvvll` is l + 1 registers of v + 1.
//!
//! The estimate is Otmar Ertl's ("New cardinality estimation algorithms for HyperLogLog sketches", arXiv:1702.01284).

use alloc::vec::Vec;

use crate::error::Error;

/// Number of registers.
pub const REGISTERS: usize = 1 << INDEX_BITS;
/// Size of a dense value, in bytes.
pub const DENSE_LEN: usize = HEADER_LEN + REGISTERS * REGISTER_BITS / 8;

const INDEX_BITS: u32 = 14;
const REGISTER_BITS: usize = 6;
/// Bits of the hash in which the first one is looked for.
const RUN_BITS: u32 = 64 - INDEX_BITS;
const HEADER_LEN: usize = 16;
const ENCODING_AT: usize = 4;
const CARDINALITY_AT: usize = 8;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// In the cached cardinality's last byte: it is out of date.
const STALE: u8 = 0x80;
/// Largest value and longest run of a sparse register.
const VALUE_MAX: u8 = 32;
const VALUE_RUN_MAX: usize = 4;
/// Longest run of zeros in one byte.
const ZERO_RUN_MAX: usize = 64;
/// Seed of the hash.
const SEED: u64 = 0xadc8_3b19;

/// What Redis says of a string that is no HyperLogLog at all.
pub const NOT_ONE: Error = Error::Fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");
/// What it says of one whose sparse registers are not the right number.
pub const CORRUPT: Error = Error::Fixed("INVALIDOBJ Corrupted HLL object detected");

/// Values of all registers, one in each byte: zeros, to merge values into.
pub fn registers() -> Result<Vec<u8>, Error> {
    let mut registers = Vec::new();
    registers.try_reserve_exact(REGISTERS)?;
    registers.resize(REGISTERS, 0);
    Ok(registers)
}

/// An empty value: sparse.
pub fn empty() -> Vec<u8> {
    let mut value = Vec::with_capacity(HEADER_LEN + 5);
    value.extend_from_slice(b"HYLL");
    value.resize(HEADER_LEN, 0);
    value[ENCODING_AT] = SPARSE;
    push_zeros(&mut value, REGISTERS);
    value
}

/// Checks that a string looks like a HyperLogLog, as far as Redis does.
pub fn check(value: &[u8]) -> Result<(), Error> {
    let magic = value.len() >= HEADER_LEN && value.starts_with(b"HYLL") && value[ENCODING_AT] <= SPARSE;
    if magic && (value[ENCODING_AT] == SPARSE || value.len() == DENSE_LEN) { Ok(()) } else { Err(NOT_ONE) }
}

/// Whether a checked value is dense.
pub fn is_dense(value: &[u8]) -> bool {
    value.get(ENCODING_AT) == Some(&DENSE)
}

/// MurmurHash64A (Austin Appleby, 2008) of an element.
pub fn hash(element: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = SEED ^ (element.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, tail) = element.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> SHIFT)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> SHIFT)
}

/// An element's register and the value that it asks for: the position of the first one in the rest of its hash.
fn place(element: &[u8]) -> (usize, u8) {
    let hash = hash(element);
    let run = (hash >> INDEX_BITS) | 1 << RUN_BITS;
    (hash as usize % REGISTERS, run.trailing_zeros() as u8 + 1)
}

/// Adds an element to a checked dense value; whether a register changed.
pub fn add_dense(value: &mut [u8], element: &[u8]) -> bool {
    let (index, count) = place(element);
    raise_dense(value, index, count)
}

/// Adds an element to a checked value, which becomes dense beyond `sparse_max` bytes; whether a register changed.
pub fn add(value: &mut Vec<u8>, element: &[u8], sparse_max: usize) -> Result<bool, Error> {
    let (index, count) = place(element);
    raise(value, index, count, sparse_max)
}

/// Raises a register of a checked value to at least `count`; whether it changed.
pub fn raise(value: &mut Vec<u8>, index: usize, count: u8, sparse_max: usize) -> Result<bool, Error> {
    if is_dense(value) { Ok(raise_dense(value, index, count)) } else { raise_sparse(value, index, count, sparse_max) }
}

/// Value of a register of a dense value.
pub fn dense_register(value: &[u8], index: usize) -> u8 {
    let (at, shift) = (HEADER_LEN + index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
    // The last register ends with the last byte.
    let pair = u16::from(byte(value, at)) | u16::from(byte(value, at + 1)) << 8;
    (pair >> shift) as u8 & 63
}

fn byte(value: &[u8], at: usize) -> u8 {
    value.get(at).copied().unwrap_or(0)
}

/// Sets a register of a dense value.
pub fn set_dense_register(value: &mut [u8], index: usize, count: u8) {
    let (at, shift) = (HEADER_LEN + index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
    let (mask, bits) = (63u16 << shift, u16::from(count) << shift);
    for (i, (mask, bits)) in mask.to_le_bytes().into_iter().zip(bits.to_le_bytes()).enumerate() {
        if let Some(byte) = value.get_mut(at + i) {
            *byte = *byte & !mask | bits;
        }
    }
}

fn raise_dense(value: &mut [u8], index: usize, count: u8) -> bool {
    let raised = count > dense_register(value, index);
    if raised {
        set_dense_register(value, index, count);
    }
    raised
}

/// A run of a sparse value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Value of the registers.
    pub value: u8,
    /// How many.
    pub len: usize,
    /// Bytes of the run's code.
    bytes: usize,
}

impl Run {
    /// Whether it has the form for long runs of zeros.
    pub const fn is_long(&self) -> bool {
        self.bytes == 2
    }
}

/// The runs of a sparse value.
pub fn runs(value: &[u8]) -> impl Iterator<Item = Run> {
    let mut at = HEADER_LEN;
    core::iter::from_fn(move || {
        let run = run_at(value, at)?;
        at += run.bytes;
        Some(run)
    })
}

fn run_at(value: &[u8], at: usize) -> Option<Run> {
    let code = *value.get(at)?;
    let low = usize::from(code & 0x3f);
    Some(match code >> 6 {
        0 => Run { value: 0, len: low + 1, bytes: 1 },
        // Redis reads the zero behind the string where the second byte is missing.
        1 => Run { value: 0, len: (low << 8 | usize::from(byte(value, at + 1))) + 1, bytes: 2 },
        _ => Run { value: (code >> 2 & 0x1f) + 1, len: usize::from(code & 3) + 1, bytes: 1 },
    })
}

/// The runs, with the first register of each. Errs where they are not for all registers and no more.
fn for_each_run(value: &[u8], mut each: impl FnMut(usize, Run)) -> Result<(), Error> {
    let mut index = 0;
    for run in runs(value) {
        if index + run.len > REGISTERS {
            return Err(CORRUPT);
        }
        each(index, run);
        index += run.len;
    }
    if index == REGISTERS { Ok(()) } else { Err(CORRUPT) }
}

/// Makes a checked value dense.
pub fn make_dense(value: &mut Vec<u8>) -> Result<(), Error> {
    if is_dense(value) {
        return Ok(());
    }
    let mut dense = Vec::new();
    dense.try_reserve_exact(DENSE_LEN)?;
    dense.extend_from_slice(&value[..HEADER_LEN]);
    dense.resize(DENSE_LEN, 0);
    dense[ENCODING_AT] = DENSE;
    for_each_run(value, |first, run| {
        if run.value != 0 {
            (first..first + run.len).for_each(|i| set_dense_register(&mut dense, i, run.value));
        }
    })?;
    *value = dense;
    Ok(())
}

const fn value_code(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

fn push_zeros(to: &mut Vec<u8>, len: usize) {
    if len > ZERO_RUN_MAX {
        to.extend_from_slice(&[0x40 | ((len - 1) >> 8) as u8, (len - 1) as u8]);
    } else if len > 0 {
        to.push((len - 1) as u8);
    }
}

/// Raises a register of a sparse value. What the value becomes is the same, byte for byte, as in Redis.
fn raise_sparse(value: &mut Vec<u8>, index: usize, count: u8, sparse_max: usize) -> Result<bool, Error> {
    if count > VALUE_MAX {
        make_dense(value)?;
        return Ok(raise_dense(value, index, count));
    }
    // The run of the register, and the one before it.
    let (mut at, mut first, mut previous) = (HEADER_LEN, 0, HEADER_LEN);
    let run = loop {
        let run = run_at(value, at).ok_or(CORRUPT)?;
        if index < first + run.len {
            break run;
        }
        (previous, at, first) = (at, at + run.bytes, first + run.len);
    };
    if run.value >= count {
        return Ok(false);
    }
    if at + run.bytes > value.len() {
        return Err(CORRUPT);
    }
    if run.len == 1 && run.bytes == 1 {
        value[at] = value_code(count, 1);
    } else {
        let (before, after) = (index - first, first + run.len - 1 - index);
        let mut codes = Vec::with_capacity(5);
        let rest = |codes: &mut Vec<u8>, len: usize| match (run.value, len) {
            (_, 0) => {}
            (0, len) => push_zeros(codes, len),
            (old, len) => codes.push(value_code(old, len)),
        };
        rest(&mut codes, before);
        codes.push(value_code(count, 1));
        rest(&mut codes, after);
        if codes.len() > run.bytes && value.len() + codes.len() - run.bytes > sparse_max {
            make_dense(value)?;
            return Ok(raise_dense(value, index, count));
        }
        value.try_reserve(codes.len())?;
        value.splice(at..at + run.bytes, codes);
    }
    join_values(value, previous);
    invalidate(value);
    Ok(true)
}

/// Joins neighbours of one value in the next few runs.
fn join_values(value: &mut Vec<u8>, mut at: usize) {
    for _ in 0..5 {
        let Some(run) = run_at(value, at) else { return };
        if run.value != 0
            && let Some(next) = run_at(value, at + 1)
            && next.value == run.value
            && run.len + next.len <= VALUE_RUN_MAX
        {
            value[at] = value_code(run.value, run.len + next.len);
            value.remove(at + 1);
            continue;
        }
        at += run.bytes;
    }
}

/// Marks the cached cardinality of a checked value as out of date.
pub fn invalidate(value: &mut [u8]) {
    if let Some(byte) = value.get_mut(HEADER_LEN - 1) {
        *byte |= STALE;
    }
}

/// The cached cardinality of a checked value, if it is not out of date.
pub fn cached(value: &[u8]) -> Option<u64> {
    let cached = u64::from_le_bytes(*value.get(CARDINALITY_AT..)?.first_chunk()?);
    (cached >> 63 == 0).then_some(cached)
}

/// Notes the cardinality in a checked value.
pub fn cache(value: &mut [u8], cardinality: u64) {
    if let Some(place) = value.get_mut(CARDINALITY_AT..HEADER_LEN) {
        place.copy_from_slice(&cardinality.to_le_bytes());
    }
}

/// Raises [`registers`] to those of a checked value.
pub fn merge(registers: &mut [u8], value: &[u8]) -> Result<(), Error> {
    if is_dense(value) {
        for (i, register) in registers.iter_mut().enumerate() {
            *register = (*register).max(dense_register(value, i));
        }
        return Ok(());
    }
    for_each_run(value, |first, run| {
        if run.value != 0 {
            registers[first..first + run.len].iter_mut().for_each(|r| *r = (*r).max(run.value));
        }
    })
}

/// How many registers have each value.
type Histogram = [u32; 64];

/// Cardinality of a checked value.
pub fn count(value: &[u8]) -> Result<u64, Error> {
    let mut histogram = [0; 64];
    if is_dense(value) {
        (0..REGISTERS).for_each(|i| histogram[usize::from(dense_register(value, i))] += 1);
    } else {
        for_each_run(value, |_, run| histogram[usize::from(run.value)] += run.len as u32)?;
    }
    Ok(estimate(&histogram))
}

/// Cardinality of merged [`registers`].
pub fn count_registers(registers: &[u8]) -> u64 {
    let mut histogram = [0; 64];
    registers.iter().for_each(|r| histogram[usize::from(*r & 63)] += 1);
    estimate(&histogram)
}

fn estimate(histogram: &Histogram) -> u64 {
    /// 0.5 / ln 2
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    const M: f64 = REGISTERS as f64;
    let mut z = M * tau((M - f64::from(histogram[RUN_BITS as usize + 1])) / M);
    for &registers in histogram[1..=RUN_BITS as usize].iter().rev() {
        z = (z + f64::from(registers)) * 0.5;
    }
    z += M * sigma(f64::from(histogram[0]) / M);
    let estimate = libm::round(ALPHA * M * M / z);
    // Crafted registers can make it infinite: what C's conversion gives then.
    if estimate < 9.2e18 { estimate as u64 } else { 1 << 63 }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let previous = z;
        z += x * y;
        y += y;
        if previous == z {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = libm::sqrt(x);
        let previous = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if previous == z {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn dense_registers_keep_their_neighbours() {
        let mut value = empty();
        make_dense(&mut value).unwrap();
        assert_eq!(value.len(), DENSE_LEN);
        for i in 0..REGISTERS {
            set_dense_register(&mut value, i, (i * 7 % 64) as u8);
        }
        assert!((0..REGISTERS).all(|i| dense_register(&value, i) == (i * 7 % 64) as u8));
    }

    #[test]
    fn both_encodings_count_the_same_within_the_error() {
        let (mut sparse, mut dense) = (empty(), empty());
        make_dense(&mut dense).unwrap();
        for i in 1..=5_000u32 {
            let element = format!("element {i}");
            let a = add(&mut sparse, element.as_bytes(), usize::MAX).unwrap();
            assert_eq!(a, add_dense(&mut dense, element.as_bytes()));
            if i.is_power_of_two() || i == 5_000 {
                let n = count(&sparse).unwrap();
                assert_eq!(n, count(&dense).unwrap());
                assert!(n.abs_diff(u64::from(i)) <= u64::from(i / 20 + 1), "{n} for {i}");
            }
        }
        assert!(!is_dense(&sparse));
        let mut registers = registers().unwrap();
        merge(&mut registers, &sparse).unwrap();
        assert_eq!(count_registers(&registers), count(&dense).unwrap());
        make_dense(&mut sparse).unwrap();
        assert_eq!(sparse[HEADER_LEN..], dense[HEADER_LEN..]);
    }

    #[test]
    fn a_value_becomes_dense_beyond_the_limit() {
        let mut value = empty();
        let mut i = 0;
        while !is_dense(&value) {
            assert!(value.len() <= 100);
            add(&mut value, format!("{i}").as_bytes(), 100).unwrap();
            i += 1;
        }
        assert!(i > 20);
    }

    #[test]
    fn runs_that_do_not_fit_are_found() {
        let mut short = empty();
        short.truncate(HEADER_LEN);
        assert_eq!(add(&mut short, b"a", 3_000), Err(CORRUPT));
        let mut long = empty();
        long.push(0);
        assert_eq!(count(&long), Err(CORRUPT));
        assert_eq!(make_dense(&mut long), Err(CORRUPT));
        assert_eq!(check(b"HYLL"), Err(NOT_ONE));
    }
}
