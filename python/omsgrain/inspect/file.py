# SPDX-License-Identifier: Apache-2.0
"""The content of a page about a file: a container, envelopes in a row, or one blob."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import omsgrain as og
from omsgrain import container
from omsgrain.container.layout import MAGIC
from omsgrain.container.read import blob_of
from omsgrain.crypto.cose import envelopes
from omsgrain.errors import OmsError, UnsupportedError
from omsgrain.grain import bare, stored_grain
from omsgrain.header import ENVELOPE_BYTE
from omsgrain.inspect.graph import chains, triples
from omsgrain.inspect.shown import FAILURES, failure, moment, said, shown
from omsgrain.inspect.tally import Newest, Tally
from omsgrain.interchange.ingest import read_blob
from omsgrain.interchange.verify import VerifyOptions, verify_file

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver

_LINKS: Final = 2_000  # of versions


def of_file(
    path: Path, resolver: Resolver | None, count: int, advance: Callable[[int], None]
) -> dict[str, Any]:
    """Verify and show a file; arguments and errors are those of ``inspect``."""
    start = read_blob(path)
    if start[:1] not in (b"\x01", ENVELOPE_BYTE) and start[: len(MAGIC)] != MAGIC:
        text = "neither a store nor a file of grains"
        raise UnsupportedError(text, expected="a store, .mg, an envelope or a blob")
    tally, newest = Tally(), Newest(count)
    found = verify_file(path, VerifyOptions(resolver=resolver))
    links: list[tuple[str, str]] = []
    unreadable: list[dict[str, Any]] = []
    try:
        for blob in _blobs(path, start, links):
            grain = _readable(blob)
            if grain is None:
                unreadable += [shown(blob)] if len(unreadable) < count else []
                continue
            tally.add(grain)
            newest.add(grain)
            advance(1)
    except OmsError as error:  # the rest cannot be read; verification reports it too
        ended = [failure(path.name, error)]
    else:
        ended = []
    signers: dict[str, list[dict[str, Any]]] = {}
    for one in found.signed:
        if one.address is not None:
            at = {"signer": one.signer, "iat": moment(one.iat), "proven": True}
            signers.setdefault(one.address, []).append(at)
    here = {grain.address: grain for grain in newest}
    failures = [failure(one.name, one.error) for one in found.failures[:FAILURES]]
    return {
        "kind": "container" if start[: len(MAGIC)] == MAGIC else "file",
        **tally.values(),
        "verified": found.verified,
        "failures": failures or ended,
        "checks": [],
        "signers": signers,
        "graph": triples(newest),
        **chains(links, lambda address: _in_file(here.get(address))),
        "shown": unreadable
        + [shown(grain, None, signers.get(grain.address, ())) for grain in islice(newest, count)],
        "restricted": 0,
    }


def _blobs(path: Path, start: bytes, links: list[tuple[str, str]]) -> Iterator[bytes]:
    """Yield the blobs of the file without their envelopes, and the links of a manifest."""
    if start[: len(MAGIC)] == MAGIC:
        with container.read(path) as held:
            for old, state in held.manifest.items():
                if isinstance(new := state.get("superseded_by"), str) and len(links) < _LINKS:
                    links.append((old, new))
            yield from (blob_of(data) for data in held)
    elif start[:1] == ENVELOPE_BYTE:
        yield from (blob_of(data) for data in envelopes(path.read_bytes()))
    else:
        yield start


def _readable(blob: bytes) -> og.Grain | None:
    """Return the grain, checked without its signature; sealed grains stay sealed."""
    header = og.read_header(blob)
    if header.encrypted:
        return stored_grain(blob, og.address(blob))
    try:
        og.Grain(bare(blob))
    except OmsError:
        return None
    return stored_grain(blob, og.address(blob))


def _in_file(grain: og.Grain | None) -> dict[str, Any]:
    if grain is None:
        return {"says": "(not in this file)", "type": None, "standing": None}
    return {"says": said(grain), "type": grain.type, "standing": None}
