#!/usr/bin/env python3
"""All of redis-benchmark against the machine that `make run` boots: every default test runs to its end without an error, a
reset or a stall.

usage: soak.py [--arch ARCH]... [--smp N]... [--run RUN]... [--requests N]

Runs: plain, pipeline (-P 16), clients (200 of them), and large: values of 1 KiB (MEM=512M, an empty keyspace before, LRANGE
rows at -n 1000). Prints the rates as a table per machine; a failure stops that run, is counted, and shows the console.
"""
import argparse
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "qemu"))

import benchmark  # noqa: E402
import preflight  # noqa: E402
from machine import Machine  # noqa: E402
from resp import Connection  # noqa: E402

ALL_BUT_LRANGE = "ping_inline,ping_mbulk,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,mset"
LRANGE = "lrange_100,lrange_300,lrange_500,lrange_600"
# An emulated machine on a busy host still does some 2,000 requests a second.
LIMIT_S = 1800


def runs(requests):
    """By run: (heading, MEM, [redis-benchmark options...])"""
    return {
        "plain": ("-c 30", "256M", [("-n", requests, "-c", 30)]),
        "pipeline": ("-c 30 -P 16", "256M", [("-n", requests, "-c", 30, "-P", 16)]),
        "clients": ("-c 200", "256M", [("-n", requests, "-c", 200)]),
        "large": ("-c 30 -d 1024", "512M", [("-n", requests, "-c", 30, "-d", 1024, "-t", ALL_BUT_LRANGE),
                                            ("-n", min(requests, 1000), "-c", 30, "-d", 1024, "-t", LRANGE)]),
    }


def main():
    """Runs the matrix; the last line counts, the status is 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", action="append", choices=("x86_64", "aarch64"))
    parser.add_argument("--smp", action="append", type=int)
    parser.add_argument("--run", action="append", choices=tuple(runs(0)))
    parser.add_argument("--requests", type=int, default=100_000)
    options = parser.parse_args()
    if disturbed := preflight.enforce():
        print("Measured in spite of: %s" % "; ".join(disturbed))
    passed = failed = 0
    for arch in options.arch or ("x86_64", "aarch64"):
        for smp in options.smp or (1, 4):
            columns = []
            for name, mem, commands in (runs(options.requests)[run] for run in options.run or runs(0)):
                started, rates = time.monotonic(), {}
                with Machine(arch, SMP=smp, MEM=mem) as machine:
                    try:
                        for words in commands:
                            with Connection(machine.host, machine.port) as connection:
                                assert connection.ask("FLUSHALL") == b"+OK\r\n"
                            rates.update(benchmark.run(machine.host, machine.port, *words, limit_s=LIMIT_S))
                        assert set(rates) == set(benchmark.ROWS), "rows missing: %s" % (set(benchmark.ROWS) - set(rates))
                        assert machine.running, machine.transcript()
                        passed += 1
                    except (AssertionError, OSError) as error:
                        failed += 1
                        print("FAILED %s SMP=%d %s: %s\n%s" % (arch, smp, name, error, machine.transcript()))
                print("%s SMP=%d %s: %.0f s" % (arch, smp, name, time.monotonic() - started), file=sys.stderr, flush=True)
                columns.append((name, rates))
            print("\n| %s, SMP=%d: requests a second | %s |\n|---|%s" % (arch, smp, " | ".join(name for name, _ in columns),
                                                                       "---:|" * len(columns)))
            for row in benchmark.ROWS:
                print("| %s | %s |" % (row, " | ".join("{:,.0f}".format(rates[row]) if row in rates else "-"
                                                       for _, rates in columns)), flush=True)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
