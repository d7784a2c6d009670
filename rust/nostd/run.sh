#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the core without std and lets a C program write test vectors with it.
set -euo pipefail
cd "$(dirname "$0")"

target=${CARGO_TARGET_DIR:-$PWD/../../target}/nostd
cargo build --release --locked -q --target-dir "$target"
cc -Os -std=c11 -Wall -Wextra -Werror -Wl,--gc-sections check.c "$target/release/libomsgrain.a" -o "$target/check"
"${PYTHON:-python3}" vectors.py | "$target/check"
