//! Positions, their scores, and searches: what lies inside a shape must lie in one of the cells that are searched.
#![no_main]

use barium_fuzz::host::Host;
use barium_fuzz::input::Input;
use barium_kvstore::types::geohash::{
    Form, LATITUDES, LONGITUDES, Position, Shape, distance, letters, position_of, score_of,
};
use libfuzzer_sys::fuzz_target;

/// A coordinate: any double, or one in the range.
fn coordinate(input: &mut Input<'_>, min: f64, max: f64) -> f64 {
    match input.below(4) {
        0 => input.f64(),
        1 => input.pick(&[min, max, 0.0, -0.0, max - 1e-9, min + 1e-9]),
        _ => min + (input.u64() >> 11) as f64 / (1u64 << 53) as f64 * (max - min),
    }
}

fn position(input: &mut Input<'_>) -> Position {
    Position {
        lon: coordinate(input, LONGITUDES.min, LONGITUDES.max),
        lat: coordinate(input, LATITUDES.min, LATITUDES.max),
    }
}

fn number(value: f64) -> Vec<u8> {
    format!("{value:?}").into_bytes()
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let (center, to) = (position(&mut input), position(&mut input));
    // Scores come from ZADD as well: any double.
    let anywhere = position_of(input.f64());
    assert!(LONGITUDES.contains(anywhere.lon) && LATITUDES.contains(anywhere.lat));
    let _ = letters(center);
    let inside = |p: Position| LONGITUDES.contains(p.lon) && LATITUDES.contains(p.lat);
    assert_eq!(score_of(center).is_some(), inside(center));
    let metres = input.pick(&[1.0, 1000.0, 0.3048, 1609.34]);
    let length = match input.below(3) {
        0 => input.f64().abs(),
        1 => f64::from(input.byte()) * 100.0,
        _ => f64::from(input.byte()) * 100_000.0,
    };
    let form = if input.one_in(2) {
        Form::Circle { radius: length }
    } else {
        Form::Box { width: length, height: f64::from(input.byte()) * 1000.0 }
    };
    let shape = Shape { center, metres, form };
    let cells: Vec<_> = shape.cells().collect();
    assert!(cells.len() <= 9);
    if inside(center) && inside(to) {
        let d = distance(center, to);
        assert!(d.is_nan() || (0.0..20_100_000.0).contains(&d), "{d} m");
    }
    // The same through the commands.
    let mut host = Host::new(1);
    for (name, p) in [(&b"a"[..], center), (b"b", to)] {
        host.command(0, &[b"geoadd", b"g", &number(p.lon), &number(p.lat), name]);
    }
    host.command(0, &[b"zadd", b"g", &number(input.f64()), b"c"]);
    for line in ["geohash g a b c d", "geopos g a b c", "geodist g a b km", "geodist g a c ft"] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        host.command(0, &words);
    }
    let (lon, lat, size) = (number(center.lon), number(center.lat), number(length));
    host.command(0, &[b"geosearch", b"g", b"fromlonlat", &lon, &lat, b"byradius", &size, b"m", b"asc", b"withdist"]);
    host.command(
        0,
        &[b"geosearch", b"g", b"frommember", b"c", b"bybox", &size, &size, b"km", b"withcoord", b"withhash"],
    );
    host.command(
        0,
        &[b"geosearchstore", b"o", b"g", b"fromlonlat", &lon, &lat, b"byradius", &size, b"m", b"storedist"],
    );
    host.command(0, &[b"zrange", b"o", b"0", b"-1", b"withscores"]);
    host.finish();
});
