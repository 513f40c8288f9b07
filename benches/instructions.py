#!/usr/bin/env python3
"""Counts guest instructions: per request, from reset to the first PONG, and idle, as a Markdown table.

usage: instructions.py [--arch ARCH]... [--rounds N] [--check]

One CPU, TCG, a tap device in a network namespace of its own, redis-benchmark with 30 clients inside it; the count is read
from a file that the plugin benches/insn_count.c keeps. Requests are counted with poll=0, so that waiting is not counted as
work; idle with poll=0 and with the default. The figure is the median of the rounds. --check fails where a median is above
its limit. See docs/performance.md.
"""
import argparse
import pathlib
import statistics
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "qemu"))

from machine import Machine  # noqa: E402
from namespace import Namespace  # noqa: E402
from resp import Connection  # noqa: E402

COUNT_FILE = ROOT / "build" / "insn_count"
CLIENTS = 30
IDLE_S = 4
# Row: (redis-benchmark's test, pipeline, requests a round)
REQUESTS = {"GET -P 1": ("get", 1, 20_000), "SET -P 1": ("set", 1, 20_000), "GET -P 16": ("get", 16, 100_000),
            "SET -P 16": ("set", 16, 100_000)}
BOOT, IDLE, IDLE_POLL = "boot to first PONG", "idle, a second, poll=0", "idle, a second, default poll"
LIMITS = {
    "x86_64": {BOOT: 20e6, "GET -P 1": 7000, "SET -P 1": 7000, "GET -P 16": 1500, "SET -P 16": 1500, IDLE: 0.3e6, IDLE_POLL: 0.3e6},
    "aarch64": {BOOT: 12e6, "GET -P 1": 7000, "SET -P 1": 7000, "GET -P 16": 1500, "SET -P 16": 1500, IDLE: 0.3e6,
                IDLE_POLL: 0.3e6},
}


class Counted:
    """A guest whose instructions are counted. Made inside the namespace."""

    def __init__(self, arch, args):
        # The machine counts as up when its console says so: nothing knocks before, which would cost it instructions.
        self.machine = Machine(arch, NET="tap", ARGS=args,
                               QEMU_ARGS="-plugin %s,out=%s" % (ROOT / "build" / "insn_count.so", COUNT_FILE))
        with Connection(self.machine.host, self.machine.port, 20) as connection:
            if connection.ask("PING") != b"+PONG\r\n":
                raise SystemExit("no PONG\n" + self.machine.transcript())
            self.boot = self.count()

    def count(self):
        """Instructions executed since reset."""
        return struct.unpack("<Q", COUNT_FILE.read_bytes()[:8])[0]

    def requests(self, test, pipeline, requests):
        """Instructions a request over one run of redis-benchmark."""
        before = self.count()
        subprocess.run(["redis-benchmark", "-h", self.machine.host, "-p", str(self.machine.port), "-q", "-t", test, "-c",
                        str(CLIENTS), "-n", str(requests), "-P", str(pipeline)], check=True, timeout=120,
                       stdout=subprocess.DEVNULL)
        return (self.count() - before) / requests

    def idle(self):
        """Instructions a second with nothing to do."""
        time.sleep(1)
        before, started = self.count(), time.monotonic()
        time.sleep(IDLE_S)
        return (self.count() - before) / (time.monotonic() - started)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.machine.kill()


def measure(arch, rounds, namespace):
    """{row: [a figure a round]}"""
    rows = {row: [] for row in LIMITS[arch]}
    with namespace:
        with Counted(arch, "poll=0") as guest:
            rows[BOOT].append(guest.boot)
            rows[IDLE].append(guest.idle())
            for row, (test, pipeline, requests) in REQUESTS.items():
                guest.requests(test, pipeline, min(requests, 2000))
                for _ in range(rounds):
                    rows[row].append(guest.requests(test, pipeline, requests))
        with Counted(arch, "") as guest:
            rows[BOOT].append(guest.boot)
            with Connection(guest.machine.host, guest.machine.port) as connection:
                connection.ask("PING")
            rows[IDLE_POLL].append(guest.idle())
        for _ in range(rounds - 2):
            with Counted(arch, "poll=0") as guest:
                rows[BOOT].append(guest.boot)
    return rows


def shown(value):
    """A count as a reader wants it."""
    return "%.1f M" % (value / 1e6) if value >= 1e6 else "{:,.0f}".format(value)


def main():
    """Measures, prints; with --check, status 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", action="append", choices=list(LIMITS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    namespace, missed = Namespace(), []
    for arch in options.arch or LIMITS:
        rows = measure(arch, options.rounds, namespace)
        print("\n| %s, guest instructions | median | least | most | n | limit |\n|---|---|---|---|---|---|" % arch)
        for row, values in rows.items():
            median, limit = statistics.median(values), LIMITS[arch][row]
            print("| %s | %s | %s | %s | %d | %s%s |" % (row, shown(median), shown(min(values)), shown(max(values)), len(values),
                                                        shown(limit), "" if median <= limit else " MISSED"), flush=True)
            if median > limit:
                missed.append("%s %s" % (arch, row))
    if missed:
        print("\nabove the limit: " + "; ".join(missed))
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
