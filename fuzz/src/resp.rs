//! Checks that output is RESP: whole replies, each well-formed.

/// The number of replies in `bytes`, all of them complete.
///
/// # Panics
/// If they are not RESP.
pub fn replies(bytes: &[u8]) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        at = skip(bytes, at);
        count += 1;
    }
    count
}

/// Where the reply that begins at `at` ends.
fn skip(bytes: &[u8], at: usize) -> usize {
    let mut at = at;
    // Elements still to come: a reply may be nested deeper than a stack of calls likes.
    let mut left = 1u64;
    while left > 0 {
        left -= 1;
        let kind = bytes[at];
        let (line, next) = line(bytes, at + 1);
        at = next;
        match kind {
            b'+' | b'-' | b',' | b'(' => {}
            b':' => assert!(number(line).is_some(), "not an integer: {line:?}"),
            b'_' => assert!(line.is_empty()),
            b'#' => assert!(matches!(line, b"t" | b"f")),
            b'$' | b'=' | b'!' if line == b"-1" => {}
            b'$' | b'=' | b'!' => {
                let len = number(line).and_then(|n| usize::try_from(n).ok()).expect("length of a string");
                assert_eq!(&bytes[at + len..at + len + 2], b"\r\n", "the end of a string");
                at += len + 2;
            }
            b'*' if line == b"-1" => {}
            b'*' | b'~' | b'>' => left += length(line),
            b'%' => left += 2 * length(line),
            // What an attribute belongs to follows it.
            b'|' => left += 2 * length(line) + 1,
            other => panic!("{} is no type of a reply: {:?}", other.escape_ascii(), bytes.escape_ascii().to_string()),
        }
    }
    at
}

fn length(line: &[u8]) -> u64 {
    number(line).and_then(|n| u64::try_from(n).ok()).expect("length of an aggregate")
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The line from `from` on, and what follows its end. A line holds neither CR nor LF.
fn line(bytes: &[u8], from: usize) -> (&[u8], usize) {
    let len = bytes[from..].iter().position(|&b| b == b'\r' || b == b'\n').expect("the end of a line");
    assert_eq!(&bytes[from + len..from + len + 2], b"\r\n", "a line break inside a line");
    (&bytes[from..from + len], from + len + 2)
}
