//! Positions on the globe as 52-bit integers, which order a sorted set so that what is near is mostly together.
//!
//! A position's longitude and latitude are each cut into 2^step cells; the bits of both numbers are interleaved, the
//! longitude's first (Gustavo Niemeyer's geohash, with the latitudes of the Mercator projection). A square of 2^(26 - step)
//! cells is thus a range of integers. Arithmetic and its order are Redis's, for the results are to be the same to the last
//! bit.

use crate::number::trig::{asin, cos, sin};

/// Bits of each coordinate.
pub const STEP_MAX: u32 = 26;
/// Degrees; the range of positions.
pub const LONGITUDES: Span = Span { min: -180.0, max: 180.0 };
/// Degrees; those of EPSG:3857, as far as it is square.
pub const LATITUDES: Span = Span { min: -85.05112878, max: 85.05112878 };
/// In m.
const EARTH_RADIUS: f64 = 6_372_797.560_856;
/// In m: half the circumference of the projection, and a bit less.
const MERCATOR_MAX: f64 = 20_037_726.37;
const RADIANS_PER_DEGREE: f64 = core::f64::consts::PI / 180.0;

/// A closed range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Lower end.
    pub min: f64,
    /// Upper end.
    pub max: f64,
}

impl Span {
    /// Whether it contains a number.
    pub fn contains(&self, value: f64) -> bool {
        self.min <= value && value <= self.max
    }

    /// Number of the cell of a value, if the range has 2^step of them.
    fn cell(&self, value: f64, step: u32) -> u32 {
        ((value - self.min) / (self.max - self.min) * (1u64 << step) as f64) as u32
    }

    /// The cell's range.
    fn of_cell(&self, cell: u32, step: u32) -> Span {
        let edge = |n: u32| self.min + f64::from(n) / (1u64 << step) as f64 * (self.max - self.min);
        Span { min: edge(cell), max: edge(cell.wrapping_add(1)) }
    }
}

/// Longitude and latitude, in degrees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// Longitude.
    pub lon: f64,
    /// Latitude.
    pub lat: f64,
}

/// A square of the grid of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Interleaved bits, 2 * step of them.
    bits: u64,
    step: u32,
}

/// Bits of longitudes.
const LON_BITS: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// Spreads the bits of a number to the even places.
fn spread(value: u32) -> u64 {
    let mut x = u64::from(value);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        x = (x | x << shift) & mask;
    }
    x
}

/// The bits in even places.
fn gather(bits: u64) -> u32 {
    let mut x = bits & !LON_BITS;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        x = (x | x >> shift) & mask;
    }
    x as u32
}

impl Cell {
    /// The cell of a position in a grid; `None` if it lies outside.
    pub fn of(position: Position, lons: Span, lats: Span, step: u32) -> Option<Self> {
        if !LONGITUDES.contains(position.lon) || !LATITUDES.contains(position.lat) {
            return None;
        }
        let bits = spread(lats.cell(position.lat, step)) | spread(lons.cell(position.lon, step)) << 1;
        Some(Self { bits, step })
    }

    /// The interleaved bits.
    pub const fn bits(self) -> u64 {
        self.bits
    }

    /// The scores of the positions in the cell: from the first to before the second.
    pub fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEP_MAX - self.step);
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }

    /// Its longitudes and latitudes.
    fn area(self) -> (Span, Span) {
        (LONGITUDES.of_cell(gather(self.bits >> 1), self.step), LATITUDES.of_cell(gather(self.bits), self.step))
    }

    /// The cell so many to the east and north (-1, 0 or 1), around the globe.
    fn beside(self, east: i32, north: i32) -> Self {
        // At longitude 180 the cell's number has a bit more, which stays as long as it does not move.
        let mask = u64::MAX >> (64 - 2 * self.step);
        // Carries run through the other coordinate's bits when these are all ones, borrows when they are zeros.
        let moved = |bits: u64, lane: u64, by: i32| match by {
            0 => bits & lane,
            1.. => (bits | !lane).wrapping_add(1) & lane & mask,
            _ => (bits & lane).wrapping_sub(lane & lane.wrapping_neg()) & lane & mask,
        };
        let bits = moved(self.bits, LON_BITS, east) | moved(self.bits, !LON_BITS, north);
        Self { bits, step: self.step }
    }
}

/// The score of a position; `None` if it lies outside.
pub fn score_of(position: Position) -> Option<f64> {
    Cell::of(position, LONGITUDES, LATITUDES, STEP_MAX).map(|cell| cell.bits as f64)
}

/// The position that a score stands for: the middle of its cell.
pub fn position_of(score: f64) -> Position {
    let (lons, lats) = Cell { bits: bits_of(score), step: STEP_MAX }.area();
    // Redis cuts the cells beyond longitude 180 and the last latitude off.
    Position {
        lon: ((lons.min + lons.max) / 2.0).clamp(LONGITUDES.min, LONGITUDES.max),
        lat: ((lats.min + lats.max) / 2.0).clamp(LATITUDES.min, LATITUDES.max),
    }
}

/// A score as an integer. Those that are no positions get the bits that C's conversion gives on x86.
fn bits_of(score: f64) -> u64 {
    const LIMIT: f64 = (1u64 << 63) as f64;
    let signed = |value: f64| if (-LIMIT..LIMIT).contains(&value) { value as i64 } else { i64::MIN } as u64;
    if score < LIMIT { signed(score) } else { signed(score - LIMIT) ^ 1 << 63 }
}

/// The 11 letters of a position's standard geohash. The last one is always zero: there are 52 bits only.
pub fn letters(position: Position) -> [u8; 11] {
    const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    let (lons, lats) = (Span { min: -180.0, max: 180.0 }, Span { min: -90.0, max: 90.0 });
    let bits = Cell::of(position, lons, lats, STEP_MAX).map_or(0, Cell::bits);
    core::array::from_fn(|i| match i {
        10 => ALPHABET[0],
        _ => ALPHABET[(bits >> (52 - 5 * (i + 1)) & 31) as usize],
    })
}

/// Distance along a meridian, in m.
fn latitude_distance(a: f64, b: f64) -> f64 {
    EARTH_RADIUS * (b * RADIANS_PER_DEGREE - a * RADIANS_PER_DEGREE).abs()
}

/// Great-circle distance of two positions by the haversine formula, in m.
pub fn distance(a: Position, b: Position) -> f64 {
    let v = sin((b.lon * RADIANS_PER_DEGREE - a.lon * RADIANS_PER_DEGREE) / 2.0);
    if v == 0.0 {
        return latitude_distance(a.lat, b.lat);
    }
    let (lat_a, lat_b) = (a.lat * RADIANS_PER_DEGREE, b.lat * RADIANS_PER_DEGREE);
    let u = sin((lat_b - lat_a) / 2.0);
    let haversine = u * u + cos(lat_a) * cos(lat_b) * v * v;
    2.0 * EARTH_RADIUS * asin(libm::sqrt(haversine))
}

/// What is searched, in a unit of `metres`.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The middle.
    pub center: Position,
    /// Metres of the unit of length.
    pub metres: f64,
    /// Its form.
    pub form: Form,
}

/// Form of a [`Shape`], in its unit.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// All that is no farther from the center.
    Circle {
        /// How far.
        radius: f64,
    },
    /// A rectangle along the parallels.
    Box {
        /// From west to east.
        width: f64,
        /// From south to north.
        height: f64,
    },
}

impl Shape {
    /// The distance from the center of a position that lies inside, in m.
    pub fn distance_inside(&self, to: Position) -> Option<f64> {
        match self.form {
            Form::Circle { radius } => {
                let distance = distance(self.center, to);
                // A distance that is not a number (of antipodes) counts as inside.
                if distance > radius * self.metres { None } else { Some(distance) }
            }
            Form::Box { width, height } => {
                if latitude_distance(to.lat, self.center.lat) > height * self.metres / 2.0 {
                    return None;
                }
                let across = distance(to, Position { lon: self.center.lon, lat: to.lat });
                if across > width * self.metres / 2.0 { None } else { Some(distance(self.center, to)) }
            }
        }
    }

    /// Longitudes and latitudes around it.
    fn bounds(&self) -> (Span, Span) {
        let Position { lon, lat } = self.center;
        let (across, along) = match self.form {
            Form::Circle { radius } => (self.metres * radius, self.metres * radius),
            Form::Box { width, height } => (self.metres * (width / 2.0), self.metres * (height / 2.0)),
        };
        let lat_delta = along / EARTH_RADIUS / RADIANS_PER_DEGREE;
        // Parallels are shorter towards the poles: the edge on that side counts.
        let edge = if lat < 0.0 { lat - lat_delta } else { lat + lat_delta };
        let lon_delta = across / EARTH_RADIUS / cos(edge * RADIANS_PER_DEGREE) / RADIANS_PER_DEGREE;
        (Span { min: lon - lon_delta, max: lon + lon_delta }, Span { min: lat - lat_delta, max: lat + lat_delta })
    }

    /// A step at which nine cells cover it, mostly.
    fn estimated_step(&self) -> u32 {
        let mut range = self.metres
            * match self.form {
                Form::Circle { radius } => radius,
                Form::Box { width, height } => {
                    libm::sqrt((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0))
                }
            };
        if range == 0.0 {
            return STEP_MAX;
        }
        let mut step = 1;
        while range < MERCATOR_MAX {
            range *= 2.0;
            step += 1;
        }
        step -= 2;
        let lat = self.center.lat.abs();
        step -= i32::from(lat > 66.0) + i32::from(lat > 80.0);
        step.clamp(1, STEP_MAX as i32) as u32
    }

    /// The cells in which to look, in the order in which Redis does: the center's, north, south, east, west, north-east,
    /// north-west, south-east, south-west; those that cannot hold anything are left out.
    pub fn cells(&self) -> impl Iterator<Item = Cell> {
        const DIRECTIONS: [(i32, i32); 9] =
            [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let (lons, lats) = self.bounds();
        let at = |step| Cell::of(self.center, LONGITUDES, LATITUDES, step);
        let mut center = at(self.estimated_step());
        if let Some(cell) = center
            && cell.step > 1
        {
            let area = |(east, north)| cell.beside(east, north).area();
            if area((0, 1)).1.max < lats.max
                || area((0, -1)).1.min > lats.min
                || area((1, 0)).0.max < lons.max
                || area((-1, 0)).0.min > lons.min
            {
                center = at(cell.step - 1);
            }
        }
        let mut last = None;
        DIRECTIONS.into_iter().filter_map(move |(east, north)| {
            let center = center?;
            let area = center.area();
            let useless = center.step >= 2
                && ((north < 0 && area.1.min < lats.min)
                    || (north > 0 && area.1.max > lats.max)
                    || (east < 0 && area.0.min < lons.min)
                    || (east > 0 && area.0.max > lons.max));
            let cell = center.beside(east, north);
            // Of a large shape, neighbours are the same: they follow each other. (The first cell is no neighbour's like.)
            if useless || last == Some(cell) {
                return None;
            }
            last = (east, north).ne(&(0, 0)).then_some(cell);
            Some(cell)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_go_apart_and_together() {
        for value in [0, 1, 0x2aa_aaaa, 0x3ff_ffff, 0x155_5555, u32::MAX] {
            assert_eq!(gather(spread(value)), value);
            assert_eq!(gather(spread(value) << 1 >> 1), value);
        }
    }

    #[test]
    fn neighbours_go_around_the_globe() {
        let cell = Cell { bits: 0, step: 2 };
        assert_eq!(cell.beside(1, 0).bits, 0b0010);
        assert_eq!(cell.beside(-1, 0).bits, 0b1010);
        assert_eq!(cell.beside(0, -1).bits, 0b0101);
        assert_eq!(cell.beside(1, 1).bits, 0b0011);
        for bits in 0..16 {
            let cell = Cell { bits, step: 2 };
            assert_eq!(cell.beside(1, -1).beside(-1, 1), cell);
        }
    }

    #[test]
    fn a_position_comes_back() {
        for (lon, lat) in [(13.361389, 38.115556), (-180.0, -85.05112878), (179.9999, 85.0511), (0.0, 0.0)] {
            let back = position_of(score_of(Position { lon, lat }).unwrap());
            assert!((back.lon - lon).abs() < 6e-6 && (back.lat - lat).abs() < 3e-6, "{back:?}");
        }
        assert!(score_of(Position { lon: 180.1, lat: 0.0 }).is_none());
    }

    #[test]
    fn cells_cover_the_shape() {
        for (lon, lat, radius) in [(0.0, 0.0, 1e5), (179.9, 70.0, 3e5), (-90.0, -84.0, 1e4), (10.0, 10.0, 3e7)] {
            let center = Position { lon, lat };
            let shape = Shape { center, metres: 1.0, form: Form::Circle { radius } };
            let cells: alloc::vec::Vec<Cell> = shape.cells().collect();
            assert!(!cells.is_empty() && cells.len() <= 9);
            for i in 0..100 {
                let to = Position { lon: lon + f64::from(i % 10 - 5) * 0.3, lat: lat + f64::from(i / 10 - 5) * 0.1 };
                if let Some(score) = score_of(to)
                    && shape.distance_inside(to).is_some()
                {
                    let found = |cell: &Cell| (cell.scores().0..cell.scores().1).contains(&score);
                    assert_eq!(cells.iter().filter(|cell| found(cell)).count(), 1, "{center:?} {to:?}");
                }
            }
        }
    }
}
