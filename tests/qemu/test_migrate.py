"""MIGRATE, both ways between the server and others: Valkey, redis-server, and peers that misbehave on purpose."""
import contextlib
import os
import random
import shutil
import socket
import subprocess
import threading
import time

import pytest

from machine import ROOT, free_port
from namespace import HOST_IP
from resp import Connection, command

VALKEY = ROOT / "build" / "valkey" / "usr" / "bin" / "valkey-server"
PASSWORD = "open-sesame"
# How a guest sees the host: QEMU's user networking and the tap both have it there.
HOST_FOR_GUEST = HOST_IP
TIMEOUT_MS = 20_000


class Reference:
    """A server to compare with, on the loopback, which ends with the test."""

    def __init__(self, program, *options, bind="127.0.0.1"):
        self.host, self.port = bind, free_port()
        self.process = subprocess.Popen([program, "--port", str(self.port), "--bind", bind, "--save", "", "--appendonly", "no",
                                         "--enable-debug-command", "yes", *options], stdout=subprocess.DEVNULL)
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection((bind, self.port), 1).close()
                return
            time.sleep(0.05)
        raise AssertionError("%s does not start" % program)

    def connect(self):
        return Connection(self.host, self.port)

    def close(self):
        self.process.kill()
        self.process.wait(10)


@contextlib.contextmanager
def reference(program, *options, **more):
    made = Reference(program, *options, **more)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def valkey():
    if not os.access(VALKEY, os.X_OK):
        pytest.skip("no Valkey under build/: scripts/fetch_valkey.sh")
    with reference(VALKEY) as made:
        yield made


class Fake:
    """A peer of which `talk(connection)` says what it does with each connection."""

    def __init__(self, talk):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.seen, self.talk = self.listener.getsockname()[1], 0, talk
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.seen += 1
                with connection, contextlib.suppress(OSError):
                    self.talk(connection)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@contextlib.contextmanager
def fake(talk):
    made = Fake(talk)
    try:
        yield made
    finally:
        made.close()


def address(server):
    """How the server reaches what listens on the loopback here."""
    return "127.0.0.1" if server.machine is None else HOST_FOR_GUEST


def migrate(server, port, *words, timeout=TIMEOUT_MS, db=0):
    """Sends MIGRATE for the first of `words`, a key, with the others as options; its reply."""
    with server.connect(limit_s=60) as connection:
        return connection.ask("MIGRATE", address(server), port, words[0], db, timeout, *words[1:])


def fill(connection):
    """A key of every type in each of its encodings; some will expire."""
    ask = connection.ask
    ask("SET", "int", 12345)
    ask("SET", "embstr", b"short \0\r\n\xff", "PX", 600_000)
    ask("SET", "raw", b"x" * 100_000)
    ask("SET", "compressible", b"abc" * 20_000, "EX", 500)
    ask("RPUSH", "list:small", *range(20))
    ask("RPUSH", "list:large", *[b"%d" % n * 30 for n in range(2_000)])
    ask("SADD", "set:int", *range(100))
    ask("SADD", "set:small", "a", "b", 1)
    ask("SADD", "set:large", *["member:%d" % n for n in range(1_000)])
    ask("HSET", "hash:small", "f", "v", "g", 1)
    ask("HSET", "hash:large", *["%s%d" % (c, n) for n in range(700) for c in "fv"])
    ask("ZADD", "zset:small", 1, "a", "-inf", "b", 2.5, "c")
    ask("ZADD", "zset:large", *[word for n in range(700) for word in (n / 7, "m%d" % n)])
    for n in range(300):
        ask("XADD", "stream", "%d-1" % (n + 1), "f", n)
    ask("XGROUP", "CREATE", "stream", "g", 5)
    ask("XREADGROUP", "GROUP", "g", "c", "COUNT", 10, "STREAMS", "stream", ">")
    ask("XDEL", "stream", "300-1")
    ask("PFADD", "hll", *range(5_000))
    ask("SETBIT", "bits", 70_000, 1)
    ask("GEOADD", "geo", 13.361389, 38.115556, "Palermo")
    ask("PEXPIRE", "zset:large", 700_000)
    ask("PEXPIRE", "stream", 800_000)
    return ["int", "embstr", "raw", "compressible", "list:small", "list:large", "set:int", "set:small", "set:large",
            "hash:small", "hash:large", "zset:small", "zset:large", "stream", "hll", "bits", "geo"]


def state(connection, keys, db=0):
    """Contents of keys, and the time they have left."""
    connection.ask("SELECT", db)
    digests = connection.ask("DEBUG", "DIGEST-VALUE", *keys)
    times = [int(connection.ask("PTTL", key)[1:]) for key in keys]
    types = [connection.ask("TYPE", key) for key in keys]
    return digests, times, types


def test_every_type_there_and_back(server, valkey):
    with server.connect(limit_s=60) as here, valkey.connect() as there:
        keys = fill(here)
        before = state(here, keys)
        assert migrate(server, valkey.port, "", "KEYS", *keys, db=3) == b"+OK\r\n"
        assert here.ask("DBSIZE") == b":0\r\n"
        after = state(there, keys, db=3)
        assert after[0] == before[0] and after[2] == before[2]
        for was, now in zip(before[1], after[1]):
            assert now == was == -1 or 0 <= was - now < 60_000
        assert there.ask("MIGRATE", server.host, server.port, "", 0, TIMEOUT_MS, "KEYS", *keys) == b"+OK\r\n"
        assert there.ask("DBSIZE") == b":0\r\n"
        back = state(here, keys)
        assert back[0] == before[0] and back[2] == before[2]
        assert all((a == -1) == (b == -1) for a, b in zip(before[1], back[1]))


def test_from_redis_and_what_it_does_not_take(server):
    program = shutil.which("redis-server") or pytest.skip("no redis-server")
    with reference(program) as redis, server.connect() as here, redis.connect() as there:
        # Its digest has scores with other digits.
        keys = [key for key in fill(there) if key != "zset:large"]
        before = state(there, keys)
        assert there.ask("MIGRATE", server.host, server.port, "", 0, TIMEOUT_MS, "KEYS", *keys) == b"+OK\r\n"
        assert state(here, keys)[0] == before[0]
        # Its version is older than the payload's: every key stays.
        reply = migrate(server, redis.port, "", "KEYS", *keys)
        assert reply == b"-ERR Target instance replied with error: ERR DUMP payload version or checksum are wrong\r\n"
        assert here.ask("EXISTS", *keys) == b":%d\r\n" % len(keys)


def test_options(server, valkey):
    port = valkey.port
    with server.connect() as here, valkey.connect() as there:
        for key in "abc":
            here.ask("SET", key, "here")
        assert migrate(server, port, "nosuch") == b"+NOKEY\r\n"
        assert migrate(server, port, "", "KEYS", "x", "y") == b"+NOKEY\r\n"
        assert migrate(server, port, "a", "COPY") == b"+OK\r\n"
        assert (here.ask("GET", "a"), there.ask("GET", "a")) == (b"$4\r\nhere\r\n",) * 2
        there.ask("SET", "a", "there")
        # One key that is there does not hold up the others.
        busy = b"-ERR Target instance replied with error: BUSYKEY Target key name already exists.\r\n"
        assert migrate(server, port, "", "KEYS", "a", "b", "c") == busy
        assert (here.ask("EXISTS", "a", "b", "c"), there.ask("GET", "a")) == (b":1\r\n", b"$5\r\nthere\r\n")
        assert migrate(server, port, "a", "REPLACE", "COPY") == b"+OK\r\n"
        assert there.ask("GET", "a") == b"$4\r\nhere\r\n"
        assert migrate(server, port, "a", "replace") == b"+OK\r\n"
        assert here.ask("DBSIZE") == b":0\r\n"
        here.ask("SET", "a", 1)
        assert migrate(server, port, "a", db=99) == b"-ERR Target instance replied with error: ERR DB index is out of range\r\n"
        assert here.ask("EXISTS", "a") == b":1\r\n"


def test_authentication(server, valkey):
    port = valkey.port
    with server.connect() as here, valkey.connect() as there:
        there.ask("CONFIG", "SET", "requirepass", PASSWORD)
        there.ask("ACL", "SETUSER", "mover", "on", ">" + PASSWORD, "~a*", "+restore", "+select")
        refused = b"-ERR Target instance replied with error: "
        for key in ("a", "a2", "b"):
            here.ask("SET", key, key)
        assert migrate(server, port, "a") == refused + b"NOAUTH Authentication required.\r\n"
        assert migrate(server, port, "a", "AUTH", "wrong").startswith(refused + b"WRONGPASS ")
        assert migrate(server, port, "b", "AUTH2", "mover", PASSWORD).startswith(refused + b"NOPERM ")
        assert here.ask("EXISTS", "a", "b") == b":2\r\n"
        assert migrate(server, port, "a", "AUTH", PASSWORD) == b"+OK\r\n"
        assert migrate(server, port, "", "AUTH2", "mover", PASSWORD, "KEYS", "a2") == b"+OK\r\n"
        assert there.ask("EXISTS", "a", "a2") == b":2\r\n"
        # Neither the name nor the password shows.
        here.ask("CONFIG", "SET", "slowlog-log-slower-than", 0)
        here.ask("SLOWLOG", "RESET")
        migrate(server, port, "b", "AUTH2", "mover", PASSWORD)
        log = here.ask("SLOWLOG", "GET", 10)
        here.ask("CONFIG", "SET", "slowlog-log-slower-than", 10_000)
        assert b"migrate" in log.lower() and PASSWORD.encode() not in log and b"(redacted)" in log


def test_many_keys_and_large_values(server, valkey):
    with server.connect(limit_s=120) as here, valkey.connect() as there:
        here.send(b"".join(command("SET", "key:%d" % n, n * n) for n in range(20_000)))
        for _ in range(20_000):
            assert here.reply() == b"+OK\r\n"
        here.ask("SET", "big", b"\0\1" * (4 << 20))
        here.ask("RPUSH", "long", *[b"element %d" % n for n in range(50_000)])
        keys = ["key:%d" % n for n in range(20_000)] + ["big", "long"]
        here.send(command("MIGRATE", address(server), valkey.port, "", 0, 60_000, "KEYS", *keys))
        with server.connect() as other:
            assert other.ask("PING") == b"+PONG\r\n"
        assert here.reply() == b"+OK\r\n"
        assert (here.ask("DBSIZE"), there.ask("DBSIZE")) == (b":0\r\n", b":20002\r\n")
        assert there.ask("GET", "key:12345") == b"$9\r\n152399025\r\n"
        assert there.ask("STRLEN", "big") == b":8388608\r\n" and there.ask("LLEN", "long") == b":50000\r\n"


def test_counters_on_the_move_lose_nothing(server, valkey):
    """Four clients count up while keys go back and forth: in the end both servers together have every step."""
    keys, end = ["counter:%d" % n for n in range(100)], time.monotonic() + 3
    counted = [0] * 4

    def count(which):
        choose = random.Random(which)
        with server.connect(limit_s=60) as connection:
            while time.monotonic() < end:
                key = choose.choice(keys)
                if choose.random() < 0.2:
                    connection.send(command("MULTI") + command("INCR", key) + command("INCR", key) + command("EXEC"))
                    replies = [connection.reply() for _ in range(4)]
                    assert replies[3].startswith(b"*2\r\n:"), replies
                    counted[which] += 2
                else:
                    assert connection.ask("INCR", key).startswith(b":")
                    counted[which] += 1

    threads = [threading.Thread(target=count, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    choose, moved = random.Random(9), 0
    with server.connect(limit_s=60) as here, valkey.connect() as there:
        while time.monotonic() < end:
            some = choose.sample(keys, choose.choice((1, 5, 50)))
            replies = [migrate(server, valkey.port, "", "KEYS", *some)]
            some = choose.sample(keys, choose.choice((1, 5, 50)))
            replies.append(there.ask("MIGRATE", server.host, server.port, "", 0, TIMEOUT_MS, "KEYS", *some))
            assert all(r in (b"+OK\r\n", b"+NOKEY\r\n") or b"BUSYKEY" in r for r in replies), replies
            moved += len(replies)
        for thread in threads:
            thread.join()
        values = [connection.ask("GET", key) for connection in (here, there) for key in keys]
        total = sum(int(value.split(b"\r\n")[1]) for value in values if value != b"$-1\r\n")
        assert moved > 4 and total == sum(counted)


WRITING = b"-IOERR error or timeout writing to target instance\r\n"
READING = b"-IOERR error or timeout reading to target instance\r\n"
CONNECTING = b"-IOERR error or timeout connecting to the client\r\n"


def test_nobody_there(server):
    with server.connect() as here:
        here.ask("SET", "k", "v")
        assert migrate(server, free_port(), "k") == WRITING
        for host in ("no.such.host", "1.2.3.256", ""):
            assert here.ask("MIGRATE", host, 6379, "k", 0, 1000) == CONNECTING
        if server.machine:
            # Nothing leads a guest back to itself.
            for host in ("127.0.0.1", "localhost", "10.0.2.15"):
                assert here.ask("MIGRATE", host, 5555, "k", 0, 1000) == CONNECTING
        assert here.ask("GET", "k") == b"$1\r\nv\r\n"


def lines(connection, count):
    """Reads so many commands and answers nothing; whether all came."""
    seen = b""
    while seen.count(b"RESTORE") < count:
        more = connection.recv(65536)
        if not more:
            return False
        seen += more
    return True


def hold(ready, go):
    """A peer that says by `ready` that the keys are there, and acknowledges one after `go`."""
    def talk(connection):
        lines(connection, 1)
        ready.set()
        go.wait(20)
        connection.sendall(b"+OK\r\n+OK\r\n")
        connection.recv(1)

    return talk


def test_a_silent_peer_holds_up_writes_and_nothing_else(server):
    released = threading.Event()
    with fake(lambda connection: released.wait(30)) as peer, server.connect() as here, server.connect() as other:
        here.ask("SET", "k", "old")
        here.ask("SET", "n", 1)
        started = time.monotonic()
        here.send(command("MIGRATE", address(server), peer.port, "k", 0, 1500))
        time.sleep(0.3)
        assert other.ask("GET", "k") == b"$3\r\nold\r\n"
        with server.connect() as writer:
            writer.send(command("INCR", "n") + command("SET", "k", "new"))
            assert other.ask("GET", "n") == b"$1\r\n1\r\n"
            assert here.reply() == READING
            took = time.monotonic() - started
            assert 1.4 <= took < 6, took
            assert (writer.reply(), writer.reply()) == (b":2\r\n", b"+OK\r\n")
        assert other.ask("GET", "k") == b"$3\r\nnew\r\n"
        released.set()


def test_a_write_in_between_is_not_lost(server):
    ready, go = threading.Event(), threading.Event()
    with fake(hold(ready, go)) as peer, server.connect() as here, server.connect() as writer, server.connect() as other:
        here.ask("SET", "k", "old")
        here.send(command("MIGRATE", address(server), peer.port, "k", 0, TIMEOUT_MS))
        assert ready.wait(20)
        writer.send(command("APPEND", "k", "new") + command("MULTI") + command("GET", "k") + command("SET", "x", 1)
                    + command("EXEC"))
        assert other.ask("GET", "k") == b"$3\r\nold\r\n"
        go.set()
        assert here.reply() == b"+OK\r\n"
        # The old value is over there; what was written meanwhile is written now.
        assert writer.reply() == b":3\r\n"
        assert [writer.reply() for _ in range(3)] == [b"+OK\r\n", b"+QUEUED\r\n", b"+QUEUED\r\n"]
        assert writer.reply() == b"*2\r\n$3\r\nnew\r\n+OK\r\n"


def test_only_what_was_acknowledged_goes(server):
    def talk(connection):
        lines(connection, 3)
        connection.sendall(b"+OK\r\n+OK\r\n-ERR no room\r\n")

    with fake(talk) as peer, server.connect() as here:
        for key in "abc":
            here.ask("SET", key, 1)
        # What the peer said comes before what became of it.
        assert migrate(server, peer.port, "", "KEYS", "a", "b", "c") \
            == b"-ERR Target instance replied with error: ERR no room\r\n"
        assert [here.ask("EXISTS", key) for key in "abc"] == [b":0\r\n", b":1\r\n", b":1\r\n"]
        assert peer.seen == 1

    def stop_after_one(connection):
        lines(connection, 2)
        connection.sendall(b"+OK\r\n+OK\r\n")

    with fake(stop_after_one) as peer, server.connect() as here:
        assert migrate(server, peer.port, "", "KEYS", "b", "c") == READING
        assert [here.ask("EXISTS", key) for key in "bc"] == [b":0\r\n", b":1\r\n"]
        assert peer.seen == 1


def test_a_peer_that_hangs_up_is_called_twice(server):
    with fake(lambda connection: lines(connection, 1)) as peer, server.connect() as here:
        here.ask("SET", "k", "v")
        assert migrate(server, peer.port, "k") == READING
        assert peer.seen == 2
        assert here.ask("EXISTS", "k") == b":1\r\n"


def test_a_client_that_goes_leaves_the_work_to_be_done(server):
    ready, go = threading.Event(), threading.Event()
    with fake(hold(ready, go)) as peer, server.connect() as other:
        other.ask("SET", "k", "v")
        with server.connect() as here:
            here.send(command("MIGRATE", address(server), peer.port, "k", 0, TIMEOUT_MS))
            assert ready.wait(20)
        go.set()
        # A write waits until it is done.
        assert other.ask("SETNX", "k", "other") == b":1\r\n"


def test_not_inside_a_transaction(server):
    with server.connect() as here:
        here.ask("SET", "k", "v")
        here.ask("MULTI")
        here.ask("MIGRATE", "127.0.0.1", 1, "k", 0, 100)
        here.ask("MIGRATE", "127.0.0.1", 1, "nosuch", 0, 100)
        assert here.ask("EXEC") == b"*2\r\n-ERR MIGRATE cannot wait for another server inside a transaction\r\n+NOKEY\r\n"


def test_over_a_tap(tap_server):
    """The link address asked for by ARP, and a peer in the namespace."""
    program = VALKEY if os.access(VALKEY, os.X_OK) else pytest.skip("no Valkey under build/: scripts/fetch_valkey.sh")
    with reference(program, "--protected-mode", "no", bind=HOST_IP) as peer, tap_server.connect(limit_s=60) as here, \
            peer.connect() as there:
        keys = fill(here)
        before = state(here, keys)
        for _ in range(3):
            assert migrate(tap_server, peer.port, "", "KEYS", *keys) == b"+OK\r\n"
            assert state(there, keys)[0] == before[0]
            assert there.ask("MIGRATE", tap_server.host, tap_server.port, "", 0, TIMEOUT_MS, "KEYS", *keys) == b"+OK\r\n"
        assert state(here, keys)[0] == before[0]
        # On the link, but nobody has the address.
        started = time.monotonic()
        assert here.ask("MIGRATE", "10.0.2.199", 6379, "int", 0, 1200) == WRITING
        assert 1.1 <= time.monotonic() - started < 6
