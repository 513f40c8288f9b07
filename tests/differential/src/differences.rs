//! Where right servers differ: what tells a listed difference from a wrong answer.
//!
//! Barium follows Redis 7.2. The references are Redis 7.0.15, which some things were changed after, and Valkey 8.0, which
//! changed some more. Each entry says what differs, from which reference, and shows it by an example; a test plays the
//! examples and fails for one that no longer differs.

use crate::wire::{Command, Reply};

/// Which server Barium is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Redis 7.0.15.
    Redis,
    /// Valkey 8.0.
    Valkey,
}

/// Two replies to one command.
#[derive(Debug)]
pub struct Seen<'a> {
    /// The command.
    pub command: &'a Command,
    /// Barium's reply.
    pub ours: &'a Reply,
    /// The reference's.
    pub theirs: &'a Reply,
}

/// One known difference.
pub struct Difference {
    /// From whom Barium differs.
    pub from: Reference,
    /// What differs, what was chosen, and why.
    pub what: &'static str,
    /// Commands whose last one is answered differently (unless they only may be).
    pub example: &'static [&'static str],
    /// Whether this is what makes two replies differ.
    pub explains: fn(&Seen) -> bool,
}

impl Seen<'_> {
    fn word(&self, at: usize) -> Vec<u8> {
        self.command.get(at).map(|word| word.to_ascii_lowercase()).unwrap_or_default()
    }

    fn is(&self, names: &[&str]) -> bool {
        let first = self.word(0);
        names.iter().any(|name| name.as_bytes() == first)
    }

    fn errors(&self) -> bool {
        self.ours.is_error() && self.theirs.is_error()
    }

    fn numbers(&self) -> bool {
        [self.ours, self.theirs].iter().all(|reply| matches!(reply, Reply::Line(b':', _)))
    }
}

/// The difference that explains why two replies are not the same.
pub fn explanation(reference: Reference, seen: &Seen) -> Option<&'static Difference> {
    DIFFERENCES.iter().find(|one| one.from == reference && (one.explains)(seen))
}

use Reference::{Redis, Valkey};

/// All that is known.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        from: Redis,
        what: "Scores are printed with as few digits as read back the same (7.2), not with 17. A score of -0 loses its sign \
               in a listpack, and which encoding a sorted set begins in was changed as well.",
        example: &["ZADD k 0.1 m", "ZSCORE k m"],
        explains: |seen| {
            let first = seen.word(0);
            (first.starts_with(b"z") || first.starts_with(b"bz")) && {
                let unsigned = |reply: &Reply| match reply {
                    Reply::Bulk(b'$', Some(text)) if text == b"-0" => Reply::Bulk(b'$', Some(b"0".to_vec())),
                    Reply::Line(b',', text) if text == b"-0" => Reply::Line(b',', b"0".to_vec()),
                    other => other.clone(),
                };
                same_scores(&each(seen.ours, &unsigned), &each(seen.theirs, &unsigned))
            }
        },
    },
    Difference {
        from: Redis,
        what: "Small sets of strings and small lists are listpacks (7.2), not hash tables and quicklists.",
        example: &["SADD k m", "OBJECT ENCODING k"],
        explains: |seen| {
            is_encoding(seen)
                && seen.ours.text() == b"listpack"
                && [&b"hashtable"[..], b"quicklist"].contains(&seen.theirs.text())
        },
    },
    Difference {
        from: Redis,
        what: "A sorted set is made in the encoding that its first command's elements need, and becomes a skip list when one \
               of them is too long, also if that is then not added (7.2).",
        example: &[],
        explains: |seen| is_encoding(seen) && seen.ours.text() == b"skiplist" && seen.theirs.text() == b"listpack",
    },
    Difference {
        from: Redis,
        what: "XREADGROUP and XCLAIM make their consumer even if there is nothing to read or claim (7.2), which XGROUP shows.",
        example: &["XGROUP CREATE k g $ MKSTREAM", "XREADGROUP GROUP g c STREAMS k >", "XGROUP CREATECONSUMER k g c"],
        explains: |seen| seen.is(&["xgroup"]) && seen.word(1) == b"createconsumer" && seen.numbers(),
    },
    Difference {
        from: Redis,
        what: "XREAD and XREADGROUP name themselves in quotes and lower case where streams and IDs do not match (7.2).",
        example: &["XREAD STREAMS a b 0"],
        explains: |seen| {
            let both = |text: &str| {
                let has = |reply: &Reply| String::from_utf8_lossy(reply.text()).contains(text);
                seen.errors() && has(seen.ours) && has(seen.theirs)
            };
            seen.is(&["xread", "xreadgroup"]) && both("list of streams: for each stream key an ID")
        },
    },
    Difference {
        from: Valkey,
        what: "BITCOUNT and BITPOS look at all their arguments before they look at the key there, and BITCOUNT takes a start \
               without an end (both after 7.2).",
        example: &["BITPOS nokey 0 x"],
        explains: |seen| seen.is(&["bitcount", "bitpos"]) && (seen.ours.is_error() || seen.theirs.is_error()),
    },
    Difference {
        from: Valkey,
        what: "A cursor with a sign is refused there and one behind a blank is not (after 7.2).",
        example: &["SCAN -1"],
        explains: |seen| {
            let invalid = |reply: &Reply| reply.text() == b"ERR invalid cursor";
            seen.is(&["scan", "sscan", "hscan", "zscan"]) && invalid(seen.ours) != invalid(seen.theirs)
        },
    },
    Difference {
        from: Valkey,
        what: "A negative offset of LIMIT counts from the wrong end of a skip list there (after 7.2); here it finds nothing. Not \
               generated.",
        example: &[
            "ZADD k 0 a 0 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "ZRANGEBYLEX k - + LIMIT -2 10",
        ],
        explains: |_| false,
    },
    Difference {
        from: Valkey,
        what: "SCAN of an unknown TYPE is an error there (after 7.2), and finds nothing here.",
        example: &["SCAN 0 TYPE nosuch"],
        explains: |seen| seen.is(&["scan"]) && seen.theirs.text().starts_with(b"ERR unknown type name"),
    },
    Difference {
        from: Valkey,
        what: "MULTI and WATCH inside a transaction have an error of their own, which ends the transaction (after 7.2).",
        example: &["MULTI", "MULTI"],
        explains: |seen| {
            seen.is(&["multi", "watch"]) && seen.theirs.text() == b"ERR Command not allowed inside a transaction"
        },
    },
    Difference {
        from: Valkey,
        what: "LSET on a listpack takes an index beyond 32 bits by its lower half there, a fault of 7.2 that 7.0 does not have: \
               here it is out of range.",
        example: &["RPUSH k a", "LSET k 4294967296 b"],
        explains: |seen| {
            let far = std::str::from_utf8(&seen.word(2)).ok().and_then(|index| index.parse::<i64>().ok());
            seen.is(&["lset"])
                && far.is_some_and(|index| i32::try_from(index).is_err())
                && seen.ours.text() == b"ERR index out of range"
        },
    },
    Difference {
        from: Redis,
        what: "XINFO tells a consumer's active-time and inactive, and a consumer is made by XREADGROUP and XCLAIM also if \
               nothing is read or claimed (7.2).",
        example: &["XGROUP CREATE k g $ MKSTREAM", "XGROUP CREATECONSUMER k g c", "XINFO CONSUMERS k g"],
        explains: |seen| seen.is(&["xinfo"]) && busy_consumers(seen.ours) == busy_consumers(seen.theirs),
    },
    Difference {
        from: Redis,
        what: "DUMP's payloads are of RDB version 11 (7.2), not 10.",
        example: &["SET k v", "DUMP k"],
        explains: |seen| seen.is(&["dump"]) && bulks(seen),
    },
    Difference {
        from: Valkey,
        what: "DUMP may compress a string in another way, and a hash table has another order: the payload is not compared but \
               restored on the other server.",
        example: &[],
        explains: |seen| seen.is(&["dump"]) && bulks(seen),
    },
    Difference {
        from: Redis,
        what: "ACL shows sanitize-payload of users that were not told otherwise, and keeps rules about commands more as they \
               were given (7.2).",
        example: &["ACL GETUSER default"],
        explains: |seen| {
            let told = without_rules;
            seen.is(&["acl"])
                && [&b"getuser"[..], b"list"].contains(&&seen.word(1)[..])
                && told(seen.ours) == told(seen.theirs)
        },
    },
    Difference {
        from: Valkey,
        what: "UNSUBSCRIBE and the like are refused there in a client without subscriptions (after 7.2).",
        example: &["UNSUBSCRIBE a"],
        explains: |seen| seen.theirs.text().starts_with(b"NOSUB "),
    },
    Difference {
        from: Valkey,
        what: "XREAD takes + as an ID there, and XREADGROUP speaks of it (after 7.2).",
        example: &["XREAD STREAMS x +"],
        explains: |seen| {
            seen.is(&["xread", "xreadgroup"])
                && seen.command.contains(&b"+".to_vec())
                && seen.ours.text().starts_with(b"ERR Invalid stream ID")
        },
    },
    Difference {
        from: Redis,
        what: "ACL DRYRUN names the user it is about (7.2).",
        example: &["ACL SETUSER u reset", "ACL DRYRUN u get k"],
        explains: |seen| {
            let about = |reply: &Reply| String::from_utf8_lossy(reply.text()).contains(" has no permissions to ");
            seen.is(&["acl"]) && seen.word(1) == b"dryrun" && about(seen.ours) && about(seen.theirs)
        },
    },
    Difference {
        from: Valkey,
        what: "SET with a time in the past deletes the key at once there (after 7.2); here it is there until somebody looks. Not \
               generated.",
        example: &["SET k v EXAT 1", "DBSIZE"],
        explains: |_| false,
    },
    Difference {
        from: Redis,
        what: "HELLO reads all its options before it looks at the password (7.2).",
        example: &["HELLO 3 AUTH nosuch x FOO"],
        explains: |seen| {
            seen.is(&["hello"]) && seen.theirs.text().starts_with(b"WRONGPASS") && seen.ours.text().starts_with(b"ERR ")
        },
    },
    Difference {
        from: Redis,
        what: "RESET switches NO-EVICT off (7.2). That flag is not compared with 7.0.",
        example: &[],
        explains: |_| false,
    },
    Difference {
        from: Redis,
        what: "HELLO sets the name only once everything else is found to be right (7.2). Not generated.",
        example: &["HELLO 2 SETNAME name AUTH nosuch x", "CLIENT GETNAME"],
        explains: |_| false,
    },
    Difference {
        from: Redis,
        what: "COMMAND GETKEYS and GETKEYSANDFLAGS take a single word (7.2).",
        example: &["COMMAND GETKEYS get"],
        explains: |seen| {
            seen.is(&["command"]) && seen.word(1).starts_with(b"getkeys") && seen.command.len() == 3 && seen.errors()
        },
    },
    Difference {
        from: Redis,
        what: "list-compress-depth cannot be set: the nodes of a list are never compressed here.",
        example: &["CONFIG SET list-compress-depth 1"],
        explains: |seen| seen.is(&["config"]) && seen.command.contains(&b"list-compress-depth".to_vec()),
    },
    Difference {
        from: Valkey,
        what: "list-compress-depth cannot be set: the nodes of a list are never compressed here.",
        example: &["CONFIG SET list-compress-depth 1"],
        explains: |seen| seen.is(&["config"]) && seen.command.contains(&b"list-compress-depth".to_vec()),
    },
    Difference {
        from: Redis,
        what: "The flags of some keys are others (7.2 corrected them): only the keys that GETKEYSANDFLAGS names are compared; the \
               table has golden data.",
        example: &["COMMAND GETKEYSANDFLAGS SINTERSTORE a b"],
        explains: |seen| {
            let keys = |reply: &Reply| -> Vec<Vec<u8>> {
                reply.items().iter().filter_map(|pair| Some(pair.items().first()?.text().to_vec())).collect()
            };
            seen.is(&["command"]) && seen.word(1) == b"getkeysandflags" && keys(seen.ours) == keys(seen.theirs)
        },
    },
    Difference {
        from: Valkey,
        what: "ACL LOAD and SAVE without a file speak of an instance there, of a Redis instance in 7.2.",
        example: &["ACL LOAD"],
        explains: |seen| seen.is(&["acl"]) && [&b"load"[..], b"save"].contains(&&seen.word(1)[..]) && seen.errors(),
    },
    Difference {
        from: Valkey,
        what: "A login that fails behind replies which are still to be sent (in a pipeline, in EXEC) is not answered at all \
               there, a fault of 7.2 which leaves the client with one reply too few; here it is. Not generated.",
        example: &[],
        explains: |_| false,
    },
    Difference {
        from: Valkey,
        what: "Names of clients and libraries are looked at up to a zero byte there; here a zero byte is a special character. Not \
               generated.",
        example: &["CLIENT SETNAME \0"],
        explains: |_| false,
    },
    Difference {
        from: Redis,
        what: "XREADGROUP that waits for a stream which goes or becomes something else is told NOGROUP or WRONGTYPE (7.2), not \
               UNBLOCKED. Other waiters go on waiting in all versions.",
        example: &[],
        explains: |seen| {
            seen.is(&["xreadgroup"]) && seen.errors() && seen.theirs.text().starts_with(b"UNBLOCKED the stream")
        },
    },
    Difference { from: Redis, what: ERRNO, example: &[], explains: |_| false },
    Difference { from: Redis, what: TIES, example: &[], explains: ties },
    Difference { from: Valkey, what: TIES, example: &[], explains: ties },
    Difference { from: Redis, what: GEO, example: &[], explains: geo },
    Difference { from: Valkey, what: GEO, example: &[], explains: geo },
    Difference { from: Redis, what: QUOTED, example: &[], explains: quoted },
    Difference { from: Valkey, what: QUOTED, example: &[], explains: quoted },
    Difference { from: Redis, what: REFCOUNT, example: &[], explains: refcount },
    Difference { from: Valkey, what: REFCOUNT, example: &[], explains: refcount },
];

const ERRNO: &str = "SORT fails for numbers that are fine where an earlier command was given one out of a double's range: it \
                     looks at an error number that was left behind, a fault of all versions. Not generated.";
const TIES: &str = "SORT ALPHA compares up to a zero byte; those that are alike up to there stay in their order here, where the \
                    reference's sorting may exchange them.";
const GEO: &str = "Distances on the globe are rounded correctly here, by the C library there: a stored one (GEOSEARCHSTORE \
                   STOREDIST) may differ in its last bits, and 7.2 rounds the fourth digit of a shown one from a product.";
const QUOTED: &str =
    "Where an error quotes a word, bytes that are no UTF-8 are replaced here; there they stand as they came.";
const REFCOUNT: &str = "OBJECT REFCOUNT of a value made in the same transaction counts the queue's reference there; a value \
                        here has no count of references, and the one of Redis 7.2 outside of transactions is answered.";

fn refcount(seen: &Seen) -> bool {
    let is = |reply: &Reply, count: &[u8]| matches!(reply, Reply::Line(b':', text) if text == count);
    seen.is(&["object"]) && seen.word(1) == b"refcount" && is(seen.ours, b"1") && is(seen.theirs, b"2")
}

fn ties(seen: &Seen) -> bool {
    let compared = |reply: &Reply| match reply {
        Reply::Many(_, Some(items)) => {
            let ends = |text: &[u8]| text.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
            items.iter().map(|item| ends(item.text())).collect()
        }
        _ => Vec::new(),
    };
    let alpha = seen.command.iter().any(|word| word.eq_ignore_ascii_case(b"alpha"));
    seen.is(&["sort", "sort_ro"])
        && alpha
        && !compared(seen.ours).is_empty()
        && compared(seen.ours) == compared(seen.theirs)
}

fn geo(seen: &Seen) -> bool {
    if seen.word(0).starts_with(b"geo") {
        return close(seen.ours, seen.theirs, |a, b| (a - b).abs() < 1.1e-4);
    }
    // Only these keys hold distances.
    let key = seen.word(1);
    seen.is(&["zrange"])
        && (key.starts_with(b"g") || key.is_empty() || key.starts_with(b"\0"))
        && close(seen.ours, seen.theirs, |a, b| (a - b).abs() <= 8.0 * f64::EPSILON * b.abs())
}

fn quoted(seen: &Seen) -> bool {
    let odd = |text: &[u8]| text.iter().position(|byte| *byte >= 0x80).unwrap_or(text.len());
    let (mine, other) = (seen.ours.text(), seen.theirs.text());
    let to = odd(mine).min(odd(other));
    seen.errors() && to < mine.len() && to > 8 && mine[..to] == other[..to]
}

fn is_encoding(seen: &Seen) -> bool {
    seen.is(&["object"]) && seen.word(1) == b"encoding"
}

fn bulks(seen: &Seen) -> bool {
    [seen.ours, seen.theirs].iter().all(|reply| matches!(reply, Reply::Bulk(b'$', Some(_))))
}

/// The reply without rules about commands and payloads.
fn without_rules(reply: &Reply) -> Reply {
    let rule = |word: &str| word.trim_matches(['(', ')']).starts_with(['+', '-']) || word == "sanitize-payload";
    match reply {
        Reply::Many(kind, Some(items)) => {
            let kept = items.iter().filter(|item| item.text() != b"sanitize-payload");
            Reply::Many(*kind, Some(kept.map(without_rules).collect()))
        }
        Reply::Bulk(kind, Some(text)) => {
            let text = String::from_utf8_lossy(text).into_owned();
            let kept: Vec<&str> = text.split(' ').filter(|word| !rule(word)).collect();
            Reply::Bulk(*kind, Some(kept.join(" ").into_bytes()))
        }
        other => other.clone(),
    }
}

/// XINFO's reply as far as 7.0 and 7.2 agree: without idle consumers, their numbers and times.
fn busy_consumers(reply: &Reply) -> Reply {
    let Reply::Many(kind, Some(items)) = reply else { return reply.clone() };
    let field = |consumer: &Reply, name: &[u8]| {
        let pair = consumer.items().chunks(2).find(|pair| pair[0].text() == name);
        pair.and_then(|pair| pair.get(1)).map(|value| value.text().to_vec())
    };
    let idle = |item: &&Reply| {
        field(item, b"seen-time").or(field(item, b"idle")).is_none()
            || field(item, b"pel-count").or(field(item, b"pending")).is_none_or(|count| count != b"0")
    };
    let kept = Reply::Many(*kind, Some(items.iter().filter(idle).map(busy_consumers).collect()));
    [&b"consumers"[..], b"inactive", b"active-time"].iter().fold(kept, |kept, name| match kept {
        // The list of them in FULL stays.
        Reply::Many(kind, Some(items)) => {
            let mut left = Vec::new();
            let mut items = items.into_iter().peekable();
            while let Some(item) = items.next() {
                if item.text() == *name && matches!(items.peek(), Some(Reply::Line(..))) {
                    items.next();
                } else {
                    left.push(item);
                }
            }
            Reply::Many(kind, Some(left))
        }
        other => other,
    })
}

/// Whether the replies differ at most in strings that are numbers with a point, and those are near each other.
fn close(ours: &Reply, theirs: &Reply, near: fn(f64, f64) -> bool) -> bool {
    let number = |text: &[u8]| {
        std::str::from_utf8(text).ok().filter(|text| text.contains('.')).and_then(|text| text.parse::<f64>().ok())
    };
    match (ours, theirs) {
        (Reply::Many(a, Some(ours)), Reply::Many(b, Some(theirs))) => {
            a == b && ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| close(a, b, near))
        }
        (Reply::Bulk(b'$', Some(ours)), Reply::Bulk(b'$', Some(theirs)))
        | (Reply::Line(b',', ours), Reply::Line(b',', theirs)) => {
            ours == theirs || number(ours).zip(number(theirs)).is_some_and(|(a, b)| near(a, b))
        }
        _ => ours == theirs,
    }
}

/// The reply with `change` made to everything in it that is no array.
fn each(reply: &Reply, change: &dyn Fn(&Reply) -> Reply) -> Reply {
    match reply {
        Reply::Many(kind, Some(items)) => {
            Reply::Many(*kind, Some(items.iter().map(|item| each(item, change)).collect()))
        }
        other => change(other),
    }
}

/// Whether the replies differ at most in how numbers are printed.
fn same_scores(ours: &Reply, theirs: &Reply) -> bool {
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    // Significant digits: 7.2 never needs more of them but for whole numbers, though it may write more zeros.
    let digits = |text: &[u8]| {
        let mantissa = text.split(|byte| *byte == b'e').next().unwrap_or_default();
        let digits: Vec<u8> = mantissa.iter().copied().filter(u8::is_ascii_digit).collect();
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.len() - zeros - digits[zeros..].iter().rev().take_while(|digit| **digit == b'0').count()
    };
    match (ours, theirs) {
        (Reply::Many(a, Some(ours)), Reply::Many(b, Some(theirs))) => {
            a == b && ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| same_scores(a, b))
        }
        (Reply::Bulk(b'$', Some(ours)), Reply::Bulk(b'$', Some(theirs)))
        | (Reply::Line(b',', ours), Reply::Line(b',', theirs)) => {
            let whole = ours.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-');
            let fewer = whole || digits(ours) <= digits(theirs);
            ours == theirs || (fewer && number(ours).is_some() && number(ours) == number(theirs))
        }
        _ => ours == theirs,
    }
}
