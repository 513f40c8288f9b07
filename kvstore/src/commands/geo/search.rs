//! Searching an area: GEOSEARCH, GEORADIUS and their like.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::super::zsets::store;
use super::partial_sort::partial_sort;
use super::{UNIT, position, unit, write_distance, write_position};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::number::{I64_CHARS, parse_i64};
use crate::reply::Reply;
use crate::session::args::Args;
use crate::types::geohash::{self, Form, Position, Shape};
use crate::types::zset::{Member, ScoreRange, ZSetLimits, ZSetMut, ZSetRef, for_members};
use crate::value::Item;

/// The commands of this file.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "georadius",
        group: Group::Geo,
        since: "3.2.0",
        summary: "Queries a geospatial index for members within a distance from a coordinate, optionally stores the result.",
        complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::GEO,
        keys: &[
            KeySpec::range(key::RO | key::ACCESS, 1, 0, 1),
            KeySpec::keyword(key::OW | key::UPDATE, "STORE", 6),
            KeySpec::keyword(key::OW | key::UPDATE, "STOREDIST", 6),
        ],
        args: &[
            Arg::key("key", 0),
            Arg::double("longitude"),
            Arg::double("latitude"),
            Arg::double("radius"),
            UNIT,
            Arg::word("withcoord", "WITHCOORD").optional(),
            Arg::word("withdist", "WITHDIST").optional(),
            Arg::word("withhash", "WITHHASH").optional(),
            Arg::block(
                "count-block",
                &[Arg::integer("count").token("COUNT"), Arg::word("any", "ANY").since("6.2.0").optional()],
            )
            .optional(),
            Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
            Arg::one_of(
                "store",
                &[
                    Arg::key("storekey", 1).token("STORE").display("key"),
                    Arg::key("storedistkey", 2).token("STOREDIST").display("key"),
                ],
            )
            .optional(),
        ],
        history: &[
            ("6.2.0", "Added the `ANY` option for `COUNT`."),
            ("7.0.0", "Added support for uppercase unit names."),
        ],
        deprecated_since: "6.2.0",
        replaced_by: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument",
        run: Some(georadius),
        ..Command::DEFAULT
    },
    Command {
        name: "georadius_ro",
        group: Group::Geo,
        since: "3.2.10",
        summary: "Returns members from a geospatial index that are within a distance from a coordinate.",
        complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.",
        arity: -6,
        flags: flag::READONLY,
        acl: acl::GEO,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::double("longitude"),
            Arg::double("latitude"),
            Arg::double("radius"),
            UNIT,
            Arg::word("withcoord", "WITHCOORD").optional(),
            Arg::word("withdist", "WITHDIST").optional(),
            Arg::word("withhash", "WITHHASH").optional(),
            Arg::block(
                "count-block",
                &[Arg::integer("count").token("COUNT"), Arg::word("any", "ANY").since("6.2.0").optional()],
            )
            .optional(),
            Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
        ],
        history: &[
            ("6.2.0", "Added the `ANY` option for `COUNT`."),
            ("7.0.0", "Added support for uppercase unit names."),
        ],
        deprecated_since: "6.2.0",
        replaced_by: "`GEOSEARCH` with the `BYRADIUS` argument",
        run: Some(georadius_ro),
        ..Command::DEFAULT
    },
    Command {
        name: "georadiusbymember",
        group: Group::Geo,
        since: "3.2.0",
        summary: "Queries a geospatial index for members within a distance from a member, optionally stores the result.",
        complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.",
        arity: -5,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::GEO,
        keys: &[
            KeySpec::range(key::RO | key::ACCESS, 1, 0, 1),
            KeySpec::keyword(key::OW | key::UPDATE, "STORE", 5),
            KeySpec::keyword(key::OW | key::UPDATE, "STOREDIST", 5),
        ],
        args: &[
            Arg::key("key", 0),
            Arg::string("member"),
            Arg::double("radius"),
            UNIT,
            Arg::word("withcoord", "WITHCOORD").optional(),
            Arg::word("withdist", "WITHDIST").optional(),
            Arg::word("withhash", "WITHHASH").optional(),
            Arg::block("count-block", &[Arg::integer("count").token("COUNT"), Arg::word("any", "ANY").optional()])
                .optional(),
            Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
            Arg::one_of(
                "store",
                &[
                    Arg::key("storekey", 1).token("STORE").display("key"),
                    Arg::key("storedistkey", 2).token("STOREDIST").display("key"),
                ],
            )
            .optional(),
        ],
        history: &[
            ("6.2.0", "Added the `ANY` option for `COUNT`."),
            ("7.0.0", "Added support for uppercase unit names."),
        ],
        deprecated_since: "6.2.0",
        replaced_by: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
        run: Some(georadiusbymember),
        ..Command::DEFAULT
    },
    Command {
        name: "georadiusbymember_ro",
        group: Group::Geo,
        since: "3.2.10",
        summary: "Returns members from a geospatial index that are within a distance from a member.",
        complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.",
        arity: -5,
        flags: flag::READONLY,
        acl: acl::GEO,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::string("member"),
            Arg::double("radius"),
            UNIT,
            Arg::word("withcoord", "WITHCOORD").optional(),
            Arg::word("withdist", "WITHDIST").optional(),
            Arg::word("withhash", "WITHHASH").optional(),
            Arg::block("count-block", &[Arg::integer("count").token("COUNT"), Arg::word("any", "ANY").optional()])
                .optional(),
            Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
        ],
        history: &[
            ("6.2.0", "Added the `ANY` option for `COUNT`."),
            ("7.0.0", "Added support for uppercase unit names."),
        ],
        deprecated_since: "6.2.0",
        replaced_by: "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments",
        run: Some(georadiusbymember_ro),
        ..Command::DEFAULT
    },
    Command {
        name: "geosearch",
        group: Group::Geo,
        since: "6.2.0",
        summary: "Queries a geospatial index for members inside an area of a box or a circle.",
        complexity: "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the shape provided as the filter and M is the number of items inside the shape",
        arity: -7,
        flags: flag::READONLY,
        acl: acl::GEO,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::one_of(
                "from",
                &[
                    Arg::string("member").token("FROMMEMBER"),
                    Arg::block("fromlonlat", &[Arg::double("longitude"), Arg::double("latitude")]).token("FROMLONLAT"),
                ],
            ),
            Arg::one_of(
                "by",
                &[
                    Arg::block("circle", &[Arg::double("radius").token("BYRADIUS"), UNIT]),
                    Arg::block("box", &[Arg::double("width").token("BYBOX"), Arg::double("height"), UNIT]),
                ],
            ),
            Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
            Arg::block("count-block", &[Arg::integer("count").token("COUNT"), Arg::word("any", "ANY").optional()])
                .optional(),
            Arg::word("withcoord", "WITHCOORD").optional(),
            Arg::word("withdist", "WITHDIST").optional(),
            Arg::word("withhash", "WITHHASH").optional(),
        ],
        history: &[("7.0.0", "Added support for uppercase unit names.")],
        run: Some(geosearch),
        ..Command::DEFAULT
    },
    Command {
        name: "geosearchstore",
        group: Group::Geo,
        since: "6.2.0",
        summary: "Queries a geospatial index for members inside an area of a box or a circle, optionally stores the result.",
        complexity: "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the shape provided as the filter and M is the number of items inside the shape",
        arity: -8,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::GEO,
        keys: &[KeySpec::range(key::OW | key::UPDATE, 1, 0, 1), KeySpec::range(key::RO | key::ACCESS, 2, 0, 1)],
        args: &[
            Arg::key("destination", 0),
            Arg::key("source", 1),
            Arg::one_of(
                "from",
                &[
                    Arg::string("member").token("FROMMEMBER"),
                    Arg::block("fromlonlat", &[Arg::double("longitude"), Arg::double("latitude")]).token("FROMLONLAT"),
                ],
            ),
            Arg::one_of(
                "by",
                &[
                    Arg::block("circle", &[Arg::double("radius").token("BYRADIUS"), UNIT]),
                    Arg::block("box", &[Arg::double("width").token("BYBOX"), Arg::double("height"), UNIT]),
                ],
            ),
            Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
            Arg::block("count-block", &[Arg::integer("count").token("COUNT"), Arg::word("any", "ANY").optional()])
                .optional(),
            Arg::word("storedist", "STOREDIST").optional(),
        ],
        history: &[("7.0.0", "Added support for uppercase unit names.")],
        run: Some(geosearchstore),
        ..Command::DEFAULT
    },
];

/// What of a command's arguments is given where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    /// GEORADIUS: a position, then the radius.
    Radius,
    /// GEORADIUSBYMEMBER: a member, then the radius.
    RadiusByMember,
    /// GEOSEARCH: all by words; results are stored where the command says, if it does.
    Search { store: bool },
}

/// What to do with what is found.
#[derive(Clone, Copy, Debug, Default)]
struct Options<'a> {
    distances: bool,
    scores: bool,
    positions: bool,
    /// Nearest or farthest first.
    order: Option<Order>,
    /// Most results; 0: all.
    count: usize,
    /// Any results so many, not the first ones.
    any: bool,
    /// Where to store them.
    store: Option<&'a [u8]>,
    /// The distances as scores.
    store_distances: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    NearestFirst,
    FarthestFirst,
}

/// Something found.
struct Found<'a> {
    member: Member<'a>,
    score: f64,
    position: Position,
    /// From the center, in m.
    distance: f64,
}

fn georadius(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    search(ctx, Syntax::Radius, true)
}

fn georadius_ro(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    search(ctx, Syntax::Radius, false)
}

fn georadiusbymember(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    search(ctx, Syntax::RadiusByMember, true)
}

fn georadiusbymember_ro(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    search(ctx, Syntax::RadiusByMember, false)
}

fn geosearch(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    search(ctx, Syntax::Search { store: false }, false)
}

fn geosearchstore(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    search(ctx, Syntax::Search { store: true }, false)
}

/// Two arguments as a radius and its unit.
fn circle(args: Args<'_>, at: usize) -> Result<(Form, f64), Error> {
    let radius = length(args, at, "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err(Error::Fixed("ERR radius cannot be negative"));
    }
    Ok((Form::Circle { radius }, unit(args, at + 1)?))
}

/// Three arguments as width, height and their unit.
fn rectangle(args: Args<'_>, at: usize) -> Result<(Form, f64), Error> {
    let width = length(args, at, "ERR need numeric width")?;
    let height = length(args, at + 1, "ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err(Error::Fixed("ERR height or width cannot be negative"));
    }
    Ok((Form::Box { width, height }, unit(args, at + 2)?))
}

fn length(args: Args<'_>, at: usize, error: &'static str) -> Result<f64, Error> {
    crate::number::parse_f64(args.get(at)).ok_or(Error::Fixed(error))
}

/// The position of a member of the set.
fn place(set: ZSetRef<'_>, member: &[u8]) -> Result<Position, Error> {
    let score = set.score(member).ok_or(Error::Fixed("ERR could not decode requested zset member"))?;
    Ok(geohash::position_of(score))
}

/// The area and the options, as far as they have been read.
#[derive(Clone, Copy, Debug, Default)]
struct Query<'a> {
    /// Where the center is: `None` until it is given, then, of a member of no set, anywhere.
    center: Option<Position>,
    by_member: bool,
    area: Option<(Form, f64)>,
    options: Options<'a>,
}

impl<'a> Query<'a> {
    /// Reads the arguments; those of a set that is not there, too. The key's type was checked before.
    fn parse(args: Args<'a>, set: Option<ZSetRef<'_>>, syntax: Syntax, may_store: bool) -> Result<Self, Error> {
        let mut query = Self::default();
        let mut at = match syntax {
            Syntax::Radius => {
                query.center = Some(position(args, 2)?);
                query.area = Some(circle(args, 4)?);
                6
            }
            Syntax::RadiusByMember => {
                if let Some(set) = set {
                    query.center = Some(place(set, args.get(2))?);
                    query.area = Some(circle(args, 3)?);
                }
                5
            }
            Syntax::Search { store: false } => 2,
            Syntax::Search { store: true } => {
                query.options.store = Some(args.get(1));
                3
            }
        };
        while at < args.len() {
            at += query.option(args, at, set, syntax, may_store)?;
        }
        Ok(query)
    }

    /// Reads an option; how many words it has.
    fn option(
        &mut self,
        args: Args<'a>,
        at: usize,
        set: Option<ZSetRef<'_>>,
        syntax: Syntax,
        may_store: bool,
    ) -> Result<usize, Error> {
        let word = args.get(at);
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        // Words behind it.
        let more = args.len() - at - 1;
        let by_words = matches!(syntax, Syntax::Search { .. });
        let options = &mut self.options;
        if is("withdist") {
            options.distances = true;
        } else if is("withhash") {
            options.scores = true;
        } else if is("withcoord") {
            options.positions = true;
        } else if is("any") {
            options.any = true;
        } else if is("asc") {
            options.order = Some(Order::NearestFirst);
        } else if is("desc") {
            options.order = Some(Order::FarthestFirst);
        } else if is("count") && more >= 1 {
            let count = parse_i64(args.get(at + 1)).ok_or(Error::NotInteger)?;
            if count <= 0 {
                return Err(Error::Fixed("ERR COUNT must be > 0"));
            }
            options.count = usize::try_from(count).unwrap_or(usize::MAX);
            return Ok(2);
        } else if (is("store") || is("storedist")) && more >= 1 && may_store {
            options.store = Some(args.get(at + 1));
            options.store_distances = is("storedist");
            return Ok(2);
        } else if is("storedist") && syntax == (Syntax::Search { store: true }) {
            options.store_distances = true;
        } else if is("frommember") && more >= 1 && by_words && (self.center.is_none() || self.by_member) {
            self.by_member = true;
            self.center = Some(match set {
                Some(set) => place(set, args.get(at + 1))?,
                None => Position::default(),
            });
            return Ok(2);
        } else if is("fromlonlat") && more >= 2 && by_words && !self.by_member {
            self.center = Some(position(args, at + 1)?);
            return Ok(3);
        } else if is("byradius") && more >= 2 && by_words && !matches!(self.area, Some((Form::Box { .. }, _))) {
            self.area = Some(circle(args, at + 1)?);
            return Ok(3);
        } else if is("bybox") && more >= 3 && by_words && !matches!(self.area, Some((Form::Circle { .. }, _))) {
            self.area = Some(rectangle(args, at + 1)?);
            return Ok(4);
        } else {
            return Err(Error::Syntax);
        }
        Ok(1)
    }

    /// What is wrong with the options together.
    fn check(&self, name: &[u8], syntax: Syntax) -> Result<(), Error> {
        let options = &self.options;
        let by_words = matches!(syntax, Syntax::Search { .. });
        if options.store.is_some() && (options.distances || options.scores || options.positions) {
            let what = if by_words { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(error_text!("ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"));
        }
        let name = crate::text::printable(name, 128);
        if by_words && self.center.is_none() {
            return Err(error_text!("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}"));
        }
        if by_words && self.area.is_none() {
            return Err(error_text!("ERR exactly one of BYRADIUS and BYBOX can be specified for {name}"));
        }
        if options.any && options.count == 0 {
            return Err(Error::Fixed("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }
}

fn search(ctx: &mut Ctx<'_>, syntax: Syntax, may_store: bool) -> Result<(), Error> {
    let args = ctx.args;
    let source = args.get(if syntax == (Syntax::Search { store: true }) { 2 } else { 1 });
    let set = ctx.keys.zset(source)?;
    let query = Query::parse(args, set, syntax, may_store)?;
    query.check(args.get(0), syntax)?;
    let options = query.options;

    let mut found = Vec::new();
    if let (Some(set), Some(center), Some((form, metres))) = (set, query.center, query.area) {
        let enough = if options.any { options.count } else { usize::MAX };
        find(set, &Shape { center, metres, form }, enough, &mut found)?;
    }
    let n = if options.count == 0 { found.len() } else { found.len().min(options.count) };
    // The nearest so many, if nothing else is said.
    let nearest = (options.count != 0 && !options.any).then_some(Order::NearestFirst);
    if let Some(order) = options.order.or(nearest) {
        let compare = |a: &Found<'_>, b: &Found<'_>| -> Ordering {
            let order_of = a.distance.total_cmp(&b.distance);
            if order == Order::NearestFirst { order_of } else { order_of.reverse() }
        };
        if n == found.len() {
            found.sort_by(compare);
        } else {
            partial_sort(&mut found, n, compare);
        }
    }
    found.truncate(n);
    let metres = query.area.map_or(1.0, |(_, metres)| metres);

    let Some(destination) = options.store else {
        write_found(ctx.reply.reborrow(), &found, &options, metres);
        return Ok(());
    };
    let limits = ctx.core.config.zset;
    let result = stored(&found, options.store_distances.then_some(metres), &limits)?;
    let event_name = if may_store { "georadiusstore" } else { "geosearchstore" };
    store(ctx, destination, result, event_name)?;
    ctx.keys.space.dirty += n.saturating_sub(1) as u64;
    Ok(())
}

/// Looks for what lies in a shape until `enough` are found.
fn find<'a>(set: ZSetRef<'a>, shape: &Shape, enough: usize, found: &mut Vec<Found<'a>>) -> Result<(), Error> {
    for cell in shape.cells() {
        let (min, max) = cell.scores();
        let ranks = set.score_range(&ScoreRange { min, max, min_open: false, max_open: true });
        for (member, score) in set.iter(ranks, false) {
            let position = geohash::position_of(score);
            if let Some(distance) = shape.distance_inside(position) {
                found.try_reserve(1)?;
                found.push(Found { member, score, position, distance });
                if found.len() >= enough {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn write_found(mut reply: Reply<'_>, found: &[Found<'_>], options: &Options<'_>, metres: f64) {
    let parts = usize::from(options.distances) + usize::from(options.scores) + usize::from(options.positions);
    reply.array(found.len());
    for one in found {
        if parts > 0 {
            reply.array(parts + 1);
        }
        reply.bulk(one.member.bytes(&mut [0; I64_CHARS]));
        if options.distances {
            write_distance(&mut reply, one.distance / metres);
        }
        if options.scores {
            reply.int(one.score as i64);
        }
        if options.positions {
            write_position(&mut reply, one.position);
        }
    }
}

/// The sorted set of what was found, with the distances in a unit of `metres` as scores if that is given.
fn stored(found: &[Found<'_>], metres: Option<f64>, limits: &ZSetLimits) -> Result<Item, Error> {
    let longest = found.iter().map(|one| one.member.text_len()).max().unwrap_or(0);
    let mut item = for_members(&[], limits, found.len(), longest)?;
    let Some(mut set) = ZSetMut::of(&mut item) else { return Err(Error::WrongType) };
    for one in found {
        let score = metres.map_or(one.score, |metres| one.distance / metres);
        // The distance of antipodes may be no number, which cannot be a score.
        let score = if score.is_nan() { f64::INFINITY } else { score };
        set.insert(one.member.bytes(&mut [0; I64_CHARS]), score, limits)?;
    }
    Ok(item)
}
