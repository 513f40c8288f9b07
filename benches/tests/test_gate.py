"""The gate shuts: on a floor that was missed, on one that is not there; and it stays open within the tolerance."""
import json
import sys
import types

import pytest

import documents
import instructions

ROW = instructions.LOCKSTEP
GET = "GET -P 1"


def test_tolerances():
    assert instructions.gate(GET, 1150, 1000) is None and instructions.gate(ROW, 1020, 1000) is None
    assert "by 15.1 %" in instructions.gate(GET, 1151, 1000)
    assert "by 2.1 %" in instructions.gate(ROW, 1021, 1000)
    assert instructions.gate(instructions.IDLE, 4900, 0) is None and instructions.gate(instructions.IDLE, 9000, 1000)
    assert "by 6,000" in instructions.gate(instructions.IDLE, 6000, 0)
    assert "no floor" in instructions.gate(GET, 1, None)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs the program with made-up measurements; gives its status."""
    monkeypatch.setattr(instructions, "measure", lambda *_: {GET: [4000, 4100, 9000], ROW: [5000, 5001, 4999]})
    monkeypatch.setattr(instructions, "Namespace", lambda: None)
    monkeypatch.setattr(instructions, "available", lambda name: name == "x86_64-q35")
    monkeypatch.setattr(instructions, "preflight", types.SimpleNamespace(enforce=lambda: ["a compile"]))
    floors = tmp_path / "floors.json"

    def call(*words, kept=None):
        if kept is not None:
            floors.write_text(json.dumps(kept))
        monkeypatch.setattr(sys, "argv", ["instructions.py", "--floors", str(floors), *words])
        return instructions.main()

    call.floors = floors
    return call


def test_a_lowered_floor_shuts_it(run, capsys):
    kept = {"x86_64-q35": {GET: 4100, ROW: 5000}}
    assert run("--gate", kept=kept) == 0
    assert run("--gate", kept={"x86_64-q35": {GET: 3500, ROW: 5000}}) == 1
    assert "MISSED x86_64-q35, GET -P 1: 4,100 is above the floor of 3,500 by 17.1 %" in capsys.readouterr().out
    assert run("--gate", kept={"x86_64-q35": {GET: 4100, ROW: 4900}}) == 1


def test_update_writes_medians_and_keeps_other_machines(run):
    assert run("--gate", kept={"aarch64-virt": {GET: 7}}) == 1
    assert run("--gate", "--update") == 0
    assert json.loads(run.floors.read_text()) == {"aarch64-virt": {GET: 7}, "x86_64-q35": {GET: 4100, ROW: 5000}}
    assert run("--gate") == 0


def test_check_is_about_limits(run, capsys):
    assert run("--check") == 1
    out = capsys.readouterr().out
    assert "4,100 is above the limit of 4,000" in out and "Measured in spite of: a compile" in out


def test_floors_are_kept_for_rows_that_are_measured_and_shown():
    floors = json.loads(instructions.FLOORS.read_text())
    for machine_class, kept in floors.items():
        assert machine_class in instructions.MACHINES and set(kept) == set(instructions.ROWS)
    assert documents.part("instructions") == instructions.document(floors), "make bench-gate UPDATE=1 writes it anew"


def test_parts_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x -->\nold\n<!-- /x -->\n<!-- y -->\n<!-- /y -->\n")
    documents.write("x", "new \\1\n", page)
    documents.write("y", "z\n", page)
    assert page.read_text() == "a\n<!-- x -->\nnew \\1\n<!-- /x -->\n<!-- y -->\nz\n<!-- /y -->\n"
    assert documents.part("x", page) == "new \\1\n"
