#!/usr/bin/env python3
"""Measures Barium beside a rival in the same run: a Debian Linux guest with redis-server, or with BASE an earlier Barium.

usage: compare.py [--arch ARCH]... [--rounds N] [--quick] [--base REVISION] [PROFILE]...

Both machines are booted once a round; then each unit of load runs A B B A, a moment apart, whoever has no turn being stopped.
Prints a Markdown table a profile, and keeps it with all values (JSON) and a plot (SVG) in build/bench/. Without PROFILE, all.
Status 1 where a profile failed; what the figures have to be is for the reader, or --check.
"""
import argparse
import os
import resource
import sys
import time
import traceback

import documents
import guests
import preflight
import profiles
import report

QUICK_SCALE = 0.005
ORDER = "ABBA"
KEPT = guests.ROOT / "build" / "bench"


class Progress:
    """Says on standard error where a long run is, and how long it may still take."""

    def __init__(self, what, steps):
        self.what, self.steps, self.done, self.started = what, steps, 0, time.monotonic()

    def say(self, text):
        """One line."""
        print("[%5.0f s] %s: %s" % (time.monotonic() - self.started, self.what, text), file=sys.stderr, flush=True)

    def step(self, text):
        """A step of the run is over."""
        self.done += 1
        left = (time.monotonic() - self.started) / self.done * (self.steps - self.done)
        self.say("%s (%d of %d, about %d s left)" % (text, self.done, self.steps, left))


def boot_pair(pair, arch, profile):
    """Both guests, or neither."""
    first = pair[0].boot(arch, profile.smp, profile.mem)
    try:
        return first, pair[1].boot(arch, profile.smp, profile.mem)
    except BaseException:
        first.close()
        raise


def measure(profile, pair, arch, rounds, scale):
    """{row: report.Row} of a profile, all values in the order in which they were taken."""
    rows = {}
    progress = Progress("%s %s" % (arch, profile.name), rounds * len(profile.units) * len(ORDER))

    def add(side, figures):
        for figure in figures:
            row = rows.setdefault(figure.row, report.Row(figure.row, figure.unit, figure.better, figure.wanted))
            row.values[side].append(figure.value)

    for round_number in range(rounds):
        machines = boot_pair(pair, arch, profile)
        try:
            for side in (0, 1):
                add(side, profile.once(machines[side]))
            if round_number == 0 and profile.before:
                with machines[1] as guest:
                    progress.say("%s: %s" % (guest.contestant.name, profile.before(guest, scale)))
            for unit in profile.units:
                for machine in machines:
                    with machine as guest:
                        unit.warm(guest)
                for letter in ORDER:
                    side = "AB".index(letter)
                    with machines[side] as guest:
                        figures = unit.run(guest, scale)
                        assert guest.machine.running, guest.machine.transcript()
                    add(side, figures)
                    progress.step("round %d of %d, %s, %s: %s" % (
                        round_number + 1, rounds, unit.name, guest.contestant.name,
                        ", ".join("{:,.5g}".format(figure.value) for figure in figures if figure.unit == figures[0].unit)))
        except BaseException:
            for machine in machines:
                print(machine.machine.transcript()[-4000:], file=sys.stderr)
            raise
        finally:
            for machine in machines:
                machine.close()
    return list(rows.values())


def main():
    """Measures, prints, keeps; the status is 1 where a profile failed."""
    known = profiles.profiles()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profiles", nargs="*", metavar="PROFILE", help=", ".join(known))
    parser.add_argument("--arch", action="append", choices=list(guests.PLATFORMS))
    parser.add_argument("--rounds", type=int, default=2, help="boots of each; two values a round and row (2)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the requests and times (1)")
    parser.add_argument("--quick", action="store_true", help="one round, few requests: shows that it works, not how fast")
    parser.add_argument("--base", default=os.environ.get("BASE", ""), help="a revision: the rival is that Barium")
    parser.add_argument("--check", action="store_true", help="status 1 also where a wanted ratio is missed")
    parser.add_argument("--document", action="store_true", help="write the table of docs/performance.md anew, of all kept reports")
    options = parser.parse_args()
    for name in options.profiles:
        if name not in known:
            parser.error("%s is no profile; choose from: %s" % (name, ", ".join(known)))
    if options.quick:
        options.rounds, options.scale = 1, QUICK_SCALE
    disturbed = preflight.enforce()
    # Ten thousand connections need as many descriptors in the load generators.
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    failed = missed = 0
    for arch in options.arch or guests.PLATFORMS:
        pair = (guests.barium(), guests.base(options.base, arch) if options.base else guests.linux(arch))
        for name in options.profiles or known:
            profile = known[name]
            if why := profile.missing():
                print("%s: SKIPPED, %s" % (name, why), file=sys.stderr, flush=True)
                continue
            try:
                began = time.time()
                rows = measure(profile, pair, arch, options.rounds, options.scale)
            except (AssertionError, OSError) as error:
                traceback.print_exception(error)
                print("%s on %s FAILED" % (name, arch), flush=True)
                failed += 1
                continue
            done = report.Report(profile, arch, pair, rows, options, disturbed, began)
            done.write(KEPT)
            print(done.markdown(), flush=True)
            missed += len(done.missed())
    table = report.overview(KEPT, guests.PLATFORMS)
    (KEPT / "overview.md").write_text(table)
    if options.document:
        documents.write("comparison", table)
    return 1 if failed or options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
