"""redis-cli in the modes that people use it in, from Debian's redis-tools."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import pytest


def cli(server, *words, data=None, limit_s=60):
    """Runs redis-cli to its end; its standard output."""
    done = subprocess.run(["redis-cli", "-h", server.host, "-p", str(server.port), *words], input=data, timeout=limit_s,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


class Terminal:
    """redis-cli on a pseudo-terminal: it only asks COMMAND DOCS and draws hints there."""

    def __init__(self, server, *words):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
            os.environ.update(TERM="xterm", HOME="/nonexistent")
            os.execvp("redis-cli", ["redis-cli", "-h", server.host, "-p", str(server.port), *words])
        self.screen = b""

    def type(self, keys):
        """Sends keys."""
        os.write(self.fd, keys)

    def see(self, pattern, limit_s=20):
        """Waits until `pattern` is on the screen; the match. What was matched is then forgotten."""
        end = time.monotonic() + limit_s
        while not (match := re.search(pattern, self.screen, re.S)):
            left = end - time.monotonic()
            assert left > 0, "%r not on the screen: %r" % (pattern, self.screen[-3000:])
            if select.select([self.fd], [], [], left)[0]:
                try:
                    # Without colours and cursor movements.
                    self.screen = re.sub(rb"\x1b\[[0-9;]*[A-Za-z]", b"", self.screen + os.read(self.fd, 65536))
                except OSError:
                    raise AssertionError("redis-cli ended: %r" % self.screen[-3000:]) from None
        self.screen = self.screen[match.end():]
        return match

    def close(self):
        """Ends this redis-cli."""
        os.close(self.fd)
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


def test_interactive_mode(server):
    terminal = Terminal(server)

    def answer(shown):
        """Waits for the answer and the next prompt: what is typed before that is thrown away."""
        terminal.see(rb"\r\n[^\r]*" + shown + rb".*?\r\n[\d.]+:\d+(\(TX\))?> ")

    try:
        terminal.see(rb"%d> " % server.port)
        terminal.type(b"getrange ")
        # The hint comes from COMMAND DOCS.
        terminal.see(rb"key start end")
        terminal.type(b"nosuch 0 1\r")
        answer(rb'""')
        for line, shown in ((b"set greeting hello", rb"OK"), (b"get greeting", rb'"hello"'), (b"multi", rb"OK"),
                            (b"exec", rb"\(empty array\)"), (b"hello 3", rb'"proto" => \(integer\) 3.*"modules" => \(empty array\)'),
                            (b"help @string", rb"GETRANGE key start end.*since: 2.4.0.*STRLEN key")):
            terminal.type(line + b"\r")
            answer(shown)
    finally:
        terminal.close()


def test_stat(server):
    terminal = Terminal(server, "--stat", "-i", "0.2")
    try:
        terminal.see(rb"keys\s+mem\s+clients\s+blocked\s+requests\s+connections")
        terminal.see(rb"\d+\s+[\d.]+[KMG]?\s+\d+\s+\d+\s+\d+ \(\+\d+\)\s+\d+", 20)
    finally:
        terminal.close()


def test_latency(server):
    terminal = Terminal(server, "--latency", "-i", "1")
    try:
        terminal.see(rb"min: \d+, max: \d+, avg: [\d.]+ \((\d{2,}) samples\)")
    finally:
        terminal.close()


@pytest.fixture
def keys(server):
    """A keyspace with a biggest key of each type."""
    client = server.client()
    pipeline = client.pipeline(transaction=False)
    for n in range(500):
        pipeline.set("string:%d" % n, b"x" * n)
    pipeline.rpush("list", *range(300))
    pipeline.hset("hash", mapping={"field%d" % n: n for n in range(200)})
    pipeline.sadd("set", *["member%d" % n for n in range(150)])
    pipeline.zadd("zset", {"member%d" % n: n for n in range(100)})
    pipeline.execute()
    return client


def test_bigkeys(server, keys):
    out = cli(server, "--bigkeys").decode()
    assert "Sampled 504 keys" in out
    for line in ('Biggest string found \'"string:499"\' has 499 bytes', 'Biggest   list found \'"list"\' has 300 items',
                 'Biggest   hash found \'"hash"\' has 200 fields', 'Biggest    set found \'"set"\' has 150 members',
                 'Biggest   zset found \'"zset"\' has 100 members'):
        assert line in out, out


def test_memkeys(server, keys):
    out = cli(server, "--memkeys").decode()
    assert "Sampled 504 keys" in out
    assert re.search(r'Biggest string found \'"string:4\d\d"\' has \d{3,4} bytes', out), out
    assert re.search(r'Biggest   hash found \'"hash"\' has \d{4,5} bytes', out), out


def test_scan(server, keys):
    assert len(set(cli(server, "--scan").split())) == 504
    assert len(set(cli(server, "--scan", "--pattern", "string:4*").split())) == 111
    assert set(cli(server, "--scan", "--pattern", "?et").split()) == {b"set"}


def test_monitor(server):
    terminal = Terminal(server, "monitor")
    try:
        terminal.see(rb"OK")
        with server.connect() as connection:
            connection.ask("SET", "seen", 'by "monitor"\n')
        terminal.see(rb'\d+\.\d{6} \[0 [\d.]+:\d+\] "SET" "seen" "by \\"monitor\\"\\n"')
    finally:
        terminal.close()


def test_pipe_with_100_000_commands(server):
    data = b"".join(b"*3\r\n$3\r\nSET\r\n$9\r\nkey:%05d\r\n$5\r\n%05d\r\n" % (n, n) for n in range(100_000))
    out = cli(server, "--pipe", data=data, limit_s=120)
    assert b"errors: 0, replies: 100000" in out, out
    assert server.client().dbsize() == 100_000


def test_values_from_standard_input_and_exit_codes(server):
    value = bytes(range(256)) * 100
    assert cli(server, "-x", "set", "binary", data=value) == b"OK\n"
    assert cli(server, "--raw", "get", "binary") == value + b"\n"
    failed = subprocess.run(["redis-cli", "-h", server.host, "-p", str(server.port), "-e", "nosuch"], timeout=20,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert failed.returncode == 1 and b"unknown command" in failed.stdout
