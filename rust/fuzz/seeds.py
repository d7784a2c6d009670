# SPDX-License-Identifier: Apache-2.0
"""Make the seeds of each fuzz target from test_vectors and tests/data: `python seeds.py`.

Files are named by their content, so that running this again adds nothing.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VECTORS = ROOT / "test_vectors"
DATA = ROOT / "tests" / "data"
HEADER = 9
COMPRESSED, CBOR = 4, 32
PROFILES = ("extended", "standard", "lightweight")
LEVELS = ("public", "internal", "pii", "phi")
DATETIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ][^\"]{1,30}")
#: The texts that fuzz_targets/lightweight.rs reads, in this order.
LIGHTWEIGHT = (
    "observer_id",
    "observer_type",
    "subject",
    "relation",
    "object",
    "unit",
    "namespace",
)
READING = {
    "type": "observation",
    "observer_id": "t-7",
    "observer_type": "temperature",
    "subject": "room:4",
    "object": {"value": 21.5, "unit": "Cel"},
    "confidence": 0.9,
    "namespace": "plant:7",
    "created_at": 1_768_471_200_000,
}
ROOMS = (0, 80, 600)
MORE_DATETIMES = (
    "1970-01-01T00:00:00Z",
    "2026-01-15t11:00:00.5+01:00",
    "2016-12-31T23:59:60Z",
    "0000-02-29 23:59:59.999999-23:59",
)


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield the target and the bytes of each seed."""
    for text in MORE_DATETIMES:
        yield "datetime", text.encode()
    for cbor in (False, True):
        for room in ROOMS:
            yield "lightweight", _lightweight(READING, cbor, room)
            yield "lightweight", _lightweight({**READING, "type": "belief"}, cbor, room)
    for vector in json.loads((DATA / "cose_sign1.json").read_bytes())["vectors"]:
        envelope = bytes.fromhex(vector["cose"])
        yield "cose", envelope
        yield "extent", 2 * envelope
    for path in sorted((DATA / "containers").glob("good-*.json")):
        yield from _of_container(bytes.fromhex(json.loads(path.read_bytes())["file"]))
    for path in sorted(VECTORS.rglob("*.json")):
        source = path.read_text(encoding="utf-8")
        vector = json.loads(source)
        if "bundle" in vector:
            yield "jcs", b"\x40" + vector["bundle"].encode()
            continue
        yield "jcs", b"\x40" + source.encode()
        for text in DATETIME.findall(source):
            yield "datetime", text.encode()
        blob_hex = vector.get("blob_hex") or vector.get("stages", {}).get("blob_hex")
        if blob_hex:
            yield from _of_blob(bytes.fromhex(blob_hex))
        given = vector.get("input_json")
        if given is None and "input" in vector:
            given = json.dumps(vector["input"], ensure_ascii=False)
        if given is not None:
            for target in ("json_encode", "shape_write"):
                yield target, _choice(vector.get("options", {})) + given.encode()
            yield "shape_json", given.replace("\n", " ").encode()
        fields = vector.get("input")
        if isinstance(fields, dict) and fields.get("type") in ("belief", "observation"):
            cbor = vector.get("options", {}).get("encoding") == "cbor"
            yield "lightweight", _lightweight(fields, cbor, ROOMS[-1])


def _of_container(file: bytes) -> Iterator[tuple[str, bytes]]:
    """What stands behind the index of a .mg file, as frames or as grains. Spec: OMS §11."""
    codec = file[9]
    region = file[16 + 4 * int.from_bytes(file[4:8], "big") : -32]
    if not codec:
        yield "extent", region
        return
    yield "frames", bytes([codec - 1]) + region
    yield "unpacking", bytes([codec - 1, 16]) + region


def _of_blob(blob: bytes) -> Iterator[tuple[str, bytes]]:
    yield "decode", blob
    yield "extent", 2 * blob
    if blob[1:2] and blob[1] & COMPRESSED:
        yield "frames", b"\0" + blob[HEADER:]
        yield "unpacking", b"\0\x10" + blob[HEADER:]
    yield "shape_read", 2 * (len(blob).to_bytes(2, "big") + blob)
    yield "sealed", blob
    yield "header", blob[: HEADER + 1]
    if len(blob) > HEADER and not blob[1] & COMPRESSED:
        yield "cbor_map" if blob[1] & CBOR else "msgpack_map", blob[HEADER:]


def _lightweight(fields: dict[str, Any], cbor: bool, room: int) -> bytes:
    """The bytes that fuzz_targets/lightweight.rs reads; other fields are left out."""
    given = dict(fields)
    value = None
    if isinstance(given.get("object"), dict):
        reading = given.pop("object")
        value, given["unit"] = reading.get("value"), reading.get("unit")
    time = given.get("created_at")
    time = time if isinstance(time, int) and abs(time) < 1 << 63 else 0
    head = bytes([given.get("type") == "belief", cbor]) + room.to_bytes(2, "big")
    head += _number(value) + _number(given.get("confidence")) + struct.pack("<q", time)
    return head + b"".join(_text(given.get(name)) for name in LIGHTWEIGHT)


def _number(value: Any) -> bytes:
    return b"\1" + struct.pack("<d", value) if isinstance(value, int | float) else b"\0"


def _text(value: Any) -> bytes:
    data = value.encode()[:255] if isinstance(value, str) else None
    return b"\0" if data is None else bytes([1, len(data)]) + data


def _choice(options: dict[str, Any]) -> bytes:
    """The two bytes that fuzz_targets/json_encode.rs reads as options."""
    level = options.get("sensitivity", 0)
    type_byte = options.get("type_byte")
    choice = (
        (options.get("encoding") == "cbor")
        | options.get("compress", False) << 1
        | options.get("keep_type_name", False) << 2
        | (type_byte is not None) << 3
        | PROFILES.index(options.get("profile", "extended")) << 4
        | (level if isinstance(level, int) else LEVELS.index(level)) << 6
    )
    return bytes([choice, type_byte or 0])


def main() -> None:
    """Write the seeds that are not there."""
    for target, data in seeds():
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / sha256(data).hexdigest()[:16]).write_bytes(data)


if __name__ == "__main__":
    main()
