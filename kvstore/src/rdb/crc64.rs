//! CRC-64 "Jones", as Redis uses it: reflected, initial value 0, nothing added at the end.

/// The polynomial 0xAD93D23594C935A9, bits reversed.
const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

static TABLE: [u64; 256] = table();

/// The checksum of `bytes`, going on from `crc` (0 at the start).
pub fn crc64(crc: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(crc, |crc, &b| TABLE[usize::from(crc as u8 ^ b)] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    #[test]
    fn check_value() {
        assert_eq!(super::crc64(0, b"123456789"), 0xE9C6_D914_C4B8_D9CA);
    }
}
