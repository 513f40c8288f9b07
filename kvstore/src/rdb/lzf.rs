//! LZF decompression (the format of Marc Lehmann's LibLZF).

use alloc::vec::Vec;

use crate::error::Error;

/// Expands `input` to exactly `len` bytes. None if it is damaged.
///
/// # Errors
/// When there is no memory for the result.
pub fn decompress(input: &[u8], len: usize) -> Result<Option<Vec<u8>>, Error> {
    // No more than 264 bytes can come of three: a length beyond that is a lie that must not cost memory.
    if len / 264 > input.len() {
        return Ok(None);
    }
    let mut out = Vec::new();
    out.try_reserve_exact(len)?;
    Ok(expand(input, len, &mut out).map(|()| out))
}

fn expand(input: &[u8], len: usize, out: &mut Vec<u8>) -> Option<()> {
    let mut rest = input.iter();
    while let Some(&control) = rest.next() {
        let control = usize::from(control);
        if control < 32 {
            let literal = rest.as_slice().get(..control + 1)?;
            if out.len() + literal.len() > len {
                return None;
            }
            out.extend_from_slice(literal);
            rest = rest.as_slice()[control + 1..].iter();
        } else {
            let mut count = control >> 5;
            if count == 7 {
                count += usize::from(*rest.next()?);
            }
            let back = (control & 0x1F) << 8 | usize::from(*rest.next()?);
            let start = out.len().checked_sub(back + 1)?;
            count += 2;
            if out.len() + count > len {
                return None;
            }
            // What is copied may be what was copied just before.
            for i in start..start + count {
                let byte = *out.get(i)?;
                out.push(byte);
            }
        }
    }
    (out.len() == len).then_some(())
}
