# SPDX-License-Identifier: Apache-2.0
"""The memory of a tenant as a bundle by lines, of any size in little memory.

The checksum stands in the first line, so all is read twice: once for the sum, which is also when
rules refuse, and once for the lines. Before each piece leaves, the store is asked whether the
tenant was erased meanwhile. Spec: AIMEM §3.1, §5.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from omsgrain.errors import UnsupportedError
from omsgrain.formats.aimem import stream
from omsgrain.gateways.aimem.choosing import Asked, ExportReport
from omsgrain.gateways.aimem.exporting import PRODUCER, Export
from omsgrain.gateways.aimem.scopes import wanted

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore
    from omsgrain.privacy import Purpose

__all__ = ["PIECE", "export_stream"]

PIECE = 1 << 16
"""Bytes of a piece, at least, but for the first, which is the envelope, and the last."""


def export_stream(
    store: GrainStore,
    tenant: str,
    *,
    scope: str = "FULL",
    since: str | None = None,
    producer: str = PRODUCER,
    only_producer: str | None = None,
    include_embeddings: bool = False,
    embedding_model: str | None = None,
    strict: bool = False,
    now: int | None = None,
    tenant_id: str | None = None,
    purpose: Purpose = "transfer",
    actor: str | None = None,
    report: ExportReport | None = None,
    piece: int = PIECE,
) -> Iterator[bytes]:
    """Export the bundle of one producer by lines; what can be refused is refused by the call.

    Whoever reads on after an error has got less than the envelope's checksum is of, and can tell.

    Args:
        store: where from.
        tenant: the ``user_id`` of the grains.
        scope: as for ``export_bundle``, and so are the others.
        since: with SINCE: a time in UTC.
        producer: our own namespace.
        only_producer: the producer of the bundle; may be left out if all chunks have one.
        include_embeddings: whether they leave.
        embedding_model: the model of those that do.
        strict: nothing that is no member of the format.
        now: ms since 1970, instead of the clock.
        tenant_id: what the bundle calls the tenant.
        purpose: why.
        actor: who exports.
        report: an empty one, to be filled.
        piece: bytes of a piece, at least.

    Returns:
        Pieces of NDJSON, each of whole lines. It raises ErasedError as soon as the tenant was
        erased, and StoreError if grains were removed or restricted that were to come.

    Raises:
        UnsupportedError: there are chunks of several producers, which ``found`` names, and
            ``rule`` is ``several_producers``; or as ``export_bundle``.
        OmsError: as ``export_bundle``.

    Spec: AIMEM §3.1
    """
    asked = Asked(
        wanted(scope, since),
        producer,
        only_producer,
        strict,
        include_embeddings,
        embedding_model,
    )
    export = Export(store, tenant, asked, now, tenant_id, purpose, report)
    if len(export.producers) > 1:
        raise UnsupportedError(
            "a bundle has the chunks of one producer",
            field="/producer",
            expected="one of them",
            found=", ".join(export.producers[:10]),
            rule="several_producers",
        )
    (name,) = export.producers
    lines = stream.write(export.envelope(name), partial(export.records, name))
    first = next(lines)
    export.note(actor)
    return _pieces(export, first, lines, piece)


def _pieces(export: Export, first: bytes, lines: Iterator[bytes], least: int) -> Iterator[bytes]:
    export.memory.check()
    yield first
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= least:
            export.memory.check()
            yield b"".join(waiting)
            waiting.clear()
            size = 0
    export.memory.check()
    if waiting:
        yield b"".join(waiting)
