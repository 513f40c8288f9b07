"""redis-py in depth: how it connects by default, its own cache, streams, sharded channels, users, reconnects."""
import threading
import time

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.cache import CacheConfig
from redis.retry import Retry


def wait_until(condition, what, seconds=10):
    """Asks again and again; fails when the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain: " + what
        time.sleep(0.01)


@pytest.mark.parametrize("protocol", (2, 3))
def test_a_connection_names_its_library(server, protocol):
    client = server.client(protocol=protocol, client_name="worker", decode_responses=True)
    info = client.client_info()
    assert info["lib-name"] == "redis-py" and info["lib-ver"] == redis.__version__
    assert info["name"] == "worker" and info["resp"] == str(protocol)
    assert client.info("server")["redis_version"].startswith("7.2")
    client.close()


def test_the_cache_is_told_of_changes(server, monkeypatch):
    # The library asks for 7.4 "to maximize compatibility", though what it uses is in 6.0.
    monkeypatch.setattr(redis.connection.CacheProxyConnection, "MIN_ALLOWED_VERSION", "7.2.0")
    cached = server.client(protocol=3, cache_config=CacheConfig(), decode_responses=True)
    writer = server.client()
    writer.set("cached", "old")
    assert [cached.get("cached") for _ in range(3)] == ["old"] * 3
    reads = int(writer.info("commandstats")["cmdstat_get"]["calls"])
    assert cached.get("cached") == "old"
    assert int(writer.info("commandstats")["cmdstat_get"]["calls"]) == reads, "the cache is not used"
    writer.set("cached", "new")
    wait_until(lambda: cached.get("cached") == "new", "the invalidation")
    writer.flushall()
    wait_until(lambda: cached.get("cached") is None, "the invalidation of everything")
    cached.close()


def test_a_large_pipeline_in_and_out_of_a_transaction(server):
    client = server.client()
    for transaction in (False, True):
        pipeline = client.pipeline(transaction=transaction)
        for n in range(10_000):
            pipeline.set("k%d" % n, b"v" * 50).incr("n")
        results = pipeline.execute()
        assert results[0] is True and results[-1] - results[1] == 9_999
    # One command that fails leaves the others done.
    pipeline = client.pipeline()
    pipeline.set("text", "x").lpush("text", 1).set("after", 1)
    results = pipeline.execute(raise_on_error=False)
    assert results[0] is True and isinstance(results[1], redis.ResponseError) and results[2] is True
    client.close()


@pytest.mark.parametrize("protocol", (2, 3))
def test_every_kind_of_channel(server, protocol):
    subscriber = server.client(protocol=protocol).pubsub()
    subscriber.subscribe("news")
    subscriber.psubscribe("n*s")
    subscriber.ssubscribe("shard")
    kinds = [subscriber.get_message(timeout=5)["type"] for _ in range(3)]
    assert kinds == ["subscribe", "psubscribe", "ssubscribe"]
    client = server.client()
    assert client.publish("news", "x") == 2 and client.spublish("shard", "y") == 1
    got = [subscriber.get_message(timeout=5) for _ in range(2)]
    got.append(subscriber.get_sharded_message(timeout=5) if protocol == 2 else subscriber.get_message(timeout=5))
    assert sorted((m["type"], m["channel"], m["data"]) for m in got) == [
        ("message", b"news", b"x"), ("pmessage", b"news", b"x"), ("smessage", b"shard", b"y")]
    assert client.pubsub_shardchannels() == [b"shard"]
    subscriber.close()
    wait_until(lambda: client.publish("news", "x") == 0, "the end of the subscriptions")


def test_keyspace_events(server):
    client = server.client()
    client.config_set("notify-keyspace-events", "KEA")
    subscriber = client.pubsub(ignore_subscribe_messages=True)
    subscriber.psubscribe("__key*__:*")
    subscriber.get_message(timeout=5)
    client.set("k", 1, px=50)
    got = []

    def expired():
        message = subscriber.get_message(timeout=0.1)
        got.append(message and (message["channel"], message["data"]))
        return (b"__keyevent@0__:expired", b"k") in got

    wait_until(expired, "the key's expiry")
    assert (b"__keyspace@0__:k", b"set") in got and (b"__keyevent@0__:expire", b"k") in got
    client.config_set("notify-keyspace-events", "")
    subscriber.close()


def test_a_group_of_workers_on_a_stream(server):
    client = server.client(decode_responses=True)
    client.xgroup_create("jobs", "workers", mkstream=True)
    done, lock = [], threading.Lock()

    def work(name):
        own = server.client(decode_responses=True, socket_timeout=60)
        while True:
            for _, entries in own.xreadgroup("workers", name, {"jobs": ">"}, count=5, block=20_000):
                for entry, fields in entries:
                    own.xack("jobs", "workers", entry)
                    if fields["n"] == "end":
                        return own.close()
                    with lock:
                        done.append(int(fields["n"]))

    threads = [threading.Thread(target=work, args=("worker%d" % n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for n in range(200):
        client.xadd("jobs", {"n": n}, maxlen=1_000, approximate=True)
    for _ in threads:
        # One end each: a worker that took two would leave another without.
        client.xadd("jobs", {"n": "end"})
        wait_until(lambda: client.xpending("jobs", "workers")["pending"] == 0, "acknowledgements")
        time.sleep(0.02)
    for thread in threads:
        thread.join(30)
    assert sorted(done) == list(range(200))
    group, = client.xinfo_groups("jobs")
    assert (group["consumers"], group["pending"], group["lag"]) == (4, 0, 0)
    # A consumer that died: its entry goes to another.
    entry = client.xadd("jobs", {"n": 1})
    client.xreadgroup("workers", "dead", {"jobs": ">"})
    assert client.xautoclaim("jobs", "workers", "alive", 0)[1] == [(entry, {"n": "1"})]
    client.close()


def test_blocking_moves_and_pops(server):
    client, results = server.client(), {}

    def wait(name, call):
        results[name] = call(server.client(socket_timeout=60))

    waits = {
        "blmove": lambda c: c.blmove("a", "b", 20, "LEFT", "RIGHT"),
        "blmpop": lambda c: c.blmpop(20, 2, "c", "d", direction="LEFT", count=2),
        "bzmpop": lambda c: c.bzmpop(20, 1, ["e"], max=True),
        "brpop": lambda c: c.brpop(["f"], 20),
    }
    threads = [threading.Thread(target=wait, args=item) for item in waits.items()]
    for thread in threads:
        thread.start()
    wait_until(lambda: client.info("clients")["blocked_clients"] == 4, "four blocked clients")
    with client.pipeline() as pipeline:
        pipeline.rpush("a", 1).rpush("d", 2, 3).zadd("e", {"m": 1, "n": 2}).rpush("f", 4).execute()
    for thread in threads:
        thread.join(30)
    key, ((member, score),) = results.pop("bzmpop")
    assert (key, member, float(score)) == (b"e", b"n", 2)
    assert {name: list(result) if name != "blmove" else result for name, result in results.items()} == {
        "blmove": b"1", "blmpop": [b"d", [b"2", b"3"]], "brpop": [b"f", b"4"]}
    client.close()


def test_locks_of_the_library_without_scripts(server):
    """SET NX PX, and a transaction that removes only one's own: what Lock did before it used scripts."""
    client = server.client()
    assert client.set("lock", "mine", nx=True, px=10_000) and not client.set("lock", "other", nx=True, px=10_000)

    def release(pipeline):
        assert pipeline.get("lock") == b"mine"
        pipeline.multi()
        pipeline.delete("lock")

    assert client.transaction(release, "lock") == [1]
    assert client.set("lock", "other", nx=True)
    client.close()


def test_users_and_passwords(server):
    admin = server.client()
    # A connection that is refused is tried again, for long by default.
    brief = {"retry": Retry(ConstantBackoff(0.05), 1)}
    try:
        admin.acl_setuser("alice", enabled=True, passwords=["+word"], keys=["a*"], categories=["+@read"],
                          commands=["+ping", "+set", "+client"])
        alice = server.client(username="alice", password="word", **brief)
        assert alice.ping() and alice.set("a1", 1) and alice.get("a1") == b"1"
        with pytest.raises(redis.exceptions.NoPermissionError):
            alice.get("b1")
        with pytest.raises(redis.exceptions.NoPermissionError):
            alice.flushall()
        with pytest.raises(redis.AuthenticationError):
            server.client(username="alice", password="wrong", **brief).ping()
        admin.config_set("requirepass", "secret")
        with pytest.raises(redis.AuthenticationError):
            server.client(**brief).ping()
        assert server.client(password="secret").ping()
        assert {entry["reason"] for entry in admin.acl_log()} >= {"key", "command", "auth"}
        admin.acl_deluser("alice")
        with pytest.raises(redis.ConnectionError):
            # Its connections end with it, and it cannot come back.
            alice.ping()
            alice.ping()
    finally:
        admin.config_set("requirepass", "")
        admin.acl_deluser("alice")
        admin.acl_log_reset()
    admin.close()


def test_a_subscriber_comes_back_after_client_kill(server):
    client = server.client()
    subscriber = server.client(retry=Retry(ConstantBackoff(0.05), 20)).pubsub(ignore_subscribe_messages=True)
    subscriber.subscribe("after")
    subscriber.get_message(timeout=5)
    assert client.client_kill_filter(_type="pubsub") == 1
    got = []

    def delivered():
        client.publish("after", "back")
        message = subscriber.get_message(timeout=0.1)
        got.append(message and message["data"])
        return b"back" in got

    wait_until(delivered, "the subscription")
    subscriber.close()
    client.close()


def test_values_of_many_sizes_in_one_hash(server):
    client = server.client()
    sizes = (0, 1, 63, 64, 65, 1_023, 16_384, 65_535, 1 << 20, 4 << 20)
    client.hset("sizes", mapping={str(size): b"%d" % (size % 10) * size for size in sizes})
    values = client.hgetall("sizes")
    assert {int(size): len(value) for size, value in values.items()} == {size: size for size in sizes}
    client.close()
