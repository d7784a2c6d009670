# SPDX-License-Identifier: Apache-2.0
"""The transactions of a storage as a holder of keys sees them: encrypted grains are decrypted.

    store = EncryptedStorage(LmdbStorage(path), ring)

They have the rows of the inner storage, and differ only in reading. ``grain`` decrypts grains
whose key is in the ring. ``find`` also knows plain addresses. Lists of the index include encrypted
grains in the same order, from the blind rows. Grains without a key in the ring show only header
and address.

To find grains of unknown users, it makes one token for each user of the ring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from omsgrain import _core
from omsgrain.errors import (
    ErasedError,
    IntegrityError,
    KeyMissingError,
    OmsError,
    RangeError,
    UnsupportedError,
)
from omsgrain.grain import Grain, stored_grain
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.storage import blind_index
from omsgrain.storage.base import (
    NAMED_GRAINS,
    PAGE_BYTES,
    PAGE_GRAINS,
    Reader,
    Storage,
    Which,
    Writer,
    damaged_at,
    misplaced,
)
from omsgrain.storage.blind_index import PLACE, WORD
from omsgrain.storage.indexed_paths import core_of, paths_of
from omsgrain.storage.records import PAST
from omsgrain.storage.tables import (
    BLIND,
    KEYED,
    PLAIN,
    SEALED,
    SEQUENCE,
    STATES,
    Kind,
    Table,
    pieces,
)

if TYPE_CHECKING:
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.crypto.seal import Sealer, UserKeys

MOST_OPENED = 50_000
"""Encrypted grains of one user up to which all can be opened, for a search or a range."""


_TOGETHER = 4_096  # grains whose rows are removed at once
_PAGES = 16, 256  # places whose states are looked up together, at first and at most
_HIGH = bytes(4)  # of a sequence number; a place has the other half
_SOME = 4_096
"""Places of a blind list up to which it is read whole to count it; an estimate needs no more."""


class DecryptingReader(Reader):
    def __init__(
        self,
        inner: Reader,
        ring: KeyRing,
        users: Sequence[UserKeys] | None = None,
        words: Iterable[str] = (),
    ) -> None:
        self.inner = inner
        self.ring = ring
        self._users = users
        self._everybody: list[UserKeys] | None = None
        self._words = [WORD + word.encode() for word in words]
        self._plain: dict[bytes, int] = {}  # plain addresses found so far, with their numbers
        self._owners: dict[bytes, UserKeys] = {}  # the user of a place in a list
        self._lists: dict[bytes, list[bytes]] = {}
        # by term, and by the number of a user's key: the prefix of the rows, and masked places
        self._terms: dict[bytes, dict[bytes, tuple[bytes, bytes]]] = {}
        self._asked: dict[bytes, dict[bytes, bool]] = {}  # by prefix, which places are there
        self._page: list[bytes] = []  # places whose states were looked up last
        self._past: dict[bytes, bool] = {}  # whether their grains are past
        self._sealers: dict[bytes, Sealer] = {}
        self._trying: blind_index.KeyTrial | None = None

    @property
    def raw(self) -> Reader:
        return self.inner

    def has_sealed(self) -> bool:
        """Return whether any grain is encrypted with a key of the ring."""
        for number in blind_index.key_numbers(self.inner):
            with suppress(KeyMissingError, ErasedError):
                self.ring.by_number(number)
                return True
        return False

    @property
    def users(self) -> int:
        """Number of users whose grains are searched: each costs a token per term."""
        return self.ring.live if self._users is None else len(self._users)

    def narrowed(self, user_id: str | None, words: Iterable[str]) -> DecryptingReader:
        """Return the same snapshot for the grains of one user, or with some words, only."""
        users = self._users
        if user_id is not None:
            users = ()
            with suppress(RangeError):  # too long for a user id, so it has no keys
                keys = self.ring.of_user(user_id)
                users = () if keys is None else (keys,)
        return DecryptingReader(self.inner, self.ring, users, words)

    def keys_to_open(self, user_id: str) -> UserKeys | None:
        """Return the keys of a user whose grains are to be opened; None if the ring has none.

        A user with more than ``MOST_OPENED`` encrypted grains is refused.
        """
        keys = None
        with suppress(RangeError):  # too long for a user id, so it has no keys
            keys = self.ring.of_user(user_id)
        if keys is None:
            return None
        rows = self.inner.rows(KEYED, prefix=keys.number)
        if sum(1 for _ in islice(rows, MOST_OPENED + 1)) > MOST_OPENED:
            raise UnsupportedError(
                "the user has too many encrypted grains for a search or a range",
                field="/user_id",
                expected=f"at most {MOST_OPENED}; sealed=False looks at plain grains only",
                found="more",
            )
        return keys

    def count(self) -> int:
        return self.inner.count()

    def last_seq(self) -> int:
        return self.inner.last_seq()

    def find(self, digests: Sequence[bytes]) -> list[int | None]:
        """Return the number of each grain by its stored or plain address."""
        found = self.inner.find(digests)
        lacking = [digest for digest, seq in zip(digests, found, strict=True) if seq is None]
        if not lacking:
            return found
        plain = self._find_plain(lacking)
        return [seq or plain.get(digest) for digest, seq in zip(digests, found, strict=True)]

    def _find_plain(self, digests: Sequence[bytes]) -> dict[bytes, int]:
        """Return the numbers of grains by their plain addresses."""
        found: dict[bytes, int] = {}
        if self._plain:
            known = {digest: seq for digest in digests if (seq := self._plain.get(digest))}
            there = self.inner.blobs(list(known.values()))
            found = {digest: seq for digest, seq in known.items() if seq in there}
            digests = [digest for digest in digests if digest not in known]
        users = self._all_users()
        addresses = [keys.address for keys in users]
        step = 1 + _SOME // (1 + len(users))
        for start in range(0, len(digests), step):
            names = {
                keys.number + token: digest
                for digest in digests[start : start + step]
                for keys, token in zip(users, _core.tokens_many(addresses, digest), strict=True)
            }
            for name, row in self.inner.some_rows(PLAIN, list(names)).items():
                self._plain[names[name]] = found[names[name]] = int.from_bytes(row, "big")
        return found

    def _all_users(self) -> Sequence[UserKeys]:
        if self._users is not None:
            return self._users
        if self._everybody is None:
            self._everybody = list(self.ring.users())
        return self._everybody

    def page(
        self, after: int, grains: int = PAGE_GRAINS, size: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        return self.inner.page(after, grains, size)

    def hashed_page(self, after: int) -> list[tuple[int, bytes, bytes | None]]:
        return self.inner.hashed_page(after)

    def hashed_blobs(self, seqs: Sequence[int]) -> list[tuple[int, bytes, bytes | None]]:
        return self.inner.hashed_blobs(seqs)

    def marked_rows(self, after: int, size: int) -> tuple[list[bytes], int] | None:
        return self.inner.marked_rows(after, size)

    def blob_at(self, seq: int) -> bytes | None:
        return self.inner.blob_at(seq)

    def grain(self, seq: int) -> Grain | None:
        blob = self.inner.blob_at(seq)
        if blob is None:
            return None
        number = blind_index.key_of(self.inner, seq) if blob[1] & ENCRYPTED_BIT else None
        return self._opened(seq, blob, number)

    def _opened(self, seq: int, blob: bytes, number: bytes | None) -> Grain:
        address = _core.address(blob)
        if number is None:
            return stored_grain(blob, address)
        try:
            keys = self.ring.by_number(number)
        except (KeyMissingError, ErasedError):
            return stored_grain(blob, address)
        from omsgrain.crypto.seal import Sealer, open_plain

        sealer = self._sealers.get(keys.number)
        if sealer is None:
            sealer = self._sealers[keys.number] = Sealer(keys.content)
        try:
            plain = open_plain(sealer.unseal(blob))
        except OmsError:
            if self.inner.find([bytes.fromhex(address)])[0] != seq:
                raise IntegrityError("the stored bytes are damaged", found=address) from None
            raise
        return stored_grain(plain, address)

    def named(self, digest: bytes) -> Grain | None:
        """Return the grain at a stored or plain address, decrypted and verified."""
        seq = self.find([digest])[0]
        grain = None if seq is None else self.grain(seq)
        return None if seq is None or grain is None else self._checked(digest, seq, grain)

    def _checked(self, digest: bytes, seq: int, grain: Grain) -> Grain:
        if grain.address != digest.hex() and _core.address(grain.blob) != digest.hex():
            raise damaged_at(digest, grain.address)
        return self._tried(seq) if grain.sealed else grain

    def named_many(self, digests: Sequence[bytes]) -> list[Grain | None]:
        grains: list[Grain | None] = []
        for start in range(0, len(digests), NAMED_GRAINS):
            part = digests[start : start + NAMED_GRAINS]
            numbers = self.find(part)
            blobs = self.inner.blobs([seq for seq in numbers if seq is not None])
            keys = self._keys_of(blobs)
            for digest, seq in zip(part, numbers, strict=True):
                if seq is None or seq not in blobs:
                    return [*grains, None]
                grain = self._opened(seq, blobs[seq], keys.get(seq))
                grains.append(self._checked(digest, seq, grain))
        return grains

    def grains_at(self, places: Sequence[bytes]) -> list[tuple[bytes, Grain]]:
        numbers = [int.from_bytes(place[12:], "big") for place in places]
        blobs = self.inner.blobs(numbers)
        keys = self._keys_of(blobs)
        found = [
            (place, self._opened(seq, blobs[seq], keys.get(seq)))
            for place, seq in zip(places, numbers, strict=True)
            if seq in blobs
        ]
        if not _core.all_placed([place for place, _ in found], [g.address for _, g in found]):
            raise misplaced()
        return found

    def _keys_of(self, blobs: Mapping[int, bytes]) -> dict[int, bytes]:
        """Look up the numbers of the keys that encrypt some grains, together."""
        sealed = [SEQUENCE.pack(seq) for seq, blob in blobs.items() if blob[1] & ENCRYPTED_BIT]
        rows = self.inner.some_rows(SEALED, sealed) if sealed else {}
        return {SEQUENCE.unpack(key)[0]: number for key, number in rows.items()}

    def expect_places(
        self, grains: int, terms: Sequence[bytes] = (), states: bool = False
    ) -> None:
        self.inner.expect_places(grains, terms, states)

    def keys_of(self, seq: int) -> UserKeys:
        number = blind_index.key_of(self.inner, seq)
        if number is None:
            raise KeyMissingError("the grain was encrypted elsewhere, and no key here decrypts it")
        return self.ring.by_number(number)

    def _tried(self, seq: int) -> Grain:
        """Return an encrypted grain of unknown owner, decrypted by any key that fits.

        It was stored when its key was not here, so no row names its key.
        """
        blob = self.inner.blob_at(seq)
        if blob is not None and blind_index.key_of(self.inner, seq) is None:
            from omsgrain.crypto.seal import open_plain

            if self._trying is None:
                self._trying = blind_index.KeyTrial(self.ring)
            if (opened := self._trying.open(blob)) is not None:
                return stored_grain(open_plain(opened[0]), _core.address(blob))
        self.keys_of(seq)  # raises with the reason
        raise KeyMissingError("no key here decrypts the grain")

    def first_due(self) -> int | None:
        return self.inner.first_due()

    def row(self, table: Table, key: bytes) -> bytes | None:
        return self.inner.row(table, key)

    def some_rows(self, table: Table, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return self.inner.some_rows(table, keys)

    def rows(
        self, table: Table, after: bytes | None = None, prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        return self.inner.rows(table, after, prefix)

    def last_row(self, table: Table) -> tuple[bytes, bytes] | None:
        return self.inner.last_row(table)

    def keys(self, prefix: bytes, which: Which = "all") -> Iterator[bytes]:
        """Iterate over the terms of the plain grains."""
        return self.inner.keys(prefix, which)

    def places_between(
        self, first: bytes, last: bytes, after: bytes | None, newest: bool, which: Which, most: int
    ) -> list[bytes]:
        """Return the places of the plain grains only."""
        return self.inner.places_between(first, last, after, newest, which, most)

    def count_between(self, first: bytes, last: bytes, which: Which, most: int) -> int:
        return self.inner.count_between(first, last, which, most)

    def term_count(self, key: bytes, which: Which = "all") -> int:
        """Return how many grains have a term; for encrypted ones it is an estimate."""
        return self.inner.term_count(key, which) + self._count(key)

    def term_counts(self, terms: Sequence[tuple[bytes, Which]]) -> list[int]:
        plain = self.inner.term_counts(terms)
        return [count + self._count(key) for count, (key, _) in zip(plain, terms, strict=True)]

    def _count(self, key: bytes) -> int:
        return sum(len(places) for _, places in self._masked(key).values()) // PLACE

    def _masked(self, term: bytes) -> dict[bytes, tuple[bytes, bytes]]:
        """Return the masked places of a term for each user, if there are many then only some."""
        found = self._terms.get(term)
        if found is None:
            users = self._all_users()
            tokens = _core.tokens_many([keys.token for keys in users], term)
            lists = [keys.number + token for keys, token in zip(users, tokens, strict=True)]
            places = self.inner.suffixes(BLIND, lists, _SOME)
            rows = zip(users, lists, places, strict=True)
            found = self._terms[term] = {keys.number: (own, some) for keys, own, some in rows}
        return found

    def has_term(self, key: bytes, place: bytes, which: Which = "all") -> bool:
        keys = self._owners.get(place)
        if keys is None:
            return self.inner.has_term(key, place, which)
        return self._is_in(key, keys, place) and self._is_seen(place, which)

    def _is_in(self, key: bytes, keys: UserKeys, place: bytes) -> bool:
        """Whether a place is in a user's list; those of a page are looked up together."""
        prefix, masked = self._masked(key).get(keys.number, (b"", b""))  # its key may be gone
        asked = self._asked.get(prefix, {})
        if place not in asked:
            from omsgrain.crypto.seal import mask

            page = list({place, *(one for one in self._page if self._owners[one] is keys)})
            wanted = mask(keys.place, b"".join(page))
            rows = pieces(wanted, PLACE)
            if len(masked) <= _SOME * PLACE:
                there = set(pieces(_core.common_places([masked, wanted]), PLACE))
            else:
                found = self.inner.some_rows(BLIND, [prefix + row for row in rows])
                there = {row[len(prefix) :] for row in found}
            asked = {one: row in there for one, row in zip(page, rows, strict=True)}
            self._asked[prefix] = asked
        return asked[place]

    def places(
        self, key: bytes, after: bytes | None, newest: bool, which: Which = "all"
    ) -> Iterator[bytes]:
        plain = self.inner.places(key, after, newest, which)
        if (blind := self._lists.get(key)) is None:
            blind = self._lists[key] = self._blind(key)
        if not blind:
            return plain
        wanted = (
            place
            for place in (reversed(blind) if newest else blind)
            if after is None or (place < after if newest else place > after)
        )
        return merge(plain, self._seen(wanted, which), reverse=newest)

    def _seen(self, places: Iterator[bytes], which: Which) -> Iterator[bytes]:
        """Of encrypted grains' places, walk those that are one of ``which``, by pages."""
        size, most = _PAGES
        while page := list(islice(places, size)):
            if which != "all":
                keys = [_HIGH + place[12:] for place in page]
                rows = self.inner.some_rows(STATES, keys)
                bits = (rows.get(key) or b"\0" for key in keys)
                self._past = {at: bool(row[0] & PAST) for at, row in zip(page, bits, strict=True)}
                page = [place for place in page if self._past[place] == (which == "past")]
            self._page = page
            yield from page
            size = min(4 * size, most)

    def _is_seen(self, place: bytes, which: Which) -> bool:
        if which == "all":
            return True
        if (past := self._past.get(place)) is None:
            past = self.inner.is_past(int.from_bytes(place[12:], "big"))
        return past == (which == "past")

    def _blind(self, key: bytes) -> list[bytes]:
        """Return the sorted places of the encrypted grains with a term, with their times."""
        from omsgrain.crypto.seal import mask

        found: list[bytes] = []
        lists = [self._masked(term) for term in (key, *self._words)]
        for keys in self._all_users():
            if masked := self._in_all([own[keys.number] for own in lists]):
                places = pieces(mask(keys.place, masked), PLACE)
                self._owners.update(dict.fromkeys(places, keys))
                found += places
        found.sort()
        return found

    def _in_all(self, lists: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Return the masked places that are in all lists of one user."""
        whole = [
            places if len(places) <= _SOME * PLACE else self.inner.suffixes(BLIND, [prefix])[0]
            for prefix, places in lists
            if places
        ]
        if len(whole) < len(lists):
            return b""
        return whole[0] if len(whole) == 1 else _core.common_places(whole)


class EncryptingWriter(DecryptingReader):
    inner: Writer

    def __init__(self, inner: Writer, ring: KeyRing) -> None:
        super().__init__(inner, ring)

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        """Append blobs unchanged; encrypt them before, and add their blind rows after."""
        self._forget()
        return self.inner.put(items)

    def set_row(self, table: Table, key: bytes, value: bytes | None) -> None:
        self._forget()
        self.inner.set_row(table, key, value)

    def set_rows(self, table: Table, rows: Iterable[tuple[bytes, bytes]]) -> None:
        self._forget()
        self.inner.set_rows(table, rows)

    def drop_rows(self, table: Table, prefix: bytes, most: int) -> int:
        self._forget()
        return self.inner.drop_rows(table, prefix, most)

    def unset_rows(self, table: Table, keys: Sequence[bytes]) -> None:
        self._forget()
        self.inner.unset_rows(table, keys)

    def _forget(self) -> None:
        """Read the lists again: a row was changed."""
        for known in (self._lists, self._terms, self._asked, self._past):
            known.clear()
        self._everybody = None

    def file_use(self) -> tuple[int, int]:
        return self.inner.file_use()

    def commits_since(self) -> tuple[int, int]:
        return self.inner.commits_since()

    def flush(self, least: int = 1) -> None:
        self.inner.flush(least)

    def event(self, kind: Kind, seq: int, digest: bytes) -> int:
        return self.inner.event(kind, seq, digest)

    def next_number(self) -> int:
        return self.inner.next_number()

    def set_paths(self, record: bytes | None, *, later: bool = True) -> None:
        self.inner.set_paths(record, later=later)

    def change_values(self, path: _core.IndexedPaths, first: int, last: int, *, add: bool) -> None:
        self.inner.change_values(path, first, last, add=add)

    def set_past(self, seq: int, past: bool) -> None:
        self.inner.set_past(seq, past)

    def remove(self, seq: int) -> None:
        self.remove_many([seq])

    def remove_many(self, seqs: Sequence[int]) -> None:
        self._forget()
        sealed = self.inner.some_rows(SEALED, [SEQUENCE.pack(seq) for seq in seqs])
        rows = iter(sealed.items())
        while part := list(islice(rows, _TOGETHER)):
            self._remove_rows(part)
        self.inner.remove_many(seqs)

    def _remove_rows(self, sealed: Iterable[tuple[bytes, bytes]]) -> None:
        """Remove the blind rows now; without the key, all rows of its user would be read."""
        opened: list[tuple[int, Grain]] = []
        owners: list[UserKeys] = []
        for key, number in sealed:
            (seq,) = SEQUENCE.unpack(key)
            grain = self.grain(seq)
            if grain is not None and not grain.sealed:
                opened.append((seq, grain))
                owners.append(self.ring.by_number(number))
        if opened:
            paths = core_of(paths_of(self.inner))  # there may be rows of dropped ones too
            blobs = [grain.blob for _, grain in opened]
            entries = blind_index.blind_entries(blobs, owners, paths)
            grains = [
                (entry, bytes.fromhex(grain.address), seq)
                for entry, (seq, grain) in zip(entries, opened, strict=True)
            ]
            blind_index.remove(self.inner, grains, owners)


T = TypeVar("T")


class EncryptedStorage:
    """The transactions of a storage, with keys."""

    def __init__(self, inner: Storage, ring: KeyRing) -> None:
        self.inner = inner
        self.ring = ring
        self.readonly = inner.readonly

    @contextmanager
    def read(self) -> Iterator[Reader]:
        self.ring.refresh()
        with self.inner.read() as reader:
            yield DecryptingReader(reader, self.ring)

    def write(
        self,
        work: Callable[[Writer], T],
        *,
        expecting: Sequence[bytes] = (),
        alone: bool = False,
    ) -> T:
        def run(writer: Writer) -> T:
            self.ring.refresh()  # here, because the transaction may have waited long
            return work(EncryptingWriter(writer, self.ring))

        return self.inner.write(run, expecting=expecting, alone=alone)
