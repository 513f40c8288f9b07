#!/bin/sh
# Fuzzing, with AddressSanitizer: `fuzz.sh [TARGET...]`, or all targets, each for SECONDS_EACH seconds (30), from SEED (1) on.
# What they found lies in fuzz/artifacts; `cargo fuzz run TARGET fuzz/artifacts/TARGET/FILE` shows it again. A target's corpus
# grows in fuzz/corpus, beginning with the seeds of the repository.
set -eu
. "$(dirname "$0")/config.sh"
cd "$root"
# The sanitizer's options are unstable ones; the pinned stable toolchain takes them when it is told to.
export RUSTC_BOOTSTRAP=1
PATH=$build/cargo-fuzz/bin:$PATH
# cargo-fuzz goes by the folder that it is called in, and uses the target directory of the fuzz workspace.
[ $# -gt 0 ] || set -- $(cargo fuzz list)
cargo fuzz build
host=$(rustc -vV | sed -n 's/^host: //p')
programs=${CARGO_TARGET_DIR:-fuzz/target}/$host/release
# Targets count by themselves what is not given back; the leak detector would take as long as the rest. Few sizes that the
# engine gives up on exceed the limits below: an allocation that fails is found by the targets' own heap.
export ASAN_OPTIONS="detect_leaks=0:quarantine_size_mb=32:malloc_context_size=8"

# fuzz TARGET: runs one; its log is kept
fuzz() {
    mkdir -p "fuzz/corpus/$1" "fuzz/artifacts/$1"
    dictionary=
    [ ! -f "fuzz/dictionaries/$1.dict" ] || dictionary="-dict=fuzz/dictionaries/$1.dict"
    # shellcheck disable=SC2086 # no word or one
    nice "$programs/$1" "fuzz/corpus/$1" "fuzz/seeds/$1" $dictionary -artifact_prefix="fuzz/artifacts/$1/" \
        -seed="${SEED:-1}" -max_total_time="${SECONDS_EACH:-30}" -max_len=4096 -len_control=20 -timeout=120 -entropic=0 -rss_limit_mb=1024 -detect_leaks=0 \
        -print_funcs=0 >"$build/logs/fuzz-$1.log" 2>&1
}

mkdir -p "$build/logs"
failed=0 passed=0
for target in "$@"; do
    if fuzz "$target"; then
        passed=$((passed + 1))
        echo "$target: $(sed -n 's/^Done \([0-9]* runs\) .*/\1/p' "$build/logs/fuzz-$target.log"), nothing found"
    else
        failed=$((failed + 1))
        echo "$target: found something; the end of $build/logs/fuzz-$target.log:"
        tail -n 80 "$build/logs/fuzz-$target.log"
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
