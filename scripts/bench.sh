#!/bin/sh
# Builds both images and prints the table of guest instructions; options are passed on to benches/instructions.py. Without
# any, the table of memory per key follows.
set -eu
here=$(dirname "$0")
for arch in x86_64 aarch64; do
    ARCH=$arch PLATFORM='' "$here/image.sh" >&2
done
python3 "$here/../benches/instructions.py" "$@"
[ $# -eq 0 ] || exit 0
. "$here/config.sh"
cargo build --release --locked --quiet -p barium-host >&2
echo
exec python3 "$here/../benches/memory.py"
