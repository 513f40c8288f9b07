//! Publish/subscribe commands.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::command::{Arg, Channels, Command, Group, KeySpec, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::glob;
use crate::pubsub::Kind;
use crate::text;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "psubscribe",
        group: Group::Pubsub,
        since: "2.0.0",
        summary: "Listens for messages published to channels that match one or more patterns.",
        complexity: "O(N) where N is the number of patterns to subscribe to.",
        arity: -2,
        flags: flag::PUBSUB | flag::NOSCRIPT | flag::LOADING | flag::STALE,
        channels: Channels::SubscribePatterns,
        args: &[Arg::pattern("pattern").multiple()],
        run: Some(psubscribe),
        ..Command::DEFAULT
    },
    Command {
        name: "publish",
        group: Group::Pubsub,
        since: "2.0.0",
        summary: "Posts a message to a channel.",
        complexity: "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of subscribed patterns (by any client).",
        arity: 3,
        flags: flag::MAY_REPLICATE | flag::PUBSUB | flag::LOADING | flag::STALE | flag::FAST,
        channels: Channels::Publish,
        args: &[Arg::string("channel"), Arg::string("message")],
        run: Some(publish),
        ..Command::DEFAULT
    },
    Command {
        name: "pubsub",
        group: Group::Pubsub,
        since: "2.8.0",
        summary: "A container for Pub/Sub commands.",
        complexity: "Depends on subcommand.",
        arity: -2,
        subcommands: &[
            Command {
                name: "channels",
                group: Group::Pubsub,
                since: "2.8.0",
                summary: "Returns the active channels.",
                complexity: "O(N) where N is the number of active channels, and assuming constant time pattern matching (relatively short channels and patterns)",
                arity: -2,
                flags: flag::PUBSUB | flag::LOADING | flag::STALE,
                args: &[Arg::pattern("pattern").optional()],
                run: Some(channels),
                ..Command::DEFAULT
            },
            Command {
                name: "help",
                group: Group::Pubsub,
                since: "6.2.0",
                summary: "Returns helpful text about the different subcommands.",
                complexity: "O(1)",
                arity: 2,
                flags: flag::LOADING | flag::STALE,
                help: HELP,
                run: Some(super::keys::help),
                ..Command::DEFAULT
            },
            Command {
                name: "numpat",
                group: Group::Pubsub,
                since: "2.8.0",
                summary: "Returns a count of unique pattern subscriptions.",
                complexity: "O(1)",
                arity: 2,
                flags: flag::PUBSUB | flag::LOADING | flag::STALE,
                run: Some(numpat),
                ..Command::DEFAULT
            },
            Command {
                name: "numsub",
                group: Group::Pubsub,
                since: "2.8.0",
                summary: "Returns a count of subscribers to channels.",
                complexity: "O(N) for the NUMSUB subcommand, where N is the number of requested channels",
                arity: -2,
                flags: flag::PUBSUB | flag::LOADING | flag::STALE,
                args: &[Arg::string("channel").optional().multiple()],
                run: Some(numsub),
                ..Command::DEFAULT
            },
            Command {
                name: "shardchannels",
                group: Group::Pubsub,
                since: "7.0.0",
                summary: "Returns the active shard channels.",
                complexity: "O(N) where N is the number of active shard channels, and assuming constant time pattern matching (relatively short shard channels).",
                arity: -2,
                flags: flag::PUBSUB | flag::LOADING | flag::STALE,
                args: &[Arg::pattern("pattern").optional()],
                run: Some(shardchannels),
                ..Command::DEFAULT
            },
            Command {
                name: "shardnumsub",
                group: Group::Pubsub,
                since: "7.0.0",
                summary: "Returns the count of subscribers of shard channels.",
                complexity: "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels",
                arity: -2,
                flags: flag::PUBSUB | flag::LOADING | flag::STALE,
                args: &[Arg::string("shardchannel").optional().multiple()],
                run: Some(shardnumsub),
                ..Command::DEFAULT
            },
        ],
        // container: no run
        ..Command::DEFAULT
    },
    Command {
        name: "punsubscribe",
        group: Group::Pubsub,
        since: "2.0.0",
        summary: "Stops listening to messages published to channels that match one or more patterns.",
        complexity: "O(N) where N is the number of patterns to unsubscribe.",
        arity: -1,
        flags: flag::PUBSUB | flag::NOSCRIPT | flag::LOADING | flag::STALE,
        args: &[Arg::pattern("pattern").optional().multiple()],
        run: Some(punsubscribe),
        ..Command::DEFAULT
    },
    Command {
        name: "spublish",
        group: Group::Pubsub,
        since: "7.0.0",
        summary: "Post a message to a shard channel",
        complexity: "O(N) where N is the number of clients subscribed to the receiving shard channel.",
        arity: 3,
        flags: flag::MAY_REPLICATE | flag::PUBSUB | flag::LOADING | flag::STALE | flag::FAST,
        keys: &[KeySpec::range(key::NOT_KEY, 1, 0, 1)],
        channels: Channels::Publish,
        args: &[Arg::string("shardchannel"), Arg::string("message")],
        run: Some(spublish),
        ..Command::DEFAULT
    },
    Command {
        name: "ssubscribe",
        group: Group::Pubsub,
        since: "7.0.0",
        summary: "Listens for messages published to shard channels.",
        complexity: "O(N) where N is the number of shard channels to subscribe to.",
        arity: -2,
        flags: flag::PUBSUB | flag::NOSCRIPT | flag::LOADING | flag::STALE,
        keys: &[KeySpec::range(key::NOT_KEY, 1, -1, 1)],
        channels: Channels::Subscribe,
        args: &[Arg::string("shardchannel").multiple()],
        run: Some(ssubscribe),
        ..Command::DEFAULT
    },
    Command {
        name: "subscribe",
        group: Group::Pubsub,
        since: "2.0.0",
        summary: "Listens for messages published to channels.",
        complexity: "O(N) where N is the number of channels to subscribe to.",
        arity: -2,
        flags: flag::PUBSUB | flag::NOSCRIPT | flag::LOADING | flag::STALE,
        channels: Channels::Subscribe,
        args: &[Arg::string("channel").multiple()],
        run: Some(subscribe),
        ..Command::DEFAULT
    },
    Command {
        name: "sunsubscribe",
        group: Group::Pubsub,
        since: "7.0.0",
        summary: "Stops listening to messages posted to shard channels.",
        complexity: "O(N) where N is the number of shard channels to unsubscribe.",
        arity: -1,
        flags: flag::PUBSUB | flag::NOSCRIPT | flag::LOADING | flag::STALE,
        keys: &[KeySpec::range(key::NOT_KEY, 1, -1, 1)],
        args: &[Arg::string("shardchannel").optional().multiple()],
        run: Some(sunsubscribe),
        ..Command::DEFAULT
    },
    Command {
        name: "unsubscribe",
        group: Group::Pubsub,
        since: "2.0.0",
        summary: "Stops listening to messages posted to channels.",
        complexity: "O(N) where N is the number of channels to unsubscribe.",
        arity: -1,
        flags: flag::PUBSUB | flag::NOSCRIPT | flag::LOADING | flag::STALE,
        args: &[Arg::string("channel").optional().multiple()],
        run: Some(unsubscribe),
        ..Command::DEFAULT
    },
];

/// Answers one subscription or its end: `word`, the channel, and how many subscriptions the client has now.
fn confirm(ctx: &mut Ctx<'_>, kind: Kind, word: &str, name: Option<&[u8]>) {
    let count = ctx.client.subscriptions.as_ref().map_or(0, |own| match kind {
        Kind::Shard => own.of(Kind::Shard).len(),
        Kind::Channel | Kind::Pattern => own.count(),
    });
    ctx.reply.push(3);
    ctx.reply.bulk(word.as_bytes());
    match name {
        Some(name) => ctx.reply.bulk(name),
        None => ctx.reply.null(),
    }
    ctx.reply.count(count);
}

fn subscribe_to(ctx: &mut Ctx<'_>, kind: Kind) -> Result<(), Error> {
    for name in ctx.args.iter_from(1) {
        ctx.core.pubsub.subscribe(kind, ctx.client, name);
        confirm(ctx, kind, ctx.command.name, Some(name));
    }
    Ok(())
}

fn unsubscribe_from(ctx: &mut Ctx<'_>, kind: Kind) -> Result<(), Error> {
    let word = ctx.command.name;
    if ctx.argc() > 1 {
        for name in ctx.args.iter_from(1) {
            ctx.core.pubsub.unsubscribe(kind, ctx.client, name);
            confirm(ctx, kind, word, Some(name));
        }
        return Ok(());
    }
    let own = ctx.client.subscriptions.as_ref();
    let all: Vec<Box<[u8]>> = own.map(|own| own.of(kind).iter().cloned().collect()).unwrap_or_default();
    for name in &all {
        ctx.core.pubsub.unsubscribe(kind, ctx.client, name);
        confirm(ctx, kind, word, Some(name));
    }
    if all.is_empty() {
        confirm(ctx, kind, word, None);
    }
    Ok(())
}

fn subscribe(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    subscribe_to(ctx, Kind::Channel)
}

fn psubscribe(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    subscribe_to(ctx, Kind::Pattern)
}

fn ssubscribe(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    // Unlike the others not even inside MULTI, where they are allowed for old clients' sake.
    if ctx.deny_blocking {
        return Err(Error::Fixed("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    subscribe_to(ctx, Kind::Shard)
}

fn unsubscribe(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    unsubscribe_from(ctx, Kind::Channel)
}

fn punsubscribe(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    unsubscribe_from(ctx, Kind::Pattern)
}

fn sunsubscribe(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    unsubscribe_from(ctx, Kind::Shard)
}

fn publish(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    publish_to(ctx, Kind::Channel)
}

fn spublish(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    publish_to(ctx, Kind::Shard)
}

fn publish_to(ctx: &mut Ctx<'_>, kind: Kind) -> Result<(), Error> {
    let n = ctx.core.publish(kind, ctx.args.get(1), ctx.args.get(2), Some(ctx.client));
    ctx.reply.count(n);
    Ok(())
}

fn channels(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    list(ctx, Kind::Channel)
}

fn shardchannels(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    list(ctx, Kind::Shard)
}

fn list(ctx: &mut Ctx<'_>, kind: Kind) -> Result<(), Error> {
    if ctx.argc() > 3 {
        return Err(error_text!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try PUBSUB HELP.",
            text::printable(ctx.arg(1), 128)
        ));
    }
    let pattern = (ctx.argc() == 3).then(|| ctx.args.get(2));
    let matches = |name: &&[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name));
    let n = ctx.core.pubsub.names(kind).filter(matches).count();
    ctx.reply.array(n);
    for name in ctx.core.pubsub.names(kind).filter(matches) {
        ctx.reply.bulk(name);
    }
    Ok(())
}

fn numsub(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    count(ctx, Kind::Channel)
}

fn shardnumsub(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    count(ctx, Kind::Shard)
}

fn count(ctx: &mut Ctx<'_>, kind: Kind) -> Result<(), Error> {
    ctx.reply.array(2 * (ctx.argc() - 2));
    for name in ctx.args.iter_from(2) {
        ctx.reply.bulk(name);
        ctx.reply.count(ctx.core.pubsub.subscribers(kind, name));
    }
    Ok(())
}

fn numpat(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let n = ctx.core.pubsub.names(Kind::Pattern).len();
    ctx.reply.count(n);
    Ok(())
}

const HELP: &[&str] = &[
    "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANNELS [<pattern>]",
    "    Return the currently active channels matching a <pattern> (default: '*').",
    "NUMPAT",
    "    Return number of subscriptions to patterns.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers for the specified channels, excluding",
    "    pattern subscriptions(default: no channels).",
    "SHARDCHANNELS [<pattern>]",
    "    Return the currently active shard level channels matching a <pattern> (default: '*').",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return the number of subscribers for the specified shard level channel(s)",
    "HELP",
    "    Print this help.",
];

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn messages_reach_channels_and_patterns() {
        let mut b = Bench::new(&[]);
        let (a, p, c) = (b.client(), b.client(), b.client());
        assert_eq!(b.run(a, "SUBSCRIBE news other news"), "[subscribe news 1] [subscribe other 2] [subscribe news 2]");
        assert_eq!(b.run(p, "PSUBSCRIBE n* *"), "[psubscribe n* 1] [psubscribe * 2]");
        assert_eq!(b.run(c, "PUBLISH news hello"), "3");
        assert_eq!(b.read(a), "[message news hello]");
        assert_eq!(b.read(p), "[pmessage * news hello] [pmessage n* news hello]");
        assert_eq!(b.run(c, "PUBLISH elsewhere hello"), "1");
        assert_eq!(b.run(c, "PUBSUB NUMPAT"), "2");
        assert_eq!(b.run(c, "PUBSUB CHANNELS"), "[news other]");
        assert_eq!(b.run(c, "PUBSUB CHANNELS o*"), "[other]");
        assert_eq!(b.run(c, "PUBSUB NUMSUB news none"), "[news 1 none 0]");
        assert_eq!(b.run(a, "UNSUBSCRIBE"), "[unsubscribe news 1] [unsubscribe other 0]");
        assert_eq!(b.run(a, "UNSUBSCRIBE"), "[unsubscribe nil 0]");
        assert_eq!(b.run(c, "PUBSUB CHANNELS"), "[]");
    }

    #[test]
    fn shard_channels_are_apart_from_channels() {
        let mut b = Bench::new(&[]);
        let (a, c) = (b.client(), b.client());
        b.run(a, "SSUBSCRIBE s");
        assert_eq!(b.run(c, "PUBLISH s x"), "0");
        assert_eq!(b.run(c, "SPUBLISH s x"), "1");
        assert_eq!(b.read(a), "[smessage s x]");
        assert_eq!(b.run(c, "PUBSUB SHARDCHANNELS"), "[s]");
        assert_eq!(b.run(c, "PUBSUB SHARDNUMSUB s"), "[s 1]");
        assert_eq!(b.run(a, "SUNSUBSCRIBE"), "[sunsubscribe s 0]");
    }

    #[test]
    fn a_client_sees_its_reply_before_the_pushes_it_caused() {
        let mut b = Bench::new(&[]);
        let c = b.client();
        b.run(c, "HELLO 3");
        b.run(c, "SUBSCRIBE c");
        assert_eq!(b.run(c, "PUBLISH c x"), "1 >[message c x]");
        b.run(c, "MULTI");
        b.run(c, "PUBLISH c y");
        b.run(c, "PING");
        assert_eq!(b.run(c, "EXEC"), "[1 PONG] >[message c y]");
    }

    #[test]
    fn an_old_subscriber_may_use_few_commands() {
        let mut b = Bench::new(&[]);
        let c = b.client();
        b.run(c, "SUBSCRIBE c");
        assert!(b.run(c, "GET k").starts_with("-ERR Can't execute 'get': only (P|S)SUBSCRIBE"));
        assert_eq!(b.run(c, "PING x"), "[pong x]");
        b.run(c, "UNSUBSCRIBE c");
        assert_eq!(b.run(c, "GET k"), "nil");
        b.run(c, "SUBSCRIBE c");
        assert_eq!(b.run(c, "RESET"), "RESET");
        assert_eq!(b.run(c, "PUBSUB NUMSUB c"), "[c 0]");
    }
}
