//! DEBUG POPULATE: many keys at once. They are made in steps between the turns of the event loop; the client waits.

use crate::commands::collection::NOT_POSITIVE;
use crate::core::Core;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::jobs::{self, Answer, Work};
use crate::keyspace::{Keyspace, NewStr};
use crate::number::{I64_CHARS, format_u64};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Keys that one step makes at most.
const KEYS_PER_STEP: u64 = 2_048;
/// Bytes of values that one step makes at most (but for a single value).
const BYTES_PER_STEP: usize = 1 << 20;

/// Keys that are still to be made.
#[derive(Debug)]
struct Populate {
    /// Database.
    db: usize,
    /// What their names begin with.
    prefix: Vec<u8>,
    /// Number of the next.
    next: u64,
    /// Number of them all.
    count: u64,
    /// Length of each value, in bytes; None: as it comes.
    size: Option<usize>,
}

/// POPULATE count \[prefix\] \[size\].
pub fn populate(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let count = ctx.count_or(2, NOT_POSITIVE)? as u64;
    let size = if ctx.argc() == 5 { ctx.count_or(4, NOT_POSITIVE)? } else { 0 };
    let prefix = if ctx.argc() > 3 { ctx.arg(3) } else { b"key" };
    let size = (size > 0).then_some(size);
    jobs::carry_out(ctx, Populate { db: ctx.keys.db, prefix: prefix.to_vec(), next: 0, count, size })
}

impl Work for Populate {
    /// Makes some keys; those that are there already stay as they are.
    fn step(&mut self, space: &mut Keyspace, core: &mut Core) -> Result<Option<Answer>, Error> {
        // Who adds keys has those go whose time has come.
        space.frozen = false;
        let mut keys = space.keys(self.db);
        let (mut name, mut value) = (Vec::new(), Vec::new());
        let (mut left, mut bytes) = (KEYS_PER_STEP, 0);
        while self.next < self.count && left > 0 && bytes < BYTES_PER_STEP {
            let mut digits = [0; I64_CHARS];
            let digits = format_u64(&mut digits, self.next);
            name.clear();
            name.try_reserve(self.prefix.len() + digits.len() + 1)?;
            name.extend_from_slice(&self.prefix);
            name.push(b':');
            name.extend_from_slice(digits);
            if !keys.exists(&name) {
                value.clear();
                value.extend_from_slice(b"value:");
                value.extend_from_slice(digits);
                if let Some(size) = self.size {
                    if !core.affordable(size) {
                        return Err(Error::OutOfMemory);
                    }
                    value.try_reserve(size.saturating_sub(value.len()))?;
                    value.resize(size, 0);
                }
                bytes += value.len();
                if value.len() < crate::reply::BY_REFERENCE {
                    keys.set_string(&name, NewStr::Bytes(&value), false)?;
                } else {
                    keys.set_string(&name, NewStr::Shared(&Arc::new(core::mem::take(&mut value))), false)?;
                }
                keys.modified(&name);
            }
            self.next += 1;
            left -= 1;
            if core.over_maxmemory() {
                return Err(Error::OutOfMemory);
            }
        }
        Ok((self.next == self.count).then_some(Answer::Ok))
    }
}
