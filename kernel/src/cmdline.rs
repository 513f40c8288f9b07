//! The kernel command line: `key=value` words separated by blanks; a value with blanks stands in double quotes.
//!
//! The kernel reads the words that it knows (`log=`, `panic=`, `cpus=`); the platform reads the rest and complains about
//! words that nobody knows.

/// Keys that the kernel reads itself.
pub const KERNEL_WORDS: &[&str] = &["log", "panic", "cpus", "debug", "semihosting", VIRTIO_MMIO];

/// The word that says where a memory-mapped virtio device is; there may be several.
pub const VIRTIO_MMIO: &str = "virtio_mmio.device";

/// The value of the last word `key=value`.
pub fn get<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    words(line).filter(|word| word.key == key).last()?.value
}

/// One word of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// What stands before the first `=`, or the whole word.
    pub key: &'a str,
    /// What stands behind it, without its quotes; `None` without `=`.
    pub value: Option<&'a str>,
}

/// The words of the line, in order. A quote that is never closed reaches to the end.
pub fn words(line: &str) -> impl Iterator<Item = Word<'_>> {
    let mut rest = line;
    core::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return None;
        }
        let stop = rest.find(|c: char| c.is_ascii_whitespace() || c == '=').unwrap_or(rest.len());
        let (key, behind) = rest.split_at(stop);
        let Some(value) = behind.strip_prefix('=') else {
            rest = behind;
            return Some(Word { key, value: None });
        };
        let (value, behind) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len())),
        };
        rest = behind;
        Some(Word { key, value: Some(value) })
    })
}

#[cfg(test)]
mod tests {
    use super::{Word, get, words};

    #[test]
    fn words_and_quotes() {
        let line = "  quiet ip=10.0.2.15 requirepass=\"two words\" save=\"\" x= a=b=c open=\"to the end";
        let all: Vec<_> = words(line).map(|Word { key, value }| (key, value)).collect();
        assert_eq!(
            all,
            [
                ("quiet", None),
                ("ip", Some("10.0.2.15")),
                ("requirepass", Some("two words")),
                ("save", Some("")),
                ("x", Some("")),
                ("a", Some("b=c")),
                ("open", Some("to the end")),
            ]
        );
        assert_eq!(words(" \t ").count(), 0);
    }

    #[test]
    fn the_last_word_counts() {
        assert_eq!(get("log=warn log=info", "log"), Some("info"));
        assert_eq!(get("log=warn", "lo"), None);
        assert_eq!(get("note=\"log=off\"", "log"), None);
    }
}
