#!/usr/bin/env python3
"""Rules about files that no compiler checks: length, and where unsafe code may stand (ARCHITECTURE.md, CONTRIBUTING.md)."""
import pathlib
import re
import subprocess
import sys

MAX_LINES = 800
SOURCES = {".rs", ".py", ".sh", ".c", ".S", ".s", ".ld"}
# Folders whose crates may hold unsafe code. Everywhere else the crate's root forbids it.
UNSAFE_UNDER = ("kernel/", "kvstore/cell/")
UNSAFE_CODE = re.compile(r"\bunsafe\b(?!_)")
# Board binaries and the host's heap hold the few attributes and the allocator that need the word.
ROOTS_THAT_FORBID = ("kvstore/src/lib.rs", "net/src/lib.rs", "net/nic/src/lib.rs", "platforms/unikernel/src/lib.rs")


def problems(root):
    """What is wrong, as lines of text."""
    tracked = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"], check=True, timeout=60,
                             stdout=subprocess.PIPE).stdout.decode().split("\0")
    for name in filter(None, tracked):
        path = root / name
        if path.suffix not in SOURCES or not path.is_file():
            continue
        lines = path.read_text().splitlines()
        if len(lines) > MAX_LINES:
            yield "%s has %d lines: split it by concept (at most %d)" % (name, len(lines), MAX_LINES)
        for number, line in enumerate(lines, 1):
            if line != line.rstrip():
                yield "%s:%d: blanks at the end of the line" % (name, number)
            code = line.split("//")[0]
            if path.suffix == ".rs" and not name.startswith(UNSAFE_UNDER) and UNSAFE_CODE.search(code) \
                    and not re.search(r"#!?\[.*unsafe", code):
                yield "%s:%d: unsafe code belongs under %s" % (name, number, " or ".join(UNSAFE_UNDER))
    for name in ROOTS_THAT_FORBID:
        if not re.search(r"#!\[(forbid|cfg_attr\(not\(test\), forbid)\(unsafe_code\)", (root / name).read_text()):
            yield "%s: #![forbid(unsafe_code)] is missing" % name


def main():
    """Prints the problems; status 1 if there are any."""
    found = list(problems(pathlib.Path(__file__).resolve().parents[1]))
    print("\n".join(found) or "tidy: all files keep the rules")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
