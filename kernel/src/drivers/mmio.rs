//! A window of device registers, checked against its length.

use core::ptr::NonNull;

use crate::arch;

/// Mapped, uncached registers of a device.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: registers may be read and written from any CPU; what order makes sense is the driver's business.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

/// A register's width.
pub trait Word: Copy {}
impl Word for u8 {}
impl Word for u16 {}
impl Word for u32 {}

impl Window {
    /// Maps `len` bytes at a physical address. `None` when that cannot be mapped.
    pub fn map(physical: u64, len: usize) -> Option<Self> {
        Some(Self { base: arch::memory::map_mmio(physical, len)?, len })
    }

    /// Where a register lies, if it lies in the window and is aligned.
    pub fn register<T: Word>(&self, offset: usize) -> Option<NonNull<T>> {
        let inside = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.len);
        // SAFETY: the offset is within the mapping.
        let register = inside.then(|| unsafe { self.base.add(offset) }.cast::<T>())?;
        register.is_aligned().then_some(register)
    }

    /// Reads a register; `None` outside the window.
    pub fn read<T: Word>(&self, offset: usize) -> Option<T> {
        // SAFETY: the register is mapped and aligned, and any bits make a number.
        self.register::<T>(offset).map(|register| unsafe { register.read_volatile() })
    }

    /// Writes a register. Returns false, without writing, outside the window.
    pub fn write<T: Word>(&self, offset: usize, value: T) -> bool {
        let Some(register) = self.register::<T>(offset) else { return false };
        // SAFETY: the register is mapped and aligned.
        unsafe { register.write_volatile(value) };
        true
    }
}
