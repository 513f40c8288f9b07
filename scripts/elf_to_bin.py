#!/usr/bin/env python3
"""Writes the raw memory image of a 64-bit little-endian ELF: its PT_LOAD segments at their physical distances.

usage: elf_to_bin.py ELF BIN

What objcopy -O binary does, without a further package. Memory behind the last file byte (.bss) is left out: the image's
own header says how much there is.
"""
import struct
import sys

PT_LOAD = 1


def loadable_segments(elf):
    """(physical address, bytes) of each PT_LOAD segment that has bytes in the file, lowest first."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise SystemExit("elf_to_bin.py: not a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    segments = []
    for at in range(table, table + size * count, size):
        kind, _flags, offset, _virtual, physical, file_size = struct.unpack_from("<IIQQQQ", elf, at)
        if kind == PT_LOAD and file_size:
            segments.append((physical, elf[offset:offset + file_size]))
    return sorted(segments)


def main():
    """Reads argv[1], writes argv[2]."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with open(sys.argv[1], "rb") as source:
        segments = loadable_segments(source.read())
    if not segments:
        raise SystemExit("elf_to_bin.py: nothing to load in " + sys.argv[1])
    base = segments[0][0]
    size = max(physical + len(data) for physical, data in segments) - base
    if size > 1 << 28:
        raise SystemExit("elf_to_bin.py: the segments are %d bytes apart: are they linked at physical addresses?" % size)
    image = bytearray(size)
    for physical, data in segments:
        image[physical - base:physical - base + len(data)] = data
    with open(sys.argv[2], "wb") as result:
        result.write(image)


main()
