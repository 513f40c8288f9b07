//! The crate's connections that many tasks share: pipelined by themselves, reconnecting, with a cache of their own.

use crate::{Outcome, Server};
use redis::caching::CacheConfig;
use redis::{AsyncCommands, AsyncConnectionConfig, PushKind};
use std::time::Duration;

/// All tests, by name.
#[allow(clippy::type_complexity)]
pub const TESTS: &[(&str, fn(&Server) -> Outcome)] = &[
    ("many tasks over one connection", |s| run(multiplexed(s))),
    ("a cache that the server keeps right", |s| run(cached(s))),
    ("messages pushed over a connection in use", |s| run(pushed(s))),
    ("a connection that comes back after CLIENT KILL", |s| run(reconnects(s))),
];

fn run(test: impl Future<Output = Outcome>) -> Outcome {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(test)
}

async fn multiplexed(server: &Server) -> Outcome {
    let connection = server.client()?.get_multiplexed_async_connection().await?;
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let mut c = connection.clone();
            tokio::spawn(async move {
                for _ in 0..20 {
                    let () = c.incr("shared", 1).await?;
                }
                Ok::<(), redis::RedisError>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    assert_eq!(connection.clone().get::<_, i64>("shared").await?, 1_000);
    Ok(())
}

async fn cached(server: &Server) -> Outcome {
    let config = AsyncConnectionConfig::new().set_cache_config(CacheConfig::new());
    let mut c = server.client_resp3()?.get_multiplexed_async_connection_with_config(&config).await?;
    let mut writer = server.client()?.get_multiplexed_async_connection().await?;
    let () = writer.set("cached", "old").await?;
    for _ in 0..3 {
        assert_eq!(c.get::<_, String>("cached").await?, "old");
    }
    let hits = c.get_cache_statistics().map(|s| s.hit);
    assert_eq!(hits, Some(2));
    let () = writer.set("cached", "new").await?;
    for _ in 0..1_000 {
        if c.get::<_, String>("cached").await? == "new" {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err("the old value stays in the cache".into())
}

async fn pushed(server: &Server) -> Outcome {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let config = AsyncConnectionConfig::new().set_push_sender(sender);
    let mut c = server.client_resp3()?.get_multiplexed_async_connection_with_config(&config).await?;
    c.subscribe("pushed").await?;
    let () = c.set("s", "v").await?;
    assert_eq!(c.get::<_, String>("s").await?, "v");
    assert_eq!(c.publish::<_, _, i64>("pushed", "hello").await?, 1);
    let deadline = Duration::from_secs(10);
    loop {
        let push = tokio::time::timeout(deadline, receiver.recv()).await?.ok_or("the connection has ended")?;
        if push.kind == PushKind::Message {
            return Ok(());
        }
    }
}

async fn reconnects(server: &Server) -> Outcome {
    let mut c = server.client()?.get_connection_manager().await?;
    let mut killer = server.client()?.get_multiplexed_async_connection().await?;
    let id: i64 = redis::cmd("CLIENT").arg("ID").query_async(&mut c).await?;
    let killed: i64 = redis::cmd("CLIENT").arg(&["KILL", "ID"]).arg(id).query_async(&mut killer).await?;
    assert_eq!(killed, 1);
    for _ in 0..1_000 {
        if let Ok(now) = redis::cmd("CLIENT").arg("ID").query_async::<i64>(&mut c).await {
            assert_ne!(now, id);
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err("it stays away".into())
}
