"""What applications do through redis-py: pub/sub, transactions, blocking pops, scans, reconnects."""
import threading
import time

import pytest
import redis


@pytest.mark.parametrize("protocol", (2, 3))
def test_every_type_over_both_protocols(server, protocol):
    client = server.client(protocol=protocol, decode_responses=True)
    assert client.mset({"a": 1, "b": 2}) and client.mget("a", "b", "c") == ["1", "2", None]
    assert client.incrbyfloat("f", 10.5) == 10.5
    client.rpush("l", 1, 2, 3)
    assert client.lrange("l", 0, -1) == ["1", "2", "3"]
    client.hset("h", mapping={"f": "v", "g": "w"})
    assert client.hgetall("h") == {"f": "v", "g": "w"}
    client.sadd("s", "x", "y")
    assert client.smembers("s") == {"x", "y"}
    client.zadd("z", {"m": 1.5, "n": 2})
    assert [(member, score) for member, score in client.zrange("z", 0, -1, withscores=True)] == [("m", 1.5), ("n", 2.0)]
    assert client.zscore("z", "m") == 1.5
    client.close()


def test_transaction_with_watch(server):
    client, other = server.client(), server.client()
    client.set("counter", 1)
    with client.pipeline() as pipeline:
        pipeline.watch("counter")
        value = int(pipeline.get("counter"))
        other.set("counter", 10)
        pipeline.multi()
        pipeline.set("counter", value + 1)
        with pytest.raises(redis.WatchError):
            pipeline.execute()
    client.transaction(lambda p: (p.multi(), p.incr("counter")), "counter")
    assert client.get("counter") == b"11"


def test_publish_and_subscribe(server):
    subscriber = server.client().pubsub(ignore_subscribe_messages=True)
    subscriber.subscribe("news")
    subscriber.psubscribe("new*")
    subscriber.get_message(timeout=2)
    subscriber.get_message(timeout=2)
    publisher = server.client()
    deadline = time.monotonic() + 5
    while publisher.pubsub_numsub("news")[0][1] < 1 or publisher.pubsub_numpat() < 1:
        assert time.monotonic() < deadline
    assert publisher.publish("news", "hello") == 2
    got = []
    while len(got) < 2 and time.monotonic() < deadline + 5:
        message = subscriber.get_message(timeout=2)
        if message:
            got.append((message["type"], message["data"]))
    assert sorted(got) == [("message", b"hello"), ("pmessage", b"hello")]
    subscriber.close()


def test_blocking_pops_are_served_in_order(server):
    results, threads = [], []
    for n in range(5):
        def wait(n=n):
            results.append((n, server.client(socket_timeout=30).blpop("queue", 20)))
        threads.append(threading.Thread(target=wait))
        threads[-1].start()
        deadline = time.monotonic() + 5
        while int(server.client().info("clients")["blocked_clients"]) < n + 1:
            assert time.monotonic() < deadline, "client %d does not block" % n
            time.sleep(0.01)
    server.client().rpush("queue", *range(5))
    for thread in threads:
        thread.join(20)
    assert sorted(results) == [(n, (b"queue", b"%d" % n)) for n in range(5)]


def test_a_blocking_pop_times_out(server):
    started = time.monotonic()
    assert server.client(socket_timeout=20).blpop("nothing", 1) is None
    assert 0.9 < time.monotonic() - started < 5


def test_keys_expire(server):
    client = server.client()
    pipeline = client.pipeline(transaction=False)
    for n in range(1000):
        pipeline.set("k%d" % n, n, px=300)
    pipeline.set("stays", 1)
    pipeline.execute()
    deadline = time.monotonic() + 10
    while client.dbsize() > 1:  # nobody reads them: active expiry has to find them
        assert time.monotonic() < deadline, "%d keys left" % client.dbsize()
        time.sleep(0.1)
    assert client.get("stays") == b"1"


def test_reconnects_after_client_kill(server):
    client, killer = server.client(), server.client()
    victim = client.client_id()
    assert killer.client_kill_filter(_id=victim) == 1
    assert client.ping()
    assert client.client_id() != victim


def test_many_clients_at_work(server):
    """32 threads, each with its own connection, each counter ends where it must."""
    def work(n):
        client = server.client(socket_timeout=60)
        for _ in range(50):
            client.incr("shared")
            client.hincrby("hash", "field%d" % n, 1)
        client.close()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    client = server.client()
    assert client.get("shared") == b"1600"
    assert set(client.hgetall("hash").values()) == {b"50"} and client.hlen("hash") == 32


def test_info_has_what_tools_read(server):
    fields = server.client().info("everything")
    for name in ("redis_version", "redis_mode", "os", "arch_bits", "tcp_port", "uptime_in_seconds", "connected_clients",
                 "blocked_clients", "used_memory", "used_memory_human", "used_memory_peak", "maxmemory", "maxmemory_policy",
                 "mem_fragmentation_ratio", "total_connections_received", "total_commands_processed",
                 "instantaneous_ops_per_sec", "expired_keys", "evicted_keys", "keyspace_hits", "keyspace_misses", "role",
                 "connected_slaves", "used_cpu_sys", "used_cpu_user", "cluster_enabled", "loading"):
        assert name in fields, name
    assert str(fields["redis_version"]).startswith("7.")
