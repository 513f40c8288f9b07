"""Preflight sees what it is for; with made-up processes, and with real ones that only look the part."""
import os
import subprocess
import sys

import pytest

import preflight
from preflight import Process

PROGRAM = preflight.ROOT / "benches" / "preflight.py"


def made(*lines):
    """{pid: Process} of command lines."""
    return {pid: Process(pid, 1, tuple(line.split(" ")), 0) for pid, line in enumerate(lines, 100)}


@pytest.mark.parametrize("line, word, passes", [
    ("/usr/bin/qemu-system-x86_64 -m 256M -kernel /x/build/barium_x86_64-qemu-q35.elf", "kill 100", False),
    ("qemu-system-aarch64 -kernel /x/build/linux-guest/aarch64/vmlinuz", "kill 100", False),
    ("qemu-system-x86_64 -hda disk.img", "another virtual machine", True),
    ("redis-server\x20*:6379", "redis-server, process 100", False),
    ("/x/target/release/barium-host --port 1", "kill 100", False),
    ("/x/bin/rustc --crate-name y", "compile is under way (rustc 100)", True)])
def test_what_distorts(line, word, passes):
    found = list(preflight.of_processes(made(line), own=set()))
    assert [problem.passes for problem in found] == [passes] and word in str(found[0])


def test_what_does_not():
    others = made("bash", "python3 benches/memory.py", "redis-cli -p 5555", "qemu-img info x", "less rustc")
    assert list(preflight.of_processes(others, own=set())) == []
    assert list(preflight.of_processes(made("rustc x"), own={100})) == []


def test_a_title_with_blanks_is_a_name():
    assert Process(1, 0, ("redis-server *:6379",), 0).name == "redis-server"


def test_load():
    ticks = os.sysconf("SC_CLK_TCK")
    before, after = {7: Process(7, 1, ("busy",), 0)}, {7: Process(7, 1, ("busy",), ticks)}
    assert "100 % of a CPU, most of it busy (process 7)" in str(list(preflight.of_load(before, after, 1, set(), 0, 2))[0])
    assert list(preflight.of_load(before, after, 1, {7}, 1.0, 2)) == []
    assert "load average" in str(list(preflight.of_load({}, {}, 1, set(), 1.1, 2))[0])


def test_space():
    assert list(preflight.of_space(preflight.FREE_DISK, preflight.FREE_MEMORY)) == []
    assert len(list(preflight.of_space(preflight.FREE_DISK - 1, preflight.FREE_MEMORY - 1))) == 2


@pytest.fixture
def leftover():
    """A process that looks like a guest of an earlier run; it is the test's to end."""
    process = subprocess.Popen(["qemu-system-x86_64", "-c", "import sys; sys.stdin.read()", "-kernel", "build/barium_x.elf"],
                               executable=sys.executable, stdin=subprocess.PIPE)
    yield process
    process.stdin.close()
    process.wait(10)


def run(**environment):
    clean = {name: value for name, value in os.environ.items() if name != "FORCE"}
    return subprocess.run([sys.executable, PROGRAM], env={**clean, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=60)


def test_a_leftover_stops_a_benchmark_and_lives_on(leftover):
    done = run()
    assert done.returncode == 1 and "kill %d" % leftover.pid in done.stdout and "FORCE=1" in done.stdout
    assert leftover.poll() is None
    assert run(FORCE="1").returncode == 0


def test_forced_runs_say_so(leftover, monkeypatch, capsys):
    monkeypatch.setenv("FORCE", "1")
    assert any("process %d" % leftover.pid in line for line in preflight.enforce())
    monkeypatch.setenv("FORCE", "0")
    with pytest.raises(SystemExit) as stopped:
        preflight.enforce()
    assert stopped.value.code == 1 and "kill %d" % leftover.pid in capsys.readouterr().err


def test_what_passes_is_waited_for(monkeypatch):
    compiling = [preflight.Problem("a compile", "wait", True)]
    problems = [compiling, []]
    monkeypatch.setattr(preflight, "problems", lambda: problems.pop(0))
    monkeypatch.setattr(preflight.time, "sleep", lambda _: None)
    monkeypatch.delenv("FORCE", raising=False)
    monkeypatch.setenv("PREFLIGHT_WAIT", "10")
    assert preflight.enforce() == [] and problems == []
    # What was forced does not wait.
    problems.extend([compiling, []])
    monkeypatch.setenv("FORCE", "1")
    assert preflight.enforce() == ["a compile"] and len(problems) == 1
