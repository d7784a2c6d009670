# SPDX-License-Identifier: Apache-2.0
"""Grains: blobs, strictly and leniently, lines of JSON, and what is said of a grain in texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import omsgrain as og
from fuzz import seeds
from fuzz.target import Run, Target
from omsgrain import _core
from omsgrain.crypto import did
from omsgrain.errors import OmsError
from omsgrain.formats import times
from omsgrain.header import read_header
from support.rewritten_blobs import rewrite


@contextmanager
def _blob(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        for read in (lambda b: og.decode(b, strict=False), og.Grain.adapt, read_header, og.verify):
            try:
                read(data)
            except OmsError:
                pass
        grain = og.decode(data)
        assert grain.address == og.address(data)
        if not grain.header.compressed:
            assert rewrite(grain) == data
        line = grain.to_json().encode()
        batch = og.encode_jsonl(line, errors="collect")
        assert len(batch) + len(batch.errors) == 1

    yield run


@contextmanager
def _lines(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        batch = og.encode_jsonl(data, errors="collect")
        lines = data.replace(b"\r\n", b"\n").split(b"\n")
        assert len(batch) + len(batch.errors) <= len(lines)
        for blob, address in zip(batch.blobs, batch.addresses, strict=True):
            grain = og.decode(blob)
            assert grain.address == address
            again = og.encode_jsonl(grain.to_json().encode(), errors="raise")
            assert len(again) == 1
        og.encode_jsonl(data)

    yield run


@contextmanager
def _texts(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        for floating in (False, True):
            instant = times.parse(text, floating=floating)
            assert instant is None or times.of_grain(instant) >= 0
        try:
            assert len(_core.parse_address(text)) == 32
        except OmsError:
            pass
        found = did.parse(text)
        assert str(did.parse(str(found))) == str(found)
        did.resolve(text)

    yield run


def _said() -> list[bytes]:
    said = [
        "2026-01-01T00:00:00Z", "2026-12-31T23:59:60.123456+14:00", "0001-01-01",
        "2024-02-29 10:00", "did:web:example.org:a%3A1",
        "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",
        "did:web:robot.example%3A8443:x", "f" * 64,
        "did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169",
    ]  # fmt: skip
    return [text.encode() for text in said]


TARGETS = {
    "blob": Target(_blob, seeds.blobs),
    "jsonl": Target(_lines, seeds.inputs, "json"),
    "texts": Target(_texts, _said),
}
