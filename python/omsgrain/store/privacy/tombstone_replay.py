# SPDX-License-Identifier: Apache-2.0
"""Erasing again what came back with a backup: by the tombstones of the store that lived on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from omsgrain.errors import ErasedError, KeyMissingError
from omsgrain.storage import tombstones
from omsgrain.storage.base import Reader, Storage, Writer
from omsgrain.storage.tables import KEYED, SEQUENCE, TOMBSTONES
from omsgrain.store.policy_context import destroyed
from omsgrain.store.privacy import key_destruction, removal
from omsgrain.store.privacy.erasure import Erasing

_TOMBSTONES_A_PAGE = 500  # grains a transaction
_REASON = "restore"


class Replaying(Erasing):
    """The part of a GrainStore that follows the erasures of another one."""

    def _replay_erasures(self, other: Storage) -> int:
        """Take over the tombstones of another store, and remove what they stand for.

        What a hold or a minimum retention keeps here goes too: it went there. With keys, sealed
        grains are looked into; those whose key was destroyed lose what stands beside them.
        """
        with other.read() as reader:
            records, rows = tombstones.key_records(reader), list(reader.rows(TOMBSTONES))
        gone = 0
        if any(records):
            self._store.write(partial(_take_over, records=records, rows=rows))
            with self._store.read() as reader:
                after, last = 0, reader.last_seq()
            while after < last:
                with self._store.read() as reader:
                    seqs = [
                        seq for seq, _ in reader.page(after, _TOMBSTONES_A_PAGE) if seq <= last
                    ]
                    names = _names(reader, seqs)
                    known = tombstones.refused(reader, list(names.values()))
                if not seqs:
                    break
                if doomed := [seq for i, seq in enumerate(names) if i in known]:
                    gone += self._store.write(partial(self._remove_again, seqs=doomed))
                after = seqs[-1]
        self._sweep_destroyed()
        return gone

    def _remove_again(self, writer: Writer, seqs: Sequence[int]) -> int:
        found = [one for seq in seqs if (one := removal.names_of(writer, seq)) is not None]
        gone = removal.remove_grains(writer, self._settings, seqs, reason_code=_REASON)
        digests = [one.stored for one in found]
        if digests:
            self._note(writer, "erase", digests, reason_code=_REASON)
        return gone

    def _sweep_destroyed(self) -> None:
        """Take out what stands beside grains whose key was destroyed."""
        ring, after = self._settings.keys, None
        while ring is not None:
            with self._store.read() as reader:
                row = next(reader.rows(KEYED, after), None)
            if row is None:
                return
            number = row[0][: -SEQUENCE.size]
            after = number + b"\xff" * SEQUENCE.size
            try:
                ring.by_number(number)
            except ErasedError:
                self._sweep(number, self._drop_beside)
            except KeyMissingError:
                pass  # of another key file

    def _drop_beside(self, writer: Writer, seqs: Sequence[int]) -> int:
        found = [one for seq in seqs if (one := key_destruction.opened(writer, seq, None))]
        names = [name for name, _ in found]
        removal.forget_talk(writer, self._settings, names, reason_code=_REASON)
        key_destruction.drop_beside(writer, seqs)
        return len(names)


def _take_over(
    writer: Writer, records: Sequence[bytes], rows: Sequence[tuple[bytes, bytes]]
) -> None:
    tombstones.import_keys(writer, records)
    writer.set_rows(TOMBSTONES, rows)


def _names(reader: Reader, seqs: Sequence[int]) -> dict[int, bytes]:
    """The plain addresses of grains; of those that nobody here can open the stored ones.

    Those whose key is known to be destroyed are left out: where they were erased, they stay.
    """
    found: dict[int, bytes] = {}
    for seq in seqs:
        one = removal.names_of(reader, seq)
        if one is not None and one.plain is not None:
            found[seq] = one.plain
        elif one is not None and not destroyed(reader, seq):
            found[seq] = one.stored
    return found
