//! The kernel command line: `key=value` words separated by blanks.

/// The value of the last word `key=value`.
pub fn get<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().rev().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}
