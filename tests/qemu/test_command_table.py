"""COMMAND and COMMAND DOCS against Redis 7.2's."""
import command_table

# Whole families that may be missing, and nothing else.
LATER = ("not yet:",)


def excuses(found, golden, known):
    """The differences that nothing excuses, and the excuses that nothing needs."""
    needed, left = set(), {}
    for (name, field), values in found.items():
        group = golden[name]["group"] if name in golden else None
        keys = [(name, field)] + ([("@%s" % group, "*")] if field == "*" and values[0] is None else [])
        match = next((key for key in keys if key in known), None)
        if match:
            needed.add(match)
        else:
            left[name, field] = values
    return left, set(known) - needed


def test_the_table_is_redis_s(server):
    golden = command_table.load()
    found = command_table.differences(command_table.read(server.host, server.port), golden)
    left, unneeded = excuses(found, golden, command_table.known())
    lines = ["%s, %s: here %r, Redis %r" % (*what, *values) for what, values in sorted(left.items())]
    lines += ["%s %s is in known.list, but does not differ" % what for what in sorted(unneeded)]
    assert not lines, "\n   ".join([""] + lines)


def test_only_features_to_come_are_missing():
    for (name, field), reason in command_table.known().items():
        if field == "*":
            assert reason.startswith(LATER), "%s: %s" % (name, reason)


def test_a_difference_is_found():
    golden = command_table.load()
    ours = {name: dict(entry) for name, entry in golden.items() if name != "get"}
    ours["set"]["arity"] = -4
    ours["new"] = ours["set"]
    found = command_table.differences(ours, golden)
    assert found == {("get", "*"): (None, "there"), ("set", "arity"): (-4, -3), ("new", "*"): ("there", None)}
