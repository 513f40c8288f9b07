"""Values of awkward sizes, byte-exact, and pipelines as client libraries send them."""
import random

import pytest

from resp import command

SIZES = (0, 1, 16_384, 65_535, 65_536, 131_061, 1 << 20, 8 << 20)


def test_sizes_over_one_pipelined_connection(server):
    values = [random.Random(size).randbytes(size) for size in SIZES]
    with server.connect(limit_s=120) as connection:
        # All at once: the server has to read on while its replies wait.
        pipeline = b"".join(command("SET", "size:%d" % len(v), v) + command("GET", "size:%d" % len(v)) for v in values)
        import threading
        sender = threading.Thread(target=connection.socket.sendall, args=(pipeline,))
        sender.start()
        for value in values:
            assert connection.reply() == b"+OK\r\n"
            assert connection.reply() == b"$%d\r\n%s\r\n" % (len(value), value)
        sender.join()
    server.client().flushall()


def test_sizes_one_by_one(server):
    client = server.client(socket_timeout=60)
    for size in SIZES:
        value = random.Random(size).randbytes(size)
        assert client.set("k", value)
        assert client.strlen("k") == size
        assert client.get("k") == value


def test_a_pipeline_of_100_000_gets(server):
    client = server.client(socket_timeout=120)
    value = random.Random(1).randbytes(100)
    client.set("k", value)
    pipeline = client.pipeline(transaction=False)
    for _ in range(100_000):
        pipeline.get("k")
    replies = pipeline.execute()
    assert len(replies) == 100_000 and set(replies) == {value}


def test_a_pipeline_sent_whole_before_anything_is_read(server):
    """20 MiB of replies wait in the server while it still reads: it neither stops reading nor drops one."""
    with server.connect(limit_s=120) as connection:
        value = random.Random(2).randbytes(1 << 20)
        assert connection.ask("SET", "k", value) == b"+OK\r\n"
        connection.send(command("GET", "k") * 20 + command("PING"))
        with server.connect() as other:
            assert other.ask("PING") == b"+PONG\r\n"
        for _ in range(20):
            assert connection.reply() == b"$%d\r\n%s\r\n" % (len(value), value)
        assert connection.reply() == b"+PONG\r\n"


@pytest.mark.parametrize("piece", (1, 7, 1400))
def test_a_command_in_pieces(server, piece):
    data = command("SET", "pieces", bytes(range(256)) * 4) + command("GET", "pieces") + b"PING inline\r\n"
    with server.connect(limit_s=60) as connection:
        for at in range(0, len(data), piece):
            connection.send(data[at:at + piece])
        assert connection.reply() == b"+OK\r\n"
        assert connection.reply() == b"$1024\r\n" + bytes(range(256)) * 4 + b"\r\n"
        assert connection.reply() == b"$6\r\ninline\r\n"
