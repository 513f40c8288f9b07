"""What is compared: profiles, each a list of units of load, each of which gives the figures of one or more rows.

A profile is named by what it varies. `wanted` is the least ratio to a Linux guest that a row has to reach (docs/performance.md).
"""
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import time

import benchmark
from guests import ROOT
from resp import info

CLIENTS = 30
# An emulated Linux on a busy host answers some 400 LRANGE_600 a second.
LIMIT_S = 3600
LRANGE = ("lrange_100", "lrange_300", "lrange_500", "lrange_600")
# redis-benchmark's own names of its tests, in its order; the LRANGE rows share one LPUSH before them.
ROWS20 = ("ping_inline", "ping_mbulk", "set", "get", "incr", "lpush", "rpush", "lpop", "rpop", "sadd", "hset", "spop", "zadd",
          "zpopmin", ",".join(LRANGE), "mset")
RATE, MS, PERCENT = "requests/s", "ms", "% of a host core"


@dataclasses.dataclass
class Figure:
    """One value of one row. `better`: "more" or "less"."""
    row: str
    unit: str
    value: float
    better: str = "more"
    wanted: float = None


@dataclasses.dataclass
class Unit:
    """A piece of load that a guest bears in one go. `run(guest, scale)` gives its Figures; `warm(guest)` comes before, uncounted."""
    name: str
    run: object
    warm: object = lambda guest: None


@dataclasses.dataclass
class Profile:
    """Units on machines with `smp` CPUs and memory `mem`; `missing()` says what it lacks on this host, or gives None;
    `before(guest, scale)` is called once, with the rival in its turn, and says what it found;
    `once(guest)` gives Figures of a machine that has just booted."""
    name: str
    title: str
    units: list
    smp: int = 1
    mem: str = "256M"
    missing: object = lambda: None
    before: object = None
    once: object = lambda guest: []


def row_name(test):
    """'LRANGE_100 (first 100 elements)' and the like as a table shows them."""
    return {"LPUSH (needed to benchmark LRANGE)": "LPUSH for LRANGE"}.get(test, test.split(" (")[0])


def wanted_of(test, pipeline):
    """The least ratio of requests a second to the Linux guest's."""
    if test.startswith("LRANGE"):
        return 6.0
    return 5.0 if test in ("GET", "SET") and pipeline in (1, 16) else 4.0


def redis_benchmark(tests, *, clients=CLIENTS, pipeline=1, requests=100_000, size=None, label="%s", wanted=True):
    """A unit that runs redis-benchmark once: rates, and the p99 latency at them."""
    words = ("-t", tests, "-c", clients, "-P", pipeline, *(("-d", size) if size else ()))

    def load(guest, count):
        return benchmark.run_timed(guest.host, guest.port, "-n", count, *words, limit_s=LIMIT_S)

    def run(guest, scale):
        count = max(int(requests * scale), clients * pipeline)
        rates, times = [], []
        for test, (rate, p99) in load(guest, count).items():
            row = label % row_name(test)
            rates.append(Figure(row, RATE, rate, "more", wanted_of(row_name(test), pipeline) if wanted else None))
            times.append(Figure(row + ", p99", MS, p99, "less", 1.0 if wanted else None))
        return rates + times

    return Unit(label % tests.upper(), run, lambda guest: load(guest, max(clients * pipeline, 500)))


def load_program():
    """The project's own load generator."""
    return pathlib.Path(os.environ.get("BARIUM_LOAD") or pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
                        / "release" / "barium-load")


def load_missing():
    """What the profiles of the load generator lack."""
    return None if os.access(load_program(), os.X_OK) else "%s is not there: cargo build --release -p barium-load" % load_program()


def own_load(guest, *options):
    """The JSON object that barium-load prints; an AssertionError where an answer was wrong or missing."""
    words = [str(load_program()), "--json", "--host", guest.host, "--port", str(guest.port), *map(str, options)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, "%s: status %d\n%s%s" % (" ".join(words), done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)


MIXED = ("--ratio", "1:10", "--size", 256, "--clients", 50)
PEAK = "SET:GET 1:10, 256 bytes"


def mixed(pipeline):
    """A closed loop of 50 clients."""
    label = PEAK if pipeline == 1 else "%s, -P %d" % (PEAK, pipeline)

    def run(guest, scale):
        # Connections come and values are written anew in each turn.
        found = own_load(guest, *MIXED, "--pipeline", pipeline, "--requests", int(100_000 * pipeline ** 0.5 * scale))
        return [Figure(label, RATE, found["rate"], "more", 4.0),
                Figure(label + ", p99", MS, found["latency_us"]["p99"] / 1000, "less", 1.0)]

    return Unit(label, run)


def memtier(guest, scale):
    """memtier_benchmark's own form of the same."""
    path = pathlib.Path(guest.folder.name) / "memtier.json"
    subprocess.run(["memtier_benchmark", "-s", guest.host, "-p", str(guest.port), "--ratio=1:10", "-d", "256", "-c", "50", "-t", "1",
                    "-n", str(max(int(100_000 * scale) // 50, 20)), "--hide-histogram", "--json-out-file=%s" % path], check=True,
                   timeout=LIMIT_S, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    totals = json.loads(path.read_text())["ALL STATS"]["Totals"]
    return [Figure("memtier_benchmark, " + PEAK, RATE, totals["Ops/sec"], "more", 4.0),
            Figure("memtier_benchmark, %s, p99" % PEAK, MS, totals["Percentile Latencies"]["p99.00"], "less", 1.0)]


def memtier_missing():
    """memtier_benchmark is no package of Debian 12."""
    return None if shutil.which("memtier_benchmark") else "memtier_benchmark is not installed"


class OpenLoop:
    """Both servers at half of what the rival answers at most: its peak is found first, by a closed loop on the rival alone."""

    def __init__(self):
        self.rate = None

    def peak(self, guest, scale):
        """Called with the rival in its turn, before the units."""
        found = own_load(guest, *MIXED, "--warmup", 1, "--time", max(10 * scale, 2))
        self.rate = found["rate"] / 2
        return "half of its peak is %.0f requests/s" % self.rate

    def run(self, guest, scale):
        """Open loop, Poisson arrivals: latency counts from when a request was meant to be sent."""
        found = own_load(guest, *MIXED, "--rate", "%.0f" % self.rate, "--warmup", 1, "--time", max(20 * scale, 2))
        times = found["latency_us"]
        return [Figure(name, MS, times[field] / 1000, "less", 1.0 if field == "p99" else None)
                for name, field in (("p50", "p50"), ("p99", "p99"), ("p99.9", "p999"))]


def closed(guest, limit_s=60):
    """Waits until the server has let go of its connections, so that the next turn does not begin with that."""
    end = time.monotonic() + limit_s
    while int(info(guest.host, guest.port, "connected_clients")) > 1:
        assert time.monotonic() < end, "connections are still there after %d s" % limit_s
        time.sleep(0.5)


def idle_connections(count):
    """GET with `count` other connections that are open and silent."""
    label = "GET, {:,} idle connections".format(count)

    def run(guest, scale):
        assert guest.ask("CONFIG", "SET", "maxclients", "20000") == b"+OK\r\n"
        found = own_load(guest, "--ratio", "0:1", "--size", 16, "--clients", 50, "--idle", count, "--warmup", 0.5,
                         "--time", max(8 * scale, 2))
        closed(guest)
        figures = [Figure(label, RATE, found["rate"], "more", 4.0)]
        if count:
            figures.append(Figure("{:,} connections made".format(count), "s", found["connect_idle"]["seconds"], "less"))
        return figures

    return Unit(label, run)


def at_rest(guest, scale):
    """What a guest costs the host that nobody asks anything."""
    time.sleep(3)
    before, started = guest.cpu_seconds(), time.monotonic()
    time.sleep(max(20 * scale, 3))
    return [Figure("idle", PERCENT, 100 * (guest.cpu_seconds() - before) / (time.monotonic() - started), "less")]


def booted(guest):
    """How long the boot took, of which each machine has one."""
    return [Figure("boot to the first PONG", "s", guest.boot_s, "less")]


def profiles():
    """{name: Profile} of all."""
    loop = OpenLoop()
    made = [
        Profile("rows20", "the rows of redis-benchmark one by one, 30 clients, 100,000 requests",
                [redis_benchmark(test) for test in ROWS20]),
        Profile("pipeline", "pipelined requests, 30 clients",
                [redis_benchmark(test, pipeline=depth, requests=100_000 if depth == 1 else 400_000, label="%%s -P %d" % depth)
                 for depth in (1, 10, 16, 50) for test in ("set", "get")]),
        Profile("clients1600", "1,600 clients at once, values of 16 and 96 bytes",
                [redis_benchmark(test, clients=1600, size=size, label="%%s, %d bytes" % size, wanted=False)
                 for size in (16, 96) for test in ("set", "get")]
                + [redis_benchmark(test, clients=50, size=16, label="%s, 16 bytes, 50 clients", wanted=False)
                   for test in ("set", "get")], mem="512M"),
        Profile("mixed", "SETs and GETs mixed, 50 clients", [mixed(1), mixed(16)], missing=load_missing),
        Profile("memtier", "the same mixture by memtier_benchmark", [Unit("memtier", memtier)], missing=memtier_missing),
        Profile("latency", "latency at half the rival's peak, SET:GET 1:10, 256 bytes, open loop", [Unit("open loop", loop.run)],
                missing=load_missing, before=loop.peak),
        Profile("idle_connections", "GET by 50 clients while other connections are open and silent",
                [idle_connections(count) for count in (0, 1000, 10_000)], mem="512M", missing=load_missing),
        Profile("smp4", "four CPUs, 30 clients", smp=4,
                units=[redis_benchmark(test, label="%s, SMP=4", wanted=False) for test in ("ping_mbulk", "set", "get", "incr", "mset")]
                + [redis_benchmark(test, pipeline=16, requests=400_000, label="%s -P 16, SMP=4", wanted=False)
                   for test in ("set", "get")]),
        Profile("rest", "a guest that nobody asks anything, and booting", [Unit("at rest", at_rest)], once=booted),
    ]
    return {profile.name: profile for profile in made}
