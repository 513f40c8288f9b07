//! MIGRATE: keys on their way to another server. What it says is read here; [`server::migrate`](crate::server::migrate)
//! does the work, in steps.

use super::extract::leading_integer;
use crate::blocking::{Wait, WaitRequest};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::server::migrate::{CONNECTING, Migration, Order};
use crate::session::Endpoint;
use crate::session::args::{Args, OwnedArgs};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[Command {
    name: "migrate",
    group: Group::Generic,
    since: "2.6.0",
    summary: "Atomically transfers a key from one instance to another.",
    complexity: "This command actually executes a DUMP+DEL in the source instance, and a RESTORE in the target instance. See the pages of these commands for time complexity. Also an O(N) data transfer between the two instances is performed.",
    arity: -6,
    flags: flag::WRITE | flag::WAITS,
    acl: acl::DANGEROUS | acl::KEYSPACE,
    keys: &[KeySpec::range(KEY_FLAGS, 3, 0, 1), KeySpec::keyword(KEY_FLAGS | key::INCOMPLETE, "KEYS", -2).last(-1)],
    args: &[
        Arg::string("host"),
        Arg::integer("port"),
        Arg::one_of("key-selector", &[Arg::key("key", 0), Arg::word("empty-string", "")]),
        Arg::integer("destination-db"),
        Arg::integer("timeout"),
        Arg::word("copy", "COPY").since("3.0.0").optional(),
        Arg::word("replace", "REPLACE").since("3.0.0").optional(),
        Arg::one_of(
            "authentication",
            &[
                Arg::string("auth").display("password").token("AUTH").since("4.0.7"),
                Arg::block("auth2", &[Arg::string("username"), Arg::string("password")]).token("AUTH2").since("6.0.0"),
            ],
        )
        .optional(),
        Arg::key("keys", 1).token("KEYS").since("3.0.6").optional().multiple(),
    ],
    history: &[
        ("3.0.0", "Added the `COPY` and `REPLACE` options."),
        ("3.0.6", "Added the `KEYS` option."),
        ("4.0.7", "Added the `AUTH` option."),
        ("6.0.0", "Added the `AUTH2` option."),
    ],
    tips: &["nondeterministic_output"],
    run: Some(migrate),
    ..Command::DEFAULT
}];

const KEY_FLAGS: u16 = key::RW | key::ACCESS | key::DELETE;
/// Where the options begin.
const OPTIONS: usize = 6;
/// What a timeout that is none stands for, in ms.
const DEFAULT_TIMEOUT_MS: i64 = 1_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Copy,
    Replace,
    Auth,
    Auth2,
    Keys,
}

/// The option whose word stands at `at`, and how many arguments belong to it (all that follow to KEYS).
fn option(args: Args<'_>, at: usize) -> Option<(Word, usize)> {
    const WORDS: [(&str, Word, usize); 5] = [
        ("COPY", Word::Copy, 0),
        ("REPLACE", Word::Replace, 0),
        ("AUTH", Word::Auth, 1),
        ("AUTH2", Word::Auth2, 2),
        ("KEYS", Word::Keys, 0),
    ];
    WORDS.into_iter().find(|(word, ..)| args.is(at, word)).map(|(_, word, n)| (word, n))
}

/// The arguments that are keys: the one that is named, or those after KEYS. None: both are there.
pub(super) fn keys(args: Args<'_>) -> Option<Vec<(usize, u16)>> {
    let mut at = OPTIONS;
    while at < args.len() {
        match option(args, at) {
            Some((Word::Keys, _)) if !args.get(3).is_empty() => return None,
            Some((Word::Keys, _)) if at + 1 < args.len() => {
                return Some((at + 1..args.len()).map(|i| (i, KEY_FLAGS)).collect());
            }
            Some((_, n)) => at += n + 1,
            None => at += 1,
        }
    }
    Some(Vec::from([(3, KEY_FLAGS)]))
}

/// Whether an argument is a user name or password for the other server.
pub(crate) fn is_secret(args: Args<'_>, secret: usize) -> bool {
    let mut at = OPTIONS;
    while at < secret {
        match option(args, at) {
            Some((Word::Keys, _)) | None => return false,
            Some((_, n)) if at + n >= secret => return true,
            Some((_, n)) => at += n + 1,
        }
    }
    false
}

/// The server that host and port name. Nothing here asks a name server: a host is an address, or this machine itself.
fn endpoint(host: &[u8], port: &[u8]) -> Result<Endpoint, Error> {
    let text = core::str::from_utf8(host).map_err(|_| CONNECTING)?;
    let addr: Ipv4Addr = if text.eq_ignore_ascii_case("localhost") {
        Ipv4Addr::LOCALHOST
    } else {
        text.parse().map_err(|_| CONNECTING)?
    };
    let port = leading_integer(port);
    if port < 0 {
        return Err(CONNECTING);
    }
    // As it becomes sixteen bits there.
    Ok(Endpoint { addr: addr.octets(), port: port as u16 })
}

fn migrate(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (mut copy, mut replace) = (false, false);
    let mut auth: Vec<&[u8]> = Vec::new();
    let mut keys = 3..4;
    let mut at = OPTIONS;
    while at < ctx.argc() {
        let (word, n) = option(ctx.args, at).ok_or(Error::Syntax)?;
        if at + n >= ctx.argc() {
            return Err(Error::Syntax);
        }
        match word {
            Word::Copy => copy = true,
            Word::Replace => replace = true,
            Word::Auth | Word::Auth2 => {
                auth = core::iter::once(&b"AUTH"[..]).chain((at + 1..=at + n).map(|i| ctx.arg(i))).collect();
            }
            Word::Keys if !ctx.arg(3).is_empty() => {
                return Err(Error::Fixed(
                    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                ));
            }
            Word::Keys => {
                keys = at + 1..ctx.argc();
                break;
            }
        }
        at += n + 1;
    }
    let timeout_ms = ctx.int(5)?;
    let target_db = ctx.int(4)?;
    let timeout_ms = if timeout_ms <= 0 { DEFAULT_TIMEOUT_MS } else { timeout_ms };
    let mut found: Vec<Box<[u8]>> = Vec::new();
    found.try_reserve(keys.len())?;
    for at in keys {
        let key = ctx.arg(at);
        if ctx.keys.read(key).is_some() {
            found.push(key.into());
        }
    }
    if found.is_empty() {
        ctx.reply.simple("NOKEY");
        return Ok(());
    }
    if ctx.deny_blocking {
        return Err(Error::Fixed("ERR MIGRATE cannot wait for another server inside a transaction"));
    }
    let order = Order {
        to: endpoint(ctx.arg(1), ctx.arg(2))?,
        auth: OwnedArgs::from_slices(&auth),
        target_db,
        timeout_us: (timeout_ms as u64).saturating_mul(1_000),
        copy,
        replace,
        db: ctx.client.db,
        keys: found,
    };
    let tracks = ctx.client.tracking.is_some();
    ctx.core.begin_migration(|core| Migration::new(core, ctx.client.handle, tracks, order));
    ctx.core.wait_request = Some(WaitRequest {
        wait: Wait::Migration,
        even_without_key: false,
        args: Some(OwnedArgs::default()),
        keys: Vec::new(),
        until_us: None,
    });
    Ok(())
}
