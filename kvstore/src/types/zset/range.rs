//! Ranges of sorted sets, as commands write them: by score ("(1", "inf") and by member ("[a", "(b", "-", "+").

use super::leaf::order_of;
use crate::number::parse_bound;

/// A range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    /// Lower bound.
    pub min: f64,
    /// Upper bound.
    pub max: f64,
    /// The lower bound itself is out of the range.
    pub min_open: bool,
    /// The upper bound itself is out of the range.
    pub max_open: bool,
}

impl ScoreRange {
    /// Reads both bounds; `None` if one is not a number.
    pub fn parse(min: &[u8], max: &[u8]) -> Option<Self> {
        let bound = |text: &[u8]| match text {
            [b'(', rest @ ..] => Some((parse_bound(rest)?, true)),
            _ => Some((parse_bound(text)?, false)),
        };
        let (min, min_open) = bound(min)?;
        let (max, max_open) = bound(max)?;
        Some(Self { min, max, min_open, max_open })
    }

    /// Whether a score lies below the range.
    pub fn is_before(&self, score: f64) -> bool {
        let (score, min) = (order_of(score), order_of(self.min));
        score < min || (self.min_open && score == min)
    }

    /// Whether a score is not above the range.
    pub fn is_before_end(&self, score: f64) -> bool {
        let (score, max) = (order_of(score), order_of(self.max));
        score < max || (!self.max_open && score == max)
    }
}

/// One end of a range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// "-": before every member.
    Min,
    /// "+": after every member.
    Max,
    /// "[m": the member is in the range.
    Closed(&'a [u8]),
    /// "(m": the member is not in the range.
    Open(&'a [u8]),
}

impl<'a> LexBound<'a> {
    /// Reads a bound; `None` if it has none of the forms.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        match text {
            // Redis looks at it as a C string.
            [b'+'] | [b'+', 0, ..] => Some(Self::Max),
            [b'-'] | [b'-', 0, ..] => Some(Self::Min),
            [b'(', member @ ..] => Some(Self::Open(member)),
            [b'[', member @ ..] => Some(Self::Closed(member)),
            _ => None,
        }
    }
}

/// A range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexRange<'a> {
    /// Lower bound.
    pub min: LexBound<'a>,
    /// Upper bound.
    pub max: LexBound<'a>,
}

impl<'a> LexRange<'a> {
    /// Reads both bounds; `None` if one has none of the forms.
    pub fn parse(min: &'a [u8], max: &'a [u8]) -> Option<Self> {
        Some(Self { min: LexBound::parse(min)?, max: LexBound::parse(max)? })
    }

    /// Whether a member lies below the range.
    pub fn is_before(&self, member: &[u8]) -> bool {
        match self.min {
            LexBound::Min => false,
            LexBound::Max => true,
            LexBound::Closed(min) => member < min,
            LexBound::Open(min) => member <= min,
        }
    }

    /// Whether a member is not above the range.
    pub fn is_before_end(&self, member: &[u8]) -> bool {
        match self.max {
            LexBound::Min => false,
            LexBound::Max => true,
            LexBound::Closed(max) => member <= max,
            LexBound::Open(max) => member < max,
        }
    }

    /// Whether no member can be in the range.
    pub fn is_empty(&self) -> bool {
        match (self.min, self.max) {
            (LexBound::Max, _) | (_, LexBound::Min) => true,
            (LexBound::Min, _) | (_, LexBound::Max) => false,
            (LexBound::Closed(min), LexBound::Closed(max)) => min > max,
            (LexBound::Closed(min) | LexBound::Open(min), LexBound::Closed(max) | LexBound::Open(max)) => min >= max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_as_redis_reads_them() {
        let range = ScoreRange::parse(b"(1", b"+inf");
        assert_eq!(range, Some(ScoreRange { min: 1.0, max: f64::INFINITY, min_open: true, max_open: false }));
        assert!(range.is_some_and(|r| r.is_before(1.0) && !r.is_before(1.5) && r.is_before_end(f64::INFINITY)));
        assert_eq!(ScoreRange::parse(b"1", b"[3"), None);
        assert_eq!(LexBound::parse(b"+"), Some(LexBound::Max));
        assert_eq!(LexBound::parse(b"+a"), None);
        assert_eq!(LexBound::parse(b""), None);
        assert_eq!(LexBound::parse(b"["), Some(LexBound::Closed(b"")));
        let range = LexRange::parse(b"(a", b"[c");
        assert!(range.is_some_and(|r| r.is_before(b"a") && !r.is_before(b"aa") && r.is_before_end(b"c")));
        assert!(LexRange::parse(b"(a", b"[a").is_some_and(|r| r.is_empty()));
        assert!(LexRange::parse(b"[a", b"[a").is_some_and(|r| !r.is_empty()));
    }
}
