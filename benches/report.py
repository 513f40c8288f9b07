"""The outcome of a comparison as Markdown, JSON and a plot: Barium beside the rival."""
import dataclasses
import json
import os
import platform
import subprocess
import time

import stats

MISSED = "MISSED"


@dataclasses.dataclass
class Row:
    """All values of one row: values[0] Barium's, values[1] the rival's, the n-th of both taken beside each other."""
    name: str
    unit: str
    better: str = "more"
    wanted: float = None
    values: tuple = dataclasses.field(default_factory=lambda: ([], []))

    def ratio(self):
        """stats.Ratio; more than 1 is in Barium's favour."""
        return stats.ratio(*self.values, better=self.better)


def shown(value):
    """A figure with as many digits as it has meaning."""
    return "{:,.0f}".format(value) if abs(value) >= 1000 else "{:.3g}".format(value)


def interval(pair):
    """'low to high', or '-' where there is none."""
    return "-" if pair is None else "%s to %s" % (shown(pair[0]), shown(pair[1]))


def verdict(row):
    """(ratio, its interval, what was wanted and whether it was met) as a table shows them."""
    ratio = row.ratio()
    if ratio is None:
        return "-", "-", "-"
    wanted = "" if row.wanted is None else "at least %g: %s" % (row.wanted, "met" if ratio.medians >= row.wanted else MISSED)
    if ratio.interval is None:
        return "%.2f" % ratio.medians, "one pair", wanted
    text = "%.2f" % ratio.medians if ratio.differs else "no difference (%.2f)" % ratio.medians
    return text, "%.3g to %.3g" % ratio.interval, wanted


class Report:
    """One profile on one architecture."""

    def __init__(self, profile, arch, pair, rows, options, disturbed, began):
        self.profile, self.arch, self.pair, self.rows, self.disturbed = profile, arch, pair, rows, disturbed
        self.options, self.began, self.seconds = options, began, time.time() - began
        self.load = os.getloadavg()

    @property
    def names(self):
        """The contestants' names."""
        return [contestant.name for contestant in self.pair]

    def missed(self):
        """Rows whose wanted ratio was not reached."""
        return [row for row in self.rows if verdict(row)[2].endswith(MISSED)]

    def circumstances(self):
        """What the figures were measured with and under, as (name, text)."""
        qemu = subprocess.run(["qemu-system-" + self.arch, "--version"], stdout=subprocess.PIPE, text=True, timeout=60).stdout
        given = [("measured", "%s, in %.0f s" % (time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.began)), self.seconds)),
                 ("host", "%s, %d CPUs, load average at the end %.1f" % (platform.platform(), os.cpu_count(), self.load[0])),
                 ("machine", "%s under emulation, SMP=%d, MEM=%s, tap" % (qemu.splitlines()[0], self.profile.smp, self.profile.mem)),
                 ("order", "A B B A a row, %d rounds, requests times %g" % (self.options.rounds, self.options.scale))]
        given += [(contestant.name, contestant.version) for contestant in self.pair]
        if self.disturbed:
            given.append(("**disturbed**", "measured in spite of: " + "; ".join(self.disturbed)))
        return given

    def markdown(self):
        """Both tables: the comparison, then the statistics of each sample."""
        lines = ["## %s, %s: %s" % (self.profile.name, self.arch, self.profile.title), ""]
        lines += ["- %s: %s" % pair for pair in self.circumstances()]
        lines += ["", "| row | unit | %s | %s | ratio | 99 %% interval | wanted |" % tuple(self.names), "|---|---|---:|---:|---:|---|---|"]
        for row in self.rows:
            medians = [shown(stats.summary(values).median) for values in row.values]
            lines.append("| %s | %s | %s | %s | %s | %s | %s |" % (row.name, row.unit, *medians, *verdict(row)))
        lines += ["", "| row | server | n | mean | median | sd | CV | CI99 | PI99 |", "|---|---|---:|---:|---:|---:|---:|---|---|"]
        for row in self.rows:
            for name, values in zip(self.names, row.values):
                one = stats.summary(values)
                lines.append("| %s | %s | %d | %s | %s | %s | %.1f %% | %s | %s |" % (
                    row.name, name, one.n, shown(one.mean), shown(one.median), shown(one.sd), 100 * one.cv, interval(one.ci99),
                    interval(one.pi99)))
        return "\n".join(lines) + "\n"

    def json(self):
        """Everything, every single value too."""
        rows = []
        for row in self.rows:
            ratio = row.ratio()
            rows.append({"row": row.name, "unit": row.unit, "better": row.better, "wanted": row.wanted,
                         "ratio": ratio and {**dataclasses.asdict(ratio), "differs": ratio.differs},
                         "servers": [{"name": name, "values": values, **dataclasses.asdict(stats.summary(values)),
                                      "cv": stats.summary(values).cv} for name, values in zip(self.names, row.values)]})
        return {"profile": self.profile.name, "title": self.profile.title, "arch": self.arch, "smp": self.profile.smp,
                "circumstances": dict(self.circumstances()), "disturbed": self.disturbed, "rows": rows}

    def write(self, folder):
        """Keeps all three forms."""
        folder.mkdir(parents=True, exist_ok=True)
        stem = "%s-%s" % (self.arch, self.profile.name)
        (folder / (stem + ".md")).write_text(self.markdown())
        (folder / (stem + ".json")).write_text(json.dumps(self.json(), indent=1) + "\n")
        (folder / (stem + ".svg")).write_bytes(self.plot())

    def plot(self):
        """Bars of the medians with their confidence intervals, in the unit of the profile's first row."""
        import pygal

        unit = self.rows[0].unit
        rows = [row for row in self.rows if row.unit == unit]
        bars = [[self._bar(values) for values in row.values] for row in rows]
        ends = [end for pair in bars for bar in pair for end in (bar["value"], *bar.get("ci", {}).values())]
        logarithmic = min(ends) > 0 and max(ends) > 20 * min(ends)
        low, high = min(ends) / 1.2 if logarithmic else 0, max(ends) * 1.05
        chart = pygal.HorizontalBar(
            # No scripts: the file shows the same everywhere, and asks nobody for anything.
            js=(), logarithmic=logarithmic, range=(low, high), zero=low, width=900, height=140 + 42 * len(rows),
            title="%s (%s): %s" % (self.profile.name, self.arch, unit), legend_at_bottom=True, print_values=True,
            value_formatter=shown, truncate_legend=-1, truncate_label=-1,
            style=pygal.style.Style(colors=("#1b7837", "#9970ab"), background="white", plot_background="white"))
        # Horizontal bars are drawn from below.
        chart.x_labels = [row.name for row in reversed(rows)]
        if logarithmic:
            chart.y_labels = [step * 10 ** power for power in range(-4, 9) for step in (1, 2, 5) if low <= step * 10 ** power <= high]
        for side in (0, 1):
            chart.add(self.names[side], [pair[side] for pair in reversed(bars)])
        return chart.render()

    @staticmethod
    def _bar(values):
        one = stats.summary(values)
        if one.ci99 is None:
            return {"value": one.median}
        # An interval wider than that is wide, whatever it is; a logarithmic axis has no room for one that reaches 0.
        return {"value": one.median, "ci": {"low": max(one.ci99[0], one.median / 2), "high": min(one.ci99[1], one.median * 2)}}


def overview(folder, arches):
    """One table of all kept reports: what `wanted` names, architecture beside architecture; for docs/performance.md."""
    kept = {arch: [json.loads(path.read_text()) for path in sorted(folder.glob(arch + "-*.json"))] for arch in arches}
    kept = {arch: reports for arch, reports in kept.items() if reports}
    cells, order = {}, []
    for arch, reports in kept.items():
        for report in reports:
            for row in report["rows"]:
                key = (report["profile"], row["row"], row["unit"])
                if key not in order:
                    order.append(key)
                ratio, medians = row["ratio"], [server["median"] for server in row["servers"]]
                text = "-" if ratio is None else "%.1f" % ratio["medians"]
                if ratio and ratio["interval"]:
                    text += " (%.3g to %.3g)" % tuple(ratio["interval"]) if ratio["differs"] else ", no difference"
                cells[key, arch] = "%s | %s | %s" % (*map(shown, medians), text)
    lines = ["| profile: row | unit | %s |" % " | ".join("%s: Barium | rival | ratio" % arch for arch in kept),
             "|---|---|%s" % ("---:|---:|---|" * len(kept))]
    lines += ["| %s: %s | %s | %s |" % (*key, " | ".join(cells.get((key, arch), "- | - | -") for arch in kept)) for key in order]
    notes = []
    for arch, reports in kept.items():
        disturbed = [report["profile"] for report in reports if report["disturbed"]]
        notes.append("%s: %s; rival: %s.%s" % (
            arch, reports[0]["circumstances"]["measured"].split(",")[0], reports[0]["rows"][0]["servers"][1]["name"],
            " Disturbed by other work on the host: %s." % ", ".join(disturbed) if disturbed else ""))
    return "\n".join(lines + [""] + notes) + "\n"
