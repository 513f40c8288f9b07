//! DEBUG DIGEST and DIGEST-VALUE: a fingerprint of the data, the same as Redis's for the same data.
//!
//! A value is folded into 20 bytes by two steps: *xor* with the SHA-1 of what is added, where the order does not matter
//! (members of a set), and *mix*, which hashes the result once more, where it does (elements of a list).
//!
//! DIGEST is as atomic as any other command: while it goes on, in steps, nobody else is served.

use crate::core::Core;
use crate::ctx::Ctx;
use crate::encoding::listpack::Entry;
use crate::error::Error;
use crate::jobs::{self, Answer, Work};
use crate::keyspace::Keyspace;
use crate::number::double::{F64_CHARS, format_shortest};
use crate::number::{I64_CHARS, format_u64};
use crate::types::stream::StreamId;
use crate::value::{Item, ItemExt, Type, Value};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use sha1::{Digest as _, Sha1};

/// Elements that one step of DIGEST adds, about.
const ELEMENTS_PER_STEP: usize = 2_048;
/// Keys that are looked at in one go, and elements of each that are added at once.
const KEYS_AT_ONCE: usize = 64;
const SMALL: usize = 16;
/// Bytes of a string that count as an element.
const BYTES_PER_ELEMENT: usize = 256;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest([u8; 20]);

impl Digest {
    fn xor(&mut self, bytes: &[u8]) {
        let hash: [u8; 20] = Sha1::digest(bytes).into();
        self.0.iter_mut().zip(hash).for_each(|(d, h)| *d ^= h);
    }

    fn mix(&mut self, bytes: &[u8]) {
        self.mix_hash(Sha1::digest(bytes).into());
    }

    /// The same for what has this hash.
    fn mix_hash(&mut self, hash: [u8; 20]) {
        self.0.iter_mut().zip(hash).for_each(|(d, h)| *d ^= h);
        self.0 = Sha1::digest(self.0).into();
    }

    fn xor_entry(&mut self, entry: Entry<'_>) {
        self.xor(entry.bytes(&mut [0; I64_CHARS]));
    }

    fn mix_entry(&mut self, entry: Entry<'_>) {
        self.mix(entry.bytes(&mut [0; I64_CHARS]));
    }

    fn hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(40), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// How far a value has been added to a digest.
#[derive(Clone, Debug, Default)]
enum Place {
    /// Nothing was.
    #[default]
    Begin,
    /// So many bytes of a string.
    Bytes(Sha1, usize),
    /// So many elements of a list or a sorted set.
    Index(usize),
    /// The members of a set or the fields of a hash before this cursor.
    Cursor(u64),
    /// The entries of a stream before this one.
    Entry(StreamId),
    /// Everything.
    End,
}

/// The digest of one key, in the making.
#[derive(Clone, Debug, Default)]
struct Part {
    digest: Digest,
    place: Place,
}

impl Part {
    /// Adds more of a key's value: type, contents, and whether it has a deadline. At most about `left` elements (or as many
    /// times [`BYTES_PER_ELEMENT`] bytes), which are taken off it. Returns whether all is done.
    fn add(&mut self, item: &Item, left: &mut usize) -> bool {
        let Part { digest, place } = self;
        if matches!(place, Place::Begin) {
            let number: u32 = match item.type_of() {
                Type::String | Type::RawString => 0,
                Type::List => 1,
                Type::Set => 2,
                Type::ZSet => 3,
                Type::Hash => 4,
                Type::Stream => 6,
            };
            digest.mix(&number.to_be_bytes());
        }
        let index = if let Place::Index(index) = place { *index } else { 0 };
        let cursor = if let Place::Cursor(cursor) = place { *cursor } else { 0 };
        let mut added = 0;
        *place = match item.value() {
            Value::Str(string) => {
                let (mut hash, at) = match core::mem::take(place) {
                    Place::Bytes(hash, at) => (hash, at),
                    _ => (Sha1::new(), 0),
                };
                let mut digits = [0; I64_CHARS];
                let rest = &string.bytes(&mut digits)[at..];
                let piece = &rest[..rest.len().min(left.saturating_mul(BYTES_PER_ELEMENT))];
                hash.update(piece);
                added = piece.len().div_ceil(BYTES_PER_ELEMENT);
                if piece.len() == rest.len() {
                    digest.mix_hash(hash.finalize().into());
                    Place::End
                } else {
                    Place::Bytes(hash, at + piece.len())
                }
            }
            Value::List(list) => {
                list.iter_from(index).take(*left).for_each(|element| digest.mix_entry(element));
                added = (*left).min(list.len() - index);
                if index + added == list.len() { Place::End } else { Place::Index(index + added) }
            }
            Value::Set(set) => {
                let next = set.scan(cursor, *left, |member| {
                    digest.xor_entry(member);
                    added += 1;
                });
                if next == 0 { Place::End } else { Place::Cursor(next) }
            }
            Value::ZSet(zset) => {
                added = (*left).min(zset.len() - index);
                for (member, score) in zset.iter(index..index + added, false) {
                    let mut element = Digest::default();
                    element.mix_entry(member);
                    element.mix(format_shortest(&mut [0; F64_CHARS], score));
                    digest.xor(&element.0);
                }
                if index + added == zset.len() { Place::End } else { Place::Index(index + added) }
            }
            Value::Hash(hash) => {
                let next = hash.scan(cursor, *left, |field, value| {
                    let mut element = Digest::default();
                    element.mix_entry(field);
                    element.mix_entry(value);
                    digest.xor(&element.0);
                    added += 1;
                });
                if next == 0 { Place::End } else { Place::Cursor(next) }
            }
            Value::Stream(stream) => {
                let mut from = if let Place::Entry(id) = place { Some(*id) } else { Some(StreamId::MIN) };
                if let Some(first) = from {
                    for entry in stream.log.range(first, StreamId::MAX, false).take(*left) {
                        let (mut ms, mut seq) = ([0; I64_CHARS], [0; I64_CHARS]);
                        let id = [format_u64(&mut ms, entry.id.ms), format_u64(&mut seq, entry.id.seq)].join(&b'.');
                        digest.mix(&id);
                        entry.pairs().for_each(|text| digest.mix_entry(text));
                        (added, from) = (added + 1, entry.id.next());
                    }
                }
                match from {
                    Some(next) if added == *left => Place::Entry(next),
                    _ => Place::End,
                }
            }
        };
        *left = left.saturating_sub(added.max(1));
        let done = matches!(place, Place::End);
        if done && item.deadline().is_some() {
            digest.xor(b"!!expire!!");
        }
        done
    }
}

/// DIGEST: of all databases.
pub fn dataset(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    jobs::carry_out(ctx, Dataset::default())
}

/// A digest of all databases, in the making.
#[derive(Debug, Default)]
struct Dataset {
    all: Digest,
    /// The database that is looked at, and the cursor in it; None: it has not been begun.
    db: usize,
    cursor: Option<u64>,
    /// Keys of that database which have many elements.
    large: Vec<(Box<[u8]>, Part)>,
}

impl Work for Dataset {
    fn stops_others(&self) -> bool {
        true
    }

    fn step(&mut self, space: &mut Keyspace, _: &mut Core) -> Result<Option<Answer>, Error> {
        let mut left = ELEMENTS_PER_STEP;
        while left > 0 {
            let Some(db) = space.dbs.get(self.db) else { return Ok(Some(Answer::Line(self.all.hex()))) };
            if let Some((key, part)) = self.large.last_mut() {
                // Nothing changes meanwhile.
                if db.table.get(key).is_none_or(|item| part.add(item, &mut left)) {
                    self.all.xor(&part.digest.0);
                    self.large.pop();
                }
                continue;
            }
            if db.table.is_empty() || self.cursor == Some(0) {
                (self.db, self.cursor) = (self.db + 1, None);
                continue;
            }
            if self.cursor.is_none() {
                self.all.mix(&(self.db as u32).to_be_bytes());
            }
            let Self { all, large, .. } = self;
            large.try_reserve(KEYS_AT_ONCE * 2)?;
            let next = db.table.scan(self.cursor.unwrap_or(0), KEYS_AT_ONCE, |item| {
                let mut part = Part::default();
                part.digest.mix(item.key());
                if part.add(item, &mut left.min(SMALL)) {
                    all.xor(&part.digest.0);
                } else {
                    large.push((item.key().into(), part));
                }
                left = left.saturating_sub(SMALL);
            });
            // A cursor of 0 begins; the end is noted as that.
            self.cursor = Some(next);
        }
        Ok(None)
    }
}

/// DIGEST-VALUE: of single keys, expired ones that still lie there too; zeros for one that is not there.
pub fn values(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.reply.array(ctx.argc() - 2);
    for key in ctx.args.iter_from(2) {
        let (mut part, mut left) = (Part::default(), usize::MAX);
        if let Some(item) = ctx.keys.db().table.get(key) {
            part.add(item, &mut left);
        }
        ctx.reply.simple(&part.digest.hex());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use alloc::format;

    /// What valkey 8.0 gives, and redis-server 7.0.15 but for scores that it prints with more digits.
    const VALUES: &[(&str, &str)] = &[
        ("SET int 12", "655ac46b180ad2f61a3cee25f0b1780fa2ec879a"),
        ("SET text hello", "36b23a1456b2dce2c3ed252c456761301dba8060"),
        ("SET empty ''", "8b3447c33a834b810e3e181b6fd6a2ee1020921c"),
        (
            "SET long xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "f474716431f2652d2167da33572ef9a7fcee26de",
        ),
        ("SET volatile 1 EX 1000", "5279988c5d1911f474bcbbf2f0a87012d40f8459"),
        ("RPUSH list a b 3 c", "226c2112f4bc5d6412d156490c291101b43ddc83"),
        ("SADD intset 3 1 2", "2a462a3f51a1db89738ebbeef0c47ce1bbc85246"),
        ("SADD set a b 7", "4db2915dc242371e719444ddc8b328e38ac18e1c"),
        ("ZADD zset 1 a 2.5 b 3.3333333333333335 c -inf d 1e300 e", "303733fda90bb844b44a4933381b8c17281466cd"),
        ("HSET hash f v n 5", "cb57dbe608c2b2a06dad28cc683f351c38cd44cf"),
        ("XADD stream 5-1 a b c d", "ed2617986b9c96a744619a8cbc07cc24277a6ea1"),
        ("XADD stream 18446744073709551615-3 a b c 6", "cce7ce4782182a56adb720fa6e3f0bc2dff57664"),
    ];

    #[test]
    fn digests_are_those_of_redis() {
        let mut bench = Bench::new(&[("enable-debug-command", "yes")]);
        let c = bench.client();
        assert_eq!(bench.run(c, "DEBUG DIGEST"), "0".repeat(40));
        for (command, digest) in VALUES {
            bench.run(c, command);
            let key = command.split(' ').nth(1).unwrap();
            assert_eq!(
                bench.run(c, &format!("DEBUG DIGEST-VALUE {key} nosuchkey")),
                format!("[{digest} {}]", "0".repeat(40))
            );
        }
        assert_eq!(bench.run(c, "DEBUG DIGEST"), "bca604cd6583f72354acbbe5a9a3a26228029fd9");
    }

    #[test]
    fn a_large_data_set_is_digested_in_steps_while_nobody_changes_it() {
        let mut bench = Bench::new(&[("enable-debug-command", "yes")]);
        let (c, other) = (bench.client(), bench.client());
        for i in 0..3_000 {
            bench.run(c, &format!("SET key{i} {i}"));
            bench.run(c, &format!("RPUSH list {i} x{i}"));
            bench.run(c, &format!("SADD set m{i}"));
            bench.run(c, &format!("ZADD zset {i} m{i}"));
            bench.run(c, &format!("HSET hash f{i} {i}"));
            bench.run(c, &format!("XADD stream {}-1 f {i}", i + 1));
            bench.run(c, &format!("APPEND long {}", "x".repeat(400)));
        }
        bench.run(c, "SELECT 3");
        bench.run(c, "SET k v");
        // In a transaction it is one step.
        bench.run(c, "MULTI");
        bench.run(c, "DEBUG DIGEST");
        let whole = bench.run(c, "EXEC");
        assert_eq!(bench.run(c, "DEBUG DIGEST"), "");
        let (ping, mut steps) = (b"PING\r\n", 0);
        let reply = loop {
            assert_eq!(bench.server().feed(other, ping), 0, "nobody else is served");
            bench.server().tick();
            steps += 1;
            let reply = bench.read(c);
            if !reply.is_empty() {
                break reply;
            }
            assert!(steps < 1_000);
        };
        assert_eq!(format!("[{reply}]"), whole);
        // 18,000 elements, 3,000 keys each counted as 16 of them, and the string.
        assert!((20..60).contains(&steps), "{steps} steps");
        assert_eq!(bench.server().feed(other, ping), ping.len());
        assert_eq!(bench.read(other), "PONG");
        // Who asked may go; the others are served then.
        bench.run(c, "DEBUG DIGEST");
        bench.server().disconnect(c);
        bench.server().tick();
        assert_eq!(bench.server().feed(other, ping), ping.len());
    }
}
