# SPDX-License-Identifier: Apache-2.0
"""Rules about .mg files and streams of grains."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import omsgrain as og
from omsgrain import container
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.rule import Entry, Tried
from omsgrain.conformance.vectors import blob, vector


def every_byte(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A file with a changed byte is refused."""
    whole = bytes.fromhex(vector("containers/good-manifest")["file_hex"])
    path = bench.directory() / "x.mg"
    passed = []
    for at in range(0, len(whole), 11):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        if container.verify(path, errors="collect").ok:
            passed.append(at)
    yield Tried(f"each eleventh of {len(whole)} bytes changed", [], passed)


def packed(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Compressed grains come back byte for byte; the footer covers the compressed bytes."""
    blobs = [blob(f"types/{n}") for n in range(1, 21)]
    for codec in ("zstd", "lz4"):
        path = bench.directory() / "x.mg"
        container.write(path, blobs, codec=codec)
        with container.read(path) as found:
            yield Tried(f"20 grains packed with {codec}", blobs, list(found))
        body = path.read_bytes()
        yield Tried("its footer", hashlib.sha256(body[:-32]).digest(), body[-32:])


def import_verified(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """An import hashes every grain before it writes any."""
    path = bench.directory() / "x.mg"
    whole = bytes.fromhex(vector("containers/good-manifest")["file_hex"])
    body = whole[:40] + bytes([whole[40] ^ 1]) + whole[41:-32]
    path.write_bytes(body + hashlib.sha256(body).digest())
    store = bench.store()
    yield Tried("a changed grain with a new footer", True, _refused(store, path))
    yield Tried("grains in the store", 0, len(store))


def _refused(store: og.GrainStore, path: Any) -> bool:
    try:
        store.import_mg(path)
    except og.errors.OmsError:
        return True
    return False
