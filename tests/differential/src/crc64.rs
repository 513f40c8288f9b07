//! The checksum of DUMP's payloads (CRC-64/REDIS: Jones's polynomial, reflected, starting from 0), apart from the engine's own.

const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;

/// The checksum of these bytes.
pub fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u64::from(*byte), |sum, _| if sum & 1 == 1 { (sum >> 1) ^ POLYNOMIAL } else { sum >> 1 })
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_polynomials_check_value() {
        assert_eq!(super::crc64(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
    }
}
