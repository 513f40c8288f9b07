//! `barium-cell`: thin owning pointers, the only unsafe code outside `kernel/`.
//!
//! Safe Rust has no one-word pointer to a sized-at-run-time tail, and two-word ones cost eight bytes in every slot of
//! every hash table. Three owners live here, each one allocation behind one word, with a niche so that `Option` is free:
//! - [`Record`]: a key with its value (bytes, an integer, a small collection or a boxed object), access clock and optional
//!   deadline,
//! - [`ThinBytes`]: a byte string,
//! - [`ThinPair`]: two byte strings (a hash field and its value).
//!
//! Every constructor is fallible: how much memory is asked for is up to a client.
#![no_std]

extern crate alloc;

mod copy;
mod record;
mod thin;

pub use copy::copy_short;
pub use record::{FreshMark, MAX_LEN, Packed, Record, View, ViewMut};
pub use thin::{ThinBytes, ThinPair};

/// The allocator had no block of the wanted size. What was being changed is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

#[cfg(test)]
mod tests {
    extern crate std;

    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    std::thread_local! {
        static REFUSING: Cell<bool> = const { Cell::new(false) };
    }

    /// The system's allocator, but for threads that are to do without.
    struct Refusing;

    // SAFETY: everything that is not refused is the system allocator's.
    unsafe impl GlobalAlloc for Refusing {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if REFUSING.get() {
                return core::ptr::null_mut();
            }
            // SAFETY: as the caller promised.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
            // SAFETY: as the caller promised.
            unsafe { System.dealloc(ptr, layout) }
        }
    }

    #[global_allocator]
    static ALLOCATOR: Refusing = Refusing;

    /// Runs `f` in a thread to which the allocator gives nothing meanwhile.
    pub(crate) fn without_memory(f: impl FnOnce()) {
        REFUSING.set(true);
        f();
        REFUSING.set(false);
    }
}
