//! CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR: client-side caching as a session asks for it.

use crate::command::{Arg, Command, Group, acl, flag};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::reply::Aggregate;
use crate::session::{ClientId, TrackingState};
use crate::text::printable;
use alloc::vec::Vec;

/// CLIENT CACHING.
pub const CACHING: Command = Command {
    name: "caching",
    group: Group::Connection,
    since: "6.0.0",
    summary: "Instructs the server whether to track the keys in the next request.",
    complexity: "O(1)",
    arity: 3,
    flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
    acl: acl::CONNECTION,
    args: &[Arg::one_of("mode", &[Arg::word("yes", "YES"), Arg::word("no", "NO")])],
    run: Some(caching),
    ..Command::DEFAULT
};

/// CLIENT GETREDIR.
pub const GETREDIR: Command = Command {
    name: "getredir",
    group: Group::Connection,
    since: "6.0.0",
    summary: "Returns the client ID to which the connection's tracking notifications are redirected.",
    complexity: "O(1)",
    arity: 2,
    flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
    acl: acl::CONNECTION,
    run: Some(getredir),
    ..Command::DEFAULT
};

/// CLIENT TRACKING.
pub const TRACKING: Command = Command {
    name: "tracking",
    group: Group::Connection,
    since: "6.0.0",
    summary: "Controls server-assisted client-side caching for the connection.",
    complexity: "O(1). Some options may introduce additional complexity.",
    arity: -3,
    flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
    acl: acl::CONNECTION,
    args: &[
        Arg::one_of("status", &[Arg::word("on", "ON"), Arg::word("off", "OFF")]),
        Arg::integer("client-id").token("REDIRECT").optional(),
        Arg::string("prefix").token("PREFIX").optional().multiple_token(),
        Arg::word("bcast", "BCAST").optional(),
        Arg::word("optin", "OPTIN").optional(),
        Arg::word("optout", "OPTOUT").optional(),
        Arg::word("noloop", "NOLOOP").optional(),
    ],
    run: Some(tracking),
    ..Command::DEFAULT
};

/// CLIENT TRACKINGINFO.
pub const TRACKINGINFO: Command = Command {
    name: "trackinginfo",
    group: Group::Connection,
    since: "6.2.0",
    summary: "Returns information about server-assisted client-side caching for the connection.",
    complexity: "O(1)",
    arity: 2,
    flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
    acl: acl::CONNECTION,
    run: Some(trackinginfo),
    ..Command::DEFAULT
};

/// What CLIENT TRACKING was given.
#[derive(Default)]
struct Options<'a> {
    redirect: Option<(u64, ClientId)>,
    bcast: bool,
    optin: bool,
    optout: bool,
    noloop: bool,
    prefixes: Vec<&'a [u8]>,
}

/// The session of a number, the present one or another.
fn session_numbered(ctx: &Ctx<'_>, number: i64) -> Option<ClientId> {
    if ctx.client.id as i64 == number {
        return Some(ctx.client.handle);
    }
    ctx.core.clients.iter().find(|s| s.client.id as i64 == number).map(|s| s.client.handle)
}

fn options<'a>(ctx: &Ctx<'a>) -> Result<Options<'a>, Error> {
    let mut options = Options::default();
    let mut i = 3;
    while i < ctx.argc() {
        let more = i + 1 < ctx.argc();
        match ctx.arg(i).to_ascii_lowercase().as_slice() {
            b"redirect" if more => {
                i += 1;
                if options.redirect.is_some() {
                    return Err(Error::Fixed("ERR A client can only redirect to a single other client"));
                }
                let number = ctx.int(i)?;
                let missing = Error::Fixed("ERR The client ID you want redirect to does not exist");
                options.redirect = Some((number as u64, session_numbered(ctx, number).ok_or(missing)?));
            }
            b"bcast" => options.bcast = true,
            b"optin" => options.optin = true,
            b"optout" => options.optout = true,
            b"noloop" => options.noloop = true,
            b"prefix" if more => {
                i += 1;
                options.prefixes.push(ctx.arg(i));
            }
            _ => return Err(Error::Syntax),
        }
        i += 1;
    }
    Ok(options)
}

/// Errs if options do not go together, or not with what is on already; in Redis's order.
fn check(options: &Options<'_>, now: &TrackingState) -> Result<(), Error> {
    let Options { bcast, optin, optout, .. } = *options;
    if !bcast && !options.prefixes.is_empty() {
        return Err(Error::Fixed("ERR PREFIX option requires BCAST mode to be enabled"));
    }
    if now.on && now.bcast != bcast {
        return Err(Error::Fixed(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
        ));
    }
    if bcast && (optin || optout) {
        return Err(Error::Fixed("ERR OPTIN and OPTOUT are not compatible with BCAST"));
    }
    if optin && optout {
        return Err(Error::Fixed("ERR You can't specify both OPTIN mode and OPTOUT mode"));
    }
    if (optin && now.optout) || (optout && now.optin) {
        return Err(Error::Fixed(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
        ));
    }
    for (i, prefix) in options.prefixes.iter().enumerate() {
        let overlaps = |other: &[u8]| other.starts_with(prefix) || prefix.starts_with(other);
        let refused = |what: &str, other: &[u8]| {
            error_text!(
                "ERR Prefix '{}' overlaps with {what} prefix '{}'. Prefixes for a single client must not overlap.",
                printable(prefix, 128),
                printable(other, 128)
            )
        };
        if let Some(other) = now.prefixes.iter().find(|other| overlaps(other)) {
            return Err(refused("an existing", other));
        }
        if let Some(other) = options.prefixes[i + 1..].iter().find(|other| overlaps(other)) {
            return Err(refused("another provided", other));
        }
    }
    Ok(())
}

fn tracking(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let options = options(ctx)?;
    match ctx.arg(2).to_ascii_lowercase().as_slice() {
        b"on" => {
            match ctx.client.tracking.as_deref() {
                Some(state) => check(&options, state)?,
                None => check(&options, &TrackingState::default())?,
            }
            enable(ctx, options);
        }
        b"off" => ctx.keys.space.disable_tracking(ctx.client),
        _ => return Err(Error::Syntax),
    }
    ctx.reply.ok();
    Ok(())
}

fn enable(ctx: &mut Ctx<'_>, mut options: Options<'_>) {
    if options.bcast && options.prefixes.is_empty() {
        options.prefixes.push(b"");
    }
    let tracking = ctx.keys.space.enable_tracking(ctx.client);
    for prefix in &options.prefixes {
        tracking.broadcast_to(ctx.client.handle, prefix);
    }
    let Some(state) = ctx.client.tracking.as_deref_mut() else { return };
    state.prefixes.extend(options.prefixes.iter().map(|prefix| (*prefix).into()));
    (state.redirect, state.broken) = (options.redirect, false);
    (state.bcast, state.optin, state.optout, state.noloop) =
        (options.bcast, options.optin, options.optout, options.noloop);
}

fn caching(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let Some(state) = ctx.client.tracking.as_deref_mut().filter(|state| state.on) else {
        return Err(Error::Fixed(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    match ctx.args.get(2).to_ascii_lowercase().as_slice() {
        b"yes" if state.optin => state.caching = true,
        b"no" if state.optout => state.caching = true,
        b"yes" => {
            return Err(Error::Fixed("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."));
        }
        b"no" => {
            return Err(Error::Fixed("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."));
        }
        _ => return Err(Error::Syntax),
    }
    ctx.reply.ok();
    Ok(())
}

/// What CLIENT GETREDIR says of a session.
pub(super) fn redirection(state: Option<&TrackingState>) -> i64 {
    match state.filter(|state| state.on) {
        Some(state) => state.redirect.map_or(0, |(number, _)| number as i64),
        None => -1,
    }
}

fn getredir(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.reply.int(redirection(ctx.client.tracking.as_deref()));
    Ok(())
}

fn trackinginfo(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let off = TrackingState::default();
    let state = ctx.client.tracking.as_deref().unwrap_or(&off);
    let reply = &mut ctx.reply;
    reply.map(3);
    reply.bulk(b"flags");
    let names = [
        (state.on, "on"),
        (!state.on, "off"),
        (state.bcast, "bcast"),
        (state.optin, "optin"),
        (state.optin && state.caching, "caching-yes"),
        (state.optout, "optout"),
        (state.optout && state.caching, "caching-no"),
        (state.noloop, "noloop"),
        (state.broken, "broken_redirect"),
    ];
    reply.aggregate(Aggregate::Set, names.iter().filter(|(set, _)| *set).count());
    names.iter().filter(|(set, _)| *set).for_each(|(_, name)| reply.bulk(name.as_bytes()));
    reply.bulk(b"redirect");
    reply.int(redirection(Some(state)));
    reply.bulk(b"prefixes");
    reply.array(state.prefixes.len());
    state.prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use alloc::format;
    use alloc::string::String;

    fn field(b: &mut Bench, name: &str) -> String {
        let c = b.client();
        let info = b.run(c, "INFO everything");
        b.server().disconnect(c);
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("{name}")).into()
    }

    #[test]
    fn what_was_read_is_invalidated_once() {
        let mut b = Bench::new(&[]);
        let (a, other) = (b.client(), b.client());
        b.run(a, "HELLO 3");
        assert_eq!(b.run(a, "CLIENT TRACKING on"), "OK");
        b.run(a, "MGET k l");
        assert_eq!((field(&mut b, "tracking_total_keys"), field(&mut b, "tracking_clients")), ("2".into(), "1".into()));
        b.run(other, "SET k 1");
        b.run(other, "SET k 2");
        assert_eq!(b.read(a), ">[invalidate [k]]");
        assert_eq!(b.run(a, "GET k"), "2");
        assert_eq!(b.run(a, "SET k 3"), "OK >[invalidate [k]]", "its own reply comes first");
        b.run(a, "MULTI");
        b.run(a, "GET k");
        b.run(a, "SET k 4");
        b.run(a, "SET l 4");
        assert_eq!(b.run(a, "EXEC"), "[3 OK OK] >[invalidate [k]] >[invalidate [l]]");
        b.run(a, "GET k");
        b.run(other, "PEXPIRE k 5");
        b.read(a);
        b.run(a, "GET k");
        b.pass_ms(10);
        assert_eq!(b.read(a), ">[invalidate [k]]", "it has expired");
        b.run(a, "GET k");
        assert_eq!(b.run(a, "FLUSHDB"), "OK >[invalidate nil]");
        assert_eq!(field(&mut b, "tracking_total_keys"), "0");
        b.run(a, "GET k");
        b.run(a, "CLIENT TRACKING off");
        b.run(other, "SET k 2");
        assert_eq!(b.read(a), "");
    }

    #[test]
    fn prefixes_are_told_once_a_turn() {
        let mut b = Bench::new(&[]);
        let (a, n, other) = (b.client(), b.client(), b.client());
        b.run(a, "HELLO 3");
        b.run(n, "HELLO 3");
        assert_eq!(b.run(a, "CLIENT TRACKING on BCAST PREFIX a PREFIX b"), "OK");
        assert_eq!(b.run(n, "CLIENT TRACKING on BCAST NOLOOP"), "OK");
        b.run(other, "MSET b2 1 a1 1 c1 1 a2 1");
        b.run(n, "SET a1 2");
        assert_eq!(b.read(a), "");
        b.pass_ms(0);
        assert_eq!(b.read(a), ">[invalidate [a1 a2]] >[invalidate [b2]]");
        assert_eq!(b.read(n), ">[invalidate [a2 b2 c1]]", "but for the one that it changed itself");
        let many = (0..5_000).map(|i| format!(" a{i} v")).collect::<String>();
        b.run(other, &format!("MSET{many}"));
        assert!(b.read(a).starts_with(">[invalidate [a0 a1 a10 "), "so many are not kept until the turn's end");
        assert_eq!(field(&mut b, "tracking_total_prefixes"), "3");
        b.run(a, "RESET");
        b.server().disconnect(n);
        assert_eq!(field(&mut b, "tracking_total_prefixes"), "0");
        b.run(other, "SET a1 1");
        b.pass_ms(0);
        assert_eq!(b.read(a), "");
    }

    #[test]
    fn another_session_can_be_told_until_it_goes() {
        let mut b = Bench::new(&[]);
        let (a, target, other) = (b.client(), b.client(), b.client());
        let id = b.run(target, "CLIENT ID");
        b.run(target, "SUBSCRIBE __redis__:invalidate");
        assert_eq!(b.run(a, &format!("CLIENT TRACKING on REDIRECT {id}")), "OK");
        assert_eq!(b.run(a, "CLIENT GETREDIR"), id);
        b.run(a, "GET k");
        b.run(other, "SET k 1");
        assert_eq!(b.read(target), "[message __redis__:invalidate [k]]");
        b.run(other, "FLUSHALL");
        assert_eq!(b.read(target), "[message __redis__:invalidate nil]");
        assert_eq!(b.read(a), "");
        b.run(a, "HELLO 3");
        b.run(a, "GET k");
        b.server().disconnect(target);
        b.run(other, "SET k 1");
        assert_eq!(b.read(a), format!(">[tracking-redir-broken {id}]"));
        assert!(b.run(a, "CLIENT TRACKINGINFO").contains("broken_redirect"));
        let line = b.run(a, "CLIENT INFO");
        assert!(line.contains(" flags=tR ") && line.contains(&format!(" redir={id} ")), "{line}");
    }

    #[test]
    fn caching_counts_for_one_command_or_transaction() {
        let mut b = Bench::new(&[]);
        let (a, other) = (b.client(), b.client());
        b.run(a, "HELLO 3");
        b.run(a, "CLIENT TRACKING on OPTIN");
        let changed = |b: &mut Bench| {
            b.run(other, "MSET k 1 l 1");
            b.read(a)
        };
        b.run(a, "GET k");
        assert_eq!(changed(&mut b), "");
        b.run(a, "CLIENT CACHING yes");
        b.run(a, "GET k");
        b.run(a, "GET l");
        assert_eq!(changed(&mut b), ">[invalidate [k]]");
        b.run(a, "CLIENT CACHING yes");
        for line in ["MULTI", "GET k", "GET l", "EXEC"] {
            b.run(a, line);
        }
        assert_eq!(changed(&mut b), ">[invalidate [k]] >[invalidate [l]]");
        b.run(a, "CLIENT CACHING yes");
        b.run(a, "NOSUCH");
        b.run(a, "GET k");
        assert_eq!(changed(&mut b), "");
    }

    #[test]
    fn the_table_of_read_keys_has_its_limit() {
        let mut b = Bench::new(&[("tracking-table-max-keys", "10")]);
        let a = b.client();
        b.run(a, "HELLO 3");
        b.run(a, "CLIENT TRACKING on");
        let keys = (0..30).map(|i| format!(" k{i}")).collect::<String>();
        let reply = b.run(a, &format!("MGET{keys}"));
        assert_eq!(reply.matches("invalidate").count(), 20);
        assert_eq!(field(&mut b, "tracking_total_keys"), "10");
        b.run(a, "CONFIG SET tracking-table-max-keys 0");
        for i in 0..5_000 {
            b.run(a, &format!("GET k{i}"));
        }
        b.run(a, "CONFIG SET tracking-table-max-keys 100");
        b.read(a);
        b.pass_ms(0);
        assert!(b.read(a).matches("invalidate").count() <= 2 * 1_024, "step by step");
        for _ in 0..5 {
            b.pass_ms(0);
        }
        assert_eq!(
            (field(&mut b, "tracking_total_keys"), field(&mut b, "tracking_total_items")),
            ("100".into(), "100".into())
        );
    }

    #[test]
    fn what_a_served_waiter_does_concerns_the_one_who_woke_it() {
        let mut b = Bench::new(&[("notify-keyspace-events", "KEA")]);
        let (a, waiter) = (b.client(), b.client());
        b.run(a, "HELLO 3");
        b.run(a, "SUBSCRIBE __keyevent@0__:lpop");
        b.run(a, "CLIENT TRACKING on");
        b.run(waiter, "BLPOP l 0");
        b.run(a, "LLEN l");
        let expected = "1 >[invalidate [l]] >[message __keyevent@0__:lpop l]";
        assert_eq!(b.run(a, "RPUSH l x"), expected);
    }

    #[test]
    fn without_a_tracking_client_nothing_is_kept() {
        let mut b = Bench::new(&[]);
        let (a, other) = (b.client(), b.client());
        b.run(a, "CLIENT TRACKING on");
        b.run(a, "MGET k l m");
        b.run(other, "SET k 1");
        assert_eq!(field(&mut b, "tracking_total_keys"), "2");
        b.server().disconnect(a);
        assert_eq!((field(&mut b, "tracking_total_keys"), field(&mut b, "tracking_clients")), ("0".into(), "0".into()));
    }
}
