#!/bin/sh
# Builds both images and prints the table of guest instructions; options are passed on to benches/instructions.py.
set -eu
here=$(dirname "$0")
for arch in x86_64 aarch64; do
    ARCH=$arch PLATFORM='' "$here/image.sh" >&2
done
exec python3 "$here/../benches/instructions.py" "$@"
