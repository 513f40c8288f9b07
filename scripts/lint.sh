#!/bin/sh
# Formatting, clippy for all crates on the targets they are built for, layering, file rules. Stops at the first failure.
set -eu
. "$(dirname "$0")/config.sh"
cd "$root"
echo "fmt"
cargo fmt --all --check
cargo fmt --check --manifest-path fuzz/Cargo.toml
python3 scripts/tidy.py
python3 scripts/layers.py
common="-p barium-kernel -p barium-heap -p barium-net -p barium-nic -p barium-kvstore -p barium-cell -p barium-unikernel"
for bare in x86_64-unknown-none:barium-x86_64-pc aarch64-unknown-none:barium-aarch64-virt; do
    echo "clippy ${bare%:*}"
    # shellcheck disable=SC2086 # words
    cargo clippy --locked --quiet --target "${bare%:*}" $common -p "${bare#*:}" -- -D warnings
done
echo "clippy host"
cargo clippy --locked --quiet --workspace --exclude barium-x86_64-pc --exclude barium-aarch64-virt --all-targets -- -D warnings
echo "clippy fuzz"
cargo clippy --locked --quiet --manifest-path fuzz/Cargo.toml --target-dir "$target_dir/fuzz-lint" -- -D warnings
