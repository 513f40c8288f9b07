"""What no honest client sends: Redis's own error, the connection closed where Redis closes it, nothing leaked."""
import random
import time

import pytest

from resp import Connection, command, info

BAD = [
    # (name, bytes, first reply, closed afterwards)
    ("a bulk longer than the limit", b"*1\r\n$600000000\r\n", b"-ERR Protocol error: invalid bulk length\r\n", True),
    ("a bulk length beyond 64 bits", b"*1\r\n$99999999999999999999\r\n", b"-ERR Protocol error: invalid bulk length\r\n", True),
    ("a negative bulk length", b"*1\r\n$-5\r\n", b"-ERR Protocol error: invalid bulk length\r\n", True),
    ("a null bulk as an argument", b"*1\r\n$-1\r\n", b"-ERR Protocol error: invalid bulk length\r\n", True),
    ("a bulk length that is no number", b"*1\r\n$abc\r\n", b"-ERR Protocol error: invalid bulk length\r\n", True),
    ("an array longer than the limit", b"*2147483648\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", True),
    ("an array length beyond 64 bits", b"*99999999999999999999\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", True),
    ("an array length that is no number", b"*abc\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", True),
    ("an array in an array", b"*1\r\n*1\r\n$4\r\nPING\r\n", b"-ERR Protocol error: expected '$', got '*'\r\n", True),
    ("an integer in an array", b"*1\r\n:1\r\n", b"-ERR Protocol error: expected '$', got ':'\r\n", True),
    ("a line of 70 KB without an end", b"A" * 70_000, b"-ERR Protocol error: too big inline request\r\n", True),
    ("an array header of 70 KB without an end", b"*" + b"1" * 70_000, b"-ERR Protocol error: too big mbulk count string\r\n", True),
    ("a bulk header of 70 KB without an end", b"*1\r\n$" + b"1" * 70_000, b"-ERR Protocol error: too big bulk count string\r\n", True),
    ("unbalanced quotes", b'SET "a b\r\n', b"-ERR Protocol error: unbalanced quotes in request\r\n", True),
    ("a negative array length is an empty command", b"*-1\r\n*1\r\n$4\r\nPING\r\n", b"+PONG\r\n", False),
    ("an empty array and blank lines", b"*0\r\n\r\n\r\nPING\r\n", b"+PONG\r\n", False),
    ("an unknown command", b"*1\r\n$5\r\nXYZZY\r\n", b"-ERR unknown command 'XYZZY', with args beginning with: \r\n", False),
    ("a command name with line ends", b"*1\r\n$4\r\na\r\nb\r\n", b"-ERR unknown command 'a  b', with args beginning with: \r\n", False),
]


@pytest.mark.parametrize("data, reply, closes", [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_protocol_errors(server, data, reply, closes):
    with server.connect() as connection:
        try:
            connection.send(data)
        except OSError:
            pass  # closed while still sending: the reply has come all the same
        assert connection.reply() == reply
        if closes:
            assert connection.closed()
        else:
            assert connection.ask("ECHO", "still here") == b"$10\r\nstill here\r\n"


def test_commands_before_the_error_are_answered(server):
    with server.connect() as connection:
        connection.send(command("SET", "before", "1") + command("GET", "before") + b"*1\r\n$x\r\n" + command("PING"))
        assert connection.reply() == b"+OK\r\n"
        assert connection.reply() == b"$1\r\n1\r\n"
        assert connection.reply() == b"-ERR Protocol error: invalid bulk length\r\n"
        assert connection.closed()


def test_an_unauthenticated_client_may_send_little(server):
    client = server.client()
    client.config_set("requirepass", "secret")
    try:
        for data, reply in ((b"*100\r\n", b"-ERR Protocol error: unauthenticated multibulk length\r\n"),
                            (b"*1\r\n$100000\r\n", b"-ERR Protocol error: unauthenticated bulk length\r\n")):
            with server.connect() as connection:
                connection.send(data)
                assert connection.reply() == reply
                assert connection.closed()
        with server.connect() as connection:
            assert connection.ask("GET", "k") == b"-NOAUTH Authentication required.\r\n"
            assert connection.ask("AUTH", "wrong").startswith(b"-WRONGPASS ")
            assert connection.ask("AUTH", "secret") == b"+OK\r\n"
            assert connection.ask("GET", "k") == b"$-1\r\n"
    finally:
        client.config_set("requirepass", "")


def settled_memory(server, wanted, limit_s=10):
    """used_memory once it is at most `wanted`, or after `limit_s`."""
    end = time.monotonic() + limit_s
    while True:
        used = int(info(server.host, server.port, "used_memory"))
        if used <= wanted or time.monotonic() > end:
            return used
        time.sleep(0.2)


def test_garbage_half_commands_and_silence_leak_nothing(server):
    """Twenty rounds of each, after a first one that lets tables grow: memory is back where it was."""
    random_bytes = random.Random(7)

    def round_of_abuse():
        open_connections = []
        for data in [row[1] for row in BAD] + [random_bytes.randbytes(10_000) for _ in range(5)] + \
                [b"*2\r\n$3\r\nGET\r\n$100000\r\nhalf", b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000000\r\n" + b"x" * 100_000, b"GE", b"*"]:
            connection = server.connect()
            open_connections.append(connection)
            try:
                connection.send(data)
            except OSError:
                pass
        with server.connect() as other:
            assert other.ask("PING") == b"+PONG\r\n"
        for connection in open_connections:
            connection.close()

    round_of_abuse()
    round_of_abuse()
    before = settled_memory(server, 0, 2)
    for _ in range(20):
        round_of_abuse()
    after = settled_memory(server, before + 65_536)
    assert after <= before + 65_536, "used_memory grew from %d to %d" % (before, after)
    deadline = time.monotonic() + 10
    while (clients := int(info(server.host, server.port, "connected_clients"))) > 1:
        assert time.monotonic() < deadline, "%d connections are still counted" % clients
        time.sleep(0.2)


def test_half_a_command_and_silence_disturb_nobody(server):
    silent = [server.connect() for _ in range(20)]
    for connection in silent:
        connection.send(b"*2\r\n$3\r\nGET\r\n$3\r\nab")
    with server.connect() as other:
        for _ in range(100):
            assert other.ask("PING") == b"+PONG\r\n"
    for connection in silent:
        connection.send(b"c\r\n")
    for connection in silent:
        assert connection.reply() == b"$-1\r\n"
        connection.close()


def test_random_bytes_in_many_connections(server):
    random_bytes = random.Random(11)
    for _ in range(100):
        with server.connect() as connection:
            try:
                connection.send(random_bytes.randbytes(random_bytes.randrange(1, 3000)))
            except OSError:
                pass
    with server.connect() as other:
        assert other.ask("PING") == b"+PONG\r\n"


def test_a_client_that_never_reads_is_closed_and_hurts_nobody(server):
    """Its replies queue up to the limit that CONFIG sets; past that it is closed, and the memory is free again."""
    client = server.client()
    client.config_set("client-output-buffer-limit", "normal 4194304 0 0")
    try:
        client.set("big", b"x" * 100_000)
        before = int(info(server.host, server.port, "used_memory"))
        deaf = Connection(server.host, server.port, limit_s=20)
        try:
            for _ in range(20):
                deaf.send(command("GET", "big") * 50)
                assert client.ping()
        except OSError:
            pass  # closed, as it should be
        deadline = time.monotonic() + 15
        while int(info(server.host, server.port, "connected_clients")) > 2:
            assert time.monotonic() < deadline, "the client that never reads is still connected"
            time.sleep(0.2)
        deaf.close()
        assert settled_memory(server, before + 65_536) <= before + 65_536
    finally:
        client.config_set("client-output-buffer-limit", "normal 0 0 0")
