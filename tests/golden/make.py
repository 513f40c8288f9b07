#!/usr/bin/env python3
"""Makes commands.json, the command table of Redis 7.2: `make.py VALKEY_SERVER REDIS_SERVER` (8.0 and 7.0.15).

Valkey 8.0 began as Redis 7.2, so its table is taken, without what says that it is newer than 7.2. Where it changed what was
there before, 7.0's entry stands (FROM_7_0), or what is listed here.
"""
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "qemu"))
import command_table  # noqa: E402

NEWEST = (7, 2)
# Changed after 7.2 without saying so.
FROM_7_0 = [("multi", "flags"), ("watch", "flags"), ("cluster|slots", "deprecated_since"), ("cluster|slots", "doc_flags"),
            ("cluster|slots", "replaced_by"), *((name, "flags") for name in (
                "cluster|info", "cluster|myid", "cluster|nodes", "cluster|shards", "cluster|slots"))]


def is_newer(version):
    """Whether a version is later than 7.2."""
    return tuple(int(part) for part in version.split(".")[:2]) > NEWEST


def arguments(old):
    """The arguments that 7.2 has."""
    kept = []
    for argument in old:
        if is_newer(argument.get("since", "0.0")):
            continue
        if "arguments" in argument:
            argument["arguments"] = arguments(argument["arguments"])
        kept.append(argument)
    return kept


def cut(table):
    """Takes out what is newer than 7.2."""
    for name in [name for name, entry in table.items() if is_newer(entry["since"])]:
        del table[name]
    for entry in table.values():
        history = [change for change in entry.get("history", []) if not is_newer(change[0])]
        entry.pop("history", None)
        if history:
            entry["history"] = history
        if "arguments" in entry:
            entry["arguments"] = arguments(entry["arguments"])
    # New in 8.0, which their entries say in the history only.
    for name, added in (("hscan", "novalues"), ("zscan", "noscores")):
        table[name]["arguments"] = [one for one in table[name]["arguments"] if one["name"] != added]
    # 8.0 made the end of BITCOUNT's range optional by a block around it and its unit.
    key, block = table["bitcount"]["arguments"]
    start, rest = block["arguments"]
    block["arguments"] = [start, *rest["arguments"]]


@contextlib.contextmanager
def running(program):
    """A server on a free port; gives the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""], stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


def main():
    """Writes commands.json, one command a line."""
    tables = []
    for program in sys.argv[1:3]:
        with running(program) as port:
            tables.append(command_table.read("127.0.0.1", port))
    table, old = tables
    cut(table)
    for name, field in FROM_7_0:
        table[name].pop(field, None)
        if field in old[name]:
            table[name][field] = old[name][field]
    lines = ("%s: %s" % (json.dumps(name), json.dumps(table[name], sort_keys=True, separators=(",", ":"))) for name in sorted(table))
    (ROOT / "tests" / "golden" / "commands.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()
