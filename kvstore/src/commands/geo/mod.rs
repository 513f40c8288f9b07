//! Geo commands: sorted sets whose scores are positions ([`geohash`](crate::types::geohash)). [`search`] looks for members
//! in an area.

mod partial_sort;
pub mod search;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use super::zsets::{AddOptions, add_elements};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::number::{I64_CHARS, LongDouble, format_i64, parse_f64};
use crate::reply::Reply;
use crate::session::args::Args;
use crate::types::geohash::{self, LATITUDES, LONGITUDES, Position};

/// The documented units of length.
const UNIT: Arg =
    Arg::one_of("unit", &[Arg::word("m", "M"), Arg::word("km", "KM"), Arg::word("ft", "FT"), Arg::word("mi", "MI")]);

/// The commands of this file.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "geoadd",
        group: Group::Geo,
        since: "3.2.0",
        summary: "Adds one or more members to a geospatial index. The key is created if it doesn't exist.",
        complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
        arity: -5,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::GEO,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")]).since("6.2.0").optional(),
            Arg::word("change", "CH").since("6.2.0").optional(),
            Arg::block("data", &[Arg::double("longitude"), Arg::double("latitude"), Arg::string("member")]).multiple(),
        ],
        history: &[("6.2.0", "Added the `CH`, `NX` and `XX` options.")],
        run: Some(geoadd),
        ..Command::DEFAULT
    },
    Command {
        name: "geodist",
        group: Group::Geo,
        since: "3.2.0",
        summary: "Returns the distance between two members of a geospatial index.",
        complexity: "O(1)",
        arity: -4,
        flags: flag::READONLY,
        acl: acl::GEO,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("member1"), Arg::string("member2"), UNIT.optional()],
        run: Some(geodist),
        ..Command::DEFAULT
    },
    Command {
        name: "geohash",
        group: Group::Geo,
        since: "3.2.0",
        summary: "Returns members from a geospatial index as geohash strings.",
        complexity: "O(1) for each member requested.",
        arity: -2,
        flags: flag::READONLY,
        acl: acl::GEO,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("member").optional().multiple()],
        run: Some(geohash),
        ..Command::DEFAULT
    },
    Command {
        name: "geopos",
        group: Group::Geo,
        since: "3.2.0",
        summary: "Returns the longitude and latitude of members from a geospatial index.",
        complexity: "O(1) for each member requested.",
        arity: -2,
        flags: flag::READONLY,
        acl: acl::GEO,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("member").optional().multiple()],
        run: Some(geopos),
        ..Command::DEFAULT
    },
];

/// Two arguments as longitude and latitude, in degrees.
fn position(args: Args<'_>, at: usize) -> Result<Position, Error> {
    let degrees = |at: usize| parse_f64(args.get(at)).ok_or(Error::NotFloat);
    let (lon, lat) = (degrees(at)?, degrees(at + 1)?);
    if LONGITUDES.contains(lon) && LATITUDES.contains(lat) {
        return Ok(Position { lon, lat });
    }
    Err(error_text!("ERR invalid longitude,latitude pair {lon:.6},{lat:.6}"))
}

/// An argument as a unit of length: its metres.
fn unit(args: Args<'_>, at: usize) -> Result<f64, Error> {
    match args.get(at) {
        unit if unit.eq_ignore_ascii_case(b"m") => Ok(1.0),
        unit if unit.eq_ignore_ascii_case(b"km") => Ok(1_000.0),
        unit if unit.eq_ignore_ascii_case(b"ft") => Ok(0.3048),
        unit if unit.eq_ignore_ascii_case(b"mi") => Ok(1_609.34),
        _ => Err(Error::Fixed("ERR unsupported unit provided. please use M, KM, FT, MI")),
    }
}

/// Writes a distance with four digits after the point.
fn write_distance(reply: &mut Reply<'_>, distance: f64) {
    let scaled = libm::rint(distance * 1e4);
    // What is no number C converts to the least integer.
    let units = if scaled.abs() < 9.2e18 { scaled as i64 } else { i64::MIN };
    let sign = if units < 0 { "-" } else { "" };
    let units = units.unsigned_abs();
    reply.bulk(alloc::format!("{sign}{}.{:04}", units / 10_000, units % 10_000).as_bytes());
}

/// Writes a position as an array of two numbers, in the form that Redis has for people.
fn write_position(reply: &mut Reply<'_>, position: Position) {
    reply.array(2);
    for degrees in [position.lon, position.lat] {
        let mut text = Vec::new();
        if let Some(degrees) = LongDouble::from_f64(degrees) {
            degrees.format(&mut text);
        }
        if reply.resp3 {
            reply.raw(b",");
            reply.raw(&text);
            reply.raw(b"\r\n");
        } else {
            reply.bulk(&text);
        }
    }
}

fn geoadd(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let args = ctx.args;
    let mut options = AddOptions::default();
    let mut first = 2;
    while first < args.len() {
        match args.get(first) {
            o if o.eq_ignore_ascii_case(b"nx") => options.nx = true,
            o if o.eq_ignore_ascii_case(b"xx") => options.xx = true,
            o if o.eq_ignore_ascii_case(b"ch") => options.ch = true,
            _ => break,
        }
        first += 1;
    }
    let elements = (args.len() - first) / 3;
    if !(args.len() - first).is_multiple_of(3) || (options.nx && options.xx) {
        return Err(Error::Syntax);
    }
    let mut scores = Vec::new();
    scores.try_reserve_exact(elements)?;
    for i in 0..elements {
        scores.push(geohash::score_of(position(args, first + 3 * i)?).unwrap_or_default());
    }
    if elements == 0 {
        return Err(Error::Syntax);
    }
    let member = |i: usize| args.get(first + 3 * i + 2);
    let dirty = ctx.keys.space.dirty;
    let result = add_elements(ctx, options, elements, |i| (scores[i], member(i)));
    if ctx.keys.space.dirty != dirty && ctx.keys.space.effects_wanted {
        // The effect is what it did to a sorted set.
        let mut texts = Vec::new();
        texts.try_reserve_exact(elements)?;
        for score in &scores {
            let mut digits = [0; I64_CHARS];
            texts.push(format_i64(&mut digits, *score as i64).to_vec());
        }
        let mut words: Vec<&[u8]> = alloc::vec![b"ZADD"];
        words.extend(args.iter_from(1).take(first - 1));
        for (i, text) in texts.iter().enumerate() {
            words.extend([text, member(i)]);
        }
        ctx.effect(&words);
    }
    result
}

fn geopos(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let set = ctx.keys.zset(ctx.args.get(1))?;
    ctx.reply.array(ctx.args.len() - 2);
    for member in ctx.args.iter_from(2) {
        match set.and_then(|set| set.score(member)) {
            Some(score) => write_position(&mut ctx.reply, geohash::position_of(score)),
            None => ctx.reply.null_array(),
        }
    }
    Ok(())
}

fn geohash(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let set = ctx.keys.zset(ctx.args.get(1))?;
    ctx.reply.array(ctx.args.len() - 2);
    for member in ctx.args.iter_from(2) {
        match set.and_then(|set| set.score(member)) {
            Some(score) => ctx.reply.bulk(&geohash::letters(geohash::position_of(score))),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

fn geodist(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let metres = match ctx.argc() {
        4 => 1.0,
        5 => unit(ctx.args, 4)?,
        _ => return Err(Error::Syntax),
    };
    let set = ctx.keys.zset(ctx.args.get(1))?;
    let place = |at: usize| set.and_then(|set| set.score(ctx.args.get(at))).map(geohash::position_of);
    match (place(2), place(3)) {
        (Some(a), Some(b)) => write_distance(&mut ctx.reply, geohash::distance(a, b) / metres),
        _ => ctx.reply.null(),
    }
    Ok(())
}
