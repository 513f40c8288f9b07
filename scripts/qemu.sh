#!/bin/sh
# `qemu.sh command` prints the QEMU command for the make variables as one line for sh -c; `qemu.sh run` runs that line.
set -eu
. "$(dirname "$0")/config.sh"

# quoted WORD: WORD as the shell would have to read it
quoted() {
    case $1 in
        *[!A-Za-z0-9_./:,=+@%-]* | '') printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")" ;;
        *) printf '%s' "$1" ;;
    esac
}
add() {
    for word in "$@"; do
        line="$line $(quoted "$word")"
    done
}

qemu=$(command -v "qemu-system-$ARCH") || die "qemu-system-$ARCH is missing: make setup installs it"

# The command line of the kernel. ARGS come last, so that they win.
boot="log=$LOG"
if [ "$IP" = dhcp ]; then boot="$boot ip=dhcp"; else boot="$boot ip=$IP gw=$GW mask=$MASK"; fi
[ "$NET" = tap ] || boot="$boot host-port=$PORT"

case $NET in
    user)
        netdev="user,id=net0,hostfwd=tcp:127.0.0.1:$PORT-$([ "$IP" = dhcp ] || echo "$IP"):5555"
        # Another network than QEMU's own 10.0.2.0/24 is told to it, with the gateway as its own address there.
        if [ "$gateway_network" -ne "$(ipv4_number 10.0.2.0)" ] || [ "$MASK" != 255.255.255.0 ] || [ "$GW" != 10.0.2.2 ]; then
            netdev="$netdev,net=$(ipv4_text "$gateway_network")/$MASK,host=$GW"
        fi
        ;;
    tap) netdev="tap,id=net0,ifname=$TAP,script=no,downscript=no" ;;
esac

# Queue pairs. A tap device made with multi_queue takes more than one, and cannot be opened with one.
queues=1
if [ "$NET" = tap ]; then
    # Not from /sys, which may show another network namespace than the one that this runs in.
    case $(ip -d link show dev "$TAP" 2>/dev/null) in
        '') multi_queue=unknown ;;
        *" multi_queue "*) multi_queue=yes ;;
        *) multi_queue=no ;;
    esac
    queues=$QUEUES
    case $QUEUES-$multi_queue in
        auto-no | auto-unknown) queues=1 ;;
        auto-yes) queues=$((SMP < 2 ? 2 : SMP > 16 ? 16 : SMP)) ;;
        1-yes) die "QUEUES=1: the tap device $TAP was made with multi_queue and takes 2 or more" ;;
        1-*) ;;
        *-no) die "QUEUES=$QUEUES: the tap device $TAP takes one; make it anew: ip tuntap add $TAP mode tap multi_queue" ;;
    esac
fi
# Over PCI without a ROM: the guest does not boot from the network, and loading one costs the firmware a million instructions.
case $PLATFORM in
    *-microvm) nic=virtio-net-device,netdev=net0 disk=virtio-blk-device ;;
    *) nic=virtio-net-pci,netdev=net0,romfile= disk=virtio-blk-pci ;;
esac
probe_nic=$nic
if [ "$queues" -gt 1 ]; then
    netdev="$netdev,queues=$queues"
    nic="$nic,mq=on"
    # A vector for each queue, one for the configuration, one for the control queue.
    case $PLATFORM in *-microvm) ;; *) nic="$nic,vectors=$((2 * queues + 2))" ;; esac
fi

# command_line ACCELERATOR [NETDEV [BOOT [ARGS]]]: the whole command, in $line
command_line() {
    line=
    if [ "$NET" = user ]; then add env "LD_PRELOAD=$build/listen_backlog.so"; fi
    add "$qemu" -nodefaults -display none -serial mon:stdio -smp "$SMP" -m "$MEM"
    case $PLATFORM-$1 in
        # The debug-exit device lets a failing guest choose QEMU's exit status.
        x86_64-qemu-q35-*) add -machine q35 -cpu max -device isa-debug-exit,iobase=0xf4,iosize=0x04 ;;
        # Without ACPI QEMU names the devices on the kernel's command line, the firmware has next to nothing to do, and a
        # reset is how the guest ends: QEMU has to take it for that.
        x86_64-qemu-microvm-*)
            add -machine microvm,acpi=off,pit=on,pic=on,rtc=on -global virtio-mmio.force-legacy=false -no-reboot \
                -cpu max -device isa-debug-exit,iobase=0xf4,iosize=0x04
            ;;
        # More than 8 CPUs need the GIC's version 3.
        aarch64-*-tcg) add -machine "virt$([ "$SMP" -le 8 ] || echo ,gic-version=3)" -cpu cortex-a72 ;;
        aarch64-*-kvm) add -machine virt,gic-version=host -cpu host ;;
    esac
    case $1 in
        kvm) add -accel kvm ;;
        tcg) add -accel tcg,thread=multi ;;
    esac
    add -netdev "${2:-$netdev}" -device "$nic"
    if [ "$BLK" = y ]; then
        add -drive "if=none,id=disk0,format=raw,file=$(printf '%s' "$root/disk.img" | sed 's/,/,,/g')" \
            -device "$disk,drive=disk0"
    fi
    add -kernel "$image" -append "${3:-$boot${ARGS:+ $ARGS}}"
    [ -z "$QEMU_ARGS" ] || line="$line $QEMU_ARGS"
    line=${line# }
}

# kvm_boots: whether this image really comes up on KVM within a few seconds. /dev/kvm can exist where a guest cannot run.
# Remembered until the host boots anew, or QEMU or the image changes.
kvm_boots() {
    [ "$(uname -m)" = "$ARCH" ] && [ -r /dev/kvm ] && [ -w /dev/kvm ] || return 1
    seen=$build/kvm-$PLATFORM.probe
    key="$(cat /proc/sys/kernel/random/boot_id) $(cksum <"$image") $("$qemu" --version | head -n 1)"
    if [ "$(sed 1d "$seen" 2>/dev/null)" != "$key" ]; then
        answer=no
        saved_net=$NET saved_blk=$BLK saved_args=$QEMU_ARGS saved_nic=$nic
        NET=probe BLK=n QEMU_ARGS= nic=$probe_nic
        command_line kvm user,id=net0,restrict=on "log=warn ip=10.0.2.15 gw=10.0.2.2 mask=255.255.255.0"
        NET=$saved_net BLK=$saved_blk QEMU_ARGS=$saved_args nic=$saved_nic
        sh -c "exec $line" </dev/null >"$build/kvm-$PLATFORM.log" 2>&1 &
        probe=$! tenths=0
        while [ $tenths -lt 50 ] && kill -0 $probe 2>/dev/null; do
            if grep -q 'ready in' "$build/kvm-$PLATFORM.log"; then
                answer=yes
                break
            fi
            sleep 0.1
            tenths=$((tenths + 1))
        done
        kill $probe 2>/dev/null || :
        wait $probe 2>/dev/null || :
        printf '%s\n%s\n' "$answer" "$key" >"$seen"
    fi
    [ "$(head -n 1 "$seen")" = yes ]
}

# with_own_tap: runs $line on a tap device made for it, with the gateway's address, and removed behind it
with_own_tap() {
    multi=
    [ "$queues" -eq 1 ] || multi=" multi_queue"
    [ "$(id -u)" = 0 ] ||
        die "NET=tap needs the device $TAP; make it as root: ip tuntap add $TAP mode tap$multi user $(id -un) && ip addr add $GW/$MASK dev $TAP && ip link set $TAP up"
    # shellcheck disable=SC2086 # a word or none
    ip tuntap add "$TAP" mode tap $multi
    trap 'ip link delete "$TAP"' EXIT
    ip addr add "$GW/$MASK" dev "$TAP"
    ip link set "$TAP" up
    sh -c "exec $line"
}

[ -e "$image" ] || die "$image is missing: make image builds it"
if [ "$BLK" = y ] && [ ! -e "$root/disk.img" ]; then
    truncate -s 64M "$root/disk.img"
fi
if [ "$ACCEL" = auto ]; then
    if kvm_boots; then ACCEL=kvm; else ACCEL=tcg; fi
fi
command_line "$ACCEL"

case $1 in
    command) printf '%s\n' "$line" ;;
    run)
        if [ "$NET" = tap ] && [ ! -e "/sys/class/net/$TAP" ]; then
            with_own_tap
        else
            exec sh -c "exec $line"
        fi
        ;;
    *) die "usage: qemu.sh run|command" ;;
esac
