#!/usr/bin/env python3
"""Tells where guest instructions went between two snapshots of insn_profile.so's file.

    cp profile before; (load of 10000 requests); cp profile after
    benches/insn_profile.py build/barium_x86_64-qemu-q35.elf before after --per 10000 [--lines] [--top 40]

Without BEFORE ('-'), since reset. --lines attributes to source functions, inlined ones too, by the image's line tables;
otherwise to the symbols of the linked image."""
import argparse
import bisect
import collections
import re
import struct
import subprocess


def snapshot(path):
    """{(address, instructions): executed}"""
    if path == "-":
        return {}
    with open(path, "rb") as file:
        data = file.read()
    return {(address, length): executed for address, length, executed in struct.iter_unpack("<QQQ", data) if executed}


def output_of(*command, text=None):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, input=text).stdout


# What a symbol without a size (assembly) covers at most.
UNSIZED = 4096


def symbols(elf):
    """(start, end, name) of the image's functions, ascending."""
    found = []
    for line in output_of("nm", "--demangle", "--numeric-sort", "--print-size", elf).splitlines():
        sized = re.match(r"([0-9a-f]+) (?:([0-9a-f]+) )?[tTwW] (.*)", line)
        if sized:
            start = int(sized[1], 16)
            found.append((start, start + (int(sized[2], 16) if sized[2] else UNSIZED), sized[3]))
    return found


def instructions(elf, objdump):
    """Addresses of all instructions of the image, ascending."""
    found = []
    for line in output_of(objdump, "--disassemble", "--no-show-raw-insn", elf).splitlines():
        address, colon, _ = line.strip().partition(":\t")
        if colon:
            found.append(int(address, 16))
    return sorted(found)


def by_line(elf, objdump, counts):
    """Instructions by innermost source function."""
    addresses = instructions(elf, objdump)
    each = collections.Counter()
    for (start, length), executed in counts.items():
        at = bisect.bisect_left(addresses, start)
        if at < len(addresses) and addresses[at] == start:
            for address in addresses[at:at + length]:
                each[address] += executed / length
        else:
            each[None] += executed
    known = [address for address in each if address is not None]
    text = "".join("%#x\n" % address for address in known)
    lines = output_of("addr2line", "--exe=" + elf, "--functions", "--demangle", text=text).splitlines()
    functions = collections.Counter({"(outside the image)": each[None]})
    for address, name in zip(known, lines[::2]):
        functions[name] += each[address]
    return functions


def by_symbol(elf, counts):
    known = symbols(elf)
    functions = collections.Counter()
    for (start, _), executed in counts.items():
        at = bisect.bisect_right(known, start, key=lambda symbol: symbol[0]) - 1
        inside = at >= 0 and start < known[at][1]
        functions[known[at][2] if inside else "(outside the image)"] += executed
    return functions


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("elf")
    options.add_argument("before")
    options.add_argument("after")
    options.add_argument("--per", type=float, default=1, help="divide by this number of requests")
    options.add_argument("--lines", action="store_true")
    options.add_argument("--top", type=int, default=40)
    options.add_argument("--objdump", default="objdump", help="one that knows the image's instructions")
    chosen = options.parse_args()
    before, after = snapshot(chosen.before), snapshot(chosen.after)
    counts = {block: executed - before.get(block, 0) for block, executed in after.items()}
    counts = {block: executed for block, executed in counts.items() if executed > 0}
    functions = by_line(chosen.elf, chosen.objdump, counts) if chosen.lines else by_symbol(chosen.elf, counts)
    print("%14.1f  all" % (sum(counts.values()) / chosen.per))
    for name, executed in functions.most_common(chosen.top):
        print("%14.1f  %s" % (executed / chosen.per, name))


if __name__ == "__main__":
    main()
