#!/bin/sh
# Builds the image of ARCH/PLATFORM into build/ and prints its size.
set -eu
. "$(dirname "$0")/config.sh"
cd "$root"
cargo build --release --locked -p "$package" --target "$target"
mkdir -p "$build"
# Copied under another name first: a running QEMU or a second make never sees half a file.
cp "$target_dir/$target/release/$package" "$elf.new"
mv "$elf.new" "$elf"
# The platforms of an architecture differ in the machine, not in the image.
for other in $PLATFORMS; do
    if [ "${other%%-*}" = "$ARCH" ] && [ "$other" != "$PLATFORM" ]; then
        ln -f "$elf" "$build/barium_$other.elf"
    fi
done
if [ "$image" != "$elf" ]; then
    python3 scripts/elf_to_bin.py "$elf" "$image.new"
    mv "$image.new" "$image"
    echo "$image: $(($(wc -c <"$image"))) bytes"
fi
echo "$elf: $(($(wc -c <"$elf"))) bytes"
