//! PFSELFTEST: whether registers hold what they are set to, and estimates err no more than they may. In steps, for it takes
//! long.

use crate::core::Core;
use crate::error::Error;
use crate::error_text;
use crate::jobs::{Answer, Work};
use crate::keyspace::Keyspace;
use crate::random::Rng;
use crate::types::hyperloglog::{self as hll, REGISTERS};
use alloc::vec::Vec;

/// Rounds of the test of registers.
const ROUNDS: u32 = 4;
/// Cardinalities up to which the estimate is tested.
const CARDINALITY: u64 = 100_000;
/// Registers, or elements, of one step.
const STEP: usize = 2_048;

/// How far the test has come.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Registers are set: round, the next register.
    Set(u32, usize),
    /// They are read.
    Check(u32, usize),
    /// Elements are added: the next one.
    Add(u64),
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct SelfTest {
    /// Always dense.
    dense: Vec<u8>,
    /// Sparse at first.
    either: Vec<u8>,
    sparse_max: usize,
    /// What registers and elements are made from.
    seed: u64,
    stage: Stage,
    /// The number of elements after which the estimate is looked at next.
    checkpoint: u64,
}

impl SelfTest {
    pub(super) fn new(rng: &mut Rng, sparse_max: usize) -> Result<Self, Error> {
        let (mut dense, either) = (hll::empty(), hll::empty());
        hll::make_dense(&mut dense)?;
        Ok(Self { dense, either, sparse_max, seed: rng.next_u64(), stage: Stage::Set(0, 0), checkpoint: 1 })
    }

    /// What a register is set to.
    fn expected(&self, register: usize) -> u8 {
        (hll::hash(&(self.seed ^ register as u64).to_le_bytes()) & 63) as u8
    }

    fn set(&mut self, registers: core::ops::Range<usize>) {
        for i in registers {
            let value = self.expected(i);
            hll::set_dense_register(&mut self.dense, i, value);
        }
    }

    fn check(&self, registers: core::ops::Range<usize>) -> Result<(), Error> {
        for i in registers {
            let (expected, found) = (self.expected(i), hll::dense_register(&self.dense, i));
            if found != expected {
                return Err(error_text!("ERR TESTFAILED Register {i} should be {expected} but is {found}"));
            }
        }
        Ok(())
    }

    /// Adds the n-th element; looks at the estimates after one, ten, a hundred and so on.
    fn add(&mut self, n: u64) -> Result<(), Error> {
        let element = (n ^ self.seed).to_le_bytes();
        hll::add_dense(&mut self.dense, &element);
        hll::add(&mut self.either, &element, self.sparse_max)?;
        if n != self.checkpoint {
            return Ok(());
        }
        self.checkpoint *= 10;
        if n < self.sparse_max as u64 / 2 && hll::is_dense(&self.either) {
            return Err(Error::Fixed("ERR TESTFAILED sparse encoding not used"));
        }
        let counted = hll::count(&self.dense)?;
        if counted != hll::count(&self.either)? {
            return Err(Error::Fixed("ERR TESTFAILED dense/sparse disagree"));
        }
        // Six times the standard error, 1.04 / sqrt(16,384). Of ten elements two may well share a register.
        let tolerated = if n == 10 { 1 } else { (6 * 104 * n).div_ceil(100 * 128) };
        let error = counted.abs_diff(n);
        if error > tolerated {
            return Err(error_text!("ERR TESTFAILED Too big error. card:{n} abserr:{error}"));
        }
        Ok(())
    }
}

impl Work for SelfTest {
    fn step(&mut self, _: &mut Keyspace, core: &mut Core) -> Result<Option<Answer>, Error> {
        self.stage = match self.stage {
            Stage::Set(round, from) => {
                let to = REGISTERS.min(from + STEP);
                self.set(from..to);
                if to < REGISTERS { Stage::Set(round, to) } else { Stage::Check(round, 0) }
            }
            Stage::Check(round, from) => {
                let to = REGISTERS.min(from + STEP);
                self.check(from..to)?;
                match round + 1 {
                    _ if to < REGISTERS => Stage::Check(round, to),
                    ROUNDS => {
                        self.dense = hll::empty();
                        hll::make_dense(&mut self.dense)?;
                        Stage::Add(1)
                    }
                    next => {
                        self.seed = core.rng.next_u64();
                        Stage::Set(next, 0)
                    }
                }
            }
            Stage::Add(from) => {
                let to = CARDINALITY.min(from + STEP as u64);
                (from..to).try_for_each(|n| self.add(n))?;
                if to == CARDINALITY {
                    self.add(to)?;
                    return Ok(Some(Answer::Ok));
                }
                Stage::Add(to)
            }
        };
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn takes_bounded_steps_and_serves_others_meanwhile() {
        let mut b = Bench::new(&[]);
        let (c, other) = (b.client(), b.client());
        assert_eq!(b.run(c, "PFSELFTEST"), "");
        for step in 0..200 {
            assert_eq!(b.run(other, "PING"), "PONG");
            b.server().tick();
            let reply = b.read(c);
            if !reply.is_empty() {
                assert_eq!(reply, "OK");
                assert!(step > 50, "{step} steps");
                b.run(c, "MULTI");
                b.run(c, "PFSELFTEST");
                assert_eq!(b.run(c, "EXEC"), "[OK]");
                return;
            }
        }
        panic!("it does not end");
    }
}
