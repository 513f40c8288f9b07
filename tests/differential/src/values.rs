//! Random words: keys from a small pool, so that commands meet; numbers near limits; strings that change encodings.

/// A deterministic stream of choices (SplitMix64).
pub struct Draw(u64);

/// Whose keys a command mostly gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Keys that mostly hold one type: the letter begins their names.
    Letter(u8),
    /// Any.
    Any,
}

/// The letters of [`Kind::Letter`] in use.
pub const LETTERS: &[u8] = b"slthzgpx";
/// Keys a letter.
pub const KEYS_EACH: usize = 4;

impl Kind {
    /// The keys that commands of a documented group work on.
    pub fn of_group(group: &str) -> Kind {
        match group {
            "string" | "bitmap" => Kind::Letter(b's'),
            "list" => Kind::Letter(b'l'),
            "set" => Kind::Letter(b't'),
            "hash" => Kind::Letter(b'h'),
            "sorted-set" => Kind::Letter(b'z'),
            "geo" => Kind::Letter(b'g'),
            "hyperloglog" => Kind::Letter(b'p'),
            "stream" => Kind::Letter(b'x'),
            _ => Kind::Any,
        }
    }
}

/// What a number means, so that it is mostly of a sensible size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A position from either end.
    Index,
    /// How many.
    Count,
    /// How many, for commands that repeat elements: a huge one would never end.
    SmallCount,
    /// A bit or byte position that makes a string grow.
    Offset,
    /// 0 or 1.
    Bit,
    /// A time from now, in the command's own unit.
    Duration,
    /// Seconds of Unix time.
    UnixSeconds,
    /// Milliseconds of Unix time.
    UnixMilliseconds,
    /// How long to block, in seconds.
    Timeout,
    /// How long to block, longer than anybody looks, in any unit.
    LongTimeout,
    /// How long to block, in milliseconds.
    TimeoutMilliseconds,
    /// How long a stream's entry has been pending: either at once or longer than a test takes.
    Idle,
    /// What fits a byte, mostly.
    Byte,
    /// A database.
    Database,
    /// A SCAN cursor.
    Cursor,
    /// Anything: increments, weights, scores.
    Value,
}

impl Place {
    /// By the documented name of the argument, and the command's.
    /// Where commands that wait are waited for by somebody, `patient`, they wait for ever or for long.
    pub fn of(command: &str, argument: &str, patient: bool) -> Place {
        match argument {
            "timeout" if patient => Place::LongTimeout,
            "milliseconds" if command.starts_with("xread") && patient => Place::LongTimeout,
            "milliseconds" if command.starts_with("xread") => Place::TimeoutMilliseconds,
            "min-idle-time" => Place::Idle,
            "seconds" | "milliseconds" | "ms" | "ttl" => Place::Duration,
            "unix-time-seconds" => Place::UnixSeconds,
            "unix-time-milliseconds" => Place::UnixMilliseconds,
            "timeout" => Place::Timeout,
            "destination-db" | "db" | "index" if command == "move" || command == "copy" => Place::Database,
            "cursor" => Place::Cursor,
            "offset" if command == "setbit" || command == "setrange" || command.starts_with("bitfield") => {
                Place::Offset
            }
            "bit" => Place::Bit,
            "value" if command == "setbit" => Place::Bit,
            "count" if command.contains("rand") => Place::SmallCount,
            "idletime" | "frequency" => Place::Byte,
            "iterations" | "samples" | "percentage" => Place::Count,
            "count" | "limit" | "maxlen" | "len" | "rank" | "num-matches" => Place::Count,
            "index" | "start" | "stop" | "end" | "offset" => Place::Index,
            _ => Place::Value,
        }
    }
}

impl Draw {
    /// The stream for a seed.
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// True in `percent` of 100.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several things, of which there is at least one.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A key; nearly always one that holds the type the command is for.
    pub fn key(&mut self, kind: Kind) -> Vec<u8> {
        let letter = match kind {
            Kind::Letter(letter) if !self.chance(4) => letter,
            _ => *self.one(LETTERS),
        };
        if self.chance(1) {
            return b"".to_vec();
        }
        format!("{}{}", letter as char, self.below(KEYS_EACH)).into_bytes()
    }

    /// A payload of DUMP, sometimes a damaged one.
    pub fn payload(&mut self, payloads: &[Vec<u8>]) -> Vec<u8> {
        if payloads.is_empty() {
            return self.odd();
        }
        let mut payload = self.one(payloads).clone();
        match self.below(20) {
            0 => payload.truncate(self.below(payload.len())),
            1 => {
                let at = self.below(payload.len());
                payload[at] ^= 1 << self.below(8);
            }
            2 => return self.odd(),
            _ => {}
        }
        payload
    }

    /// A pattern: of names, or of the keys that SORT looks at.
    pub fn pattern(&mut self, command: &str) -> Vec<u8> {
        if command.starts_with("sort") {
            let patterns = ["s*", "h*->m1", "h1->m*", "#", "nosort", "*", "h*->", "h*", "s*x", "l*", "->", ""];
            return self.one(&patterns).as_bytes().to_vec();
        }
        self.one(&[
            &b"*"[..],
            b"?1",
            b"l*",
            b"*2",
            b"[st]*",
            b"[^s]*",
            b"[a-m]?",
            b"m*",
            b"\\*",
            b"[",
            b"",
            b"**1**",
            b"nosuch*",
        ])
        .to_vec()
    }

    /// A word that fits nowhere.
    pub fn odd(&mut self) -> Vec<u8> {
        let words: [&[u8]; 16] = [
            b"",
            b"abc",
            b"-1",
            b"0",
            b"1.5",
            b"nan",
            b"NX",
            b"LIMIT",
            b"WITHSCORES",
            b"COUNT",
            b"\x00\xff",
            b" 1",
            b"1 ",
            b"99999999999999999999",
            b"-inf",
            b"(1",
        ];
        self.one(&words).to_vec()
    }

    /// An integer for a place, as text; one in 25 is at a limit or none at all.
    pub fn integer(&mut self, place: Place) -> Vec<u8> {
        const LIMITS: [&str; 30] = [
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "4611686018427387904",
            "2147483648",
            "-2147483649",
            "4294967296",
            "007",
            "+1",
            "-0",
            "1e3",
            "",
            "x",
            "0x10",
            "9223372036854775806",
            "-9223372036854775807",
            "-9223372036854775809",
            "18446744073709551615",
            "18446744073709551616",
            "2147483647",
            "-2147483648",
            "4294967295",
            "1.0",
            " 1",
            "1 ",
            "--1",
            "-",
            "1\n",
            "1\0",
            "0x7fffffffffffffff",
        ];
        let number = match place {
            Place::SmallCount => return (self.below(12) as i64 - 5).to_string().into_bytes(),
            Place::Timeout => {
                return self.one(&["0.001", "0.002", "0.001", "-1", "x", "nan", "0.003"]).as_bytes().to_vec();
            }
            Place::TimeoutMilliseconds => return self.one(&["1", "2", "3", "-1", "x", ""]).as_bytes().to_vec(),
            Place::LongTimeout => return self.one(&["0", "0", "0", "100000", "-1", "x", "0x0"]).as_bytes().to_vec(),
            Place::Byte => *self.one(&[0, 1, 5, 255, 256, 1000, -1]),
            Place::Idle => *self.one(&[0, 0, 0, 10_000_000, -1]),
            Place::Cursor if !self.chance(5) => 0,
            _ if self.chance(4) => return self.one(&LIMITS).as_bytes().to_vec(),
            Place::Index => self.below(16) as i64 - 8,
            Place::Count | Place::Cursor => *self.one(&[0, 1, 1, 2, 3, 5, 10, 1000, -1]),
            // Not too much: LCS takes the product of two lengths.
            Place::Offset => *self.one(&[0, 1, 7, 8, 9, 30, 63, 64, 100, 1000, 5000, -1]),
            Place::Bit => *self.one(&[0, 1, 1, 0, 1, 2]),
            Place::Duration => *self.one(&[100_000, 500_000, 1_000_000, 100_000_000, 0, -1]),
            Place::UnixSeconds => *self.one(&[4_000_000_000, 3_000_000_000, 1, 0, -1]),
            Place::UnixMilliseconds => *self.one(&[4_000_000_000_000, 3_000_000_000_123, 1, 0, -1]),
            Place::Database => *self.one(&[0, 1, 2, 15, 16, -1]),
            Place::Value => *self.one(&[0, 1, -1, 2, 10, 100, -100, 12345, 4_611_686_018_427_387_904]),
        };
        number.to_string().into_bytes()
    }

    /// A floating-point number, as text.
    pub fn double(&mut self, place: Place) -> Vec<u8> {
        const NUMBERS: [&str; 58] = [
            "0",
            "1",
            "2",
            "3",
            "1.5",
            "-1",
            "-2.5",
            "10",
            "100",
            "0.1",
            "0.2",
            "3.14159265358979",
            "1e3",
            "1e21",
            "1e-7",
            "-0",
            "inf",
            "-inf",
            "+inf",
            "1.7976931348623157e308",
            "5e-324",
            "0.30000000000000004",
            "123456789012345678",
            "nan",
            "x",
            "",
            "infinity",
            "-Infinity",
            "+INF",
            "NaN",
            "-nan",
            "1e400",
            "-1e400",
            "1e-400",
            "0.1e1",
            "0x1p3",
            "0X10",
            "0x1.8p1",
            "0x",
            " 1.5",
            "1.5 ",
            "1.",
            ".5",
            "+.5",
            ".",
            "1e",
            "1e+",
            "0.12345678901234567",
            "12345678901234567",
            "1234567890123456.7",
            "9007199254740993",
            "4.9406564584124654e-324",
            "2.2250738585072011e-308",
            "179769313486231570000",
            "1_000",
            "1,5",
            "-0.0",
            "1\x005",
        ];
        match place {
            Place::LongTimeout => self.integer(place),
            Place::Timeout => self.integer(place),
            _ if self.chance(50) => (self.below(20) as i64 - 5).to_string().into_bytes(),
            _ => self.one(&NUMBERS).as_bytes().to_vec(),
        }
    }

    /// A string argument, by what the command does with it.
    pub fn string(&mut self, command: &str, argument: &str) -> Vec<u8> {
        if command.starts_with('x') {
            return self.stream_string(argument);
        }
        match argument {
            "min" | "max" | "start" | "stop" | "end" => self.bound(command),
            "encoding" => {
                self.one(&["u8", "i8", "u16", "i5", "u1", "i64", "u63", "u64", "i65", "x"]).as_bytes().to_vec()
            }
            "operation" => self.one(&["AND", "OR", "XOR", "NOT", "and", "NOPE"]).as_bytes().to_vec(),
            "offset" if command.starts_with("bitfield") => {
                self.one(&["0", "1", "#0", "#1", "#3", "7", "100", "-1", "x"]).as_bytes().to_vec()
            }
            "increment" => self.double(Place::Value),
            "subcommand" if command == "pfdebug" => {
                self.one(&["DECODE", "GETREG", "encoding", "TODENSE", "x"]).as_bytes().to_vec()
            }
            "type" => self.one(&["string", "list", "set", "hash", "zset", "stream", "nosuch"]).as_bytes().to_vec(),
            _ => self.value(),
        }
    }

    /// A string argument of a stream command.
    fn stream_string(&mut self, argument: &str) -> Vec<u8> {
        match argument {
            "start" | "end" if self.chance(40) => self.one(&["-", "+", "(-", "(0-0", "", "x"]).as_bytes().to_vec(),
            "start" | "end" if self.chance(20) => [b"(", &self.stream_id()[..]].concat(),
            "threshold" if self.chance(60) => self.integer(Place::Count),
            "start" | "end" | "threshold" | "id" | "lastid" | "last-id" | "max-deleted-id" => self.stream_id(),
            "group" | "groupname" => self.one(&["g", "h", "g", "nosuch"]).as_bytes().to_vec(),
            "consumer" | "consumername" => self.one(&["c", "d", "e"]).as_bytes().to_vec(),
            "min-idle-time" => self.integer(Place::Idle),
            _ => self.value(),
        }
    }

    /// An ID of a stream's entry; those of one stream grow slowly, so that commands meet.
    pub fn stream_id(&mut self) -> Vec<u8> {
        const ODD: [&str; 14] = [
            "-",
            "+",
            "$",
            ">",
            "",
            "x",
            "1-",
            "-1",
            "1-2-3",
            "1--5",
            " 5",
            "05-1",
            "18446744073709551616",
            "18446744073709551615-18446744073709551615",
        ];
        match self.below(50) {
            0 => self.one(&ODD).as_bytes().to_vec(),
            1..8 => self.below(20).to_string().into_bytes(),
            8..14 => format!("{}-*", self.below(20)).into_bytes(),
            _ => format!("{}-{}", self.below(20), self.below(4)).into_bytes(),
        }
    }

    /// A bound of a sorted-set range.
    fn bound(&mut self, command: &str) -> Vec<u8> {
        let lexical = command.contains("lex") || (!command.contains("score") && command != "zcount" && self.chance(30));
        if lexical {
            return self.one(&["-", "+", "[a", "(m1", "[m3", "(m5", "[m9", "[", "(", "x", "[n200"]).as_bytes().to_vec();
        }
        if command.starts_with("zrange") && !command.contains("by") && self.chance(60) {
            return self.integer(Place::Index);
        }
        self.one(&["-inf", "+inf", "0", "1", "(1", "(2.5", "5", "10", "-3", "(-inf", "nan", "(", "x"])
            .as_bytes()
            .to_vec()
    }

    /// A value, element, member or field.
    pub fn value(&mut self) -> Vec<u8> {
        match self.below(20) {
            0..=8 => format!("m{}", self.below(12)).into_bytes(),
            9..=12 => self.below(30).to_string().into_bytes(),
            13 => self.integer(Place::Value),
            14 => self.double(Place::Value),
            15 | 16 => format!("n{}", self.below(400)).into_bytes(),
            17 => vec![b'y'; *self.one(&[44, 45, 63, 64, 65, 300])],
            18 => self.one(&[&b""[..], b"\x00\xff\r\n", b"with blanks", b"\"quoted\"", "\u{e9}".as_bytes()]).to_vec(),
            _ => format!("{}", self.next() as i64).into_bytes(),
        }
    }
}
