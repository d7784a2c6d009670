# SPDX-License-Identifier: Apache-2.0
"""Which policies cover a whole lineage: found at once, however long the supersessions are.

All versions of a statement go by the number of one of them. Beside it stand the few whose policy
covers the lineage, so that nobody has to walk a million versions to know that none protects them.
"""

from __future__ import annotations

from collections.abc import Iterator

from omsgrain.errors import RangeError
from omsgrain.grain import Grain
from omsgrain.index import policy
from omsgrain.index.history.supersession import members
from omsgrain.store.base import Reader, Writer
from omsgrain.store.tables import GUARDS, LINEAGES, SEQUENCE

__all__ = ["extends", "guards", "is_same", "join", "leave"]


def guards(reader: Reader, seq: int) -> Iterator[int]:
    """The numbers of the grains whose policy covers the lineage of one."""
    for key, _ in reader.rows(GUARDS, prefix=_name(reader, seq)):
        yield SEQUENCE.unpack(key[SEQUENCE.size :])[0]


def join(writer: Writer, old: int, new: int) -> None:
    """Make one lineage of those of two grains, of which the new one superseded the old one."""
    name, other = _name(writer, old), _name(writer, new)
    if name == SEQUENCE.pack(old) and other != SEQUENCE.pack(new):
        name, other = other, name  # many that join one history do not make a long way to its name
    if name != other:
        writer.set_row(LINEAGES, other, name)
        for key, _ in list(writer.rows(GUARDS, prefix=other)):
            writer.set_row(GUARDS, key, None)
            writer.set_row(GUARDS, name + key[SEQUENCE.size :], b"")
    for seq in (old, new):
        grain = writer.grain(seq)
        if grain is not None and policy.covers_lineage(grain):
            writer.set_row(GUARDS, name + SEQUENCE.pack(seq), b"")


def extends(reader: Reader, old: int, there: int | None, new: Grain, since: int) -> bool:
    """Tell whether a supersession makes a policy cover a lineage that it did not cover before.

    Args:
        reader: the transaction.
        old: the number of the grain that is to be superseded.
        there: that of the new grain, if it is stored already.
        new: the new grain.
        since: a lineage counts if it has a grain with this number, or an earlier one.
    """
    mine = _covering(reader, old)
    theirs = set[int]() if there is None else _covering(reader, there)
    fresh = there is None and policy.covers_lineage(new)
    if (fresh or theirs - mine) and _has_earlier(reader, old, since):
        return True
    return there is not None and bool(mine - theirs) and _has_earlier(reader, there, since)


def _covering(reader: Reader, seq: int) -> set[int]:
    """The numbers of the grains whose policy covers the lineage of one, which may be alone."""
    found, grain = set(guards(reader, seq)), reader.grain(seq)
    return found | {seq} if grain is not None and policy.covers_lineage(grain) else found


def _has_earlier(reader: Reader, seq: int, since: int) -> bool:
    try:
        return seq <= since or min(members(reader, seq)) <= since
    except RangeError:  # too many to tell
        return True


def is_same(reader: Reader, one: int, other: int) -> bool:
    """Whether supersessions join two grains."""
    return _name(reader, one) == _name(reader, other)


def leave(writer: Writer, seq: int) -> None:
    """Take a grain that is removed out of the guards; its number may go on as a name."""
    writer.set_row(GUARDS, _name(writer, seq) + SEQUENCE.pack(seq), None)


def _name(reader: Reader, seq: int) -> bytes:
    """What the lineage of a grain goes by: a few steps, one more for each two that were joined."""
    name = SEQUENCE.pack(seq)
    while (further := reader.row(LINEAGES, name)) is not None:
        name = further
    return name
