//! The size classes: what an allocation really takes.
//!
//! Steps of 8 bytes up to 128, then eight steps to each doubling (at most 12.5 % apart) up to 32 KiB; above that, whole
//! frames. Memory per key depends on these numbers, so they are part of the crate's promise.

/// Bytes of a frame.
pub const FRAME: usize = 4096;

/// log2 of [`FRAME`].
pub const FRAME_SHIFT: u32 = 12;

/// Largest size that comes from a slab; more comes as a run of frames.
pub const MAX_SLAB: usize = 32 * 1024;

/// Largest size that the per-CPU lists keep. Larger objects cost far more to fill than the lock does, and would make
/// the lists hold a lot of memory.
pub const MAX_CACHED: usize = 2048;

/// Number of size classes.
pub const CLASSES: usize = 80;

/// Number of size classes that the per-CPU lists keep: those up to [`MAX_CACHED`].
pub const CACHED: usize = class_above_128(MAX_CACHED) + 1;

const fn class_above_128(size: usize) -> usize {
    let log = (size - 1).ilog2();
    let step = log - 3;
    16 + (log as usize - 7) * 8 + ((size - 1) >> step & 7)
}

const fn compute_class(size: usize) -> usize {
    if size <= 8 {
        0
    } else if size <= 128 {
        (size - 1) / 8
    } else {
        class_above_128(size)
    }
}

const fn compute_size(class: usize) -> usize {
    if class < 16 {
        (class + 1) * 8
    } else {
        let doubling = (class - 16) / 8;
        let sub = (class - 16) % 8;
        (128 << doubling) + (sub + 1) * (16 << doubling)
    }
}

/// Object size of each class, in bytes.
pub static SIZES: [u32; CLASSES] = {
    let mut sizes = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        sizes[class] = compute_size(class) as u32;
        class += 1;
    }
    sizes
};

/// Class of each size up to [`MAX_CACHED`], in units of 8 bytes, rounded up.
static SMALL: [u8; MAX_CACHED / 8 + 1] = {
    let mut table = [0; MAX_CACHED / 8 + 1];
    let mut i = 0;
    while i <= MAX_CACHED / 8 {
        table[i] = compute_class(i * 8) as u8;
        i += 1;
    }
    table
};

/// Class of a size of at most [`MAX_CACHED`].
#[inline(always)]
pub fn small_class(size: usize) -> usize {
    SMALL[(size + 7) >> 3] as usize
}

/// Class of a size of at most [`MAX_SLAB`].
#[inline]
pub fn class_of(size: usize) -> usize {
    if size <= MAX_CACHED { small_class(size) } else { class_above_128(size) }
}

/// Frames of one slab of each class: the fewest that waste at most 1/64, so that a slab finds room among scattered frames
/// too and is soon empty when its objects are freed.
pub static SLAB_FRAMES: [u8; CLASSES] = {
    let mut frames = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        frames[class] = slab_frames(compute_size(class));
        class += 1;
    }
    frames
};

const fn slab_frames(size: usize) -> u8 {
    let mut n = 1;
    loop {
        let bytes = n * FRAME;
        let objects = bytes / size;
        if objects > 0 && bytes - objects * size <= bytes / 64 {
            return n as u8;
        }
        n += 1;
    }
}

/// Objects that move between a per-CPU list and the slabs at once.
pub static BATCH: [u8; CACHED] = {
    let mut batch = [0; CACHED];
    let mut class = 0;
    while class < CACHED {
        let by_bytes = 2048 / compute_size(class);
        batch[class] = if by_bytes > 32 {
            32
        } else if by_bytes < 2 {
            2
        } else {
            by_bytes as u8
        };
        class += 1;
    }
    batch
};

/// Bytes that an allocation of `size` bytes at alignment `align` really takes.
#[inline]
pub fn allocated_size(size: usize, align: usize) -> usize {
    let size = padded(size, align);
    if size <= MAX_SLAB && align <= FRAME { SIZES[class_of(size)] as usize } else { size.next_multiple_of(FRAME) }
}

/// `size` as a multiple of `align`. Objects of a slab lie at multiples of the class size from a frame's start, and the
/// class of a multiple of `align` is itself a multiple of it, so padding is all that alignment takes.
#[inline(always)]
pub fn padded(size: usize, align: usize) -> usize {
    (size + (align - 1)) & !(align - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_monotonic_and_fit() {
        let mut last = 0;
        for size in 1..=MAX_SLAB {
            let class = class_of(size);
            assert!(class == last || class == last + 1, "size {size}");
            last = class;
            let given = SIZES[class] as usize;
            assert!(given >= size);
            assert!(size <= 8 || given - size < 8 || (given - size) * 8 <= given, "{size} -> {given}");
        }
        assert_eq!(last, CLASSES - 1);
        assert_eq!(SIZES[CLASSES - 1] as usize, MAX_SLAB);
        assert_eq!(SIZES[CACHED - 1] as usize, MAX_CACHED);
    }

    #[test]
    fn aligned_sizes_have_aligned_classes() {
        for shift in 0..=12 {
            let align = 1 << shift;
            for size in 1..=MAX_SLAB {
                let given = allocated_size(size, align);
                assert_eq!(given % align, 0, "{size} at {align}");
                assert!(given >= size);
            }
        }
    }

    #[test]
    fn slabs_waste_little() {
        for (&frames, &size) in SLAB_FRAMES.iter().zip(&SIZES) {
            let (bytes, size) = (usize::from(frames) * FRAME, size as usize);
            assert!(bytes % size <= bytes / 64);
            assert!(bytes <= 128 * 1024, "class {size}: {bytes}");
        }
    }
}
