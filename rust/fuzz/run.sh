#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes each target of the core: run.sh [SECONDS [TARGET...]]. What crashes one is kept in
# artifacts/.
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:-60}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=(decode msgpack_map cbor_map json_encode header datetime sealed lanes
    shape_write shape_read shape_json jcs frames unpacking extent cose lightweight)

# cargo-fuzz asks rustc for flags that only nightlies take; this makes the stable one take them.
export RUSTC_BOOTSTRAP=1
export PATH="$PWD/target/tools/bin:$PATH"
command -v cargo-fuzz >/dev/null || cargo install --locked --quiet --root target/tools cargo-fuzz

python3 seeds.py
failed=()
for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    # 64 KiB reaches every length form; a grain may have 1 MiB, but that only makes each try slow.
    cargo fuzz run --fuzz-dir . "$target" -- -max_total_time="$seconds" -max_len=65536 -timeout=10 \
        -print_final_stats=1 -verbosity=0 || failed+=("$target")
done
[ ${#failed[@]} -eq 0 ] || { echo "found something: ${failed[*]} (see rust/fuzz/artifacts)"; exit 1; }
