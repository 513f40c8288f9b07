#!/usr/bin/env python3
"""Counts guest instructions: per request, from reset to the first PONG, and idle, as a Markdown table a machine class.

usage: instructions.py [--arch ARCH]... [--machine CLASS]... [--row ROW]... [--rounds N] [--check | --gate [--update]]

One CPU, TCG, a tap device in a network namespace of its own, redis-benchmark with 30 clients inside it; the count is read
from a file that the plugin benches/insn_count.c keeps. Requests are counted with poll=0, so that waiting is not counted as
work; idle with poll=0 and with the default. The figure is the median of the rounds. --check fails where a median is above its
limit, --gate where it is above its floor in benches/floors.json by more than 15 % (the lockstep row, which is exact: 2 %);
--update writes the medians there instead, and as a table to docs/performance.md, which says more.
"""
import argparse
import json
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "qemu"))

import documents  # noqa: E402
import lockstep  # noqa: E402
import memory  # noqa: E402
import preflight  # noqa: E402
from machine import Machine  # noqa: E402
from namespace import Namespace  # noqa: E402
from resp import Connection  # noqa: E402

FLOORS = ROOT / "benches" / "floors.json"
CLIENTS = 30
IDLE_S = 4
KEYS = 1_000_000
# How often another client pushes while LRANGE is measured.
PUSH_EVERY_S = 0.005
# By class: (architecture, make's PLATFORM).
MACHINES = {"x86_64-q35": ("x86_64", "x86_64-qemu-q35"), "x86_64-microvm": ("x86_64", "x86_64-qemu-microvm"),
            "aarch64-virt": ("aarch64", "aarch64-qemu-virt")}
# Row: (redis-benchmark's test, pipeline, requests a round, limit). LRANGE_600 includes the LPUSHes before it.
REQUESTS = {"GET -P 1": ("get", 1, 20_000, 4000), "SET -P 1": ("set", 1, 20_000, 4000), "GET -P 16": ("get", 16, 100_000, 600),
            "SET -P 16": ("set", 16, 100_000, 600), "LRANGE_600": ("lrange_600", 1, 4000, 30_000),
            "MSET (10 keys)": ("mset", 1, 10_000, 6000)}
# The same with random keys out of a million that are all there.
OVER_KEYS = {"%s, 1 M keys" % row: (test, pipeline, requests, limit * 1.3)
             for row, (test, pipeline, requests, limit) in REQUESTS.items() if test != "lrange_600"}
PUSHED = "LRANGE_600 under pushes"
LOCKSTEP = "lockstep script"
BOOT, IDLE, IDLE_POLL = "boot to first PONG", "idle, a second, poll=0", "idle, a second, default poll"
BOOT_LIMITS = {"x86_64-q35": 10e6, "x86_64-microvm": 2e6, "aarch64-virt": 2e6}
LIMITS = {**{row: what[3] for row, what in {**REQUESTS, **OVER_KEYS}.items()}, PUSHED: 39_000, IDLE: 0.1e6, IDLE_POLL: 0.1e6}
ROWS = (BOOT, IDLE, IDLE_POLL, *REQUESTS, PUSHED, LOCKSTEP, *OVER_KEYS)
TOLERANCE, EXACT_TOLERANCE = 0.15, 0.02
# What a timer more or less makes, where the whole is next to nothing.
SLACK = {IDLE: 5000, IDLE_POLL: 5000}


class Counted:
    """A guest whose instructions are counted. Made inside the namespace."""

    def __init__(self, machine_class, args, mem="256M"):
        arch, platform = MACHINES[machine_class]
        self.folder = tempfile.TemporaryDirectory(prefix="barium-count-")
        self.file = pathlib.Path(self.folder.name) / "count"
        # The machine counts as up when its console says so: nothing knocks before, which would cost it instructions.
        self.machine = Machine(arch, NET="tap", ARGS=args, MEM=mem, PLATFORM=platform,
                               QEMU_ARGS="-plugin %s,out=%s" % (ROOT / "build" / "insn_count.so", self.file))
        with self.connect() as connection:
            if connection.ask("PING") != b"+PONG\r\n":
                raise SystemExit("no PONG\n" + self.machine.transcript())
            self.boot = self.count()

    def connect(self):
        """A connection to the guest."""
        return Connection(self.machine.host, self.machine.port, 20)

    def count(self):
        """Instructions executed since reset."""
        return struct.unpack("<Q", self.file.read_bytes()[:8])[0]

    def requests(self, test, pipeline, requests, *options):
        """Instructions a request over one run of redis-benchmark."""
        before = self.count()
        subprocess.run(["redis-benchmark", "-h", self.machine.host, "-p", str(self.machine.port), "-q", "-t", test, "-c",
                        str(CLIENTS), "-n", str(requests), "-P", str(pipeline), *options], check=True, timeout=300,
                       stdout=subprocess.DEVNULL)
        return (self.count() - before) / requests

    def fill(self):
        """Sets redis-benchmark's million keys."""
        with self.connect() as connection:
            memory.fill(connection, memory.batches(["MSET"], lambda i: ("key:%012d" % i, "xxx"), KEYS))

    def under_pushes(self, test, pipeline, requests):
        """The same as `requests`, while one more client pushes to the list."""
        over = threading.Event()

        def push():
            with self.connect() as connection:
                while not over.wait(PUSH_EVERY_S):
                    connection.ask("LPUSH", "mylist", "xxx")

        pusher = threading.Thread(target=push)
        pusher.start()
        try:
            return self.requests(test, pipeline, requests)
        finally:
            over.set()
            pusher.join()

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
        self.folder.cleanup()


def measure(machine_class, rounds, namespace, wanted):
    """{row: [a figure a round]} of the wanted rows."""
    rows = {row: [] for row in ROWS if row in wanted}

    def add(row, value):
        if row in rows:
            rows[row].append(value)

    def rounds_of(table, guest, *options):
        for row, (test, pipeline, requests, _) in table.items():
            if row in rows:
                guest.requests(test, pipeline, min(requests, 2000), *options)
                rows[row] += [guest.requests(test, pipeline, requests, *options) for _ in range(rounds)]

    with namespace:
        with Counted(machine_class, "poll=0") as guest:
            add(BOOT, guest.boot)
            if IDLE in rows:
                add(IDLE, guest.idle())
            if LOCKSTEP in rows:
                rows[LOCKSTEP] += [lockstep.instructions(guest.count, 4000 + n) for n in range(rounds)]
            # What GET asks for has to be there.
            guest.requests("set", 1, 1000)
            rounds_of(REQUESTS, guest)
            if PUSHED in rows:
                test, pipeline, requests, _ = REQUESTS["LRANGE_600"]
                rows[PUSHED] += [guest.under_pushes(test, pipeline, requests) for _ in range(rounds)]
        if any(row in rows for row in OVER_KEYS):
            with Counted(machine_class, "poll=0") as guest:
                add(BOOT, guest.boot)
                guest.fill()
                rounds_of(OVER_KEYS, guest, "-r", str(KEYS))
        if IDLE_POLL in rows:
            with Counted(machine_class, "") as guest:
                add(BOOT, guest.boot)
                with guest.connect() as connection:
                    connection.ask("PING")
                add(IDLE_POLL, guest.idle())
        while len(rows.get(BOOT, range(rounds))) < rounds:
            with Counted(machine_class, "poll=0") as guest:
                add(BOOT, guest.boot)
    return rows


def shown(value):
    """A count as a reader wants it."""
    return "-" if value is None else "%.2f M" % (value / 1e6) if value >= 1e6 else "{:,.0f}".format(value)


def limit_of(machine_class, row):
    """What the row has to keep to on this machine, or None."""
    return BOOT_LIMITS[machine_class] if row == BOOT else LIMITS.get(row)


def gate(row, median, floor):
    """Why the gate is shut for the row, or None."""
    if floor is None:
        return "has no floor yet: UPDATE=1 writes it"
    allowed = floor * (1 + (EXACT_TOLERANCE if row == LOCKSTEP else TOLERANCE)) + SLACK.get(row, 0)
    return None if median <= allowed else "%s is above the floor of %s by %s" % (
        shown(median), shown(floor), "%.1f %%" % (100 * (median / floor - 1)) if floor else shown(median))


def table(machine_class, rows, floors):
    """The Markdown table of one class."""
    lines = ["| %s, guest instructions | median | least | most | n | limit | floor |" % machine_class, "|---|---:|---:|---:|---:|---:|---:|"]
    for row, values in rows.items():
        median, limit = statistics.median(values), limit_of(machine_class, row)
        lines.append("| %s | %s | %s | %s | %d | %s%s | %s |" % (
            row, shown(median), shown(min(values)), shown(max(values)), len(values), shown(limit),
            "" if limit is None or median <= limit else " MISSED", shown(floors.get(row))))
    return "\n".join(lines)


def document(floors):
    """The floors beside their limits, for docs/performance.md."""
    classes = [name for name in MACHINES if name in floors]
    lines = ["| guest instructions | %s |" % " | ".join("%s | limit" % name for name in classes), "|---|%s" % ("---:|---:|" * len(classes))]
    for row in ROWS:
        cells = ["%s | %s" % (shown(floors[name].get(row)), shown(limit_of(name, row))) for name in classes]
        lines.append("| %s | %s |" % (row, " | ".join(cells)))
    return "\n".join(lines) + "\n"


def available(machine_class):
    """Whether make knows the platform."""
    return MACHINES[machine_class][1] in (ROOT / "scripts" / "config.sh").read_text()


def main():
    """Measures, prints; status 1 where --check finds a limit missed, or --gate a floor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", action="append", choices=sorted({arch for arch, _ in MACHINES.values()}))
    parser.add_argument("--machine", action="append", choices=list(MACHINES))
    parser.add_argument("--row", action="append", choices=ROWS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--floors", type=pathlib.Path, default=FLOORS, help="another file of floors")
    options = parser.parse_args()
    if disturbed := preflight.enforce():
        print("Measured in spite of: " + "; ".join(disturbed))
    floors = json.loads(options.floors.read_text()) if options.floors.exists() else {}
    namespace, missed = Namespace(), []
    for machine_class in options.machine or MACHINES:
        if not available(machine_class) or MACHINES[machine_class][0] not in (options.arch or MACHINES[machine_class][0]):
            continue
        rows = measure(machine_class, options.rounds, namespace, options.row or ROWS)
        mine = floors.setdefault(machine_class, {})
        print("\n" + table(machine_class, rows, mine), flush=True)
        for row, values in rows.items():
            median, limit = statistics.median(values), limit_of(machine_class, row)
            if options.update:
                mine[row] = round(median)
            elif options.gate and (why := gate(row, median, mine.get(row))):
                missed.append("%s, %s: %s" % (machine_class, row, why))
            elif options.check and limit is not None and median > limit:
                missed.append("%s, %s: %s is above the limit of %s" % (machine_class, row, shown(median), shown(limit)))
    if options.update:
        options.floors.write_text(json.dumps(floors, indent=1) + "\n")
        print("\nwritten: %s" % options.floors)
        if options.floors == FLOORS:
            documents.write("instructions", document(floors))
    print("".join("\nMISSED %s" % line for line in missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
