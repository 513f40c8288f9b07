"""What a comparison prints of known values."""
import json
import types
import xml.etree.ElementTree

import pytest

import report
from report import Row

OPTIONS = types.SimpleNamespace(rounds=2, scale=1.0)
PROFILE = types.SimpleNamespace(name="rows", title="two rows", smp=1, mem="256M")
PAIR = [types.SimpleNamespace(name="Barium", version="a"), types.SimpleNamespace(name="Linux", version="b")]
FASTER = Row("GET", "requests/s", "more", 5.0, ([500.0, 510, 505, 498], [100.0, 101, 99, 100]))
SAME = Row("SET", "requests/s", "more", 5.0, ([100.0, 104, 98, 101], [101.0, 99, 100, 103]))
SLOWER = Row("GET, p99", "ms", "less", 1.0, ([2.0, 2.1, 2, 2.1], [1.0, 1, 1.1, 1]))


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(report.subprocess, "run", lambda *_, **__: types.SimpleNamespace(stdout="QEMU 0\n"))
    return report.Report(PROFILE, "x86_64", PAIR, [FASTER, SAME, SLOWER], OPTIONS, ["a compile"], 0.0)


def test_verdicts():
    ratio, interval, wanted = report.verdict(FASTER)
    assert ratio == "5.03" and interval.startswith("4.8") and wanted == "at least 5: met"
    assert report.verdict(SAME)[0].startswith("no difference") and report.verdict(SAME)[2].endswith("MISSED")
    assert report.verdict(SLOWER)[0] == "0.49"
    assert report.verdict(Row("x", "ms", values=([1.0], [2.0])))[1] == "one pair"


def test_markdown_stamps_and_counts(made):
    text = made.markdown()
    assert "**disturbed**: measured in spite of: a compile" in text
    assert "| GET | Linux | 4 | 100 | 100 | 0.816 | 0.8 % |" in text
    assert [row.name for row in made.missed()] == ["SET", "GET, p99"]


def test_files(made, tmp_path):
    made.write(tmp_path)
    kept = json.loads((tmp_path / "x86_64-rows.json").read_text())
    assert kept["rows"][0]["servers"][1]["values"] == FASTER.values[1] and kept["rows"][0]["ratio"]["differs"]
    assert kept["disturbed"] == ["a compile"]
    plot = xml.etree.ElementTree.parse(tmp_path / "x86_64-rows.svg").getroot()
    words = "".join(plot.itertext())
    # Rates and times do not share an axis.
    assert "Barium" in words and "Linux" in words and "SET" in words and "p99" not in words
    # It loads nothing from anywhere.
    assert not [one for one in plot.iter() for name in one.attrib if name.endswith("href")] and "@import" not in words


def test_overview_puts_architectures_beside_each_other(made, tmp_path):
    made.write(tmp_path)
    made.arch, made.disturbed = "aarch64", []
    made.write(tmp_path)
    text = report.overview(tmp_path, ("x86_64", "aarch64"))
    assert "| rows: GET | requests/s | 502 | 100 | 5.0 (4.8" in text and text.count("no difference") == 2
    assert "x86_64: 1970-01-01 00:00 UTC; rival: Linux. Disturbed by other work on the host: rows." in text
