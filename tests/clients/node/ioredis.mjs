// What applications do through ioredis: `node ioredis.mjs HOST:PORT`. The keyspace is emptied.
import assert from "node:assert/strict";
import Redis from "ioredis";
import { run, until, where } from "./common.mjs";

const options = { ...where, maxRetriesPerRequest: 3 };
const redis = new Redis(options);
await redis.flushall();

await run({
  async "connects with its ready check and names itself"() {
    const client = new Redis({ ...options, connectionName: "worker 1".replace(" ", "-") });
    await new Promise((ready, fail) => client.once("ready", ready).once("error", fail));
    const line = await client.client("LIST", "ID", await client.client("ID"));
    assert.match(line, / name=worker-1 /);
    assert.match(line, / lib-name=ioredis/);
    assert.match(await client.info("server"), /redis_version:7\.2/);
    await client.quit();
  },

  async "values of every type"() {
    assert.equal(await redis.set("s", "v", "EX", 100, "NX"), "OK");
    assert.equal(await redis.set("s", "w", "NX"), null);
    assert.equal(await redis.incrbyfloat("f", 10.5), "10.5");
    await redis.hset("h", { a: 1, b: "two" });
    assert.deepEqual(await redis.hgetall("h"), { a: "1", b: "two" });
    await redis.rpush("l", 1, 2, 3);
    assert.deepEqual(await redis.lrange("l", 0, -1), ["1", "2", "3"]);
    await redis.sadd("set", "x", "y");
    assert.deepEqual((await redis.smembers("set")).sort(), ["x", "y"]);
    await redis.zadd("z", 1.5, "m", 2, "n");
    assert.deepEqual(await redis.zrange("z", 0, -1, "WITHSCORES"), ["m", "1.5", "n", "2"]);
    assert.deepEqual(await redis.zrangebyscore("z", "(1.5", "+inf"), ["n"]);
    await redis.geoadd("g", 13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania");
    assert.equal(await redis.geodist("g", "Palermo", "Catania", "km"), "166.2742");
    const bytes = Buffer.from([0, 255, 13, 10, 128]);
    await redis.set("binary", bytes);
    assert.deepEqual(await redis.getBuffer("binary"), bytes);
    await assert.rejects(redis.lpush("s", "x"), /WRONGTYPE Operation against a key/);
  },

  async "a pipeline of 10,000 commands"() {
    const pipeline = redis.pipeline();
    for (let n = 0; n < 5_000; n++) pipeline.set(`p${n}`, n).get(`p${n}`);
    const results = await pipeline.exec();
    assert.equal(results.length, 10_000);
    results.forEach(([error, value], n) => assert.ok(!error && value === (n % 2 ? String(n >> 1) : "OK")));
  },

  async "commands that are pipelined by themselves"() {
    const client = new Redis({ ...options, enableAutoPipelining: true });
    const values = await Promise.all(Array.from({ length: 500 }, (_, n) => client.hincrby("auto", `f${n % 7}`, 1)));
    assert.equal(values.length, 500);
    const counts = Object.values(await client.hgetall("auto")).map(Number);
    assert.equal(counts.reduce((a, b) => a + b), 500);
    await client.quit();
  },

  async "a transaction, and one that WATCH breaks"() {
    assert.deepEqual(await redis.multi().set("t", 1).incr("t").get("t").exec(), [[null, "OK"], [null, 2], [null, "2"]]);
    const client = new Redis(options);
    await client.watch("t");
    await redis.incr("t");
    assert.equal(await client.multi().set("t", 0).exec(), null);
    assert.equal(await redis.get("t"), "3");
    const [[, ok], [error]] = await redis.multi().set("t", "text").incr("t").exec();
    assert.equal(ok, "OK");
    assert.match(error.message, /not an integer/);
    await assert.rejects(client.multi().set("t").exec(), /EXECABORT/);
    await client.quit();
  },

  async "pub/sub by channel, pattern and shard"() {
    const client = new Redis(options);
    const got = [];
    client.on("message", (channel, text) => got.push(["message", channel, text]));
    client.on("pmessage", (pattern, channel, text) => got.push(["pmessage", pattern, channel, text]));
    client.on("smessage", (channel, text) => got.push(["smessage", channel, text]));
    assert.equal(await client.subscribe("news", "other"), 2);
    assert.equal(await client.psubscribe("n*"), 3);
    assert.equal(await client.ssubscribe("shard"), 1);
    assert.equal(await redis.publish("news", "hello"), 2);
    assert.equal(await redis.spublish("shard", "there"), 1);
    await until(() => got.length === 3, "three messages");
    assert.deepEqual(got.sort(), [
      ["message", "news", "hello"],
      ["pmessage", "n*", "news", "hello"],
      ["smessage", "shard", "there"],
    ]);
    await client.unsubscribe("news", "other");
    await client.punsubscribe("n*");
    await client.sunsubscribe("shard");
    assert.equal(await client.ping(), "PONG");
    await client.quit();
  },

  async "blocking pops"() {
    const client = new Redis(options);
    const waiting = client.blpop("queue", "queue2", 20);
    const [moving, other] = [new Redis(options), new Redis(options)];
    const moved = moving.blmove("from", "to", "LEFT", "RIGHT", 20);
    const popped = other.bzpopmin("zqueue", 20);
    await until(async () => /blocked_clients:3/.test(await redis.info("clients")), "three blocked clients");
    await redis.rpush("queue2", "job");
    await redis.rpush("from", "x");
    await redis.zadd("zqueue", 1, "m");
    assert.deepEqual(await waiting, ["queue2", "job"]);
    assert.equal(await moved, "x");
    assert.deepEqual(await popped, ["zqueue", "m", "1"]);
    assert.equal(await client.brpop("nothing", 0.1), null);
    for (const c of [client, moving, other]) c.disconnect();
  },

  async "streams and a consumer group"() {
    const reader = new Redis(options);
    const next = reader.xread("BLOCK", 20_000, "STREAMS", "stream", "$");
    await until(async () => /blocked_clients:1/.test(await redis.info("clients")), "a blocked reader");
    const id = await redis.xadd("stream", "*", "field", "value");
    assert.deepEqual(await next, [["stream", [[id, ["field", "value"]]]]]);
    await redis.xgroup("CREATE", "stream", "workers", "0");
    const read = await redis.xreadgroup("GROUP", "workers", "alice", "COUNT", 10, "STREAMS", "stream", ">");
    assert.equal(read[0][1][0][0], id);
    assert.deepEqual(await redis.xpending("stream", "workers"), [1, id, id, [["alice", "1"]]]);
    assert.deepEqual((await redis.xautoclaim("stream", "workers", "bob", 0, "0"))[1], [[id, ["field", "value"]]]);
    assert.equal(await redis.xack("stream", "workers", id), 1);
    reader.disconnect();
  },

  async "a scan sees every key"() {
    await redis.mset(Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`scan:${n}`, n])));
    const seen = new Set();
    for await (const keys of redis.scanStream({ match: "scan:*", count: 100 })) keys.forEach((key) => seen.add(key));
    assert.equal(seen.size, 1_000);
  },

  async "a value of 8 MiB"() {
    const big = Buffer.alloc(8 << 20, "0123456789abcdef!");
    await redis.set("big", big);
    assert.ok((await redis.getBuffer("big")).equals(big));
    await redis.del("big");
  },

  async "reconnects after CLIENT KILL, and subscribes again"() {
    const client = new Redis(options);
    const subscriber = new Redis(options);
    const got = [];
    subscriber.on("message", (_, text) => got.push(text));
    await subscriber.subscribe("after");
    const victims = [await client.client("ID"), await subscriber.client("ID").catch(() => null)];
    assert.equal(await redis.client("KILL", "ID", victims[0]), 1);
    assert.equal(await redis.client("KILL", "TYPE", "pubsub"), 1);
    assert.equal(await client.ping(), "PONG");
    assert.notEqual(await client.client("ID"), victims[0]);
    await until(async () => (await redis.publish("after", "back")) === 1, "the subscription");
    await until(() => got.includes("back"), "the message");
    client.disconnect();
    subscriber.disconnect();
  },

  async "a password"() {
    await redis.config("SET", "requirepass", "secret");
    try {
      const good = new Redis({ ...options, password: "secret" });
      assert.equal(await good.ping(), "PONG");
      const named = new Redis({ ...options, username: "default", password: "secret" });
      assert.equal(await named.ping(), "PONG");
      const none = new Redis({ ...options, retryStrategy: null, enableReadyCheck: false });
      none.on("error", () => {});
      await assert.rejects(none.get("x"), /NOAUTH Authentication required/);
      const wrong = new Redis({ ...options, password: "wrong", retryStrategy: null });
      const error = await new Promise((fail) => wrong.once("error", fail));
      assert.match(error.message, /WRONGPASS/);
      for (const c of [good, named, none, wrong]) c.disconnect();
    } finally {
      await redis.config("SET", "requirepass", "");
    }
  },
});
