# SPDX-License-Identifier: Apache-2.0
"""Sign a grain of a store."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from omsgrain import _core, registry
from omsgrain.errors import IntegrityError, KeyMissingError, SchemaError
from omsgrain.grain import Grain, make
from omsgrain.header import ENCRYPTED_BIT, SIGNED_BIT
from omsgrain.storage import signatures
from omsgrain.storage.base import KeyedReader, Reader, Writer
from omsgrain.storage.signatures import Signature
from omsgrain.storage.tables import SIGNED
from omsgrain.store import lifecycle
from omsgrain.store.context import Context, seq_of
from omsgrain.store.prepared import KeysMovedError, PreparedGrains, seal
from omsgrain.store.write import TRIES, in_the_clear, refuse_moved

if TYPE_CHECKING:
    from omsgrain.crypto.seal import UserKeys
    from omsgrain.crypto.signers import Signer


def sign(
    context: Context,
    address: str,
    signer: Signer,
    *,
    iat: int | None = None,
    justification: str | None = None,
) -> str:
    """Sign a grain of the store."""
    digest = _core.parse_address(address)
    with context.storage.read() as reader:
        old = _read(reader, seq_of(reader, digest))
    if old.blob[1] & SIGNED_BIT:
        return _sign_again(context, old, signer, iat)
    new = _successor(old.grain, justification)
    for _ in range(TRIES):
        with suppress(KeysMovedError):
            return _sign_new(context, old.grain, new, signer, iat, justification)
    raise KeyMissingError("keys are destroyed as fast as they are made")


def _sign_new(
    context: Context,
    old: Grain,
    new: bytes,
    signer: Signer,
    iat: int | None,
    justification: str | None,
) -> str:
    """Put a signed grain in the place of an unsigned one."""
    # A signer may be a device that takes its time, so no transaction is open meanwhile.
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
    # It was there already, sealed under another nonce: those are the bytes to be signed.
    return sign(context, done.hex(), signer, iat=iat, justification=justification)


def _sign_again(context: Context, old: _Stored, signer: Signer, iat: int | None) -> str:
    """Add a signature to a grain that is signed already; inside, if it was sealed after."""
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
    """A grain that is to be signed.

    Attributes:
        grain: as who holds the keys sees it.
        blob: the bytes that a signature is over: those that are stored, or what is sealed in them.
        keys: that seal it, if the signature belongs inside.
    """

    grain: Grain
    blob: bytes
    keys: UserKeys | None


def _read(reader: Reader, seq: int) -> _Stored:
    """A grain, whose bytes must be those that were put: they are going to be signed."""
    blob = reader.blob_at(seq)
    if blob is None or reader.find([sha256(blob).digest()])[0] != seq:
        raise IntegrityError("the stored bytes are damaged")
    grain = reader.grain(seq)
    if grain is None or (grain.sealed and not blob[1] & SIGNED_BIT):
        if isinstance(reader, KeyedReader):
            reader.keys_of(seq)  # says why it is not open
        raise KeyMissingError("the grain is sealed: who signs it must be able to read it")
    if not blob[1] & (SIGNED_BIT | ENCRYPTED_BIT) or blob[1] & SIGNED_BIT:
        return _Stored(grain, blob, None)
    keys = reader.keys_of(seq) if isinstance(reader, KeyedReader) else None
    return _Stored(grain, grain.blob, keys)


def _successor(old: Grain, justification: str | None) -> bytes:
    """The grain that says the same and can be signed; not signed yet."""
    # Why the old grain superseded another is no reason to supersede the old grain.
    claims = {field.name for field in registry.FIELDS if field.supersede_only}
    fields = {name: value for name, value in old.to_dict().items() if name not in claims}
    parents = fields.get("derived_from", [])
    if not isinstance(parents, list):  # only an opaque grain can have that
        raise SchemaError("not addresses", field="/derived_from", expected="a list")
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
