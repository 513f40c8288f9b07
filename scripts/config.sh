#!/bin/sh
# Checks the make variables and derives what the other scripts need from them. The others source it; run by itself, with
# make's goals as arguments, it only checks. A wrong value is one line on standard error that names the right ones.

die() {
    echo "$*" >&2
    exit 2
}

# port_taken PORT: whether a socket of this machine already listens where 127.0.0.1:PORT would
port_taken() {
    awk -v port="$(printf '%04X' "$1")" '
        $4 == "0A" && $2 ~ ":" port "$" && $2 ~ /^(0100007F|00000000|00000000000000000000000000000000|0000000000000000FFFF00000100007F):/ { taken = 1 }
        END { exit !taken }' /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# one_of NAME VALUE CHOICE...
one_of() {
    name=$1 value=$2
    shift 2
    for choice in "$@"; do
        [ "$value" = "$choice" ] && return 0
    done
    die "$name=$value is not known; choose one of: $*"
}

# is_number VALUE MIN MAX
is_number() {
    case $1 in '' | *[!0-9]* | ??????????*) return 1 ;; esac
    [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]
}

# is_ipv4 VALUE
is_ipv4() {
    case $1 in *.*.*.*.* | *..* | .* | *.) return 1 ;; *.*.*.*) ;; *) return 1 ;; esac
    rest=$1
    while :; do
        is_number "${rest%%.*}" 0 255 || return 1
        [ "$rest" = "${rest#*.}" ] && return 0
        rest=${rest#*.}
    done
}

# ipv4_number VALUE: the address as one number
ipv4_number() {
    a=${1%%.*} rest=${1#*.}
    b=${rest%%.*} rest=${rest#*.}
    echo $(((a << 24) + (b << 16) + (${rest%%.*} << 8) + ${rest#*.}))
}

# ipv4_text NUMBER
ipv4_text() {
    echo "$(($1 >> 24 & 255)).$(($1 >> 16 & 255)).$(($1 >> 8 & 255)).$(($1 & 255))"
}

# Also when run without make.
ARCH=${ARCH:-} PLATFORM=${PLATFORM:-} ARGS=${ARGS:-} QEMU_ARGS=${QEMU_ARGS:-}

PLATFORMS="x86_64-qemu-q35 x86_64-qemu-microvm aarch64-qemu-virt"

if [ -n "$PLATFORM" ]; then
    # shellcheck disable=SC2086 # a list of words
    one_of PLATFORM "$PLATFORM" $PLATFORMS
    [ -n "$ARCH" ] || ARCH=${PLATFORM%%-*}
fi
ARCH=${ARCH:-x86_64}
one_of ARCH "$ARCH" x86_64 aarch64
if [ -z "$PLATFORM" ]; then
    case $ARCH in
        x86_64) PLATFORM=x86_64-qemu-q35 ;;
        aarch64) PLATFORM=aarch64-qemu-virt ;;
    esac
fi
[ "${PLATFORM%%-*}" = "$ARCH" ] || die "PLATFORM=$PLATFORM does not run on ARCH=$ARCH; for that choose one of:$(
    for platform in $PLATFORMS; do [ "${platform%%-*}" != "$ARCH" ] || printf ' %s' "$platform"; done
)"

SMP=${SMP:-1} MEM=${MEM:-256M} LOG=${LOG:-warn} PORT=${PORT:-5555} NET=${NET:-user} TAP=${TAP:-tap0} QUEUES=${QUEUES:-auto} BLK=${BLK:-n}
ACCEL=${ACCEL:-auto}
# QEMU user networking's own addresses.
IP=${IP:-10.0.2.15} GW=${GW:-10.0.2.2} MASK=${MASK:-255.255.255.0}

is_number "$SMP" 1 64 || die "SMP=$SMP is not a number of CPUs; choose 1 to 64"
case $MEM in
    *[MG]) is_number "${MEM%[MG]}" 1 1048576 ;;
    *) false ;;
esac || die "MEM=$MEM is not a size; write a number of MiB or GiB, such as 32M, 256M or 2G"
case $MEM in
    *M) mem_mib=${MEM%M} ;;
    *) mem_mib=$((${MEM%G} * 1024)) ;;
esac
[ "$mem_mib" -ge 32 ] || die "MEM=$MEM is too little; choose 32M or more"
one_of LOG "$LOG" off error warn info debug trace
is_number "$PORT" 1 65535 || die "PORT=$PORT is not a port; choose 1 to 65535"
one_of NET "$NET" user tap
case $TAP in
    '' | *[!A-Za-z0-9_.-]* | ????????????????*) die "TAP=$TAP is not a device name; use up to 15 letters, digits, '_', '.' or '-', such as tap0" ;;
esac
[ "$QUEUES" = auto ] || is_number "$QUEUES" 1 16 || die "QUEUES=$QUEUES is not a number of queue pairs; choose 1 to 16, or auto"
[ "$NET" = tap ] || [ "$QUEUES" = auto ] || [ "$QUEUES" -eq 1 ] ||
    die "QUEUES=$QUEUES needs NET=tap: QEMU's user networking has one queue pair"
[ "$IP" = dhcp ] || is_ipv4 "$IP" || die "IP=$IP is not an address; write four numbers such as 10.0.2.15, or dhcp"
is_ipv4 "$GW" || die "GW=$GW is not an address; write four numbers such as 10.0.2.2"
is_ipv4 "$MASK" || die "MASK=$MASK is not a netmask; write four numbers such as 255.255.255.0"
mask=$(ipv4_number "$MASK")
host_bits=$((~mask & 0xffffffff))
[ "$mask" -ne 0 ] && [ $((host_bits & (host_bits + 1))) -eq 0 ] ||
    die "MASK=$MASK is not a netmask: its ones must come before its zeros, as in 255.255.255.0"
gateway_network=$(($(ipv4_number "$GW") & mask))
[ "$IP" = dhcp ] || [ $(($(ipv4_number "$IP") & mask)) -eq "$gateway_network" ] ||
    die "GW=$GW is not in the network of IP=$IP with MASK=$MASK; choose the three so that they share a network"
one_of BLK "$BLK" n y
one_of ACCEL "$ACCEL" auto kvm tcg

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
build=$root/build
case $ARCH in
    x86_64) package=barium-x86_64-pc target=x86_64-unknown-none image=$build/barium_$PLATFORM.elf ;;
    aarch64) package=barium-aarch64-virt target=aarch64-unknown-none image=$build/barium_$PLATFORM.bin ;;
esac
elf=$build/barium_$PLATFORM.elf

case " $* " in
    *" run "* | *" host "*)
        if [ "$NET" = user ] && port_taken "$PORT"; then
            die "PORT=$PORT is taken on this machine: end what listens there or choose another with PORT="
        fi
        ;;
esac

# rustup's default place, for shells that were not opened anew after its installation.
command -v cargo >/dev/null 2>&1 || [ ! -x "$HOME/.cargo/bin/cargo" ] || PATH=$PATH:$HOME/.cargo/bin
target_dir=${CARGO_TARGET_DIR:-$root/target}
