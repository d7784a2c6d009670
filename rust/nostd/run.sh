#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the library for C. C programs then write test vectors, random grains and a .mg file with it.
set -euo pipefail
cd "$(dirname "$0")"

target=${CARGO_TARGET_DIR:-$PWD/../../target}/nostd
python=${PYTHON:-python3}
cargo build --release --locked -q --target-dir "$target"
flags=(-Os -Wall -Wextra -Werror -pedantic -I. -Wl,--gc-sections)
cc "${flags[@]}" -std=c11 check.c -pthread "$target/release/libomsgrain.a" -o "$target/check"
"$python" vectors.py | "$target/check"

# The allocator is not linked, so nothing allocates. Of the functions that panic, only the check of
# slices is linked, for the tables of Unicode.
if nm "$target/check" | grep -E 'rust_alloc|handle_error|panic_bounds|panic_const|unwrap_failed|expect_failed'; then
    echo "the library would allocate or panic" >&2
    exit 1
fi

example=(../../examples/c/observation.c "$target/release/libomsgrain.a" -o "$target/observation")
cc -I. "${example[@]}" # without the flags it is larger, and links too
cc "${flags[@]}" -std=c99 "${example[@]}"
"$target/observation" "$target/readings.mg" >"$target/readings.txt"
"$python" -m omsgrain verify "$target/readings.mg"
"$python" - "$target/readings.mg" "$target/readings.txt" <<'PYTHON'
import sys

import omsgrain as og

printed = [line.split()[0] for line in open(sys.argv[2])]
assert [og.address(blob) for blob in og.container.read(sys.argv[1])] == printed
PYTHON
