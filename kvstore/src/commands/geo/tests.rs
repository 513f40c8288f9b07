//! Tests of the geo commands: events, effects, encodings; replies are compared with a real server's by the differential test.

use crate::testing::Bench;

const SICILY: &str = "GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania";

#[test]
fn positions_and_distances() {
    let mut b = Bench::new(&[]);
    let c = b.client();
    assert_eq!(b.run(c, SICILY), "2");
    assert_eq!(b.run(c, "GEOADD g CH XX 13.361389 38.115556 Palermo 1 1 nosuch"), "0");
    assert_eq!(b.run(c, "GEODIST g Palermo Catania km"), "166.2742");
    assert_eq!(b.run(c, "GEODIST g Palermo nosuch"), "nil");
    assert_eq!(b.run(c, "GEODIST g Palermo Catania mm"), "-ERR unsupported unit provided. please use M, KM, FT, MI");
    assert_eq!(b.run(c, "GEOPOS g Palermo nosuch"), "[[13.36138933897018433 38.11555639549629859] nil]");
    assert_eq!(b.run(c, "GEOHASH g Palermo Catania"), "[sqc8b49rny0 sqdtr74hyu0]");
    assert_eq!(
        b.run(c, "GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC WITHCOORD WITHDIST WITHHASH"),
        "[[Catania 56.4413 3479447370796909 [15.08726745843887329 37.50266842333162032]] \
          [Palermo 190.4424 3479099956230698 [13.36138933897018433 38.11555639549629859]]]"
    );
    assert_eq!(b.run(c, "GEOADD g 181 0 x"), "-ERR invalid longitude,latitude pair 181.000000,0.000000");
    assert_eq!(b.run(c, "GEOADD g NX XX 1 1 x"), "-ERR syntax error");
    assert_eq!(b.run(c, "ZSCORE g Palermo"), "3479099956230698");
    assert_eq!(b.encoding("g"), "listpack");
}

#[test]
fn options_of_searches() {
    let mut b = Bench::new(&[]);
    let c = b.client();
    b.run(c, SICILY);
    for (line, reply) in [
        ("GEOSEARCH g FROMMEMBER nosuch BYBOX 1 1 m", "-ERR could not decode requested zset member"),
        (
            "GEOSEARCH g BYBOX 1 1 m ASC ASC ASC",
            "-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for GEOSEARCH",
        ),
        (
            "GEOSEARCH g FROMLONLAT 1 1 ASC ASC ASC",
            "-ERR exactly one of BYRADIUS and BYBOX can be specified for GEOSEARCH",
        ),
        ("GEOSEARCH g FROMLONLAT 1 1 BYRADIUS 1 m BYBOX 1 1 m", "-ERR syntax error"),
        ("GEOSEARCH g FROMLONLAT 1 1 BYRADIUS -1 m", "-ERR radius cannot be negative"),
        ("GEOSEARCH g FROMLONLAT 1 1 BYRADIUS 1 m ANY", "-ERR the ANY argument requires COUNT argument"),
        ("GEOSEARCH g FROMLONLAT 1 1 BYRADIUS 1 m COUNT 0", "-ERR COUNT must be > 0"),
        ("GEORADIUS_RO g 1 1 1 m STORE x", "-ERR syntax error"),
        (
            "GEORADIUS g 1 1 1 m STORE x WITHDIST",
            "-ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
        ),
        ("GEORADIUSBYMEMBER none x abc mm", "[]"),
        ("GEOSEARCHSTORE d none FROMMEMBER x BYRADIUS 1 m", "0"),
        ("GEORADIUSBYMEMBER g Palermo 200 km DESC", "[Catania Palermo]"),
        ("GEOSEARCH g FROMMEMBER Palermo BYBOX 400 400 km COUNT 1", "[Palermo]"),
        ("GEOSEARCHSTORE d g FROMMEMBER Palermo BYRADIUS 200 km STOREDIST", "2"),
        ("ZRANGE d 0 -1", "[Palermo Catania]"),
        ("GEORADIUS g 0 0 1 m STORE d", "0"),
        ("EXISTS d", "0"),
    ] {
        assert_eq!(b.run(c, line), reply, "{line}");
    }
}

#[test]
fn events_name_what_happened() {
    let mut b = Bench::new(&[("notify-keyspace-events", "Ezg")]);
    let (c, events) = (b.client(), b.client());
    b.run(events, "PSUBSCRIBE *");
    let mut check = |line: &str, expected: &[&str]| {
        b.run(c, line);
        let got = b.read(events);
        let names: alloc::vec::Vec<&str> =
            got.split(' ').filter(|w| w.starts_with("__key")).map(|w| w.rsplit(':').next().unwrap_or("")).collect();
        assert_eq!(names, expected, "{line}");
    };
    check(SICILY, &["zadd"]);
    check("GEOSEARCHSTORE d g FROMMEMBER Palermo BYRADIUS 1 m", &["geosearchstore"]);
    check("GEORADIUSBYMEMBER g Palermo 1 m STOREDIST d", &["georadiusstore"]);
    check("GEORADIUS g 0 0 1 m STORE d", &["del"]);
}
