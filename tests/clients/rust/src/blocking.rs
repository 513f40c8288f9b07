//! The crate's plain connections.

use crate::{Outcome, Server};
use redis::streams::{StreamPendingReply, StreamReadOptions, StreamReadReply};
use redis::{Commands, ErrorKind, ServerErrorKind};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// All tests, by name.
#[allow(clippy::type_complexity)]
pub const TESTS: &[(&str, fn(&Server) -> Outcome)] = &[
    ("a connection names itself", names_itself),
    ("values of every type over both protocols", values),
    ("pipelines", pipelines),
    ("transactions with WATCH", transactions),
    ("pub/sub", pubsub),
    ("blocking pops", blocking_pops),
    ("streams and groups", streams),
    ("a scan sees every key", scan),
    ("a value of 8 MiB", large),
    ("errors by kind", errors),
    ("a password", password),
];

fn names_itself(server: &Server) -> Outcome {
    let mut c = server.connect()?;
    let line: String = redis::cmd("CLIENT").arg("INFO").query(&mut c)?;
    assert!(line.contains(" lib-name=redis-rs ") && line.contains(" resp=2"), "{line}");
    let line: String = redis::cmd("CLIENT").arg("INFO").query(&mut server.client_resp3()?.get_connection()?)?;
    assert!(line.contains(" resp=3"), "{line}");
    Ok(())
}

fn values(server: &Server) -> Outcome {
    for client in [server.client()?, server.client_resp3()?] {
        let mut c = client.get_connection()?;
        let () = redis::cmd("FLUSHALL").query(&mut c)?;
        let () = c.set_ex("s", "v", 100)?;
        assert_eq!(c.get::<_, Option<String>>("s")?.as_deref(), Some("v"));
        assert_eq!(c.get::<_, Option<String>>("none")?, None);
        assert_eq!(c.incr::<_, _, f64>("f", 10.5)?, 10.5);
        assert!((1..=100).contains(&c.ttl::<_, i64>("s")?));
        let () = c.hset_multiple("h", &[("a", "1"), ("b", "two")])?;
        let map: HashMap<String, String> = c.hgetall("h")?;
        assert_eq!(map, HashMap::from([("a".into(), "1".into()), ("b".into(), "two".into())]));
        assert_eq!(c.rpush::<_, _, i64>("l", &[1, 2, 3])?, 3);
        assert_eq!(c.lrange::<_, Vec<i64>>("l", 0, -1)?, [1, 2, 3]);
        assert_eq!(c.sadd::<_, _, i64>("set", &["x", "y"])?, 2);
        assert_eq!(c.smembers::<_, HashSet<String>>("set")?, HashSet::from(["x".into(), "y".into()]));
        assert!(c.sismember::<_, _, bool>("set", "x")?);
        assert_eq!(c.zadd_multiple::<_, _, _, i64>("z", &[(1.5, "m"), (f64::INFINITY, "n")])?, 2);
        let scored: Vec<(String, f64)> = c.zrange_withscores("z", 0, -1)?;
        assert_eq!(scored, [("m".into(), 1.5), ("n".into(), f64::INFINITY)]);
        assert_eq!(c.zscore::<_, _, Option<f64>>("z", "none")?, None);
        let bytes: Vec<u8> = (0..=255).collect();
        let () = c.set("bytes", &bytes)?;
        assert_eq!(c.get::<_, Vec<u8>>("bytes")?, bytes);
        assert!(c.pfadd::<_, _, bool>("hll", &["a", "b"])?);
        assert_eq!(c.pfcount::<_, i64>("hll")?, 2);
        let () = c.geo_add("g", &[(13.361389, 38.115556, "Palermo"), (15.087269, 37.502669, "Catania")])?;
        assert_eq!(c.geo_dist::<_, _, _, f64>("g", "Palermo", "Catania", redis::geo::Unit::Kilometers)?, 166.2742);
    }
    Ok(())
}

fn pipelines(server: &Server) -> Outcome {
    let mut c = server.connect()?;
    let mut pipe = redis::pipe();
    for n in 0..5_000 {
        pipe.set(format!("p{n}"), n).ignore().get(format!("p{n}"));
    }
    let values: Vec<i64> = pipe.query(&mut c)?;
    assert!(values.into_iter().eq(0..5_000));
    Ok(())
}

fn transactions(server: &Server) -> Outcome {
    let (mut c, mut other) = (server.connect()?, server.connect()?);
    let () = c.set("t", 1)?;
    let mut tries = 0;
    let (value,): (i64,) = redis::transaction(&mut c, &["t"], |c, pipe| {
        tries += 1;
        let old: i64 = c.get("t")?;
        if tries == 1 {
            let () = other.set("t", 10)?;
        }
        pipe.set("t", old + 1).ignore().get("t").query(c)
    })?;
    assert_eq!((value, tries), (11, 2));
    Ok(())
}

/// Asks again until it is so, for at most ten seconds.
fn until(mut is_so: impl FnMut() -> redis::RedisResult<bool>) -> Outcome {
    let begin = Instant::now();
    while !is_so()? {
        assert!(begin.elapsed() < Duration::from_secs(10), "it never became so");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn pubsub(server: &Server) -> Outcome {
    let (mut c, mut publisher) = (server.connect()?, server.connect()?);
    c.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut subscriber = c.as_pubsub();
    subscriber.subscribe(&["news", "other"])?;
    subscriber.psubscribe("n*")?;
    // The crate takes the answer to the first channel for that to all: the others may be on their way.
    until(|| Ok(redis::cmd("PUBSUB").arg("NUMPAT").query::<i64>(&mut publisher)? == 1))?;
    assert_eq!(publisher.publish::<_, _, i64>("news", "hello")?, 2);
    let (one, two) = (subscriber.get_message()?, subscriber.get_message()?);
    assert_eq!((one.get_channel_name(), one.get_payload::<String>()?), ("news", "hello".into()));
    assert_eq!(two.get_pattern::<String>()?, "n*");
    subscriber.unsubscribe("news")?;
    until(|| Ok(redis::cmd("PUBSUB").arg("NUMSUB").arg("news").query::<(String, i64)>(&mut publisher)?.1 == 0))?;
    assert_eq!(publisher.publish::<_, _, i64>("news", "hello")?, 1);
    drop(subscriber);
    assert_eq!(redis::cmd("PING").query::<String>(&mut c)?, "PONG");
    Ok(())
}

fn blocking_pops(server: &Server) -> Outcome {
    let mut c = server.connect()?;
    std::thread::scope(|scope| {
        let waiting = scope
            .spawn(|| -> redis::RedisResult<(String, String)> { server.connect()?.blpop(&["queue", "queue2"], 20.0) });
        server.wait_for("blocked_clients", "1")?;
        let () = c.rpush("queue2", "job")?;
        let got = waiting.join().map_err(|_| "the waiting thread")??;
        assert_eq!(got, ("queue2".into(), "job".into()));
        assert_eq!(c.blpop::<_, Option<(String, String)>>("nothing", 0.1)?, None);
        Ok(())
    })
}

fn streams(server: &Server) -> Outcome {
    for client in [server.client()?, server.client_resp3()?] {
        let mut c = client.get_connection()?;
        let () = c.del("stream")?;
        let () = c.xgroup_create_mkstream("stream", "workers", "$")?;
        let id: String = c.xadd("stream", "*", &[("field", "value")])?;
        let options = StreamReadOptions::default().group("workers", "alice").count(10).block(1_000);
        let reply: StreamReadReply = c.xread_options(&["stream"], &[">"], &options)?;
        let entry = &reply.keys[0].ids[0];
        assert_eq!((&entry.id, entry.get::<String>("field").as_deref()), (&id, Some("value")));
        let StreamPendingReply::Data(pending) = c.xpending::<_, _, StreamPendingReply>("stream", "workers")? else {
            panic!("nothing is pending");
        };
        assert_eq!((pending.count, pending.start_id == id), (1, true));
        assert_eq!(c.xack::<_, _, _, i64>("stream", "workers", &[&id])?, 1);
    }
    Ok(())
}

fn scan(server: &Server) -> Outcome {
    let mut c = server.connect()?;
    let items: Vec<(String, i64)> = (0..1_000).map(|n| (format!("scan:{n}"), n)).collect();
    let () = c.mset(&items)?;
    let seen = c.scan_match::<_, String>("scan:*")?.collect::<Result<HashSet<_>, _>>()?;
    assert_eq!(seen.len(), 1_000);
    Ok(())
}

fn large(server: &Server) -> Outcome {
    let mut c = server.connect()?;
    let big: Vec<u8> = (0..8 << 20).map(|n| (n % 251) as u8).collect();
    let () = c.set("big", &big)?;
    assert!(c.get::<_, Vec<u8>>("big")? == big);
    let () = c.del("big")?;
    Ok(())
}

fn errors(server: &Server) -> Outcome {
    let mut c = server.connect()?;
    let () = c.set("text", "x")?;
    let wrong_type = c.lpush::<_, _, i64>("text", 1).err().ok_or("LPUSH to a string")?;
    assert_eq!(wrong_type.code(), Some("WRONGTYPE"));
    let unknown = redis::cmd("NOTHING").query::<()>(&mut c).err().ok_or("an unknown command")?;
    assert_eq!(unknown.kind(), ErrorKind::Server(ServerErrorKind::ResponseError));
    Ok(())
}

fn password(server: &Server) -> Outcome {
    let mut c = server.connect()?;
    let () = redis::cmd("CONFIG").arg(&["SET", "requirepass", "secret"]).query(&mut c)?;
    let () = redis::cmd("ACL").arg(&["SETUSER", "alice", "on", ">word", "~a*", "+get", "+ping"]).query(&mut c)?;
    let open = |who: &str| redis::Client::open(format!("redis://{who}{}/", server.address))?.get_connection();
    let tried = || -> Outcome {
        let () = open(":secret@")?.set("a1", 1)?;
        let mut alice = open("alice:word@")?;
        assert_eq!(alice.get::<_, i64>("a1")?, 1);
        let refused = alice.get::<_, Option<i64>>("b").err().ok_or("a key that alice may not read")?;
        assert_eq!(refused.code(), Some("NOPERM"));
        let wrong = open(":wrong@").err().ok_or("a wrong password")?;
        assert_eq!(wrong.kind(), ErrorKind::AuthenticationFailed);
        let none = open("")?.get::<_, Option<i64>>("a1").err().ok_or("no password")?;
        assert_eq!(none.code(), Some("NOAUTH"));
        Ok(())
    };
    let outcome = tried();
    let () = redis::cmd("CONFIG").arg(&["SET", "requirepass", ""]).query(&mut c)?;
    let () = redis::cmd("ACL").arg(&["DELUSER", "alice"]).query(&mut c)?;
    outcome
}
