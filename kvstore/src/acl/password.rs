//! Passwords: kept as SHA-256 hashes, compared in constant time, made up on request.

use crate::machine::Machine;
use alloc::vec::Vec;
use sha2::{Digest, Sha256};

/// A password's SHA-256, as 64 hexadecimal digits.
pub(super) type Hash = [u8; 64];

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The hash of a password.
pub(super) fn hash(password: &[u8]) -> Hash {
    let mut hex = [0; 64];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(Sha256::digest(password)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    hex
}

/// A hash as it was given, if it is one.
pub(super) fn parse_hash(text: &[u8]) -> Option<Hash> {
    let hash: Hash = text.try_into().ok()?;
    hash.iter().all(|b| DIGITS.contains(b)).then_some(hash)
}

/// Compares in a time that does not depend on where the two differ.
pub(super) fn same(a: &Hash, b: &Hash) -> bool {
    let differing = a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y));
    core::hint::black_box(differing) == 0
}

/// A password that nobody can guess: `digits` hexadecimal ones.
pub fn generate(machine: &dyn Machine, digits: usize) -> Vec<u8> {
    let mut text = alloc::vec![0; digits];
    machine.fill_random(&mut text);
    for byte in &mut text {
        *byte = DIGITS[usize::from(*byte & 15)];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_sha256_in_hexadecimal() {
        // FIPS 180-4, appendix: "abc".
        let abc = b"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(&hash(b"abc"), abc);
        assert!(same(&hash(b"abc"), abc) && !same(&hash(b"abd"), abc));
        assert_eq!(parse_hash(abc), Some(*abc));
        assert_eq!(parse_hash(&abc[1..]), None);
        assert_eq!(parse_hash(&abc.to_ascii_uppercase()), None);
    }
}
