#!/bin/sh
# What CPUs share, in every order in which they may come (kernel/smp/tests/loom.rs). Built apart from everything else: loom's
# atomics stand in for the language's.
set -eu
cd "$(dirname "$0")/.."
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" LOOM_MAX_BRANCHES=20000
exec cargo test --locked --release -p barium-smp --test loom "$@"
