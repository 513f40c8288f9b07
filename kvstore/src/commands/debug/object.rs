//! DEBUG OBJECT and LISTPACK: how a value lies in memory.

use crate::commands::keys::refcount;
use crate::ctx::Ctx;
use crate::encoding::{Entries, Entry, Listpack};
use crate::error::Error;
use crate::rdb::save::saved_len;
use crate::text;
use crate::types::list::List;
use crate::value::{Item, ItemExt, Object, Value};
use alloc::format;
use alloc::string::String;
use barium_cell::View;
use core::fmt::Write;

/// Elements of a listpack that are shown; a longer one is cut off.
const SHOWN: usize = 1_024;

/// The item at the key argument, expired or not.
fn item<'a>(ctx: &'a Ctx<'_>) -> Result<&'a Item, Error> {
    ctx.keys.db().table.get(ctx.args.get(2)).ok_or(Error::NoSuchKey)
}

/// OBJECT key \[fast\].
pub fn object(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let fast = ctx.argc() == 4 && ctx.args.is(3, "fast");
    let item = item(ctx)?;
    let refcount = refcount(&ctx.core.config, item);
    let mut line =
        format!("Value at:0x{:x} refcount:{refcount} encoding:{}", core::ptr::from_ref(item).addr(), item.encoding());
    if !fast {
        let _ = write!(line, " serializedlength:{}", saved_len(item));
    }
    let idle_s = ctx.keys.space.access.idle_s(item.clock());
    let _ = write!(line, " lru:{} lru_seconds_idle:{idle_s}", item.clock());
    if let Value::List(list) = item.value() {
        quicklist(&mut line, list, fast);
    }
    ctx.reply.simple(&line);
    Ok(())
}

/// SDSLEN: what the bytes of key and value take. A short value lies in the key's allocation.
pub fn string_lengths(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let item = item(ctx)?;
    let (len, spare, taken, own) = match item.view() {
        View::Bytes(value) => (value.len(), 0, value.len(), item.size() - value.len()),
        View::Object(object @ Object::Str(value)) => {
            (value.len(), value.capacity() - value.len(), object.memory_usage(0), item.size())
        }
        _ => return Err(Error::Fixed("ERR Not an sds encoded string.")),
    };
    ctx.reply.simple(&format!(
        "key_sds_len:{}, key_sds_avail:0, key_zmalloc: {own}, val_sds_len:{len}, val_sds_avail:{spare}, val_zmalloc: {taken}",
        item.key().len()
    ));
    Ok(())
}

/// What is said of a list that is a quicklist. None of its nodes is ever compressed.
fn quicklist(line: &mut String, list: &List, fast: bool) {
    let Some(list) = list.as_quicklist() else { return };
    let nodes = list.node_count();
    let hundredths = (list.len() * 100).checked_div(nodes).unwrap_or(0);
    let max = list.limit().number();
    let _ = write!(
        line,
        " ql_nodes:{nodes} ql_avg_node:{}.{:02} ql_listpack_max:{max} ql_compressed:0",
        hundredths / 100,
        hundredths % 100
    );
    if !fast {
        let _ = write!(line, " ql_uncompressed_size:{}", list.nodes().map(|n| n.byte_len()).sum::<usize>());
    }
}

/// LISTPACK: writes the elements to the log.
pub fn listpack(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let packed = match item(ctx)?.value() {
        Value::List(v) => v.as_listpack().map(Listpack::entries),
        Value::Set(v) => v.as_listpack(),
        Value::ZSet(v) => v.as_listpack(),
        Value::Hash(v) => v.as_listpack(),
        _ => None,
    };
    show(packed.ok_or(Error::Fixed("ERR Not a listpack encoded object."))?);
    ctx.reply.simple("Listpack structure printed on stdout");
    Ok(())
}

fn show(lp: Entries<'_>) {
    log::warn!("listpack of {} elements in {} bytes", lp.len(), lp.framed_len());
    let mut cursor = lp.iter_from(0);
    for index in 0..lp.len().min(SHOWN) {
        let pos = cursor.pos();
        let Some(entry) = cursor.next() else { return };
        let mut shown = String::new();
        match entry {
            Entry::Int(n) => {
                let _ = write!(shown, "{n}");
            }
            Entry::Str(bytes) => text::quoted(&mut shown, &bytes[..bytes.len().min(40)]),
        }
        log::warn!("{index}: at {pos}, {} bytes: {shown}", cursor.pos() - pos);
    }
    if lp.len() > SHOWN {
        log::warn!("and {} more", lp.len() - SHOWN);
    }
}
