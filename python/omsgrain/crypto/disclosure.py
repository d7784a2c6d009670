# SPDX-License-Identifier: Apache-2.0
"""Selective disclosure: a grain without some of its fields. Spec: OMS §10.

A disclosure is a view: the same fields, with hashes of the hidden ones. It has its own address, is
not signed, and is not stored. The whole grain, or its signed envelope, proves it.

    grain ── disclose ──▶ view ── reveal ──▶ view that shows more ── reveal ──▶ the grain again
      └───────────── check_disclosure ─────────────┘
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any
from unicodedata import normalize

import msgpack

from omsgrain import _core, registry
from omsgrain.crypto.cose import Proof, open_signed, with_signed_bit
from omsgrain.crypto.did import Resolver
from omsgrain.errors import (
    PLAIN_NAME,
    AddressError,
    HashFormatError,
    IntegrityError,
    KeyMissingError,
    OmsWarning,
    SchemaError,
    SensitivityMismatchError,
)
from omsgrain.grain import Grain, bare, checked_grain, options
from omsgrain.header import SIGNED_BIT, Header, as_bytes, read_header

ELIDED, ORIGINAL = "_elided", "_disclosure_of"
PREFIX = "sha256:"

#: With this many unknown bytes a value cannot be guessed; with fewer, its hash reveals it.
ENOUGH = 16
_NUMBER = 4  # assumed bytes of a number or a time: usual values are quickly tried
_PLAIN = re.compile(PLAIN_NAME)
_TIME = re.compile(r"\d{4}-\d\d-\d\d([Tt ][\d:.]+([Zz]|[+-][\d:]+)?)?")


def is_view(grain: Grain) -> bool:
    """Whether the grain claims to be a disclosure; `hidden` checks it."""
    return ELIDED in grain.fields or ORIGINAL in grain.fields


def hidden(view: Grain) -> tuple[dict[str, bytes], str]:
    """Return the hidden fields of a disclosure with their hashes, and the address of its grain."""
    fields = view.fields
    for name in (ELIDED, ORIGINAL):
        if name not in fields:
            raise SchemaError("only a disclosure has this field", field=pointer(name))
    elided, original = fields[ELIDED], fields[ORIGINAL]
    if not isinstance(elided, Mapping) or not elided:
        raise SchemaError("the disclosure hides no field", field=pointer(ELIDED))
    # The core checks a grain of the ten types, but not an opaque one.
    if not isinstance(original, str):
        raise SchemaError("not an address", field=pointer(ORIGINAL), expected="a string")
    original = original.removeprefix(PREFIX)
    _parse(original, pointer(ORIGINAL))
    digests = {}
    for name, text in elided.items():
        where = pointer(ELIDED, name)
        refuse_unless_elidable(name, where)
        if name in fields:
            raise SchemaError("the field is both shown and hidden", field=where)
        if not isinstance(text, str) or not text.startswith(PREFIX):
            raise HashFormatError("not a hash", field=where, expected="sha256: and 64 hex digits")
        digests[name] = _parse(text.removeprefix(PREFIX), where)
    return digests, original


def refuse_unless_elidable(name: str, where: str) -> None:
    """Raise SchemaError for a field that every reader must see. Spec: OMS §10.2."""
    field = _field(name)
    if field is not None and not (field.elidable and not field.index_layer):
        raise SchemaError("this field cannot be elided", field=where)


def digest(name: str, value: Any) -> bytes:
    """Return the hash of a field's value. Spec: OMS §10.1.1."""
    return hashlib.sha256(packed(name, value)).digest()


def packed(name: str, value: Any) -> bytes:
    """Return the canonical MessagePack of a field's value. Spec: OMS §4."""
    field = _field(name)
    if field is not None and field.nested is not None and isinstance(value, list):
        short = {row.name: row.short for row in registry.NESTED[field.nested]}
        value = [_compact(short, entry) for entry in value]
    data: bytes = msgpack.packb(_in_order(value), use_bin_type=True)
    return data


def _compact(short: Mapping[str, str], entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    return {short.get(key, key): value for key, value in entry.items()}


def _in_order(value: Any) -> Any:
    """Sort keys at every level; code points sort as their UTF-8 bytes do."""
    if isinstance(value, Mapping):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def guessable(name: str, value: Any) -> bool:
    """Whether a hidden value can be found by hashing candidates.

    The hash has no salt. A value can be guessed if it is a yes or no, a number, a time, or a usual
    value of its field. So can one with fewer than 16 unknown bytes, where numbers and times count
    as four. False is no promise: names, addresses and other listed values can be tried one by one,
    at any length.
    """
    field = _field(name)
    if field is not None and (value in field.enum or value in field.open_enum):
        return True
    return _unknown(value) < ENOUGH


def _unknown(value: Any) -> int:
    if isinstance(value, Mapping):  # its keys are probably known
        return sum(map(_unknown, value.values()))
    if isinstance(value, list):
        return sum(map(_unknown, value))
    if isinstance(value, str):
        return _NUMBER if _TIME.fullmatch(value) else len(value.encode())
    if isinstance(value, bytes):
        return len(value)
    return 0 if value is None or isinstance(value, bool) else _NUMBER


def pointer(*names: str) -> str:
    """Return a field's JSON pointer; a name that may be long or personal is not shown."""
    return "".join("/" + (_escaped(name) if _PLAIN.fullmatch(name) else "…") for name in names)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _field(name: str) -> registry.Field | None:
    try:
        return registry.field(name)
    except KeyError:
        return None


def _parse(text: str, where: str) -> bytes:
    try:
        return _core.parse_address(text)
    except AddressError as error:
        error.field = where
        raise


_NS_HASH = 3  # offset in the header
_NO_NAMESPACE = (b"", b"shared")  # other writers hash this if there is no namespace


def whole_grain(grain: Grain | bytes) -> Grain:
    """Return the grain, read strictly."""
    blob = grain.blob if isinstance(grain, Grain) else as_bytes(grain)
    if read_header(blob).encrypted:
        raise KeyMissingError("the grain is sealed; open it before making a disclosure")
    if not isinstance(grain, Grain):
        return Grain(blob)
    _core.check(bare(blob))  # it may have been read leniently
    return grain


def hiding(fields: dict[str, Any], digests: Mapping[str, bytes], original: str) -> dict[str, Any]:
    """Return the fields with the hashes of hidden ones."""
    if not digests:
        return fields
    hashes = {name: PREFIX + value.hex() for name, value in digests.items()}
    return fields | {ELIDED: hashes, ORIGINAL: original}


def write(fields: Mapping[str, Any], header: Header, notes: Iterable[str] = ()) -> Grain:
    """Encode the fields with the settings of this header; the notes become warnings."""
    blob, _ = _core.encode(fields, _options(header))
    parts, name, said = _core.check(blob)
    return checked_grain(blob, parts, name, [*said, *notes], None)


def _options(header: Header) -> tuple[str, bool, int, bool, int | None, str]:
    known = any(kind.byte == header.type_byte for kind in registry.TYPES)
    return options(
        "cbor" if header.encoding == "cbor" else "msgpack",
        header.compressed,
        header.sensitivity,
        keep_type_name=True,
        type_byte=None if known else header.type_byte,
    )


def gives(fields: Mapping[str, Any], header: Header, blob: bytes) -> bool:
    """Whether `reveal` would return these bytes."""
    return blob in variants(write(fields, header))


def variants(grain: Grain) -> Iterator[bytes]:
    """Yield the blobs with these fields: signed or not, and the three forms without namespace."""
    blobs = [grain.blob]
    if not grain.fields.get("namespace"):
        for name in _NO_NAMESPACE:
            ns_hash = hashlib.sha256(name).digest()[:2]
            blobs.append(grain.blob[:_NS_HASH] + ns_hash + grain.blob[_NS_HASH + 2 :])
    for blob in blobs:
        yield blob
        yield blob[:1] + bytes((blob[1] | SIGNED_BIT,)) + blob[2:]


@dataclass(frozen=True, slots=True)
class Disclosed:
    """The facts about a disclosure.

    Attributes:
        view: The disclosure.
        original: The address of the whole grain, by the view.
        hidden: The full names of the hidden fields.
        verified: Whether it was compared with the whole grain. If False, only its form was
            checked, and it may be forged.
        proof: The signature of the whole grain, if an envelope was given.
    """

    view: Grain
    original: str
    hidden: tuple[str, ...]
    verified: bool
    proof: Proof | None


def disclose(grain: Grain | bytes, hide: Iterable[str]) -> Grain:
    """Make a view of a grain without some of its fields. Spec: OMS §10.1.

    The view keeps the type name, encoding, compression and sensitivity of the grain: a view with
    hidden tags must not make health data look public. A view of a view names the first grain.

    A hidden value that can be guessed gives an `OmsWarning`, also in ``warnings``, because the
    hash has no salt. So does a grain that `reveal` cannot restore.

    Args:
        grain: The grain, or its blob.
        hide: Full names of fields.

    Raises:
        SchemaError: There is no such field, it cannot be hidden, nothing is hidden, or a required
            field would be missing.
        KeyMissingError: The grain is sealed and was not opened.
        TooLargeError: With the hashes it is larger than the limit of a grain.
        OmsError: Any refusal of the format.
    """
    view, notes = _view_of(grain, hide)
    for note in notes:
        warnings.warn(note, OmsWarning, stacklevel=2)
    return view


def view_of(grain: Grain | bytes, hide: Iterable[str]) -> Grain:
    """Return the view of `disclose`, with its warnings only on the view."""
    return _view_of(grain, hide)[0]


def _view_of(grain: Grain | bytes, hide: Iterable[str]) -> tuple[Grain, list[str]]:
    grain = whole_grain(grain)
    fields = grain.to_dict()
    # A grain that a store opened is disclosed by the address of its plain blob: a reader of the
    # view cannot make the sealed one, so its address would prove nothing.
    original = _core.address(grain.blob)
    digests: dict[str, bytes] = {}
    notes: list[str] = []
    if is_view(grain):
        digests, original = hidden(grain)
    elif not gives(grain.to_dict(), grain.header, grain.blob):
        notes.append("`reveal` cannot restore these bytes from the view; keep the grain")
    for name in _names(hide):
        where = pointer(name)
        refuse_unless_elidable(name, where)
        if name in digests:
            raise SchemaError("the field is hidden already", field=where)
        if name not in fields:
            raise SchemaError("the grain has no such field", field=where)
        value = fields.pop(name)
        digests[name] = digest(name, value)
        if guessable(name, value):
            notes.append(f"{name}: the value can be guessed, and its hash confirms a guess")
    return write(hiding(fields, digests, original), grain.header, notes), notes


def reveal(view: Grain | bytes, values: Mapping[str, Any]) -> Grain:
    """Show hidden values in a view, each checked against its hash.

    Args:
        view: The disclosure, or its blob.
        values: By full name, as `encode` accepts them.

    Returns:
        The view that shows them. If no field is hidden any more, the whole grain, with its signed
        bit if it has one.

    Raises:
        IntegrityError: A value is not the hidden one, or the whole grain has another address than
            the view names. A grain that was compressed elsewhere, or has field names of 1.1,
            cannot be restored, and is refused too.
        SchemaError: Not a disclosure, or a name that it does not hide, or a value of a wrong kind.
        OmsError: Any refusal of the format.
    """
    view = whole_grain(view)
    digests, original = hidden(view)
    if not values:
        raise SchemaError("no values to reveal")
    fields = {name: value for name, value in view.to_dict().items() if name != ELIDED}
    fields.pop(ORIGINAL)
    named = {normalize("NFC", name): value for name, value in values.items()}
    for name in named:
        if name not in digests:
            raise SchemaError("the view does not hide this field", field=pointer(name))
    left = {name: value for name, value in digests.items() if name not in named}
    shown = write(hiding(fields | named, left, original), view.header)
    for name in named:  # in canonical form, whatever its given form
        if name not in shown.fields or not compare_digest(
            digest(name, shown.fields[name]), digests[name]
        ):
            raise IntegrityError("not the hidden value", field=pointer(name))
    if left:
        return shown
    expected = bytes.fromhex(original)
    for blob in variants(shown):
        if compare_digest(hashlib.sha256(blob).digest(), expected):
            plain = Grain(bare(blob))
            return plain if plain.blob == blob else with_signed_bit(plain)
    raise IntegrityError(
        "the revealed grain is not the one that the view names",
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
    """Prove that a view matches the whole grain: nothing forged, left out or added.

    Args:
        view: The disclosure, or its blob.
        original: The whole grain, or its blob. Without it and without an envelope, only the form
            of the view is checked.
        envelope: The envelope of the whole grain; its signature is verified.
        resolver: Finds the key of a DID other than did:key.

    Raises:
        IntegrityError: A value, a hash or the address differs from the original, or a field is
            neither shown nor hidden.
        SchemaError: Not a disclosure, or it hides a field that cannot be hidden or that the
            original does not have.
        SensitivityMismatchError: The sensitivity in the view's header is lower than the
            original's.
        KeyMissingError: One of them is sealed and was not opened.
        SignatureError, DidError: The signature is not valid, or its key is not known. OmsError:
        Any refusal of the format.
    """
    view = whole_grain(view)
    digests, address = hidden(view)
    proof = None
    whole = None if original is None else whole_grain(original)
    if envelope is not None:
        signed = open_signed(envelope, resolver=resolver)
        proof = Proof(signed.signer, signed.iat)
        if whole is not None and whole.blob != signed.grain.blob:
            raise IntegrityError("the envelope contains another grain than the original")
        whole = signed.grain
    if whole is not None:
        _same_address(whole, address)
        _compare(view, digests, whole)
    return Disclosed(view, address, tuple(digests), whole is not None, proof)


def _same_address(whole: Grain, address: str) -> None:
    found = _core.address(whole.blob)
    if not compare_digest(found, address):
        text = "the view is of another grain"
        raise IntegrityError(text, field=pointer(ORIGINAL), expected=address, found=found)


def _compare(view: Grain, digests: Mapping[str, bytes], whole: Grain) -> None:
    """Compare every field of the two, as packed bytes: 1 is not 1.0 and not true."""
    if is_view(whole):
        raise SchemaError("the original is itself a disclosure")
    if view.header.type_byte != whole.header.type_byte:
        raise IntegrityError("the view has another type byte", field=pointer("type"))
    if view.header.sensitivity < whole.header.sensitivity:
        raise SensitivityMismatchError(
            "the view's sensitivity is lower than the original's",
            offset=1,
            expected=str(whole.header.sensitivity),
            found=str(view.header.sensitivity),
        )
    shown = {name: value for name, value in view.fields.items() if name not in (ELIDED, ORIGINAL)}
    for name, value in whole.fields.items():
        expected = digest(name, value)
        if name in digests:
            if not compare_digest(digests[name], expected):
                raise IntegrityError("not the hash of the value", field=pointer(ELIDED, name))
        elif name not in shown:
            raise IntegrityError("the field is neither shown nor hidden", field=pointer(name))
        elif not compare_digest(digest(name, shown[name]), expected):
            raise IntegrityError("differs from the original's value", field=pointer(name))
    for name in shown:
        if name not in whole.fields:
            raise IntegrityError("the original has no such field", field=pointer(name))
    for name in digests:
        if name not in whole.fields:
            raise SchemaError("the original has no such field", field=pointer(ELIDED, name))


def _names(hide: Iterable[str]) -> list[str]:
    if isinstance(hide, str | bytes):
        raise TypeError("hide needs a list of names, not one text")
    names = list(dict.fromkeys(normalize("NFC", name) for name in hide))
    if not names:
        raise SchemaError("no field to hide", expected="the name of a field")
    return names
