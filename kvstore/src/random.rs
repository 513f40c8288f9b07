//! Random numbers that are a function of the seed alone, so that a run can be repeated. Not for secrets.

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that yields the same numbers for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Forty hexadecimal digits, as ids of runs and of replication have them.
    pub fn hex_id(&mut self) -> [u8; 40] {
        core::array::from_fn(|_| b"0123456789abcdef"[self.below(16)])
    }

    /// A number below `n`, or 0 if `n` is 0. Unbiased but for less than 2^-32 at sizes below 2^32.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }
}
