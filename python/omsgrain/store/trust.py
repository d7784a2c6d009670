# SPDX-License-Identifier: Apache-2.0
"""Signatures: sign grains, require signatures, and ``store.trust``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, get_args
from unicodedata import normalize

from omsgrain import _core, registry
from omsgrain.errors import IntegrityError, KeyMissingError, NotFoundError, SchemaError
from omsgrain.grain import Grain, make
from omsgrain.header import ENCRYPTED_BIT, SIGNED_BIT
from omsgrain.policy.rules import matches
from omsgrain.storage import signatures
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.records import Verification
from omsgrain.storage.signatures import Signature
from omsgrain.storage.tables import SIGNED
from omsgrain.store import lifecycle
from omsgrain.store.context import Context, StorePart, seq_of, stored_digest
from omsgrain.store.prepared import KeysMovedError, PreparedGrains, seal
from omsgrain.store.write import TRIES, in_the_clear, refuse_moved

if TYPE_CHECKING:
    from omsgrain.crypto.seal import UserKeys
    from omsgrain.crypto.signers import Signer

_STATUSES = get_args(Verification)
_REQUIRE = "/require_signatures"


class GrainTrust(StorePart):
    """``store.trust``: signatures and verification status of grains."""

    __slots__ = ()

    def set_verification(
        self, address: str, status: Verification, *, reason: str | None = None
    ) -> None:
        """Set the verification status: unverified, verified, contested or retracted.

        Args:
            address: the grain.
            status: the new status.
            reason: the reason, which some policies require.

        Raises:
            SchemaError: the status is unknown.
            NotFoundError: the grain is not in the store.
            InvalidationDeniedError: a policy or a hold forbids the change.
            StoreError: the store is read-only, full or damaged. Nothing was stored.

        Spec: OMS §23
        """
        if status not in _STATUSES:
            raise SchemaError(
                "unknown verification status", field="/status", expected=", ".join(_STATUSES)
            )
        context = self._context
        digest = _core.parse_address(address)

        def work(writer: Writer) -> None:
            about = [stored_digest(writer, digest)]
            operation = lifecycle.set_status(writer, context.settings, digest, status, reason)
            if operation is not None:
                context.note(writer, operation, about, reason_code=status, note=reason)

        context.storage.write(work)

    def signatures(self, address: str) -> list[Signature]:
        """Return the signatures of a grain, sorted by signer; none if it is unsigned.

        Args:
            address: the grain.

        Raises:
            NotFoundError: the grain is not in the store.
            IntegrityError: a stored signature is damaged.
        """
        digest = _core.parse_address(address)
        with self._context.storage.read() as reader:
            return signatures.signatures(reader, seq_of(reader, digest))

    def envelope(self, address: str, signer: str | None = None) -> bytes:
        """Return a signed grain in its envelope, byte for byte as received.

        Args:
            address: the grain.
            signer: the DID of the signer. Default: the lowest DID of a verified signature, or
                else the lowest DID.

        Raises:
            NotFoundError: the grain is not in the store, or has no signature of this signer.
            IntegrityError: a stored signature is damaged.
        """
        chosen = signatures.by_signer(self.signatures(address), signer)
        if chosen is None:
            raise NotFoundError(
                "the grain has no signature, or none of this signer", found=address
            )
        return chosen.envelope


def sign(
    context: Context, address: str, signer: Signer, iat: int | None, justification: str | None
) -> str:
    digest = _core.parse_address(address)
    with context.storage.read() as reader:
        old = _read(reader, seq_of(reader, digest))
    if old.blob[1] & SIGNED_BIT:
        return _sign_again(context, old, signer, iat)
    new = _successor(old.grain, justification)
    for _ in range(TRIES):
        with suppress(KeysMovedError):
            return _sign_new(context, old.grain, new, signer, iat, justification)
    raise KeyMissingError("the user's key was destroyed while the grain was signed; sign it again")


def _sign_new(
    context: Context,
    old: Grain,
    new: bytes,
    signer: Signer,
    iat: int | None,
    justification: str | None,
) -> str:
    # A signer may be a slow device, so no transaction is open while it signs.
    given = PreparedGrains([(sha256(new).digest(), new)])
    seal(context.settings, given, to_be_signed=True)
    blob, signature = _sign(context, given.pairs[0][1], signer, iat)
    given.pairs[0] = (sha256(blob).digest(), blob)
    given.signatures[0] = signature
    old_digest = bytes.fromhex(old.address)

    def work(writer: Writer) -> bytes:
        refuse_moved(context.settings, given)
        for error in in_the_clear(writer, context.settings, given).values():
            raise error
        done, changed = lifecycle.put_successor(
            writer, context.settings, old_digest, given, justification
        )
        if changed:
            context.note(writer, "sign", [old_digest, done])
        return done

    done = context.storage.write(work)
    if done == given.pairs[0][0]:
        return done.hex()
    # The store has the grain encrypted with another nonce: sign those bytes.
    return sign(context, done.hex(), signer, iat, justification)


def _sign_again(context: Context, old: _Stored, signer: Signer, iat: int | None) -> str:
    """Add a signature to a signed grain; inside the encryption if it was encrypted later."""
    blob, signature = _sign(context, old.blob, signer, iat)
    digest = bytes.fromhex(old.grain.address)

    def work(writer: Writer) -> None:
        seq = seq_of(writer, digest)
        if signatures.add(writer, seq, blob, signature, old.keys):
            writer.event(SIGNED, seq, digest)
            context.note(writer, "sign", [digest])

    context.storage.write(work)
    return old.grain.address


def _sign(
    context: Context, blob: bytes, signer: Signer, iat: int | None
) -> tuple[bytes, Signature]:
    from omsgrain import crypto

    envelope = crypto.sign(blob, signer, iat=iat)
    return signatures.examine(envelope, context.settings.resolver)


class _Stored(NamedTuple):
    """A grain to sign, decrypted if possible, and the bytes to sign.

    These are the stored blob, or the encrypted one inside. With ``keys``, the signature belongs
    inside the encryption.
    """

    grain: Grain
    blob: bytes
    keys: UserKeys | None


def _read(reader: Reader, seq: int) -> _Stored:
    """Read a grain to sign; its stored bytes must match their address."""
    blob = reader.blob_at(seq)
    if blob is None or reader.find([sha256(blob).digest()])[0] != seq:
        raise IntegrityError("the stored bytes are damaged")
    grain = reader.grain(seq)
    if grain is None or (grain.sealed and not blob[1] & SIGNED_BIT):
        reader.keys_of(seq)  # with keys, it raises with the reason
        raise KeyMissingError("the grain is encrypted, and its key is needed to sign it")
    if not blob[1] & (SIGNED_BIT | ENCRYPTED_BIT) or blob[1] & SIGNED_BIT:
        return _Stored(grain, blob, None)
    return _Stored(grain, grain.blob, reader.keys_of(seq))


def _successor(old: Grain, justification: str | None) -> bytes:
    """Return the unsigned copy of a grain, derived from it."""
    # The old grain's own supersession claims do not apply to the copy.
    claims = {field.name for field in registry.FIELDS if field.supersede_only}
    fields = {name: value for name, value in old.to_dict().items() if name not in claims}
    parents = fields.get("derived_from", [])
    if not isinstance(parents, list):  # possible in opaque grains
        raise SchemaError(
            "derived_from is not a list of addresses", field="/derived_from", expected="a list"
        )
    fields["derived_from"] = [*parents, old.address]
    if justification is not None:
        fields["supersession_justification"] = justification
    header = old.header
    return make(
        fields,
        encoding=header.encoding,
        compress=header.compressed,
        sensitivity=header.sensitivity,
        keep_type_name=True,
        type_byte=header.type_byte if old.opaque else None,
    ).blob


@dataclass(frozen=True, slots=True)
class Required:
    """Conditions that a grain must all meet to require a signature; without any, all grains do."""

    types: frozenset[int] = frozenset()  # type bytes; empty for all types
    # namespaces; ``robots:*`` matches every namespace that begins with ``robots:``
    namespaces: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: object) -> Required | None:
        """Parse the argument ``require_signatures``."""
        if value is None or value is False:
            return None
        if value is True:
            return cls()
        if not isinstance(value, Mapping) or not value:
            expected = "True, or type and namespace with a list each"
            raise SchemaError(
                "require_signatures has an invalid value", field=_REQUIRE, expected=expected
            )
        if unknown := value.keys() - {"type", "namespace"}:
            raise SchemaError(
                "unknown condition",
                field=f"{_REQUIRE}/{min(map(str, unknown))}",
                expected="type or namespace",
            )
        types = frozenset(map(_type_byte, _names(value, "type")))
        return cls(types, tuple(map(_pattern, _names(value, "namespace"))))

    def asks(self, grain: Grain) -> bool:
        """Return whether a grain must be signed; with an unreadable namespace, it must."""
        if self.types and grain.header.type_byte not in self.types:
            return False
        if not self.namespaces or grain.sealed:
            return True
        return matches(grain.get("namespace"), self.namespaces)


def _names(value: Mapping[str, object], key: str) -> list[str]:
    if key not in value:
        return []
    names = value[key]
    # An empty list is ambiguous: all grains or none.
    if (
        not isinstance(names, list | tuple | set | frozenset)
        or not names
        or not all(isinstance(name, str) and name for name in names)
    ):
        raise SchemaError("expected a list of names", field=f"{_REQUIRE}/{key}")
    return list(names)


def _type_byte(name: str) -> int:
    for kind in registry.TYPES:
        if name == kind.name or name in kind.legacy or name in kind.later:
            return kind.byte
    expected = ", ".join(kind.name for kind in registry.TYPES)
    raise SchemaError("unknown grain type", field=f"{_REQUIRE}/type", expected=expected)


def _pattern(name: str) -> str:
    if "*" in name.removesuffix(":*"):  # elsewhere it would be a literal, and match nothing
        raise SchemaError(
            "invalid namespace", field=f"{_REQUIRE}/namespace", expected="a name, or name:*"
        )
    return normalize("NFC", name)
