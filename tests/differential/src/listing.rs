//! Replies that tell of clients and servers, reduced to what both servers must agree on.

use crate::differences::Reference;
use crate::wire::{Command, Reply};

/// Fields of CLIENT LIST that do not depend on the server, its clock or its memory.
const FIELDS: [&str; 11] =
    ["name", "db", "sub", "psub", "ssub", "multi", "user", "resp", "lib-name", "lib-ver", "flags"];
/// Fields of HELLO's reply that are the server's own.
const OWN: [&[u8]; 4] = [b"server", b"version", b"id", b"modules"];

/// Fields of ACL LOG's entries that are comparable.
const ENTRY: [&[u8]; 5] = [b"count", b"reason", b"context", b"object", b"username"];

/// The reply to a command with the clients' IDs as `{idN}`; lists of clients as lines of the fields that are comparable.
pub fn plain(reference: Reference, command: &Command, reply: Reply, ids: &[&[u8]]) -> Reply {
    let word = |at: usize| command.get(at).map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    let name_of = |id: &[u8]| ids.iter().position(|known| *known == id).map(|at| format!("{{id{at}}}"));
    match (&word(0)[..], &word(1)[..], reply) {
        (b"client", b"id", Reply::Line(b':', id)) => Reply::Line(b':', name_of(&id).map_or(id, String::into_bytes)),
        // A client that is gone had different IDs, too.
        (b"client", b"getredir", Reply::Line(b':', id)) if id != b"0" && id != b"-1" => {
            Reply::Line(b':', name_of(&id).unwrap_or_else(|| "{gone}".into()).into_bytes())
        }
        (b"client", b"trackinginfo", Reply::Many(kind, Some(items))) => {
            let item = |item: Reply| match item {
                Reply::Line(b':', id) => Reply::Line(b':', name_of(&id).map_or(id, String::into_bytes)),
                other => other,
            };
            Reply::Many(kind, Some(items.into_iter().map(item).collect()))
        }
        (b"client", b"list" | b"info", Reply::Bulk(kind, Some(text))) => {
            let text = String::from_utf8_lossy(&text).into_owned();
            let lines = text.lines().filter_map(|line| {
                let fields: Vec<(&str, &str)> = line.split(' ').filter_map(|field| field.split_once('=')).collect();
                let id = fields.iter().find(|(name, _)| *name == "id").and_then(|(_, id)| name_of(id.as_bytes()))?;
                // 7.0 knows nothing of libraries.
                let known = |name: &str| reference == Reference::Valkey || !name.starts_with("lib-");
                let kept = fields.iter().filter(|(name, _)| FIELDS.contains(name) && known(name));
                // 7.0 leaves NO-EVICT on at RESET.
                let plain = |name: &str, value: &str| match (reference, name, value.replace('e', "")) {
                    (Reference::Redis, "flags", flags) if flags.is_empty() => "N".to_string(),
                    (Reference::Redis, "flags", flags) => flags,
                    _ => value.to_string(),
                };
                Some(kept.fold(id, |line, (name, value)| format!("{line} {name}={}", plain(name, value))))
            });
            Reply::Bulk(kind, Some(lines.collect::<Vec<_>>().join("\n").into_bytes()))
        }
        (b"acl", b"log", Reply::Many(kind, Some(entries))) => {
            let entries = entries.into_iter().map(|entry| {
                let fields = entry.items().chunks(2).filter(|pair| ENTRY.contains(&pair[0].text()));
                let plain = Reply::Many(b'*', Some(fields.flatten().cloned().collect()));
                if entry.items().is_empty() { entry } else { plain }
            });
            Reply::Many(kind, Some(entries.collect()))
        }
        // Told of a client that is gone.
        (_, _, Reply::Many(b'>', Some(items))) if items[0].text() == b"tracking-redir-broken" => {
            Reply::Many(b'>', Some(items[..1].to_vec()))
        }
        (b"hello", _, Reply::Many(kind, Some(items))) => {
            let kept = items.chunks(2).filter(|pair| !OWN.contains(&pair[0].text()));
            Reply::Many(kind, Some(kept.flatten().cloned().collect()))
        }
        (_, _, reply) => reply,
    }
}
