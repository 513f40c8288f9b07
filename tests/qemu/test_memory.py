"""Memory runs out as -OOM, never as a panic; what is freed serves other sizes; little memory is enough."""
import threading
import time

import pytest

from resp import Connection, command

OOM = b"-OOM command not allowed when used memory > 'maxmemory'."


def memory(connection, field):
    """A number from INFO memory."""
    for line in connection.ask("INFO", "memory").split(b"\r\n"):
        if line.startswith(field.encode() + b":"):
            return int(line.split(b":")[1])
    raise AssertionError("INFO memory has no " + field)


def fill(connection, size, tag):
    """SETs values of `size` bytes until -OOM; used_memory then."""
    value, batch, n = b"x" * size, max(1, min(500, (1 << 20) // size)), 0
    while True:
        connection.send(b"".join(command("SET", "%s:%d" % (tag, n + i), value) for i in range(batch)))
        n += batch
        replies = [connection.reply() for _ in range(batch)]
        assert all(reply == b"+OK\r\n" or reply.startswith(OOM) for reply in replies), set(replies)
        if replies[-1] != b"+OK\r\n":
            return memory(connection, "used_memory")


class Pinger:
    """Another client that PINGs all the time, in a thread; `worst_s` is the longest wait."""

    def __init__(self, machine):
        self.connection, self.stop, self.count, self.worst_s, self.error = Connection(machine.host, machine.port, 60), False, 0, 0, None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            while not self.stop:
                started = time.monotonic()
                assert self.connection.ask("PING") == b"+PONG\r\n"
                self.worst_s = max(self.worst_s, time.monotonic() - started)
                self.count += 1
                time.sleep(0.02)
        except Exception as error:  # noqa: BLE001 # reported by the test's own thread
            self.error = error

    def end(self):
        """Stops; raises what went wrong."""
        self.stop = True
        self.thread.join(60)
        self.connection.close()
        if self.error:
            raise self.error


def big_value(machine):
    """SET and GET of 64 MiB, byte for byte; whether there was room for it."""
    with Connection(machine.host, machine.port, 120) as connection:
        big = b"z" * (64 << 20)
        connection.send(command("SET", "big", big))
        reply = connection.reply()
        if reply.startswith(OOM):
            return False
        assert reply == b"+OK\r\n"
        connection.send(command("GET", "big"))
        assert connection.reply() == b"$%d\r\n%s\r\n" % (len(big), big)
        return True


def rounds_of_filling(machine, rounds):
    """Memory is filled with values of several sizes, again and again, while another client is served."""
    pinger = Pinger(machine)
    with Connection(machine.host, machine.port, 120) as connection:
        limit = memory(connection, "maxmemory")
        assert limit > 64 << 20, "maxmemory is only %d bytes" % limit
        for n in range(rounds):
            for size in (100, 8 << 10, 1 << 20):
                used = fill(connection, size, "fill")
                assert used >= 0.85 * limit, "round %d, values of %d bytes: -OOM at %d of %d bytes" % (n, size, used, limit)
                # What does not grow goes on.
                assert connection.ask("GET", "fill:0") == b"$%d\r\n%s\r\n" % (size, b"x" * size)
                assert connection.ask("EXPIRE", "fill:0", "100") == b":1\r\n"
                # The commands' own buffers counted too, as in Redis: small values may still fit where they were.
                fill(connection, 100, "more")
                assert connection.ask("DEL", "fill:0") == b":1\r\n"
                assert connection.ask("FLUSHALL") == b"+OK\r\n"
    pinger.end()
    assert pinger.count > 10
    assert pinger.worst_s < 5, "a PING waited %.1f s" % pinger.worst_s


def test_two_rounds_of_filling(arch, boot):
    machine = boot(arch, MEM="256M")
    rounds_of_filling(machine, 2)
    assert big_value(machine)


@pytest.mark.long
def test_ten_rounds_of_filling(arch, boot):
    machine = boot(arch, MEM="256M")
    rounds_of_filling(machine, 10)
    # Whatever lies where by now: its memory need not be in one piece.
    assert big_value(machine)


def test_a_client_cannot_ask_for_more_than_there_is(arch, boot):
    """Commands whose size a client chooses answer an error; the guest lives."""
    machine = boot(arch, MEM="64M")
    with Connection(machine.host, machine.port, 60) as connection:
        for words in (("SETBIT", "bits", "4294967295", "1"), ("SETRANGE", "range", "536870000", "x"),
                      ("SETRANGE", "range", "200000000", "x")):
            assert connection.ask(*words).startswith(b"-"), words
        value = b"x" * (1 << 20)
        replies = []
        for _ in range(100):
            replies.append(connection.ask("APPEND", "grows", value))
            if replies[-1].startswith(b"-"):
                break
        assert replies[-1].startswith(OOM)
        connection.send(command("MGET", *["grows"] * 50))
        with Connection(machine.host, machine.port) as other:
            assert other.ask("PING") == b"+PONG\r\n"
    with Connection(machine.host, machine.port, 60) as connection:
        assert connection.ask("FLUSHALL") == b"+OK\r\n"
        assert connection.ask("SET", "k", "v") == b"+OK\r\n"
    assert machine.running


@pytest.mark.parametrize("smp", (1, 4))
def test_32_mib_serve_50_clients(arch, boot, smp):
    machine = boot(arch, MEM="32M", SMP=smp)
    clients = [Connection(machine.host, machine.port, 30) for _ in range(50)]
    for n, client in enumerate(clients):
        client.send(command("SET", "k%d" % n, b"v" * 1000) + command("GET", "k%d" % n))
    for client in clients:
        assert client.reply() == b"+OK\r\n"
        assert client.reply() == b"$1000\r\n" + b"v" * 1000 + b"\r\n"
    used = fill(clients[0], 1000, "fill")
    assert used > 4 << 20
    for client in clients:
        assert client.ask("PING") == b"+PONG\r\n"
        client.close()
    assert machine.running


@pytest.mark.long
def test_a_million_keys_in_128_mib(arch, boot):
    """A million strings of 16 bytes under keys of 16 bytes, at most 72 bytes each with everything."""
    machine, n, batch = boot(arch, MEM="128M"), 1_000_000, 1_000
    with Connection(machine.host, machine.port, 120) as connection:
        before = memory(connection, "used_memory")
        for start in range(0, n, batch):
            words = [word % i for i in range(start, start + batch) for word in ("key:%012d", "value:%010d")]
            assert connection.ask("MSET", *words) == b"+OK\r\n"
        assert connection.ask("DBSIZE") == b":%d\r\n" % n
        assert memory(connection, "used_memory") - before <= 72 * n
        for i in range(0, n, 9_973):
            assert connection.ask("GET", "key:%012d" % i) == b"$16\r\nvalue:%010d\r\n" % i
        assert connection.ask("FLUSHALL") == b"+OK\r\n"
        assert memory(connection, "used_memory") - before <= 1 << 20
    assert machine.running


def test_maxmemory_and_users_from_the_command_line(arch, boot):
    machine = boot(arch, ARGS='maxmemory=8mb requirepass=secret user="ann on >pw +ping"')
    with Connection(machine.host, machine.port) as connection:
        assert connection.ask("PING") == b"-NOAUTH Authentication required.\r\n"
        assert connection.ask("AUTH", "ann", "pw") == b"+OK\r\n"
        assert connection.ask("PING") == b"+PONG\r\n"
        assert connection.ask("GET", "k").startswith(b"-NOPERM ")
        assert connection.ask("AUTH", "secret") == b"+OK\r\n"
        assert connection.ask("CONFIG", "GET", "maxmemory") == b"*2\r\n$9\r\nmaxmemory\r\n$7\r\n8388608\r\n"
        assert 0.85 * (8 << 20) <= fill(connection, 1000, "fill") <= 1.1 * (8 << 20)
