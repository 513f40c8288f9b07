#!/bin/sh
# The benchmarks. `bench.sh` compares Barium with its rival, profile by profile, then prints guest instructions and memory;
# PROFILE names some of these, ARCH one architecture. `bench.sh gate` is the regression gate: instructions against
# benches/floors.json. See docs/performance.md.
set -eu
# Both architectures unless one is asked for; config.sh would choose one.
asked=${ARCH:-}
unset PLATFORM SMP MEM LOG PORT NET TAP IP GW MASK BLK ACCEL ARGS QEMU_ARGS
. "$(dirname "$0")/config.sh"
cd "$root"
arches=${asked:-x86_64 aarch64}
python=$build/venv/bin/python
# What was built or measured just before still shows in the load average: that passes by itself.
export PREFLIGHT_WAIT="${PREFLIGHT_WAIT:-180}"

# as_root COMMAND...: with the right to make network namespaces
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else unshare --user --map-root-user "$@"; fi
}

for arch in $arches; do
    ARCH=$arch PLATFORM='' scripts/image.sh >&2
done
archwords=
for arch in $arches; do archwords="$archwords --arch $arch"; done

if [ "${1:-}" = gate ]; then
    shift
    # shellcheck disable=SC2086 # words
    as_root "$python" benches/instructions.py $archwords --gate ${UPDATE:+--update} "$@"
    exit
fi

comparisons='' others=''
for profile in ${PROFILE:-rows20 pipeline clients1600 mixed memtier latency idle_connections smp4 rest instructions memory}; do
    case $profile in
        instructions | memory) others="$others $profile" ;;
        *) comparisons="$comparisons $profile" ;;
    esac
done
status=0
if [ -n "$comparisons" ]; then
    cargo build --release --locked --quiet -p barium-load >&2
    # shellcheck disable=SC2086 # words
    as_root "$python" benches/compare.py $archwords --rounds "${ROUNDS:-2}" ${QUICK:+--quick} ${SCALE:+--scale "$SCALE"} \
        ${UPDATE:+--document} $comparisons || status=$?
fi
for profile in $others; do
    case $profile in
        # shellcheck disable=SC2086 # words
        instructions) as_root "$python" benches/instructions.py $archwords ${QUICK:+--rounds 1} || status=$? ;;
        memory)
            cargo build --release --locked --quiet -p barium-host >&2
            "$python" benches/memory.py || status=$?
            ;;
    esac
done
exit $status
