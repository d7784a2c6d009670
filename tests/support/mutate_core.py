# SPDX-License-Identifier: Apache-2.0
"""Break the Rust core on purpose, and see that `omsgrain conformance` notices: run by hand.

    python tests/support/mutate_core.py [NAME ...]

Each mutation is one change of one file. The crate is copied, changed, built and put beside a copy
of the package; then every rule of OMS is tried with it. The exit code is 1 if a mutation passes
unnoticed, or is not noticed by the rules that are named beside it. The first build takes minutes;
the further ones, of our two crates without optimization, some seconds each.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from support.paths import ROOT

BUILD = ["cargo", "build", "--release", "--locked", "-q", "-p", "omsgrain-py"]
for crate in ("core", "py"):
    BUILD += ["--config", f"profile.release.package.omsgrain-{crate}.opt-level=0"]
CORE = "rust/core/src/"


class Mutation(NamedTuple):
    """A change of the core.

    Attributes:
        name: in short.
        file: below ``rust/core/src``.
        old: what stands there, once.
        new: what is put in its place.
        caught: rules that must fail, or what their ids begin with.
    """

    name: str
    file: str
    old: str
    new: str
    caught: tuple[str, ...]


MUTATIONS = (
    Mutation(
        "longer-integers", "codec/msgpack.rs",
        "0xcc => unsigned(cursor, 1, 0x80)?", "0xcc => unsigned(cursor, 1, 0)?",
        ("oms.msgpack.integers.unsigned",),
    ),
    Mutation(
        "float32", "codec/msgpack.rs",
        '0xca => return Err(Error::new(Code::Corrupt, "a float of 32 bits").expected("64 bits")),',
        "0xca => Head::Float(f64::from(f32::from_bits(cursor.number(4)? as u32))),",
        ("oms.msgpack.floats",),
    ),
    Mutation(
        "keys-unsorted", "codec/write.rs",
        "    entries.sort_unstable_by(|a, b| {\n"
        "        a.0.cmp(&b.0).then_with(|| W::order(a.1.as_str().as_bytes(),"
        " b.1.as_str().as_bytes()))\n    });",
        "    if entries.len() < 3 {\n        entries.sort_unstable_by(|a, b| {\n"
        "            a.0.cmp(&b.0).then_with(|| W::order(a.1.as_str().as_bytes(),"
        " b.1.as_str().as_bytes()))\n        });\n    }",
        ("oms.write.key-order",),
    ),
    Mutation(
        "nulls-written", "codec/write.rs",
        "        if !value.is_null() {\n            let key = WireKey::new(key,",
        "        {\n            let key = WireKey::new(key,",
        ("oms.write.nulls",),
    ),
    Mutation(
        "nulls-read", "codec/read.rs",
        'Value::Null => Err(Error::new(Code::Corrupt, "a map holds a null").at(at)),\n', "",
        ("oms.msgpack.nil", "oms.cbor.simple"),
    ),
    Mutation(
        "order-not-checked", "codec/read.rs",
        "None | Some(Ordering::Less) => Ok(key),",
        "None | Some(Ordering::Less | Ordering::Greater) => Ok(key),",
        ("oms.msgpack.keys.sorted", "oms.cbor.keys"),
    ),
    Mutation(
        "nfc-not-checked", "codec/read.rs",
        "        text::check_nfc(found).map_err(|e| e.at(at))?;\n", "",
        ("oms.text.nfc", "oms.text.bom"),
    ),
    Mutation(
        "infinities", "codec/read.rs",
        "Head::Float(f) if f.is_finite() => Value::Float(f),",
        "Head::Float(f) if !f.is_nan() => Value::Float(f),",
        ("oms.floats.finite",),
    ),
    Mutation(
        "bytes-behind", "codec/read.rs",
        "    if reader.cursor.left() > 0 {", "    if reader.cursor.left() > 1 {",
        ("oms.payload.whole",),
    ),
    Mutation(
        "half-floats", "codec/cbor.rs",
        "        if let Some(half) = half_bits(value) {",
        "        if let Some(half) = half_bits(value).filter(|_| value == 0.0) {",
        ("oms.cbor.floats", "oms.write.floats"),
    ),
    Mutation(
        "sensitivity-low", "header.rs",
        "if self.sensitivity() < facts.sensitivity {",
        "if self.sensitivity() + 1 < facts.sensitivity {",
        ("oms.header.sensitivity.lower",),
    ),
    Mutation(
        "seconds-not-checked", "header.rs",
        "if self.created_at != facts.created_at {", "if self.created_at < facts.created_at {",
        ("oms.header.created",),
    ),
    Mutation(
        "version-2", "header.rs",
        "if blob[AT_VERSION] != VERSION {", "if blob[AT_VERSION] > 2 || blob[AT_VERSION] == 0 {",
        ("oms.header.version",),
    ),
    Mutation(
        "range-open", "check.rs",
        "    if (low..=high).contains(&value) {", "    if value >= low && value < high + 1.0 {",
        ("oms.field.core.confidence", "oms.read.ranges"),
    ),
    Mutation(
        "enums-open", "check.rs",
        "View::Str(text) if !around.open && !spec.one_of.is_empty()",
        "View::Str(text) if around.type_byte == 7 && !spec.one_of.is_empty()",
        ("oms.field.core.temporal_type", "oms.read.enums"),
    ),
    Mutation(
        "index-layer", "validate.rs",
        "if entry.field.is_some_and(|f| f.index_layer) {",
        'if entry.field.is_some_and(|f| f.index_layer && f.short != "ac") {',
        ("oms.field.core.access_count",),
    ),
    Mutation(
        "required-left-out", "validate.rs",
        "    for id in grain_type.required {",
        "    for id in grain_type.required.iter().skip(1) {",
        ("oms.type.state.required",),
    ),
    Mutation(
        "upper-case-addresses", "address.rs",
        "        b'a'..=b'f' => Some(c - b'a' + 10),",
        "        b'a'..=b'f' => Some(c - b'a' + 10),\n        b'A'..=b'F' => Some(c - b'A' + 10),",
        ("oms.address.form", "oms.read.addresses"),
    ),
    Mutation(
        "bomb", "compress.rs",
        "    if size > max {", "    if size > usize::MAX / 2 + max {",
        ("oms.zstd.bomb",),
    ),
    Mutation(
        "leap-days", "datetime.rs",
        "fn days_in_month(year: i64, month: i64) -> i64 {\n",
        "fn days_in_month(year: i64, month: i64) -> i64 {\n"
        "    if month == 2 {\n        return 30 + year * 0;\n    }\n",
        ("oms.write.times.refused",),
    ),
)  # fmt: skip


def main(names: list[str]) -> int:
    """Try the mutations that are asked for, all by default, and print what caught each."""
    chosen = [one for one in MUTATIONS if not names or one.name in names]
    unnoticed = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as room:
        copy = Path(room)
        for name in ("Cargo.toml", "Cargo.lock", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, copy)
        shutil.copytree(ROOT / "rust", copy / "rust")
        left_out = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / "python", copy / "python", ignore=left_out)
        if found := _failing(copy):
            print(f"without a mutation: {', '.join(found)}")
            return 1
        for one in chosen:
            found = _mutated(copy, one)
            missed = [rule for rule in one.caught if not any(_is(id, rule) for id in found)]
            unnoticed += bool(missed)
            more = f" and {len(found) - 6} more" if len(found) > 6 else ""
            told = ", ".join(found[:6]) + more
            print(
                f"{'MISSED' if missed else 'caught'} {one.name}: {told or 'nothing'}", flush=True
            )
    print(f"{len(chosen)} mutations, {unnoticed} unnoticed")
    return bool(unnoticed)


def _is(id: str, rule: str) -> bool:
    return id == rule or id.startswith(rule + ".")


def _mutated(copy: Path, one: Mutation) -> list[str]:
    path = copy / CORE / one.file
    text = path.read_text(encoding="utf-8")
    if text.count(one.old) != 1:
        raise SystemExit(f"{one.name}: {one.file} has changed, {text.count(one.old)} places fit")
    path.write_text(text.replace(one.old, one.new), encoding="utf-8")
    try:
        return _failing(copy)
    finally:
        path.write_text(text, encoding="utf-8")


def _failing(copy: Path) -> list[str]:
    """The ids of the rules that fail with the core as it stands in the copy."""
    target = os.environ.get("CARGO_TARGET_DIR", str(copy / "target"))
    environment = {**os.environ, "CARGO_TARGET_DIR": target, "CARGO_INCREMENTAL": "1"}
    subprocess.run(BUILD, cwd=copy, env=environment, check=True)
    library = next(Path(target, "release").glob("lib_core.so"))
    shutil.copy(library, copy / "python/omsgrain/_core.abi3.so")
    run = subprocess.run(
        [sys.executable, "-m", "omsgrain", "conformance", "--spec", "oms", "--json"],
        env={**os.environ, "PYTHONPATH": str(copy / "python")},
        cwd=copy, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if not run.stdout:
        return ["the run broke down"]
    results = json.loads(run.stdout)["results"]
    return [one["id"] for one in results if one["result"] == "failed"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
