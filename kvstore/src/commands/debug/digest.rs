//! DEBUG DIGEST and DIGEST-VALUE: a fingerprint of the data, the same as Redis's for the same data.
//!
//! A value is folded into 20 bytes by two steps: *xor* with the SHA-1 of what is added, where the order does not matter
//! (members of a set), and *mix*, which hashes the result once more, where it does (elements of a list).

use crate::ctx::Ctx;
use crate::encoding::listpack::Entry;
use crate::error::Error;
use crate::number::double::{F64_CHARS, format_shortest};
use crate::number::{I64_CHARS, format_u64};
use crate::types::stream::{Stream, StreamId};
use crate::value::{Item, ItemExt, Type, Value};
use alloc::string::String;
use core::fmt::Write;
use sha1::{Digest as _, Sha1};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest([u8; 20]);

impl Digest {
    fn xor(&mut self, bytes: &[u8]) {
        let hash: [u8; 20] = Sha1::digest(bytes).into();
        self.0.iter_mut().zip(hash).for_each(|(d, h)| *d ^= h);
    }

    fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    fn xor_entry(&mut self, entry: Entry<'_>) {
        self.xor(entry.bytes(&mut [0; I64_CHARS]));
    }

    fn mix_entry(&mut self, entry: Entry<'_>) {
        self.mix(entry.bytes(&mut [0; I64_CHARS]));
    }

    /// Adds a key's value: type, contents, and whether it has a deadline.
    fn xor_item(&mut self, item: &Item) {
        let number: u32 = match item.type_of() {
            Type::String | Type::RawString => 0,
            Type::List => 1,
            Type::Set => 2,
            Type::ZSet => 3,
            Type::Hash => 4,
            Type::Stream => 6,
        };
        self.mix(&number.to_be_bytes());
        match item.value() {
            Value::Str(string) => self.mix(string.bytes(&mut [0; I64_CHARS])),
            Value::List(list) => list.iter().for_each(|element| self.mix_entry(element)),
            Value::Set(set) => set.iter().for_each(|member| self.xor_entry(member)),
            Value::ZSet(zset) => {
                for (member, score) in zset.iter(0..zset.len(), false) {
                    let mut element = Digest::default();
                    element.mix_entry(member);
                    element.mix(format_shortest(&mut [0; F64_CHARS], score));
                    self.xor(&element.0);
                }
            }
            Value::Hash(hash) => {
                for (field, value) in hash.iter() {
                    let mut element = Digest::default();
                    element.mix_entry(field);
                    element.mix_entry(value);
                    self.xor(&element.0);
                }
            }
            Value::Stream(stream) => self.mix_stream(stream),
        }
        if item.deadline().is_some() {
            self.xor(b"!!expire!!");
        }
    }

    fn mix_stream(&mut self, stream: &Stream) {
        for entry in stream.log.range(StreamId::MIN, StreamId::MAX, false) {
            let (mut ms, mut seq) = ([0; I64_CHARS], [0; I64_CHARS]);
            let id = [format_u64(&mut ms, entry.id.ms), format_u64(&mut seq, entry.id.seq)].join(&b'.');
            self.mix(&id);
            entry.pairs().for_each(|text| self.mix_entry(text));
        }
    }

    fn hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(40), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// DIGEST: of all databases. As atomic as any other command, and as long as the data is.
pub fn dataset(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let mut all = Digest::default();
    for (number, db) in ctx.keys.space.dbs.iter().enumerate().filter(|(_, db)| !db.table.is_empty()) {
        all.mix(&(number as u32).to_be_bytes());
        for item in db.table.iter() {
            let mut one = Digest::default();
            one.mix(item.key());
            one.xor_item(item);
            all.xor(&one.0);
        }
    }
    ctx.reply.simple(&all.hex());
    Ok(())
}

/// DIGEST-VALUE: of single keys, expired ones that still lie there too; zeros for one that is not there.
pub fn values(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.reply.array(ctx.argc() - 2);
    for key in ctx.args.iter_from(2) {
        let mut digest = Digest::default();
        if let Some(item) = ctx.keys.db().table.get(key) {
            digest.xor_item(item);
        }
        ctx.reply.simple(&digest.hex());
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
}
