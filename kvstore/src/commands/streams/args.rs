//! Arguments that the stream commands share: IDs, intervals, trimming.

use crate::ctx::Ctx;
use crate::error::Error;
use crate::number::parse_i64;
use crate::types::stream::{Bound, NewId, StreamId, Trim};

/// What an unreadable ID is answered with.
pub const INVALID_ID: Error = Error::Fixed("ERR Invalid stream ID specified as stream command argument");

/// An unsigned number as C's `strtoull` reads what is no canonical integer: spaces and zeros in front, a sign.
fn number(text: &[u8]) -> Option<u64> {
    if let Some(n) = parse_i64(text) {
        return u64::try_from(n).ok();
    }
    let text = &text[text.iter().take_while(|b| matches!(b, b' ' | b'\t'..=b'\r')).count()..];
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let n = digits.iter().try_fold(0u64, |n, d| n.checked_mul(10)?.checked_add(u64::from(d - b'0')))?;
    Some(if negative { n.wrapping_neg() } else { n })
}

/// The two parts of an ID: the second is None if it is not given, Some(None) for `*`.
fn parts(text: &[u8]) -> Option<(u64, Option<Option<u64>>)> {
    if text.len() > 127 {
        return None;
    }
    let text = text.split(|b| *b == 0).next().unwrap_or_default();
    let Some(dash) = text.iter().position(|b| *b == b'-') else { return Some((number(text)?, None)) };
    let (ms, seq) = (number(&text[..dash])?, &text[dash + 1..]);
    Some((ms, Some(if seq == b"*" { None } else { Some(number(seq)?) })))
}

/// An ID; `seq` is its sequence number if it has none.
pub fn id(text: &[u8], seq: u64) -> Result<StreamId, Error> {
    match parts(text) {
        Some((ms, None)) => Ok(StreamId { ms, seq }),
        Some((ms, Some(Some(seq)))) => Ok(StreamId { ms, seq }),
        _ => Err(INVALID_ID),
    }
}

/// As [`id`], with `-` and `+` for the least and the greatest.
pub fn id_or_end(text: &[u8], seq: u64) -> Result<StreamId, Error> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => id(text, seq),
    }
}

/// The beginning of an interval; `(` in front leaves the ID itself out.
pub fn start(text: &[u8]) -> Result<StreamId, Error> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            id(rest, 0)?.next().ok_or(Error::Fixed("ERR invalid start ID for the interval"))
        }
        _ => id_or_end(text, 0),
    }
}

/// The end of an interval; `(` in front leaves the ID itself out.
pub fn end(text: &[u8]) -> Result<StreamId, Error> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            id(rest, u64::MAX)?.prev().ok_or(Error::Fixed("ERR invalid end ID for the interval"))
        }
        _ => id_or_end(text, u64::MAX),
    }
}

/// Arguments of XADD and XTRIM.
#[derive(Debug, Default)]
pub struct AddTrim {
    /// XADD: which ID.
    pub id: Option<NewId>,
    /// XADD: where the ID stands.
    pub id_at: usize,
    /// XADD: no stream is made.
    pub no_mkstream: bool,
    /// How to trim.
    pub trim: Option<Trim>,
    /// Where the bound stands.
    pub bound_at: usize,
    /// Where LIMIT stands.
    pub limit_at: Option<usize>,
}

impl AddTrim {
    /// From XADD's or XTRIM's arguments; all errors are found in Redis's order.
    pub fn parse(ctx: &Ctx<'_>, xadd: bool) -> Result<Self, Error> {
        let mut found = Self::default();
        let mut bound = None;
        let (mut approximate, mut limit) = (false, 0);
        let argc = ctx.argc();
        let mut i = 2;
        while i < argc {
            let more = argc - 1 - i;
            if xadd && ctx.arg(i) == b"*" {
                found.id = Some(NewId::Auto(ctx.keys.now_ms().max(0) as u64));
                break;
            }
            let by_len = ctx.args.is(i, "maxlen");
            if (by_len || ctx.args.is(i, "minid")) && more > 0 {
                if bound.is_some() {
                    return Err(Error::Fixed(
                        "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
                    ));
                }
                approximate = more >= 2 && ctx.arg(i + 1) == b"~";
                i += 1 + usize::from(approximate || (more >= 2 && ctx.arg(i + 1) == b"="));
                bound = Some(if by_len {
                    let n = ctx.int(i)?;
                    let n = u64::try_from(n).map_err(|_| Error::Fixed("ERR The MAXLEN argument must be >= 0."))?;
                    Bound::Len(n)
                } else {
                    Bound::Id(id(ctx.arg(i), 0)?)
                });
                found.bound_at = i;
            } else if ctx.args.is(i, "limit") && more > 0 {
                found.limit_at = Some(i);
                i += 1;
                let n = ctx.int(i)?;
                limit = u64::try_from(n).map_err(|_| Error::Fixed("ERR The LIMIT argument must be >= 0."))?;
            } else if xadd && ctx.args.is(i, "nomkstream") {
                found.no_mkstream = true;
            } else if xadd {
                found.id = Some(match parts(ctx.arg(i)) {
                    Some((ms, Some(None))) => NewId::Time(ms),
                    Some((ms, seq)) => NewId::Exact(StreamId { ms, seq: seq.flatten().unwrap_or(0) }),
                    None => return Err(INVALID_ID),
                });
                break;
            } else {
                return Err(Error::Syntax);
            }
            i += 1;
        }
        found.id_at = i;
        if limit != 0 && bound.is_none() {
            return Err(Error::Fixed("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"));
        }
        if !xadd && bound.is_none() {
            return Err(Error::Fixed("ERR syntax error, XTRIM must be called with a trimming strategy"));
        }
        if found.limit_at.is_some() && !approximate {
            return Err(Error::Fixed("ERR syntax error, LIMIT cannot be used without the special ~ option"));
        }
        if found.limit_at.is_none() && approximate {
            // Of what nobody set a limit to, a hundred nodes' worth.
            let entries = ctx.core.config.stream.node_entries;
            limit = if entries == 0 { 10_000 } else { entries.saturating_mul(100).min(1_000_000) };
        }
        found.trim = bound.map(|bound| Trim { bound, approximate, limit });
        Ok(found)
    }
}
