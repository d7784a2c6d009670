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
    raise KeyMissingError("the user's key was destroyed while the grain was signed; sign it again")


def _sign_new(
    context: Context,
    old: Grain,
    new: bytes,
    signer: Signer,
    iat: int | None,
    justification: str | None,
) -> str:
    """Supersede an unsigned grain by a signed one."""
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
    return sign(context, done.hex(), signer, iat=iat, justification=justification)


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
    """A grain to sign.

    Attributes:
        grain: the grain, decrypted if possible.
        blob: the bytes to sign: the stored blob, or the encrypted one inside.
        keys: the user's keys if the signature belongs inside the encryption.
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
        if isinstance(reader, KeyedReader):
            reader.keys_of(seq)  # raises with the reason
        raise KeyMissingError("the grain is encrypted, and its key is needed to sign it")
    if not blob[1] & (SIGNED_BIT | ENCRYPTED_BIT) or blob[1] & SIGNED_BIT:
        return _Stored(grain, blob, None)
    keys = reader.keys_of(seq) if isinstance(reader, KeyedReader) else None
    return _Stored(grain, grain.blob, keys)


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
