"""The command table as a server tells it: COMMAND and COMMAND DOCS, brought into one form.

`load` gives the reference's, `read` that of a running server; both are maps from full names ("client|list") to maps of fields.
"""
import json
import pathlib

from resp import Connection, command

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
SETS = {"flags", "categories", "doc_flags"}


def decode(reply):
    """A RESP3 reply as Python values; maps with texts as keys."""
    at = 0

    def line():
        nonlocal at
        end = reply.index(b"\r\n", at)
        found, at = reply[at:end], end + 2
        return found[:1], found[1:].decode()

    def value():
        nonlocal at
        kind, text = line()
        if kind == b"$":
            bulk, at = reply[at:at + int(text)].decode(), at + int(text) + 2
            return bulk
        if kind in b"*~":
            return [value() for _ in range(int(text))]
        if kind == b"%":
            return {value(): value() for _ in range(int(text))}
        return int(text) if kind == b":" else None if kind == b"_" else text

    return value()


def _info(entry, table):
    name, arity, flags, first, last, step, categories, tips, keys, subcommands = entry
    table[name] = {"arity": arity, "flags": flags, "range": [first, last, step], "categories": categories, "tips": tips,
                   "key_specs": keys}
    for subcommand in subcommands:
        _info(subcommand, table)


def _docs(name, docs, table):
    for subcommand, its in docs.pop("subcommands", {}).items():
        _docs(subcommand, its, table)
    table[name].update(docs)


def _sorted(entry):
    for field in SETS & entry.keys():
        entry[field] = sorted(entry[field])
    for keys in entry["key_specs"]:
        keys["flags"] = sorted(keys["flags"])
    return entry


def read(host, port):
    """The table of the server there."""
    table = {}
    with Connection(host, port, 30.0) as connection:
        connection.ask("HELLO", "3")
        for entry in decode(connection.ask("COMMAND")):
            _info(entry, table)
        for name, docs in decode(connection.ask("COMMAND", "DOCS")).items():
            _docs(name, docs, table)
    return {name: _sorted(entry) for name, entry in table.items()}


def load():
    """The table of Redis 7.2, as tests/golden/make.py made it."""
    return json.loads((GOLDEN / "commands.json").read_text())


def known():
    """What may differ: a map from (full name, field; "*" for a command that is not there) to the reason."""
    found = {}
    for line in (GOLDEN / "known.list").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            what, _, reason = line.partition(" -- ")
            name, field = what.split()
            found[name, field] = reason.strip()
    return found


def differences(ours, theirs):
    """Every difference between two tables, as a map from (full name, field) to both values."""
    found = {}
    for name, entry in theirs.items():
        if name not in ours:
            found[name, "*"] = (None, "there")
            continue
        for field in sorted(entry.keys() | ours[name].keys()):
            pair = ours[name].get(field), entry.get(field)
            if pair[0] != pair[1]:
                found[name, field] = pair
    for name in ours.keys() - theirs.keys():
        found[name, "*"] = ("there", None)
    return found
