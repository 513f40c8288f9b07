// What applications do through node-redis: `node node-redis.mjs HOST:PORT`. The keyspace is emptied.
import assert from "node:assert/strict";
import { createClient, WatchError } from "redis";
import { run, until, url } from "./common.mjs";

/** A connected client. Errors of its connection are the tests' matter. */
async function connect(options = {}) {
  const client = createClient({ url, ...options });
  client.on("error", () => {});
  return client.connect();
}

const client = await connect();
await client.flushAll();

await run({
  async "names itself and its version"() {
    const named = await connect({ name: "worker" });
    const info = await named.clientInfo();
    assert.equal(info.name, "worker");
    assert.match(info.libName, /^node-redis/);
    assert.match(info.libVer, /^5\./);
    named.destroy();
  },

  async "values of every type over RESP2 and RESP3"() {
    for (const RESP of [2, 3]) {
      const c = await connect({ RESP });
      assert.equal(await c.set(`s${RESP}`, "v", { expiration: { type: "EX", value: 100 }, condition: "NX" }), "OK");
      assert.equal(await c.get("none"), null);
      await c.hSet(`h${RESP}`, { a: "1", b: "two" });
      assert.deepEqual({ ...(await c.hGetAll(`h${RESP}`)) }, { a: "1", b: "two" });
      await c.rPush(`l${RESP}`, ["1", "2"]);
      assert.deepEqual(await c.lRange(`l${RESP}`, 0, -1), ["1", "2"]);
      await c.sAdd(`set${RESP}`, ["x", "y"]);
      assert.deepEqual([...(await c.sMembers(`set${RESP}`))].sort(), ["x", "y"]);
      await c.zAdd(`z${RESP}`, [{ score: 1.5, value: "m" }, { score: Infinity, value: "n" }]);
      assert.deepEqual(await c.zRangeWithScores(`z${RESP}`, 0, -1), [
        { value: "m", score: 1.5 },
        { value: "n", score: Infinity },
      ]);
      assert.equal(await c.zScore(`z${RESP}`, "m"), 1.5);
      assert.equal(await c.zIncrBy(`z${RESP}`, -0.25, "m"), 1.25);
      assert.deepEqual(await c.configGet("maxmemory-policy").then((r) => ({ ...r })), { "maxmemory-policy": "noeviction" });
      assert.equal(await c.objectEncoding(`l${RESP}`), "listpack");
      await assert.rejects(c.lPush(`s${RESP}`, "x"), /WRONGTYPE/);
      c.destroy();
    }
  },

  async "commands of one turn travel together"() {
    const values = await Promise.all(Array.from({ length: 5_000 }, (_, n) => client.incrBy("sum", n % 3)));
    assert.equal(values.at(-1), Array.from({ length: 5_000 }, (_, n) => n % 3).reduce((a, b) => a + b));
  },

  async "a transaction, and one that WATCH breaks"() {
    assert.deepEqual(await client.multi().set("t", "1").incr("t").get("t").exec(), ["OK", 2, "2"]);
    const other = await connect();
    await other.watch("t");
    await client.incr("t");
    await assert.rejects(other.multi().set("t", "0").exec(), WatchError);
    assert.equal(await client.get("t"), "3");
    other.destroy();
  },

  async "pub/sub by channel, pattern and shard"() {
    for (const RESP of [2, 3]) {
      const subscriber = await connect({ RESP });
      const got = [];
      await subscriber.subscribe("news", (text, channel) => got.push(`${channel}:${text}`));
      await subscriber.pSubscribe("n*", (text, channel) => got.push(`n*:${channel}:${text}`));
      await subscriber.sSubscribe("shard", (text, channel) => got.push(`shard:${channel}:${text}`));
      assert.equal(await client.publish("news", "hello"), 2);
      assert.equal(await client.sPublish("shard", "there"), 1);
      await until(() => got.length === 3, "three messages");
      assert.deepEqual(got.sort(), ["n*:news:hello", "news:hello", "shard:shard:there"]);
      assert.deepEqual(await client.pubSubChannels("new*"), ["news"]);
      // Over RESP3 a subscriber may do anything else as well.
      if (RESP === 3) assert.equal(await subscriber.get("none"), null);
      await subscriber.unsubscribe("news");
      await subscriber.pUnsubscribe("n*");
      await subscriber.sUnsubscribe("shard");
      assert.equal(await subscriber.get("none"), null);
      subscriber.destroy();
    }
  },

  async "blocking pops"() {
    const [a, b] = [await connect(), await connect()];
    const popped = a.blPop(["queue", "queue2"], 20);
    const least = b.bzPopMin("zqueue", 20);
    await until(async () => /blocked_clients:2/.test(await client.info("clients")), "two blocked clients");
    await client.rPush("queue2", "job");
    await client.zAdd("zqueue", { score: 1, value: "m" });
    assert.deepEqual({ ...(await popped) }, { key: "queue2", element: "job" });
    assert.deepEqual({ ...(await least) }, { key: "zqueue", value: "m", score: 1 });
    assert.equal(await a.blPop("nothing", 0.1), null);
    a.destroy();
    b.destroy();
  },

  async "streams and a consumer group"() {
    for (const RESP of [2, 3]) {
      const c = await connect({ RESP });
      const key = `stream${RESP}`;
      await c.xGroupCreate(key, "workers", "0", { MKSTREAM: true });
      const waiting = c.xReadGroup("workers", "alice", { key, id: ">" }, { BLOCK: 20_000 });
      await until(async () => /blocked_clients:1/.test(await client.info("clients")), "a blocked reader");
      const id = await client.xAdd(key, "*", { field: "value" });
      const read = await waiting;
      // node-redis leaves a map as it comes over RESP3.
      const messages = RESP === 2 ? read[0].messages : JSON.stringify(read);
      if (RESP === 2) assert.deepEqual({ ...messages[0].message }, { field: "value" });
      else assert.ok(messages.includes(id) && messages.includes("value"), messages);
      assert.equal((await c.xPending(key, "workers")).pending, 1);
      assert.equal((await c.xInfoGroups(key))[0].lag, 0);
      assert.equal(await c.xAck(key, "workers", id), 1);
      c.destroy();
    }
  },

  async "the client's own cache is told of changes"() {
    const { BasicClientSideCache } = await import("redis");
    const cache = new BasicClientSideCache({ ttl: 0, maxEntries: 0 });
    const c = await connect({ RESP: 3, clientSideCache: cache });
    await client.set("cached", "old");
    assert.equal(await c.get("cached"), "old");
    assert.equal(await c.get("cached"), "old");
    assert.equal(cache.stats().hitCount, 1);
    await client.set("cached", "new");
    await until(async () => (await c.get("cached")) === "new", "the invalidation");
    c.destroy();
  },

  async "a scan sees every key"() {
    await client.mSet(Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`scan:${n}`, `${n}`])));
    const seen = new Set();
    for await (const keys of client.scanIterator({ MATCH: "scan:*", COUNT: 100 })) keys.forEach((key) => seen.add(key));
    assert.equal(seen.size, 1_000);
  },

  async "a value of 8 MiB"() {
    const big = "0123456789abcdef".repeat(1 << 19);
    await client.set("big", big);
    assert.ok((await client.get("big")) === big);
    await client.del("big");
  },

  async "reconnects after CLIENT KILL, and subscribes again"() {
    const victim = await connect();
    const got = [];
    await victim.subscribe("after", (text) => got.push(text));
    assert.equal(await client.clientKill({ filter: "TYPE", type: "pubsub" }), 1);
    await until(async () => (await client.publish("after", "back")) === 1, "the subscription");
    await until(() => got.includes("back"), "the message");
    const plain = await connect();
    const id = await plain.clientId();
    assert.equal(await client.clientKill({ filter: "ID", id }), 1);
    await until(() => plain.isReady && plain.clientId().then((now) => now !== id, () => false), "the reconnect");
    victim.destroy();
    plain.destroy();
  },

  async "a password"() {
    await client.configSet("requirepass", "secret");
    try {
      const good = await connect({ password: "secret" });
      assert.equal(await good.ping(), "PONG");
      const named = await connect({ username: "default", password: "secret", RESP: 3 });
      assert.equal(await named.ping(), "PONG");
      const wrong = createClient({ url, password: "wrong", socket: { reconnectStrategy: false } });
      wrong.on("error", () => {});
      await assert.rejects(wrong.connect(), /WRONGPASS/);
      good.destroy();
      named.destroy();
    } finally {
      await client.configSet("requirepass", "");
    }
  },
});
