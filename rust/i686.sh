#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the core's tests and the checks in C with 32 bits, and builds the library for a Cortex-M4.
#
# A Rust toolchain has the standard library of its own machine only. So Debian's compiler builds it
# from its source package. The packages are unpacked below target, not installed. The processor runs
# i686 programs itself.
set -euo pipefail
cd "$(dirname "$0")/.."

here=${CARGO_TARGET_DIR:-$PWD/target}/i686
root=$here/root
python=${PYTHON:-python3}
gcc_version=$(gcc -dumpversion)

depends() { apt-cache depends "$1" | sed -n "s/^ *Depends: \($2\)$/\1/p" | head -n1; }

fetch() {
    std=$(depends libstd-rust-web-dev 'libstd-rust-web-[0-9.]*')
    llvm=$(depends "$std" 'libllvm[0-9]*')
    (cd "$here/packages" && apt-get -qq download rustc-web libstd-rust-web-dev rust-web-src "$std" "$llvm" \
        libc6-i386 libc6-dev-i386 lib32gcc-s1 "lib32gcc-$gcc_version-dev")
}

if [ ! -e "$here/.unpacked" ]; then
    rm -rf "$here/packages" "$root"
    mkdir -p "$here/packages" "$root"
    fetch || { apt-get -qq update && fetch; }
    for package in "$here"/packages/*.deb; do dpkg-deb -x "$package" "$root"; done
    rm -r "$here/packages"
    touch "$here/.unpacked"
fi

# A compiler of C with 32 bits: gcc's own, with the libraries that were unpacked.
cat >"$here/cc" <<EOF
#!/bin/sh
exec gcc -m32 -B$root/usr/lib/gcc/x86_64-linux-gnu/$gcc_version/32/ -B$root/usr/lib32/ -B$root/lib32/ \\
    -L$root/usr/lib/gcc/x86_64-linux-gnu/$gcc_version/32 -L$root/usr/lib32 -L$root/lib32 \\
    -isystem $root/usr/include/x86_64-linux-gnu -idirafter /usr/include/x86_64-linux-gnu "\$@"
EOF
chmod +x "$here/cc"

# The stable compiler builds its standard library with a flag that it takes as a nightly would.
export RUSTC_BOOTSTRAP=1 RUSTC=$root/usr/bin/rustc
target=i686-unknown-linux-gnu
export CC_i686_unknown_linux_gnu=$here/cc CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER=$here/cc
export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUSTFLAGS=-Ctarget-feature=+crt-static
run() { LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu "$@"; }

run cargo test -Zbuild-std --target $target --target-dir "$here/core" --release --locked -q \
    -p omsgrain-core --features binding --lib --tests \
    --config profile.release.package.omsgrain-core.opt-level=0 --config profile.release.lto=false

small() {
    run cargo build -Zbuild-std=core,alloc --target "$1" --target-dir "$here/nostd" --release --locked -q \
        --manifest-path rust/nostd/Cargo.toml
}
small $target
"$here/cc" -std=c11 -Os -Wall -Wextra -Werror -pedantic -Irust/nostd -pthread -static -Wl,--gc-sections \
    rust/nostd/check.c "$here/nostd/$target/release/libomsgrain.a" -o "$here/check"
"$python" rust/nostd/vectors.py | "$here/check"

# Linked with all functions of the header, and nothing else.
small thumbv7em-none-eabihf
lld=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld
mapfile -t functions < <(grep -o 'omsgrain_[a-z_]*(' rust/nostd/omsgrain.h | tr -d '(' | sort -u)
"$lld" -flavor gnu --gc-sections -e omsgrain_address "${functions[@]/#/--undefined=}" \
    "$here/nostd/thumbv7em-none-eabihf/release/libomsgrain.a" -o "$here/cortex-m4.elf"
size "$here/cortex-m4.elf" | awk 'NR == 2 {print "Cortex-M4: " $1 " bytes of code and constants, " $2 + $3 " of data"}'
