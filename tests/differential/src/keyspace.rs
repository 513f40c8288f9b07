//! What a sequence left behind: every key's contents, type, encoding and times, and that DUMP takes them to the other server.

use crate::crc64::crc64;
use crate::differences::Reference;
use crate::judge::Difference;
use crate::play::{Game, Manner};
use crate::wire::{Command, Reply, words};

/// The databases that commands may have moved keys to.
const DATABASES: [&str; 4] = ["0", "1", "2", "15"];
/// Value types of payloads that Redis 7.0 does not know: listpack sets, streams of 7.2.
const NOT_IN_7_0: [u8; 2] = [20, 21];
/// What a payload ends with: two bytes of version, eight of checksum.
const FOOTER: usize = 10;

/// Most bytes of an argument (`proto-max-bulk-len`).
const MAX_BULK: usize = 512 << 20;

impl Game<'_> {
    /// Compares every key of every database.
    pub(crate) fn compare_keyspace(&mut self, manner: Manner) -> Result<(), Difference> {
        let commands: Vec<Command> =
            DATABASES.iter().flat_map(|number| [words(&format!("SELECT {number}")), words("KEYS *")]).collect();
        let keys: Vec<Vec<Vec<u8>>> = self
            .round(&commands)?
            .iter()
            .skip(1)
            .step_by(2)
            .map(|keys| keys.items().iter().map(|key| key.text().to_vec()).collect())
            .collect();
        // The last one is selected now.
        for (number, keys) in DATABASES.iter().zip(&keys).filter(|(_, keys)| !keys.is_empty()) {
            self.round(&[words(&format!("SELECT {number}"))])?;
            let kinds = self.compare_keys(keys)?;
            if manner.dump {
                self.compare_dumps(keys, &kinds)?;
            }
        }
        Ok(())
    }

    /// The types and encodings of the keys.
    fn compare_keys(&mut self, keys: &[Vec<u8>]) -> Result<Vec<(Reply, Reply)>, Difference> {
        let ask = |key: &Vec<u8>| [on_key("TYPE", key, ""), on_key("OBJECT ENCODING", key, "")];
        let kinds = self.round(&keys.iter().flat_map(ask).collect::<Vec<_>>())?;
        let kinds: Vec<(Reply, Reply)> = kinds.chunks(2).map(|two| (two[0].clone(), two[1].clone())).collect();
        let mut commands = Vec::new();
        for (key, (kind, _)) in keys.iter().zip(&kinds) {
            commands.extend([contents(kind, key), on_key("OBJECT ENCODING", key, "")]);
            commands.extend([on_key("PTTL", key, ""), on_key("OBJECT IDLETIME", key, "")]);
            if kind.text() == b"stream" {
                commands.push(on_key("XINFO STREAM", key, "FULL COUNT 0"));
            }
        }
        self.round(&commands)?;
        Ok(kinds)
    }

    /// Restores each server's payloads on the other, and compares what that made with what was dumped.
    fn compare_dumps(&mut self, keys: &[Vec<u8>], kinds: &[(Reply, Reply)]) -> Result<(), Difference> {
        let dumps: Vec<Command> = keys.iter().map(|key| on_key("DUMP", key, "")).collect();
        let payloads = self.exchange(&dumps, &dumps)?;
        let (mut here, mut there, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        for ((key, (kind, encoding)), (ours, theirs)) in keys.iter().zip(kinds).zip(payloads) {
            let (mut ours, theirs) = (ours.text().to_vec(), theirs.text().to_vec());
            // RESTORE would be refused with it as a break of the protocol.
            if ours.len().max(theirs.len()) > MAX_BULK {
                continue;
            }
            if self.pair.reference == Reference::Redis {
                if ours.first().is_none_or(|kind| NOT_IN_7_0.contains(kind)) {
                    // What was made there is read by 7.2 in any case.
                    ours = theirs.clone();
                }
                set_version(&mut ours, 10);
            }
            let copy = [b"\0copy of ", &key[..]].concat();
            let restore =
                |payload: Vec<u8>| vec![b"RESTORE".to_vec(), copy.clone(), b"0".to_vec(), payload, b"REPLACE".to_vec()];
            here.push(restore(theirs));
            there.push(restore(ours));
            reads.push(contents(kind, &copy));
            // The order may be that of the hash table it was dumped from.
            if encoding.text() != b"hashtable" && !self.judge.shuffled.contains(key) {
                reads.push(on_key("OBJECT ENCODING", &copy, ""));
            }
            if kind.text() == b"stream" {
                reads.push(on_key("XINFO STREAM", &copy, "FULL COUNT 0"));
            }
        }
        self.exchange(&here, &there)?;
        self.round(&reads)?;
        Ok(())
    }
}

/// The command that reads all of a key of a type.
fn contents(kind: &Reply, key: &[u8]) -> Command {
    match kind.text() {
        b"string" => on_key("GET", key, ""),
        b"list" => on_key("LRANGE", key, "0 -1"),
        b"set" => on_key("SMEMBERS", key, ""),
        b"hash" => on_key("HGETALL", key, ""),
        b"stream" => on_key("XRANGE", key, "- +"),
        b"zset" => on_key("ZRANGE", key, "0 -1 WITHSCORES"),
        _ => on_key("TYPE", key, ""),
    }
}

fn on_key(before: &str, key: &[u8], after: &str) -> Command {
    let mut command = words(before);
    command.push(key.to_vec());
    command.extend(after.split(' ').filter(|word| !word.is_empty()).map(|word| word.as_bytes().to_vec()));
    command
}

/// Makes a payload of DUMP say that it is of this RDB version.
pub fn set_version(payload: &mut [u8], version: u16) {
    let Some(at) = payload.len().checked_sub(FOOTER) else { return };
    payload[at..at + 2].copy_from_slice(&version.to_le_bytes());
    let sum = crc64(&payload[..at + 2]);
    payload[at + 2..].copy_from_slice(&sum.to_le_bytes());
}
