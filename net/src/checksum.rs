//! The Internet checksum (RFC 1071), eight bytes at a step.

/// A running one's-complement sum of 16-bit words in memory order.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Adds `bytes`, which must start at an even offset of the summed message. An odd tail is padded with zero.
    #[inline]
    pub(crate) fn add(self, bytes: &[u8]) -> Self {
        let mut acc = self.0;
        let (blocks, rest) = bytes.as_chunks::<32>();
        for block in blocks {
            let (words, _) = block.as_chunks::<8>();
            for word in words {
                acc = add_carry(acc, u64::from_ne_bytes(*word));
            }
        }
        let (words, rest) = rest.as_chunks::<8>();
        for word in words {
            acc = add_carry(acc, u64::from_ne_bytes(*word));
        }
        // Up to seven bytes: pieces of four, two and one, without a loop or a call.
        let (four, rest) = rest.as_chunks::<4>();
        if let Some(word) = four.first() {
            acc = add_carry(acc, u64::from(u32::from_ne_bytes(*word)));
        }
        let (two, rest) = rest.as_chunks::<2>();
        if let Some(word) = two.first() {
            acc = add_carry(acc, u64::from(u16::from_ne_bytes(*word)));
        }
        if let Some(last) = rest.first() {
            acc = add_carry(acc, u64::from(u16::from_ne_bytes([*last, 0])));
        }
        Self(acc)
    }

    /// Adds a header of 20 bytes.
    #[inline]
    pub(crate) fn add_header(self, header: &[u8; 20]) -> Self {
        let (words, _) = header.as_chunks::<4>();
        Self(add_carry(self.0, words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum()))
    }

    /// Adds a word given in host order.
    #[inline]
    pub(crate) fn add_u16(self, word: u16) -> Self {
        Self(add_carry(self.0, u64::from(word.to_be())))
    }

    /// The sum, not complemented, as it stands in memory.
    #[inline]
    pub(crate) fn fold(self) -> [u8; 2] {
        let sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        (sum as u16).to_ne_bytes()
    }

    /// The checksum field, as it stands in memory.
    #[inline]
    pub(crate) fn finish(self) -> [u8; 2] {
        let [a, b] = self.fold();
        [!a, !b]
    }
}

#[inline(always)]
fn add_carry(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u64::from(carry)
}

/// The part of the TCP checksum that comes from the IPv4 source and destination, the protocol and the length.
#[inline]
pub(crate) fn pseudo_header(addrs: &[u8; 8], tcp_len: usize) -> Sum {
    Sum(u64::from_ne_bytes(*addrs)).add_u16(6).add_u16(tcp_len as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn reference(bytes: &[u8]) -> [u8; 2] {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }

    #[test]
    fn equals_the_word_by_word_sum() {
        let mut x = 1u64;
        let bytes: Vec<u8> = (0..1600)
            .map(|_| {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (x >> 56) as u8
            })
            .collect();
        for len in 0..bytes.len() {
            assert_eq!(Sum::default().add(&bytes[..len]).finish(), reference(&bytes[..len]), "{len}");
        }
        let header = bytes.first_chunk::<20>().expect("long enough");
        assert_eq!(Sum::default().add_header(header).finish(), reference(header));
        let ones = [0xff; 1500];
        assert_eq!(Sum::default().add(&ones).finish(), reference(&ones));
    }

    #[test]
    fn rfc_1071_example() {
        let sum = Sum::default().add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.fold(), [0xdd, 0xf2]);
    }
}
