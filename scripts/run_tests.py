#!/usr/bin/env python3
"""Runs the project's test steps: `run_tests.py test`, or `run_tests.py ci` for those and what takes longer.

Each step is a command with a time limit of its own; its output goes to build/logs/<step>.log and, for a step that fails,
to the console as well. Steps of one stage run at the same time. Every step runs even where an earlier one failed, except
when a build failed. The last line is the sum: 'N passed, N failed'.
"""
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
LOGS = BUILD / "logs"
PYTEST = [str(BUILD / "venv" / "bin" / "pytest"), "-q", str(ROOT / "tests" / "qemu")]


@dataclasses.dataclass
class Step:
    """One command. `needed`: nothing later makes sense without it."""
    name: str
    command: list
    limit_s: int
    needed: bool = False
    environment: dict = dataclasses.field(default_factory=dict)


def test_stages():
    """`make test`: builds, units, the server on the host, real boots."""
    return [
        [Step("build x86_64", ["scripts/image.sh"], 900, True, {"ARCH": "x86_64", "PLATFORM": ""})],
        [Step("build aarch64", ["scripts/image.sh"], 900, True, {"ARCH": "aarch64", "PLATFORM": ""})],
        [Step("build host", ["cargo", "build", "--release", "--locked", "-p", "barium-host", "-p", "barium-load", "-p", "barium-relay"],
              900, True)],
        [Step("build client", ["cargo", "build", "--locked", "-p", "barium-client-tests"], 600)],
        [Step("units", ["cargo", "test", "--locked", "--quiet"], 900)],
        [Step("benchmark units", [PYTEST[0], "-q", str(ROOT / "benches" / "tests")], 120)],
        [Step("boots x86_64", PYTEST + ["--arch", "x86_64"], 1200), Step("boots aarch64", PYTEST + ["--arch", "aarch64"], 1200)],
        [Step("host server", ["scripts/on_host.sh", *PYTEST], 300)],
        [Step("differential", ["scripts/differential.sh"], 300, environment={"SECONDS_EACH": "6", "SEQUENCES": "500"})],
    ]


def ci_stages():
    """What `make ci` adds: rules, the long tests, the instruction counts, the comparison with a Linux guest once."""
    return [
        *test_stages(),
        [Step("lint", ["scripts/lint.sh"], 900)],
        [Step("loom", ["scripts/loom.sh"], 600)],
        [Step("long x86_64", PYTEST + ["--arch", "x86_64", "--long", "-m", "long"], 1500),
         Step("long aarch64", PYTEST + ["--arch", "aarch64", "--long", "-m", "long"], 1500)],
        [Step("fuzz", ["scripts/fuzz.sh"], 1200, environment={"SECONDS_EACH": "30"})],
        [Step("differential long", ["scripts/differential.sh"], 900, environment={"SECONDS_EACH": "24", "SEQUENCES": "2000"})],
        # What ran just before still shows in the load average, which matters to none of these.
        [Step("memory", ["benches/memory.py", "--check"], 300, environment={"FORCE": "1"})],
        [Step("eviction", ["scripts/differential.sh", "--test", "eviction"], 600, environment={"ACCESSES": "1000000"})],
        [Step("instructions", ["scripts/bench.sh", "gate"], 1500, environment={"FORCE": "1"})],
        [Step("comparison", ["scripts/bench.sh"], 600,
              environment={"FORCE": "1", "QUICK": "1", "ARCH": "x86_64", "PROFILE": "rows20 mixed latency"})],
    ]


def tally(name, log, status):
    """(passed, failed) tests of a finished step by its log's closing lines; a step that counts no tests is one itself."""
    rust = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed", log, re.M)
    python = re.findall(r"^=*\s*((?:\d+ \w+(?:, )?)+) in [\d.:]+s", log, re.M)
    passed = sum(int(row[0]) for row in rust)
    failed = sum(int(row[1]) for row in rust)
    for line in python:
        counts = {kind: int(count) for count, kind in re.findall(r"(\d+) (\w+)", line)}
        passed += counts.get("passed", 0) + counts.get("xfailed", 0)
        failed += sum(counts.get(kind, 0) for kind in ("failed", "error", "errors"))
    if not rust and not python:
        return (0, 1) if status else (1, 0)
    # A run that broke off counts as a failure even if no test did.
    return passed, failed or int(status != 0)


class Runner:
    """Runs steps and adds up."""

    def __init__(self):
        self.passed = self.failed = 0
        self.lock = threading.Lock()
        self.started = time.monotonic()

    def run(self, step):
        """Runs one step to its end or limit; whether it passed."""
        path = LOGS / (step.name.replace(" ", "-") + ".log")
        started = time.monotonic()
        with self.lock:
            print("[%5.0f s] %s ..." % (started - self.started, step.name), flush=True)
        with open(path, "wb") as log:
            process = subprocess.Popen(step.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                       env={**os.environ, **step.environment}, start_new_session=True)
            try:
                status, why = process.wait(step.limit_s), ""
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 15)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, 9)
                    process.wait()
                status, why = 1, " (stopped at its limit of %d s)" % step.limit_s
        text = path.read_text(errors="replace")
        passed, failed = tally(step.name, text, status)
        with self.lock:
            self.passed += passed
            self.failed += failed
            if status:
                print("=== %s failed%s; the end of %s:" % (step.name, why, path.relative_to(ROOT)))
                print(text[-30_000:])
            print("[%5.0f s] %s: %d passed, %d failed, %.0f s" % (time.monotonic() - self.started, step.name, passed, failed,
                                                                  time.monotonic() - started), flush=True)
        return status == 0

    def stage(self, steps):
        """Runs the steps at the same time; whether to go on."""
        results = {}
        threads = [threading.Thread(target=lambda s=step: results.__setitem__(s.name, self.run(s))) for step in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return all(results[step.name] or not step.needed for step in steps)


def main():
    """Runs the stages; status 1 if anything failed."""
    if sys.argv[1:] not in (["test"], ["ci"]):
        raise SystemExit(__doc__)
    LOGS.mkdir(parents=True, exist_ok=True)
    runner = Runner()
    for stage in test_stages() if sys.argv[1] == "test" else ci_stages():
        if not runner.stage(stage):
            break
    print("%d passed, %d failed" % (runner.passed, runner.failed), flush=True)
    return 1 if runner.failed or not runner.passed else 0


if __name__ == "__main__":
    sys.exit(main())
