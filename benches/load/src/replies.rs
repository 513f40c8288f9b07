//! Reads answers as they come in, and compares values without gathering them.

use crate::values::Values;

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// PING, once on each new connection.
    Ping,
    /// GET of a key.
    Get(u64),
    /// SET of a key.
    Set(u64),
}

/// What a whole answer was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was expected.
    Right,
    /// A GET found nothing.
    Miss,
    /// A value other than the one written, or an answer to something else.
    Wrong,
    /// The server's error.
    Error(String),
}

/// Longest line before a value.
const LINE_LIMIT: usize = 4096;

/// A value that is being received.
#[derive(Debug)]
struct Body {
    key: u64,
    len: usize,
    /// Bytes that came, the line end behind the value included.
    got: usize,
    right: bool,
}

/// Where a stream of answers stands.
#[derive(Debug, Default)]
pub struct Replies {
    line: Vec<u8>,
    body: Option<Body>,
}

impl Replies {
    /// Takes `bytes` up to the end of the answer to `request`. Returns how many it took, and the outcome once the answer is
    /// whole.
    pub fn take(&mut self, values: &Values, request: Request, bytes: &[u8]) -> (usize, Option<Outcome>) {
        let mut at = 0;
        if self.body.is_none() {
            let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
                self.line.extend_from_slice(bytes);
                let outcome = (self.line.len() > LINE_LIMIT).then_some(Outcome::Wrong);
                return (bytes.len(), outcome);
            };
            at = end + 1;
            self.line.extend_from_slice(&bytes[..at]);
            match self.line_outcome(values, request) {
                Some(outcome) => {
                    self.line.clear();
                    return (at, Some(outcome));
                }
                None => self.line.clear(),
            }
        }
        let Some(body) = self.body.as_mut() else { return (at, None) };
        let rest = &bytes[at..];
        let taken = rest.len().min(body.len + 2 - body.got);
        let value = taken.min(body.len.saturating_sub(body.got));
        body.right = body.right && values.matches(body.key, body.got, &rest[..value]);
        body.got += taken;
        let whole = body.got == body.len + 2;
        let outcome = whole.then_some(if body.right { Outcome::Right } else { Outcome::Wrong });
        if whole {
            self.body = None;
        }
        (at + taken, outcome)
    }

    /// What the line alone says; `None` if a value follows.
    fn line_outcome(&mut self, values: &Values, request: Request) -> Option<Outcome> {
        let text = String::from_utf8_lossy(&self.line);
        let text = text.trim_end_matches(['\r', '\n']);
        if let Some(error) = text.strip_prefix('-') {
            return Some(Outcome::Error(error.into()));
        }
        Some(match request {
            Request::Ping if text == "+PONG" => Outcome::Right,
            Request::Set(_) if text == "+OK" => Outcome::Right,
            Request::Get(_) if text == "$-1" => Outcome::Miss,
            Request::Get(key) => {
                let Some(len) = text.strip_prefix('$').and_then(|len| len.parse().ok()) else {
                    return Some(Outcome::Wrong);
                };
                self.body = Some(Body { key, len, got: 0, right: len == values.len(key) });
                return None;
            }
            _ => Outcome::Wrong,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcomes of `stream`, given in pieces of `step` bytes.
    fn outcomes(values: &Values, requests: &[Request], stream: &[u8], step: usize) -> Vec<Outcome> {
        let (mut replies, mut found) = (Replies::default(), Vec::new());
        for mut piece in stream.chunks(step) {
            while !piece.is_empty() {
                let (taken, outcome) = replies.take(values, requests[found.len()], piece);
                piece = &piece[taken..];
                found.extend(outcome);
            }
        }
        found
    }

    #[test]
    fn any_pieces_give_the_same() {
        let values = Values::new("k".into(), (0, 300));
        let mut stream = b"+PONG\r\n".to_vec();
        for key in 0..20u64 {
            let mut set = Vec::new();
            values.set(&mut set, key);
            let value = set.windows(1).count() - values.len(key) - 2;
            stream.extend(format!("${}\r\n", values.len(key)).bytes());
            stream.extend_from_slice(&set[value..]);
        }
        stream.extend_from_slice(b"$-1\r\n-OOM no\r\n+OK\r\n$3\r\nabc\r\n+OK\r\n");
        let mut requests = vec![Request::Ping];
        requests.extend((0..20).map(Request::Get));
        requests.extend([Request::Get(1), Request::Set(2), Request::Set(3), Request::Get(4), Request::Ping]);
        let mut expected = vec![Outcome::Right; 21];
        expected.extend([
            Outcome::Miss,
            Outcome::Error("OOM no".into()),
            Outcome::Right,
            Outcome::Wrong,
            Outcome::Wrong,
        ]);
        for step in [1, 2, 3, 7, 100, 10_000] {
            assert_eq!(outcomes(&values, &requests, &stream, step), expected, "in pieces of {step}");
        }
    }
}
