# SPDX-License-Identifier: Apache-2.0
"""Prints lightweight grains, a line each, and what C must make of them, for check.c.

First the test vectors that C can express, then random grains as `omsgrain.encode` writes them.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import omsgrain as og
from omsgrain import errors

VECTORS = Path(__file__).parents[2] / "test_vectors"
ROOM = 512
RANDOM = 4_000
TEXTS = ("observer_id", "observer_type", "subject", "relation", "object", "unit", "namespace")
FIELDS = {"type", *TEXTS, "value", "confidence", "created_at"} - {"unit", "value"}


def line(fields: dict[str, Any], cbor: bool, expected: tuple[object, ...]) -> str:
    """The columns of a grain, with tabs between; "-" is absent, and texts are in hex."""
    flat = dict(fields)
    if isinstance(reading := flat.get("object"), dict):
        flat |= {"object": None, **reading}
    texts = [flat.get(name) for name in TEXTS]
    numbers = [flat.get(name) for name in ("value", "confidence")]
    columns: list[object] = [flat["type"], int(cbor), ROOM]
    columns += ["-" if text is None else text.encode().hex() for text in texts]
    columns += ["-" if number is None else float(number).hex() for number in numbers]
    return "\t".join(map(str, (*columns, flat["created_at"], *expected)))


def refused(code: str, field: str | None) -> tuple[object, ...]:
    return errors.BY_CODE[code].exit_code, code, (field or "-").strip("/").split("/")[0]


def expressible(fields: dict[str, Any]) -> bool:
    """Whether the structs of C can hold these fields."""
    reading = fields.get("object")
    if isinstance(reading, dict):
        if (
            not {"value"} <= reading.keys() <= {"value", "unit"}
            or type(reading["value"]) is not float
        ):
            return False
        reading = reading.get("unit")
    texts = [fields.get(name) for name in TEXTS if name != "object"] + [reading]
    return (
        fields.keys() <= FIELDS
        and fields.get("type") in ("belief", "observation")
        and (
            fields["type"] == "observation" or not {"observer_id", "observer_type"} & fields.keys()
        )
        and all(text is None or isinstance(text, str) for text in texts)
        and type(fields.get("confidence", 0)) in (int, float)
        and type(fields.get("created_at")) is int
        and abs(fields["created_at"]) < 1 << 63
    )


def vectors() -> Iterator[str]:
    for path in sorted(VECTORS.rglob("*.json")):
        vector = json.loads(path.read_text(encoding="utf-8"))
        fields, options = vector.get("input", {}), vector.get("options") or {}
        if not expressible(fields) or options.keys() - {"encoding", "profile"}:
            continue
        code = vector.get("expect_error")
        expected = (
            refused(code, None) if code else (0, vector["stages"]["blob_hex"], vector["address"])
        )
        yield line(fields, options.get("encoding") == "cbor", expected)


WORDS = ("", "t-4", "temperature", "dock 4", "größe", "e\u0301", "\u212b\u0323", "ᄀ\u1161\u11a8",
         "\ufeffx", "温度", "m/s\u00b2", "a\tb\n\0", "😀", "x" * 120)  # fmt: skip
NUMBERS = (0.0, -0.0, 1.0, 0.1, 22.5, -273.15, 65_504.0, 1e300, 5e-324, float("nan"), float("inf"))


def invented(rng: random.Random) -> dict[str, Any]:
    def text() -> str:
        return (
            rng.choice(WORDS)
            if rng.random() < 0.8
            else chr(rng.choice((233, 776, 0x9BE, 0x1F600)))
        )

    def number() -> float:
        return rng.choice((*NUMBERS, rng.uniform(-1e3, 1e3)))

    fields: dict[str, Any] = {"type": rng.choice(("observation", "observation", "belief"))}
    if fields["type"] == "observation":
        fields |= {"observer_id": text() or "t", "observer_type": "temperature"}
    fields |= {name: text() for name in ("subject", "relation", "namespace") if rng.random() < 0.7}
    if rng.random() < 0.8:
        reading = {"value": number()} | ({"unit": text()} if rng.random() < 0.5 else {})
        fields["object"] = reading if rng.random() < 0.5 else text()
    if rng.random() < 0.7:
        fields["confidence"] = rng.random() if rng.random() < 0.8 else number()
    fields["created_at"] = rng.choice((0, -1, (1 << 32) * 1000, rng.randrange((1 << 32) * 1000)))
    for name in [name for name in fields if name not in ("type", "created_at")]:
        if rng.random() < 0.04:
            del fields[name]
    return fields


def random_grains() -> Iterator[str]:
    rng = random.Random(20)
    for _ in range(RANDOM):
        fields, encoding = invented(rng), rng.choice(("msgpack", "cbor"))
        try:
            blob = og.encode(fields, encoding=encoding, profile="lightweight")
        except og.errors.OmsError as error:
            expected = refused(error.code, error.field)
        else:
            expected = (0, blob.hex(), og.address(blob))
        yield line(fields, encoding == "cbor", expected)


def too_large() -> Iterator[str]:
    for texts in (["x" * 20_000, "r", "o"], ["x" * 200, "r" * 200, "o" * 200]):
        belief = dict(zip(("subject", "relation", "object"), texts, strict=True))
        fields = {"type": "belief", **belief, "confidence": 0.5, "created_at": 0}
        yield line(fields, False, refused("ERR_TOO_LARGE", None))


if __name__ == "__main__":
    warnings.simplefilter("ignore", errors.OmsWarning)
    for produce in (vectors, random_grains, too_large):
        for row in produce():
            print(row)
