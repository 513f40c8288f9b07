//! What the commands of consumer groups did, in the form in which it is logged and replicated: a delivery is an XCLAIM,
//! a group's position an XGROUP SETID.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use crate::ctx::Ctx;
use crate::keyspace::EffectForm;
use crate::types::stream::{Group, ID_CHARS, StreamId};

/// A command.
pub type Words = Vec<Vec<u8>>;

fn id(id: StreamId) -> Vec<u8> {
    id.text(&mut [0; ID_CHARS]).to_vec()
}

/// How a pending entry stands.
pub fn claimed(key: &[u8], group_name: &[u8], group: &Group, entry: StreamId) -> Option<Words> {
    let pending = group.pending.get(&entry)?;
    Some(vec![
        b"XCLAIM".to_vec(),
        key.to_vec(),
        group_name.to_vec(),
        pending.consumer.to_vec(),
        b"0".to_vec(),
        id(entry),
        b"TIME".to_vec(),
        pending.delivered_ms.to_string().into_bytes(),
        b"RETRYCOUNT".to_vec(),
        pending.deliveries.to_string().into_bytes(),
        b"FORCE".to_vec(),
        b"JUSTID".to_vec(),
        b"LASTID".to_vec(),
        id(group.last_id),
    ])
}

/// Where a group stands.
pub fn position(key: &[u8], group_name: &[u8], group: &Group) -> Words {
    let read = group.entries_read.map_or(-1, |n| n as i64);
    vec![
        b"XGROUP".to_vec(),
        b"SETID".to_vec(),
        key.to_vec(),
        group_name.to_vec(),
        id(group.last_id),
        b"ENTRIESREAD".to_vec(),
        read.to_string().into_bytes(),
    ]
}

/// That a consumer was made.
pub fn consumer(key: &[u8], group_name: &[u8], name: &[u8]) -> Words {
    vec![b"XGROUP".to_vec(), b"CREATECONSUMER".to_vec(), key.to_vec(), group_name.to_vec(), name.to_vec()]
}

/// Describes the present command by these, and not by itself.
pub fn describe(ctx: &mut Ctx<'_>, effects: Vec<Words>) {
    ctx.keys.space.effect_form = EffectForm::Replaced;
    for words in effects {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        ctx.effect(&words);
    }
}
