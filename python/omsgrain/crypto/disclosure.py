# SPDX-License-Identifier: Apache-2.0
"""Selective disclosure: a grain without some of its fields, proved by the whole. Spec: OMS §10.

A disclosure is a view: the same fields, but of the hidden ones only the hashes. It has an address
of its own, is not signed, and is not stored. The whole grain, or its signed envelope, proves it.

    grain ── disclose ──▶ view ── reveal ──▶ view that shows more ── reveal ──▶ the grain again
      └───────────── check_disclosure ─────────────┘
"""

from __future__ import annotations

import hashlib
import hmac
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from unicodedata import normalize

from omsgrain import _core
from omsgrain.crypto import elided
from omsgrain.crypto.did import Resolver
from omsgrain.crypto.elided import ELIDED, ORIGINAL, pointer
from omsgrain.crypto.envelope import Proof, open_signed, with_signed_bit
from omsgrain.crypto.views import gives, hiding, variants, whole_grain, write
from omsgrain.errors import (
    IntegrityError,
    OmsWarning,
    SchemaError,
    SensitivityMismatchError,
)
from omsgrain.grain import Grain, bare


@dataclass(frozen=True, slots=True)
class Disclosed:
    """What is known of a disclosure.

    Attributes:
        view: the disclosure.
        original: the address of the whole grain, as the view says.
        hidden: the full names of the hidden fields.
        verified: it was compared with the whole grain. False: only its own form was looked at,
            and anybody can have written it.
        proof: who signed the whole grain, if an envelope was given.
    """

    view: Grain
    original: str
    hidden: tuple[str, ...]
    verified: bool
    proof: Proof | None


def disclose(grain: Grain | bytes, hide: Iterable[str]) -> Grain:
    """Make a view of a grain without some of its fields. Spec: OMS §10.1.

    The view keeps the type name, encoding, compression and sensitivity of the grain: hiding the
    tags must not make health data look public. A view of a view names the first grain.

    A hidden value that can be guessed gives an `OmsWarning`, which stands in ``warnings`` too,
    because the hash has no salt. So does a grain that cannot be put together again by `reveal`.

    Args:
        grain: the grain, or its blob.
        hide: full names of fields.

    Raises:
        SchemaError: there is no such field, it may not be hidden, nothing is hidden, or the type
            asks for more than is left.
        KeyMissingError: the grain is sealed and was not opened.
        TooLargeError: with the hashes it is larger than a grain may be.
        OmsError: any refusal of the format.
    """
    view, notes = _view_of(grain, hide)
    for note in notes:
        warnings.warn(note, OmsWarning, stacklevel=2)
    return view


def view_of(grain: Grain | bytes, hide: Iterable[str]) -> Grain:
    """What `disclose` gives, its warnings only on the view."""
    return _view_of(grain, hide)[0]


def _view_of(grain: Grain | bytes, hide: Iterable[str]) -> tuple[Grain, list[str]]:
    grain = whole_grain(grain)
    fields = grain.to_dict()
    # A grain that a store opened is disclosed by the address of its plain blob: whoever gets the
    # view cannot make the sealed one, so its address would prove nothing.
    original = _core.address(grain.blob)
    digests: dict[str, bytes] = {}
    notes: list[str] = []
    if elided.is_view(grain):
        digests, original = elided.hidden(grain)
    elif not gives(grain.to_dict(), grain.header, grain.blob):
        notes.append("the view and what it hides do not give these bytes again; keep the grain")
    for name in _names(hide):
        where = pointer(name)
        elided.refuse_unless_elidable(name, where)
        if name in digests:
            raise SchemaError("the field is hidden already", field=where)
        if name not in fields:
            raise SchemaError("the grain has no such field", field=where)
        value = fields.pop(name)
        digests[name] = elided.digest(name, value)
        if elided.guessable(name, value):
            notes.append(f"{name}: it can be guessed, and its hash shows who guessed right")
    return write(hiding(fields, digests, original), grain.header, notes), notes


def reveal(view: Grain | bytes, values: Mapping[str, Any]) -> Grain:
    """Show hidden values in a view, each checked against its hash.

    Args:
        view: the disclosure, or its blob.
        values: by full name, as `encode` takes them.

    Returns:
        The view that shows them. If nothing is hidden any longer, the whole grain, with its signed
        bit if it has one.

    Raises:
        IntegrityError: a value is not the hidden one, or what is whole now has another address
            than the view says. A grain that was compressed elsewhere, or has field names of 1.1,
            cannot be made again, and is refused so too.
        SchemaError: no disclosure, or a name that it does not hide, or a value of a wrong kind.
        OmsError: any refusal of the format.
    """
    view = whole_grain(view)
    digests, original = elided.hidden(view)
    if not values:
        raise SchemaError("nothing to reveal")
    fields = {name: value for name, value in view.to_dict().items() if name != ELIDED}
    fields.pop(ORIGINAL)
    named = {normalize("NFC", name): value for name, value in values.items()}
    for name in named:
        if name not in digests:
            raise SchemaError("the view hides no such field", field=pointer(name))
    left = {name: value for name, value in digests.items() if name not in named}
    shown = write(hiding(fields | named, left, original), view.header)
    for name in named:  # as the grain has it now: canonical, whatever way it was given
        if name not in shown.fields or not _same(
            elided.digest(name, shown.fields[name]), digests[name]
        ):
            raise IntegrityError("not the value that was hidden", field=pointer(name))
    if left:
        return shown
    expected = bytes.fromhex(original)
    for blob in variants(shown):
        if _same(hashlib.sha256(blob).digest(), expected):
            plain = Grain(bare(blob))
            return plain if plain.blob == blob else with_signed_bit(plain)
    raise IntegrityError(
        "what is revealed is not the grain that the view names",
        field=pointer(ORIGINAL),
        expected=original,
        found=shown.address,
    )


def check_disclosure(
    view: Grain | bytes,
    original: Grain | bytes | None = None,
    *,
    envelope: bytes | None = None,
    resolver: Resolver | None = None,
) -> Disclosed:
    """Prove that a view is one of the whole grain: nothing forged, left out or added.

    Args:
        view: the disclosure, or its blob.
        original: the whole grain, or its blob. Without it and without an envelope, only the form
            of the view is checked.
        envelope: the whole grain as it was signed; its signature is verified.
        resolver: finds the key of a signer whose DID is no did:key.

    Raises:
        IntegrityError: a value, a hash or the address is not the original's, or a field is
            neither shown nor hidden.
        SchemaError: no disclosure, or it hides what may not be hidden or what the original does
            not have.
        SensitivityMismatchError: the view's header says less than the original's.
        KeyMissingError: one of them is sealed and was not opened.
        SignatureError, DidError: the signature does not hold, or its key is not known.
        OmsError: any refusal of the format.
    """
    view = whole_grain(view)
    digests, address = elided.hidden(view)
    proof = None
    whole = None if original is None else whole_grain(original)
    if envelope is not None:
        signed = open_signed(envelope, resolver=resolver)
        proof = Proof(signed.signer, signed.iat)
        if whole is not None and whole.blob != signed.grain.blob:
            raise IntegrityError("the envelope holds another grain than the original")
        whole = signed.grain
    if whole is not None:
        _same_address(whole, address)
        _compare(view, digests, whole)
    return Disclosed(view, address, tuple(digests), whole is not None, proof)


def _same_address(whole: Grain, address: str) -> None:
    found = _core.address(whole.blob)
    if not hmac.compare_digest(found, address):
        text = "the view is not one of this grain"
        raise IntegrityError(text, field=pointer(ORIGINAL), expected=address, found=found)


def _compare(view: Grain, digests: Mapping[str, bytes], whole: Grain) -> None:
    """Every field of the two, as packed bytes: 1 is not 1.0 and not true."""
    if elided.is_view(whole):
        raise SchemaError("the original is itself a disclosure")
    if view.header.type_byte != whole.header.type_byte:
        raise IntegrityError("the view has another type byte", field=pointer("type"))
    if view.header.sensitivity < whole.header.sensitivity:
        raise SensitivityMismatchError(
            "the view says less than the original",
            offset=1,
            expected=str(whole.header.sensitivity),
            found=str(view.header.sensitivity),
        )
    shown = {name: value for name, value in view.fields.items() if name not in (ELIDED, ORIGINAL)}
    for name, value in whole.fields.items():
        expected = elided.digest(name, value)
        if name in digests:
            if not _same(digests[name], expected):
                raise IntegrityError("not the hash of the value", field=pointer(ELIDED, name))
        elif name not in shown:
            raise IntegrityError("the field is neither shown nor hidden", field=pointer(name))
        elif not _same(elided.digest(name, shown[name]), expected):
            raise IntegrityError("not the original's value", field=pointer(name))
    for name in shown:
        if name not in whole.fields:
            raise IntegrityError("the original has no such field", field=pointer(name))
    for name in digests:
        if name not in whole.fields:
            raise SchemaError("the original has no such field", field=pointer(ELIDED, name))


def _names(hide: Iterable[str]) -> list[str]:
    if isinstance(hide, str | bytes):
        raise TypeError("hide takes names of fields, not one text")
    names = list(dict.fromkeys(normalize("NFC", name) for name in hide))
    if not names:
        raise SchemaError("nothing to hide", expected="the name of a field")
    return names


def _same(left: bytes, right: bytes) -> bool:
    return hmac.compare_digest(left, right)
