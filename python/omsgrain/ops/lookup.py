# SPDX-License-Identifier: Apache-2.0
"""Read what exists: a grain of a store, how much a store holds, a blob in a file."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import omsgrain as og
from omsgrain.container.layout import MAGIC
from omsgrain.errors import UnsupportedError
from omsgrain.formats.sniff import FORMATS
from omsgrain.ops.opening import open_store
from omsgrain.storage.location import Where

_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_HEAD = 4 << 10
BLOB_LIMIT = 4 << 20  # four times the largest grain: enough for the core to say how large it is


def get(store: Where, address: str) -> og.Grain:
    """Return the grain at the address."""
    with open_store(store, readonly=True) as grains:
        return grains.get(address)


def signatures(store: Where, address: str) -> list[dict[str, Any]]:
    """Who signed the grain at the address, as JSON-ready values."""
    with open_store(store, readonly=True) as grains:
        return [
            {"signer": one.signer, "iat": one.iat, "proven": one.proven}
            for one in grains.signatures(address)
        ]


def envelope_of(store: Where, address: str, signer: str | None = None) -> bytes:
    """Return the grain at the address in its envelope, byte for byte as it came."""
    with open_store(store, readonly=True) as grains:
        return grains.envelope(address, signer)


def stats(store: Where) -> dict[str, Any]:
    """Return what the store counts, by name."""
    with open_store(store, readonly=True) as grains:
        return asdict(grains.stats())


def read_blob(path: Path) -> bytes:
    """Return what is in the file, or of a file too large for a grain its beginning."""
    with path.open("rb") as file:
        return file.read(BLOB_LIMIT)


def one_grain(data: bytes) -> bytes:
    """Refuse what is no blob: a container, which is called .mg as well, or text."""
    if data.startswith(MAGIC):
        raise UnsupportedError(
            "a container of many grains",
            expected="one grain; import it, and name the grain by its address",
        )
    head = data[:_HEAD]
    if head and not _CONTROL.search(head):  # a blob begins with a version, which is a small number
        is_json = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
        raise UnsupportedError(
            "JSON of no known format" if is_json else "a file of no known format",
            expected=f"a grain, or a document: {', '.join(FORMATS)}",
        )
    return data
