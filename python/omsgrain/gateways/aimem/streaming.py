# SPDX-License-Identifier: Apache-2.0
"""The memory of a tenant as a bundle by lines, of any size in little memory.

The checksum stands in the first line, so all is read twice: once for the sum, which is also when
rules refuse, and once for the lines. Before each piece leaves, the store is asked whether the
tenant was erased meanwhile. Spec: AIMEM §3.1, §5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from omsgrain.errors import UnsupportedError
from omsgrain.formats.aimem import stream
from omsgrain.gateways.aimem.asking import Asked, ExportReport
from omsgrain.gateways.aimem.exporting import Export

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore

__all__ = ["PIECE", "export_stream"]

PIECE = 1 << 16
"""Bytes of a piece, at least, but for the first, which is the envelope, and the last."""


def export_stream(
    store: GrainStore,
    tenant: str,
    *,
    actor: str | None = None,
    report: ExportReport | None = None,
    alive: Callable[[], None] = lambda: None,
    piece: int = PIECE,
    **options: Any,
) -> Iterator[bytes]:
    """Export one bundle by lines; what can be refused is refused by the call.

    Whoever reads on after an error has got less than the envelope's checksum is of, and can tell.

    Args:
        store: where from.
        tenant: the ``user_id`` of the grains.
        actor: who exports, for the audit trail, if it is another than the store's.
        report: an empty one, to be filled.
        alive: called now and then, also before the first piece is there; what it raises ends it.
        piece: bytes of a piece, at least.
        **options: what is wanted, as ``Asked`` has it.

    Returns:
        Pieces of NDJSON, each of whole lines. It raises ErasedError as soon as the tenant was
        erased, and StoreError if grains were removed or restricted that were to come.

    Raises:
        UnsupportedError: there are chunks of several producers, which ``found`` names, and
            ``rule`` is ``several_producers``; or as ``export_bundle``.
        OmsError: as ``export_bundle``.

    Spec: AIMEM §3.1
    """
    export = Export(store, tenant, Asked(**options), report, alive)
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
