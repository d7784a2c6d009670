# SPDX-License-Identifier: Apache-2.0
"""Grains without memories of the namespace ``_local``, which leave in no format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from omsgrain.formats.document import KIND, Loss, open_manifest
from omsgrain.formats.mif_ld.fields import FORMAT, LOCAL
from omsgrain.formats.raw import getter
from omsgrain.formats.source import Source
from omsgrain.grain import Grain

__all__ = ["STAYS", "without_local"]

STAYS: Final = "memories in _local do not leave"
"""Why a memory is left out."""
_LISTS: Final = "what stood around memories names those that do not leave"


def without_local(grains: Iterable[Grain]) -> tuple[list[Grain], list[Loss]]:
    """The grains that may leave, and what does not.

    With a memory go the grains that hold its parts, and the manifest, which names it and may hold
    its text; the other memories of the file stand alone then.

    Raises:
        FormatError: a manifest is not what it must be.
        NotFoundError: a grain that it names is not among them.
    """
    given = list(grains)
    gone = {grain.address: Loss(source.id, "memory", STAYS) for grain, source in _local(given)}
    if not gone:
        return given, []
    by_address = {grain.address: grain for grain in given}
    parts: set[str] = set()
    for grain in given:
        source = Source.of(grain)
        if source is None or source.format != FORMAT:
            continue
        if source.kind == KIND and (whole := open_manifest(grain, getter(by_address))):
            if any(one in gone for listed in whole.arrays.values() for one in listed):
                gone[grain.address] = Loss("", "document", _LISTS)
                parts.update(whole.text)
        if grain.address in gone:
            parts.update(source.parts)
    kept = [grain for grain in given if grain.address not in gone and grain.address not in parts]
    return kept, list(gone.values())


def _local(grains: Iterable[Grain]) -> Iterator[tuple[Grain, Source]]:
    for grain in grains:
        namespace = grain.get("namespace", "")
        if isinstance(namespace, str) and f"{namespace}/".startswith(f"{LOCAL}/"):
            source = Source.of(grain)
            if source is not None and source.format == FORMAT:
                yield grain, source
