# SPDX-License-Identifier: Apache-2.0
"""Carrying out an order to erase a person, from wherever it was left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from omsgrain.engine import acts
from omsgrain.engine.care import Care
from omsgrain.engine.rights import keeping, removal, unkeying
from omsgrain.engine.rights.orders import ERASE, RELEASE, SCRUB, Marked, Order, Sought
from omsgrain.engine.rights.running import Running
from omsgrain.engine.rights.selector import Found, Selection, by_pages
from omsgrain.engine.rights.unkeying import Unkeyed
from omsgrain.engine.world import destroyed
from omsgrain.errors import KeyMissingError, OmsError
from omsgrain.grain import Grain
from omsgrain.registry import field as field_of
from omsgrain.store import due, mentions, tombstones
from omsgrain.store.base import Writer
from omsgrain.store.due import WITHIN
from omsgrain.store.tables import DUE, KEYED, Table

if TYPE_CHECKING:
    from omsgrain.crypto.keyring import UserKeys

__all__ = ["WITHIN", "Carrying", "Done"]

_PAGE = 1_000  # grains a transaction; an entry of the audit trail tags no more
_ROWS = 20_000  # blind rows a transaction
_DAY = 86_400_000


@dataclass(slots=True)
class Done:
    """What was done of an order so far."""

    keys: int = 0
    sealed: int = 0
    erased: int = 0
    named: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    kept: dict[int, tuple[str, str]] = field(default_factory=dict)
    kept_keys: list[bytes] = field(default_factory=list)
    unopened: int = 0


class Carrying(Running, Care):
    """The part of a GrainStore that carries out orders to erase."""

    def _carry_out(self, key: bytes, order: Order, selection: Selection, days: int) -> Done:
        """Do all of an order but the scrubbing, which is put into the queue."""
        mentions.prepare(self._store)
        done, keys = Done(), Unkeyed()
        if order.numbers:
            keys = self._store.write(partial(self._destroy, order=order, before=keys))
        done.keys, done.kept_keys = len(keys.gone), keys.kept
        for number in (*keys.gone, *keys.spent):
            work = partial(self._unseal, keys=keys.gone.pop(number, None), order=order)
            swept = self._sweep(number, work)
            if order.ciphertext:
                done.erased += swept
            else:
                done.sealed += swept
        found = (one for one in selection if one.seq <= order.last)
        for page in by_pages(found, _PAGE):
            self._clear(page, order, done)
        done.unopened = selection.unopened
        self._store.write(partial(self._close_order, key=key, order=order, done=done, days=days))
        self._store.sync()
        return done

    def _destroy(self, writer: Writer, order: Order, before: Unkeyed) -> Unkeyed:
        now = self._settings.clock()
        keys = unkeying.destroy(writer, self._settings, order, now, before)
        if keys.gone:
            told: dict[str, int | str] = {"keys_destroyed": len(keys.gone)}
            self._note(writer, "erase", [], reason_code=order.reason_code, details=told)
        return keys

    def _sweep(self, number: bytes, work: Callable[..., int]) -> int:
        """Take out what stood beside the grains of a key that was destroyed.

        Args:
            number: of the key.
            work: does it for some of its grains in a transaction, and counts them.
        """
        for table in unkeying.TABLES:
            drop = partial(_drop_rows, table=table, number=number)
            while self._store.write(drop) == _ROWS:
                pass
        count, after = 0, None
        while True:
            with self._store.read() as reader:
                seqs, after = unkeying.sealed_page(reader, number, after, _PAGE)
            if after is None:
                return count
            count += self._store.write(partial(work, seqs=seqs))

    def _unseal(
        self, writer: Writer, seqs: Sequence[int], keys: UserKeys | None, order: Order
    ) -> int:
        """Take out what stood beside some sealed grains, or these themselves."""
        now, code = self._settings.clock(), order.reason_code
        found = {seq: one for seq in seqs if (one := unkeying.opened(writer, seq, keys))}
        names = [name for name, _ in found.values()]
        for name in names:
            removal.remember(writer, name, now, code)
        if order.ciphertext:
            removal.remove_grains(writer, self._settings, found, reason_code=code)
        else:
            removal.forget_talk(writer, self._settings, names, reason_code=code)
            removal.mark_names(writer, [one.plain for one in names if one.plain is not None])
            unkeying.drop_beside(writer, list(found))
            due.drop(writer, found.keys())
        if names:
            self._note(writer, "erase", [name.stored for name in names], reason_code=code)
        self._note_consents(writer, [grain for _, grain in found.values() if grain], code)
        return len(names)

    def _clear(self, page: Sequence[Found], order: Order, done: Done) -> None:
        """Remove those of some grains that are to go."""
        wanted = [found for found in page if order.takes(found)]
        done.named += [(f.address, f.fields) for f in page if not order.takes(f)]
        if wanted:
            seqs = [found.seq for found in wanted]
            gone, kept = self._store.write(
                partial(self._take_out, seqs=seqs, code=order.reason_code)
            )
            done.erased += gone
            done.kept |= kept

    def _take_out(
        self,
        writer: Writer,
        seqs: Sequence[int],
        code: str,
        now: int | None = None,
    ) -> tuple[int, dict[int, tuple[str, str]]]:
        """Remove grains that nothing keeps, and restrict the others: how many, and which."""
        now = self._settings.clock() if now is None else now
        gone: dict[int, Grain] = {}
        kept: dict[int, tuple[str, str]] = {}
        restricted: list[bytes] = []
        for seq in seqs:
            grain = keeping.readable(writer, seq)
            if grain is None:
                continue
            rule = keeping.refusal(writer, self._settings, grain, now)
            if rule is None:
                gone[seq] = grain
                continue
            kept[seq] = (grain.address, rule)
            if (changed := acts.restrict(writer, seq, True)) is not None:
                restricted.append(changed)
        if restricted:
            self._note(writer, "restrict", restricted, reason_code=code)
        if gone:
            digests = [bytes.fromhex(grain.address) for grain in gone.values()]
            removal.remove_grains(writer, self._settings, gone, reason_code=code)
            self._note(writer, "erase", digests, reason_code=code)
            self._note_consents(writer, list(gone.values()), code)
        return len(gone), kept

    def _note_consents(self, writer: Writer, grains: Sequence[Grain], code: str) -> None:
        """Keep of consents what the audit needs: that they were there, their scope and times."""
        known = field_of("scope").open_enum
        for grain in grains:
            if grain.type != "consent":
                continue
            told: dict[str, int | str] = {"withdrawal": int(grain.get("is_withdrawal") is True)}
            if type(given := grain.get("created_at")) is int:
                told["given"] = given
            scope = grain.get("scope")
            if words := [word for word in known if isinstance(scope, list) and word in scope]:
                told["scope"] = ",".join(words)
            digest = bytes.fromhex(grain.address)
            self._note(writer, "erase", [digest], reason_code=code, details=told)

    def _close_order(
        self, writer: Writer, key: bytes, order: Order, done: Done, days: int
    ) -> None:
        """Take an order out of the queue; what was kept, and the scrubbing, go into it."""
        now = self._settings.clock()
        due.done(writer, key)
        if done.kept or done.kept_keys:
            rest = replace(order, numbers=tuple(done.kept_keys), seqs=tuple(done.kept))
            for entry in list(due.due(writer)):
                if entry.kind == RELEASE and rest.covers(Order.of(entry)):
                    due.done(writer, entry.key)
            due.add(writer, now, rest.what(RELEASE))
        due.add(writer, now + days * _DAY, {"kind": SCRUB})

    def _run(self, entry: due.Due, now: int) -> bool:
        """Go on with an erasure, or do what was left of one."""
        if entry.kind == SCRUB:
            return self._scrub()
        if entry.kind not in (ERASE, RELEASE):
            return super()._run(entry, now)
        order = Order.of(entry)
        if order.numbers and self._settings.keys is None:
            return False  # only who has the keys can destroy them
        if entry.kind == ERASE:
            with self._store.read() as reader:
                keys = tombstones.keys(reader)
                there = reader.row(DUE, entry.key) is not None
            if there and keys:
                removal.mark_erased(self._store)  # of what an older version had removed by then
                people = Marked(keys, order.marks)
                done = self._carry_out(entry.key, order, Sought(self._store, people), WITHIN)
                return not done.unopened  # what was not looked into may be the person's
            return True
        return self._store.write(partial(self._release, entry=entry, now=now))

    def _release(self, writer: Writer, entry: due.Due, now: int) -> bool:
        """Remove what is kept no longer, and then the keys that nothing needs any more."""
        if writer.row(DUE, entry.key) is None:
            return True
        order, ring = Order.of(entry), self._settings.keys
        # What another erasure has made unreadable since is not kept: it only cannot be opened.
        seqs = [seq for seq in order.seqs if not destroyed(writer, seq)]
        gone, kept = self._take_out(writer, seqs, order.reason_code, now)
        if gone:
            due.add(writer, now + WITHIN * _DAY, {"kind": SCRUB})
        due.done(writer, entry.key)
        left: list[bytes] = []
        for number in order.numbers:
            # Grains that came after the order are new, and theirs the key is now.
            if ring is not None and next(writer.rows(KEYED, prefix=number), None) is None:
                try:
                    ring.erase([ring.user_id_of(number)])
                except KeyMissingError:
                    left.append(number)
                except OmsError:
                    pass  # it is destroyed already
        if kept or left:
            rest = replace(order, seqs=tuple(kept), numbers=order.numbers if kept else tuple(left))
            due.add(writer, entry.deadline, rest.what(RELEASE))
        return not kept and not left

    def _scrub(self) -> bool:
        """Write the files anew; False if it cannot be."""
        try:
            self.compact()  # takes it out of the queue
        except OmsError:
            return False
        return True


def _drop_rows(writer: Writer, table: Table, number: bytes) -> int:
    return writer.drop_rows(table, number, _ROWS)
