//! Random numbers: what the hardware gives, and how its clocks jitter, seed a ChaCha generator.
//!
//! Every CPU's requests go through one generator behind a lock: randomness is needed for seeds, sequence numbers and
//! passwords, not on the path of a request.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use spin::Mutex;

use crate::arch;

/// Cycle counter readings mixed into a seed when the hardware gives no random numbers. Each reading follows work of
/// varying length, so that it differs from the one before by more than a constant.
const JITTER_ROUNDS: usize = 512;

/// Words of hardware randomness in a seed.
const SEED_WORDS: usize = 4;

/// Requests answered with one seed: then fresh hardware randomness, or jitter, is mixed in.
const RESEED_AFTER: u32 = 1 << 16;

struct Pool {
    rng: ChaCha20Rng,
    left: u32,
}

static POOL: Mutex<Option<Pool>> = Mutex::new(None);

/// Fills `out` with random bytes.
pub fn fill(out: &mut [u8]) {
    let mut pool = POOL.lock();
    let old = match pool.take() {
        Some(pool) if pool.left > 0 => Some(pool),
        // The old generator's output goes into the new seed, so that reseeding cannot lose entropy.
        Some(mut spent) => Some(Pool { rng: seeded(spent.rng.next_u64()), left: RESEED_AFTER }),
        None => None,
    };
    let mut current = old.unwrap_or_else(|| Pool { rng: seeded(0), left: RESEED_AFTER });
    current.left -= 1;
    current.rng.fill_bytes(out);
    *pool = Some(current);
}

/// A random number.
pub fn u64() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// A generator with a new seed, into which `more` goes too.
fn seeded(more: u64) -> ChaCha20Rng {
    let mut seed = [0; 32];
    let mut hardware = 0;
    for word in seed.chunks_exact_mut(8).take(SEED_WORDS) {
        if let Some(random) = arch::entropy::hardware() {
            word.copy_from_slice(&random.to_le_bytes());
            hardware += 1;
        }
    }
    let mut state = more ^ arch::time::now_ns();
    let rounds = if hardware == SEED_WORDS { 1 } else { JITTER_ROUNDS };
    for round in 0..rounds {
        // A step of SplitMix64 spreads each reading's few uncertain bits over the word.
        state = mix(state ^ arch::entropy::jitter());
        let byte = &mut seed[round % 32];
        *byte ^= state as u8;
        // Work whose length depends on what was read: cache, pipeline and translation make its time vary.
        for _ in 0..state >> 59 {
            state = core::hint::black_box(mix(state));
        }
    }
    for (byte, last) in seed.iter_mut().zip(state.to_le_bytes()) {
        *byte ^= last;
    }
    ChaCha20Rng::from_seed(seed)
}

const fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
