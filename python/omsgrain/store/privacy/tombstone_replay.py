# SPDX-License-Identifier: Apache-2.0
"""Erase grains again that a restored backup brought back, by the other store's tombstones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from omsgrain.errors import ErasedError, KeyMissingError
from omsgrain.storage import tombstones
from omsgrain.storage.base import Reader, Storage, Writer
from omsgrain.storage.tables import KEYED, SEQUENCE, TOMBSTONES
from omsgrain.store.context import Context, destroyed
from omsgrain.store.privacy import key_destruction, removal
from omsgrain.store.privacy.erasure import sweep

_TOMBSTONES_A_PAGE = 500  # grains per transaction
_REASON = "restore"


def replay_erasures(context: Context, other: Storage) -> int:
    """Import the tombstones of another store, and remove the grains that they name."""
    with other.read() as reader:
        records, rows = tombstones.key_records(reader), list(reader.rows(TOMBSTONES))
    gone = 0
    if any(records):
        context.storage.write(partial(_take_over, records=records, rows=rows))
        with context.storage.read() as reader:
            after, last = 0, reader.last_seq()
        while after < last:
            with context.storage.read() as reader:
                seqs = [seq for seq, _ in reader.page(after, _TOMBSTONES_A_PAGE) if seq <= last]
                names = _names(reader, seqs)
                known = tombstones.refused(reader, list(names.values()))
            if not seqs:
                break
            if doomed := [seq for i, seq in enumerate(names) if i in known]:
                gone += context.storage.write(partial(_remove_again, context, seqs=doomed))
            after = seqs[-1]
    _sweep_destroyed(context)
    return gone


def _remove_again(context: Context, writer: Writer, seqs: Sequence[int]) -> int:
    found = [one for seq in seqs if (one := removal.names_of(writer, seq)) is not None]
    gone = removal.remove_grains(writer, context.settings, seqs, reason_code=_REASON)
    digests = [one.stored for one in found]
    if digests:
        context.note(writer, "erase", digests, reason_code=_REASON)
    return gone


def _sweep_destroyed(context: Context) -> None:
    """Remove the rows about grains whose key was destroyed."""
    ring, after = context.settings.keys, None
    while ring is not None:
        with context.storage.read() as reader:
            row = next(reader.rows(KEYED, after), None)
        if row is None:
            return
        number = row[0][: -SEQUENCE.size]
        after = number + b"\xff" * SEQUENCE.size
        try:
            ring.by_number(number)
        except ErasedError:
            sweep(context, number, partial(_drop_beside, context))
        except KeyMissingError:
            pass  # from another key file


def _drop_beside(context: Context, writer: Writer, seqs: Sequence[int]) -> int:
    found = [one for seq in seqs if (one := key_destruction.opened(writer, seq, None))]
    names = [name for name, _ in found]
    removal.forget_talk(writer, context.settings, names, reason_code=_REASON)
    key_destruction.drop_beside(writer, seqs)
    return len(names)


def _take_over(
    writer: Writer, records: Sequence[bytes], rows: Sequence[tuple[bytes, bytes]]
) -> None:
    tombstones.import_keys(writer, records)
    writer.set_rows(TOMBSTONES, rows)


def _names(reader: Reader, seqs: Sequence[int]) -> dict[int, bytes]:
    """Return the plain digests of grains, and the stored digests of unreadable ones.

    Grains whose key is known to be destroyed are left out: they are erased already.
    """
    found: dict[int, bytes] = {}
    for seq in seqs:
        one = removal.names_of(reader, seq)
        if one is not None and one.plain is not None:
            found[seq] = one.plain
        elif one is not None and not destroyed(reader, seq):
            found[seq] = one.stored
    return found
