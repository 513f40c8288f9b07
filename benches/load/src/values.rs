//! Keys and values: what a key holds follows from its number, so that whatever is read can be checked without memory of it.

/// Longest value, in bytes: Redis's limit for a string.
pub const MAX_LEN: usize = 512 << 20;

/// Bytes after which a value's contents repeat. Prime, so that no segment or page size hides a piece that is missing or
/// was put in the wrong place.
const PERIOD: usize = 65_521;

/// The contents of all keys.
pub struct Values {
    prefix: String,
    sizes: (usize, usize),
    /// Two periods of random bytes: any period's worth can be had in one piece.
    pattern: Vec<u8>,
}

/// Spreads a key's number over 64 bits (the finaliser of MurmurHash3).
fn spread(key: u64) -> u64 {
    let mut x = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

impl Values {
    /// The contents of keys that begin with `prefix` and hold `sizes.0` to `sizes.1` bytes.
    pub fn new(prefix: String, sizes: (usize, usize)) -> Self {
        // Of one seed always: what one run wrote another may read.
        let mut rng = fastrand::Rng::with_seed(0xba);
        let mut pattern: Vec<u8> = (0..PERIOD).map(|_| rng.u8(..)).collect();
        pattern.extend_from_within(..);
        Self { prefix, sizes, pattern }
    }

    /// Bytes that `key` holds.
    pub fn len(&self, key: u64) -> usize {
        let (low, high) = self.sizes;
        low + (spread(key) % (high - low + 1) as u64) as usize
    }

    /// What `key` holds from `at` on: a piece of at most `limit` bytes and one period.
    pub fn piece(&self, key: u64, at: usize, limit: usize) -> &[u8] {
        let start = (spread(!key) % PERIOD as u64) as usize;
        let from = (start + at) % PERIOD;
        &self.pattern[from..from + limit.min(PERIOD)]
    }

    /// Whether `bytes` are what `key` holds from `at` on.
    pub fn matches(&self, key: u64, at: usize, bytes: &[u8]) -> bool {
        let mut done = 0;
        while done < bytes.len() {
            let piece = self.piece(key, at + done, bytes.len() - done);
            if bytes[done..done + piece.len()] != *piece {
                return false;
            }
            done += piece.len();
        }
        true
    }

    fn header(&self, out: &mut Vec<u8>, key: u64, words: usize, command: &str) {
        let name = format!("{}{key:012}", self.prefix);
        out.extend_from_slice(format!("*{words}\r\n$3\r\n{command}\r\n${}\r\n{name}\r\n", name.len()).as_bytes());
    }

    /// Appends a GET of `key`.
    pub fn get(&self, out: &mut Vec<u8>, key: u64) {
        self.header(out, key, 2, "GET");
    }

    /// Appends a SET of `key` to what it holds.
    pub fn set(&self, out: &mut Vec<u8>, key: u64) {
        self.header(out, key, 3, "SET");
        let len = self.len(key);
        out.extend_from_slice(format!("${len}\r\n").as_bytes());
        let mut done = 0;
        while done < len {
            let piece = self.piece(key, done, len - done);
            out.extend_from_slice(piece);
            done += piece.len();
        }
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_carries_what_is_checked() {
        let values = Values::new("k:".into(), (70_000, 200_000));
        let mut out = Vec::new();
        values.set(&mut out, 5);
        let len = values.len(5);
        assert!((70_000..=200_000).contains(&len));
        let head = format!("*3\r\n$3\r\nSET\r\n$14\r\nk:000000000005\r\n${len}\r\n");
        assert!(out.starts_with(head.as_bytes()));
        let mut value = out[head.len()..out.len() - 2].to_vec();
        assert_eq!(value.len(), len);
        assert!(values.matches(5, 0, &value));
        assert!(values.matches(5, 66_000, &value[66_000..]));
        assert!(!values.matches(6, 0, &value), "other keys hold something else");
        assert!(!values.matches(5, 1460, &value[..1460]), "a piece in the wrong place is seen");
        value[69_999] ^= 1;
        assert!(!values.matches(5, 0, &value));
    }

    #[test]
    fn sizes_cover_their_range() {
        let values = Values::new(String::new(), (3, 6));
        let mut seen = [0; 7];
        (0..1000).for_each(|key| seen[values.len(key)] += 1);
        assert_eq!(seen[..3], [0; 3]);
        assert!(seen[3..].iter().all(|&n| n > 150), "{seen:?}");
    }
}
