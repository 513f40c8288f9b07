#!/usr/bin/env python3
"""Memory per key and per element, by `used_memory`, as a Markdown table: Barium's host server beside Redis and Valkey.

usage: memory.py [--check] [--servers NAME...]

Each server is started afresh for every row, filled over one connection, and asked for `used_memory` before and after. The
servers are the programs that BARIUM_HOST, REDIS_SERVER and VALKEY_SERVER name, by default those that the project builds and
`make setup-test` fetches; a reference server that is not there is left out and said to be. --check fails where Barium is
above a limit. See docs/performance.md.
"""
import argparse
import itertools
import os
import pathlib
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "qemu"))

import preflight  # noqa: E402
from resp import Connection, command  # noqa: E402

MILLION = 1_000_000
# Elements of one command, and commands that are sent before their replies are read.
BATCH, WINDOW = 1000, 100


def batches(name, words, n=MILLION):
    """Commands `name` with the words of BATCH elements each; `words` gives those of one element."""
    for start in range(0, n, BATCH):
        yield command(*name, *(word for i in range(start, start + BATCH) for word in words(i)))


FIELDS = [word for i in range(10) for word in ("field%d" % i, "value%d" % i)]
# Row: (what one is, how many, limit in bytes each, the commands that make them)
ROWS = (
    ("string key, 16-byte key and value", MILLION, 72,
     lambda: batches(["MSET"], lambda i: ("key:%012d" % i, "value:%010d" % i))),
    ("hash of 10 small fields", 100_000, 215, lambda: (command("HSET", "hash:%d" % i, *FIELDS) for i in range(100_000))),
    ("15-byte member of one sorted set", MILLION, 75,
     lambda: batches(["ZADD", "zset"], lambda i: (i * 7_919 % MILLION, "member:%08d" % i))),
    ("15-byte member of one set", MILLION, 44, lambda: batches(["SADD", "set"], lambda i: ("member:%08d" % i,))),
    ("16-byte element of one list", MILLION, 19, lambda: batches(["RPUSH", "list"], lambda i: ("element:%08d" % i,))),
)


def servers():
    """{name: (program, options)} of those that may be there."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    build = ROOT / "build"
    plain = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]
    return {
        "Barium": (os.environ.get("BARIUM_HOST", target / "release" / "barium-host"), []),
        "Redis": (os.environ.get("REDIS_SERVER", build / "redis-server"), plain),
        "Valkey": (os.environ.get("VALKEY_SERVER", build / "valkey" / "usr" / "bin" / "valkey-server"), plain),
    }


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server as a child process; gone at the end of a `with`."""

    def __init__(self, program, options):
        port = free_port()
        self.process = subprocess.Popen([str(program), "--port", str(port), *options], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while True:
            try:
                self.connection = Connection("127.0.0.1", port, 30)
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.close()
                    raise SystemExit("%s does not start" % program)
                time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the process."""
        self.process.kill()
        self.process.wait()

    def used(self):
        """used_memory, once it stands still: what is freed later is not data."""
        last = None
        while True:
            lines = self.connection.ask("INFO", "memory").split(b"\r\n")
            now = next(int(line[12:]) for line in lines if line.startswith(b"used_memory:"))
            if now == last:
                return now
            last = now
            time.sleep(0.15)


def fill(connection, commands):
    """Sends the commands over the connection; each must succeed."""
    commands = iter(commands)
    while window := list(itertools.islice(commands, WINDOW)):
        connection.send(b"".join(window))
        for _ in window:
            reply = connection.reply()
            if reply.startswith(b"-"):
                raise SystemExit("the server answers %r" % reply)


def measure(program, options, commands, n):
    """Bytes each."""
    with Server(program, options) as server:
        before = server.used()
        fill(server.connection, commands)
        return (server.used() - before) / n


def main():
    """Prints the table; the status is 1 where --check finds a miss."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where Barium is above a limit")
    parser.add_argument("--servers", nargs="+", default=list(servers()), choices=list(servers()), help="which to measure")
    options = parser.parse_args()
    chosen = {name: servers()[name] for name in options.servers}
    for name, (program, _) in list(chosen.items()):
        if not os.access(program, os.X_OK):
            if name == "Barium":
                raise SystemExit("%s is not there: cargo build --release -p barium-host" % program)
            print("%s is not there (%s): SKIPPED" % (name, program), file=sys.stderr)
            del chosen[name]
    if disturbed := preflight.enforce():
        print("Measured in spite of: %s\n" % "; ".join(disturbed))
    print("| bytes per | number | limit | %s |" % " | ".join(chosen))
    print("|---|---:|---:|%s" % ("---:|" * len(chosen)))
    missed = []
    for what, n, limit, commands in ROWS:
        ready = list(commands())
        figures = {name: measure(program, arguments, ready, n) for name, (program, arguments) in chosen.items()}
        print("| %s | %s | %d | %s |" % (what, format(n, ","), limit, " | ".join("%.1f" % f for f in figures.values())), flush=True)
        if figures.get("Barium", 0) > limit:
            missed.append("%s: %.1f bytes, above %d" % (what, figures["Barium"], limit))
    for line in missed:
        print(line, file=sys.stderr)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
