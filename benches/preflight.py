#!/usr/bin/env python3
"""Says what would distort a benchmark on this machine at the moment: guests and servers left over from an earlier run, other
virtual machines, compilers at work, load, little free disk or memory; and which of it can be removed and which waited out.

usage: preflight.py

Status 1 where there is something; nothing is ended or removed by it. PREFLIGHT_WAIT=SECONDS in the environment waits so long for
what goes away by itself. FORCE=1 goes on in spite of all, at once: what was found is then part of the benchmark's report.
"""
import argparse
import dataclasses
import os
import pathlib
import shutil
import signal
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
SERVERS = ("redis-server", "valkey-server", "barium-host", "redis-benchmark", "memtier_benchmark", "barium-load")
COMPILERS = ("rustc", "cc1", "cc1plus", "lto1", "ld", "ld.lld", "lld", "rust-lld", "clang", "lto-wrapper")
FREE_DISK = 1 << 30
FREE_MEMORY = 2 << 30
# Of one CPU, by what others do.
BUSY = 0.25
# The load average of the last minute, by CPU.
LOAD = 0.5
SAMPLE_S = 1.0


@dataclasses.dataclass(frozen=True)
class Problem:
    """What distorts, and what can be done about it; `passes`: it may go away by itself."""
    what: str
    remedy: str
    passes: bool

    def __str__(self):
        return "%s: %s" % (self.what, self.remedy)


@dataclasses.dataclass(frozen=True)
class Process:
    """A process as /proc shows it; `cpu` is its time so far, in clock ticks."""
    pid: int
    parent: int
    arguments: tuple
    cpu: int

    @property
    def name(self):
        """The program's name. A title that a server set for itself counts up to its first blank."""
        return os.path.basename((self.arguments[0].split() or [""])[0].rstrip(":")) if self.arguments else ""


def processes():
    """{pid: Process} of all that have a command line."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
            # The name in brackets may hold blanks and brackets itself.
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if arguments != [""]:
            found[int(entry.name)] = Process(int(entry.name), int(fields[1]), tuple(arguments), int(fields[11]) + int(fields[12]))
    return found


def ancestors(pid, known):
    """The process and those it was started by."""
    line = set()
    while pid in known and pid not in line:
        line.add(pid)
        pid = known[pid].parent
    return line


def of_processes(known, own):
    """Problems that processes are by what they are."""
    compiling = []
    for process in known.values():
        if process.pid in own:
            continue
        line = " ".join(process.arguments)
        if process.name.startswith("qemu-system-"):
            if "barium_" in line or "linux-guest" in line:
                yield Problem("a guest of an earlier run, process %d (%s)" % (process.pid, process.name),
                              "can be removed: kill %d" % process.pid, False)
            else:
                yield Problem("another virtual machine, process %d" % process.pid, "end it or wait for its end", True)
        elif process.name in SERVERS:
            yield Problem("%s, process %d, of an earlier run or another" % (process.name, process.pid),
                          "can be removed: kill %d" % process.pid, False)
        elif process.name in COMPILERS:
            compiling.append("%s %d" % (process.name, process.pid))
    if compiling:
        yield Problem("a compile is under way (%s)" % ", ".join(compiling[:4]), "wait for its end", True)


def of_load(before, after, seconds, own, load_average, cpus):
    """Problems that show in how busy the CPUs are; `before` and `after` are processes() at two moments."""
    ticks = os.sysconf("SC_CLK_TCK") * seconds
    shares = {pid: (process.cpu - before[pid].cpu) / ticks for pid, process in after.items() if pid in before and pid not in own}
    total = sum(shares.values())
    if total > BUSY:
        most = max(shares, key=shares.get)
        yield Problem("other processes use %.0f %% of a CPU, most of it %s (process %d)" % (total * 100, after[most].name, most),
                      "end them or wait for their end", True)
    if load_average > LOAD * cpus:
        yield Problem("the load average of the last minute is %.1f on %d CPUs" % (load_average, cpus), "wait until it has sunk", True)


def of_space(free_disk, free_memory):
    """Problems of room, both in bytes."""
    if free_disk < FREE_DISK:
        yield Problem("only %d MiB of disk are free" % (free_disk >> 20), "remove what is no longer needed", False)
    if free_memory < FREE_MEMORY:
        yield Problem("only %d MiB of memory are free" % (free_memory >> 20), "end what holds it, or wait for its end", True)


def free_memory():
    """Bytes that can still be had without swapping."""
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


def problems():
    """All of them, after looking on for SAMPLE_S."""
    before, started = processes(), time.monotonic()
    time.sleep(SAMPLE_S)
    after = processes()
    own = ancestors(os.getpid(), after)
    return [*of_processes(after, own),
            *of_load(before, after, time.monotonic() - started, own, os.getloadavg()[0], os.cpu_count() or 1),
            *of_space(shutil.disk_usage(ROOT).free, free_memory())]


def enforce():
    """Called by every benchmark before it measures: the problems that it goes on in spite of, as lines for its report. Without
    FORCE=1 a problem ends the program with status 1; what passes by itself is waited for first, if asked. From here on a
    SIGTERM ends the program as an exception does, so that it leaves no machine behind for the next preflight to find."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    forced = os.environ.get("FORCE") == "1"
    deadline, shown = time.monotonic() + (0 if forced else float(os.environ.get("PREFLIGHT_WAIT") or 0)), None
    while True:
        found = problems()
        if not found or not all(problem.passes for problem in found) or time.monotonic() >= deadline:
            break
        lines = "; ".join(problem.what for problem in found)
        if lines != shown:
            print("preflight: waiting, for %s" % lines, file=sys.stderr, flush=True)
            shown = lines
        time.sleep(3)
    if not found:
        return []
    print("preflight: this would distort the figures:\n" + "\n".join("  %s" % problem for problem in found), file=sys.stderr,
          flush=True)
    if not forced:
        print("preflight: FORCE=1 measures all the same and says so in the report", file=sys.stderr)
        raise SystemExit(1)
    return [problem.what for problem in found]


def main():
    """Prints what it finds."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    enforce()
    print("preflight: nothing here would distort a benchmark")


if __name__ == "__main__":
    main()
