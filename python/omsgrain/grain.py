# SPDX-License-Identifier: Apache-2.0
"""One grain: its exact blob, read when it is asked for."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from omsgrain import _core, registry
from omsgrain.errors import OmsWarning, SchemaError, number_found
from omsgrain.header import ENCRYPTED_BIT, SENSITIVITIES, SIGNED_BIT, Header, as_bytes

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "EncodeOptions",
    "Encoding",
    "Grain",
    "Profile",
    "Sensitivity",
    "address",
    "decode",
    "encode",
    "verify",
]

Encoding = Literal["msgpack", "cbor"]
Profile = Literal["extended", "standard", "lightweight"]
Sensitivity = int | Literal["public", "internal", "pii", "phi"]

HeaderTuple = tuple[int, int, int, int, int]  # version, flags, type byte, ns_hash, created_at
Known = tuple[str | None, tuple[str, ...]]  # the type by its 1.2 name, none if opaque; warnings


_SHOWN = 60  # characters of a value in a repr
_BITS = 1_024  # of an integer that is written as one; Python writes none of many thousands


class EncodeOptions(TypedDict, total=False):
    """The options of ``encode``.

    Attributes:
        encoding: "msgpack" (the default) or "cbor".
        compress: compress the payload with zstd.
        sensitivity: the lowest level, 0 to 3 or its name; tags can raise it.
        keep_type_name: keep the name of an older type as given.
        type_byte: write an opaque grain with this type byte.
        profile: the size limit: "extended" (1 MiB, the default), "standard" (32 KiB) or
            "lightweight" (512 B).
    """

    encoding: Encoding
    compress: bool
    sensitivity: Sensitivity | None
    keep_type_name: bool
    type_byte: int | None
    profile: Profile


def options(
    encoding: Encoding = "msgpack",
    compress: bool = False,
    sensitivity: Sensitivity | None = None,
    keep_type_name: bool = False,
    type_byte: int | None = None,
    profile: Profile = "extended",
) -> tuple[str, bool, int, bool, int | None, str]:
    """Check the options of `encode` and bring them into the core's order."""
    if encoding not in ("msgpack", "cbor"):
        raise SchemaError("unknown encoding", expected='"msgpack" or "cbor"')
    if profile not in ("extended", "standard", "lightweight"):
        raise SchemaError("unknown profile", expected='"extended", "standard" or "lightweight"')
    if isinstance(sensitivity, str) and sensitivity in SENSITIVITIES:
        sensitivity = SENSITIVITIES.index(sensitivity)
    level = 0 if sensitivity is None else sensitivity
    if not isinstance(level, int) or isinstance(level, bool) or not 0 <= level <= 3:
        raise SchemaError("unknown sensitivity", expected=f"0 to 3 or one of {SENSITIVITIES}")
    if type(type_byte) not in (int, type(None)) or not 0 <= (type_byte or 0) <= 255:
        raise SchemaError(
            "type_byte is not a byte", expected="0 to 255", found=number_found(type_byte)
        )
    if not (isinstance(compress, bool) and isinstance(keep_type_name, bool)):
        raise SchemaError("compress and keep_type_name are True or False")
    return (encoding, compress, level, keep_type_name, type_byte, profile)


def encode(fields: Mapping[str, Any], **kwargs: Unpack[EncodeOptions]) -> bytes:
    """Write a grain as its one canonical blob. Spec: OMS §4.9.

    Args:
        fields: the grain by full field names; ``type`` and ``created_at`` among them.
        **kwargs: the options, as ``omsgrain.grain.EncodeOptions`` lists them.

    Returns:
        Nine bytes of header and the payload.

    Raises:
        SchemaError: a field is missing, of the wrong kind, or not allowed (and its kin
            NoTypeError, UnknownTypeError, EmptyError, RangeError).
        CorruptError: nested too deep, or two keys that are one in NFC.
        FloatInvalidError: NaN or infinite.
        TooLargeError: larger than the profile allows.

    What looks like a mistake, such as a field name one edit off, is given as an `OmsWarning`.
    """
    if not kwargs and (plain := _core.encode_plain(fields)) is not None:
        return plain
    blob, notes = _core.encode(fields, options(**kwargs))
    for note in notes:
        warnings.warn(note, OmsWarning, stacklevel=2)
    return blob


def make(fields: Mapping[str, Any], **kwargs: Unpack[EncodeOptions]) -> Grain:
    """Encode fields and give the grain; options as for `encode`. Warnings stay on the grain."""
    if not kwargs and (plain := _core.encode_plain(fields)) is not None:
        return Grain(plain)
    blob, _ = _core.encode(fields, options(**kwargs))
    return Grain(blob)


def address(blob: bytes) -> str:
    """The content address of a blob: SHA-256 as 64 lower-case hex digits. Spec: OMS §5."""
    return _core.address(blob if type(blob) is bytes else as_bytes(blob))


def verify(blob: bytes, address: str | None = None) -> Header:
    """Check that a blob is the canonical form of a valid grain, and has the given address.

    Returns:
        The header of the verified blob.

    Raises:
        IntegrityError: the blob has another address.
        HashFormatError, HashLengthError: the address is malformed.
        OmsError: any refusal of the format.
    """
    try:
        return Header(*_core.verify(as_bytes(blob), address))
    except UnicodeEncodeError:
        return Header(*_core.verify(as_bytes(blob), as_unicode(address or "")))


def as_unicode(address: str) -> str:
    """An address that the core can read, and refuse: JSON can spell half a surrogate pair."""
    return address.encode("utf-8", "replace").decode()


class Grain(Mapping[str, Any]):
    """A memory grain: immutable, equal to another if the blobs are equal.

    It keeps the exact blob it came from, and is a read-only mapping of the fields by full name.
    The fields are read from the blob when they are first asked for.

    Attributes:
        blob: the bytes. Nothing ever re-encodes them.
        warnings: what is allowed but looks like a mistake.
    """

    # Public names are properties without a setter: that makes a grain immutable, and costs less to
    # make than a `__setattr__` that every slot would have to go around.
    __slots__ = ("_address", "_blob", "_fields", "_header", "_known")

    _blob: bytes
    _address: str | None
    _fields: Mapping[str, Any] | None
    _header: HeaderTuple | None  # none: that of the blob
    _known: Known | None  # none before it was read

    def __init__(self, blob: bytes) -> None:
        """Read and check a blob.

        Raises:
            OmsError: any refusal of the format.
        """
        self._blob = blob = blob if type(blob) is bytes else as_bytes(blob)
        self._header, name, notes = _core.check(blob)
        self._known = (name, tuple(notes))
        self._fields = None
        self._address = None

    def _look(self) -> Known:
        """Type and warnings, read now if `stored_grain` left them open."""
        if self._known is not None:
            return self._known
        if self._blob[1] & ENCRYPTED_BIT:
            names = (kind.name for kind in registry.TYPES if kind.byte == self._blob[2])
            known: Known = (next(names, None), ())
        else:
            _, name, notes = _core.check(bare(self._blob))
            known = (name, tuple(notes))
        self._known = known
        return known

    @property
    def blob(self) -> bytes:
        """The bytes. Nothing ever re-encodes them."""
        return self._blob

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed but looks like a mistake."""
        return self._look()[1]

    @property
    def _known_type(self) -> str | None:
        """The type by its 1.2 name; none if the grain is opaque."""
        return self._look()[0]

    @property
    def opaque(self) -> bool:
        """Whether OMS 1.2 has no such type, so that no rules apply to the fields."""
        return self._known_type is None

    def __reduce__(self) -> tuple[Any, ...]:
        own = self._address is None or self._address == _core.address(self.blob)
        if not own or self.blob[1] & (SIGNED_BIT | ENCRYPTED_BIT):
            return (stored_grain, (self.blob, self.address))
        return (Grain, (self.blob,))

    @property
    def address(self) -> str:
        """The content address, 64 hex digits."""
        address = self._address
        if address is None:
            self._address = address = _core.address(self.blob)
        return address

    @property
    def sealed(self) -> bool:
        """Whether it is encrypted and was not opened: it shows its header and nothing else."""
        return bool(self.blob[1] & ENCRYPTED_BIT)

    @property
    def header(self) -> Header:
        """The nine bytes before the payload."""
        self._look()
        held = self._header
        if held is None:
            self._header = held = _core.header(self._blob)
        return Header(*held)

    @property
    def type(self) -> str:
        """The type by its 1.2 name; of an opaque grain its own name, or its byte in hex."""
        known = self._known_type
        if known is not None:
            return known
        own = self.fields.get("type")
        return own if isinstance(own, str) else f"0x{self.header.type_byte:02x}"

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields by full name, read-only. ``type`` is the name that stands in the blob."""
        fields = self._fields
        if fields is None:
            found = {} if self._blob[1] & ENCRYPTED_BIT else _core.decode(bare(self._blob))
            self._fields = fields = MappingProxyType(found)
        return fields

    def to_dict(self) -> dict[str, Any]:
        """The fields as a fresh dict, which `encode(..., keep_type_name=True)` takes back."""
        return {name: _copy(value) for name, value in self.fields.items()}

    def to_json(self) -> str:
        """The fields as one line of JSON; bytes stand as ``{"$bytes": base64}``.

        What only a leniently read grain can hold stands as ``{"$float": "nan"}``, if it is a
        number, and else as its text.
        """
        try:
            return json.dumps(
                self.to_dict(), ensure_ascii=False, allow_nan=False, default=_json_bytes
            )
        except (TypeError, ValueError):
            return json.dumps(plain(self.fields), ensure_ascii=False, allow_nan=False)

    @staticmethod
    def adapt(blob: bytes) -> Grain:
        """Make a grain that conforms of a blob that another writer made wrongly.

        The grain is derived from the blob, by its address, and keeps it whole in ``x_original``,
        so that whoever erases the grain erases the blob. Values of another form are converted. A
        value that OMS 1.2 has no place for stands in ``x_foreign`` by its field, and ``x_added``
        names the fields that OMS requires and the blob lacks. The same blob always gives the same
        grain.

        Args:
            blob: the blob. One that conforms is returned as it is.

        Raises:
            OmsError: it cannot be read at all, is signed, sealed or packed, or lacks what cannot
                be filled in.
        """
        from omsgrain.lenient import adapt

        return adapt(as_bytes(blob))

    def upgrade(self) -> Grain:
        """The same grain with 1.2 names: another blob and another address, unless it has them.

        A grain that is not canonical, read with ``strict=False``, becomes canonical.
        """
        header = self.header
        if self.opaque:
            return self
        return make(
            self.to_dict(),
            encoding=header.encoding,
            compress=header.compressed,
            sensitivity=header.sensitivity,
        )

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __eq__(self, other: object) -> bool:
        return self.blob == other.blob if isinstance(other, Grain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.blob)

    def __repr__(self) -> str:
        """A line for a person: type, start of the address, and what the grain says."""
        says = ("subject", "relation", "object", "content", "description", "observer_id")
        shown = [f"{name}={_short(self.fields[name])}" for name in says if name in self.fields]
        return f"<{self.type} {self.address[:12]} {' '.join(shown)}>".replace(" >", ">")


def as_put(grain: Grain) -> Grain:
    """The grain of a store by the address of its own blob, which it may not be stored under.

    A sealed grain that was opened stands there under another. A signed one stays as it is; its
    envelope lies beside it in the store.
    """
    return stored_grain(grain.blob, _core.address(grain.blob))


def checked_grain(
    blob: bytes,
    header: HeaderTuple | None,
    name: str | None,
    notes: Sequence[str],
    fields: Mapping[str, Any] | None,
) -> Grain:
    """Make a grain of parts that the core or the lenient reader has checked.

    Without a header it is read from the blob.
    """
    grain = Grain.__new__(Grain)
    grain._blob = blob
    grain._header = header
    grain._known = (name, tuple(notes))
    grain._fields = MappingProxyType(fields) if isinstance(fields, dict) else fields
    grain._address = None
    return grain


def checked_grains(
    blobs: Iterable[bytes],
    read: Iterable[Mapping[str, Any] | None],
    known: Iterable[Known | None],
) -> list[Grain | None]:
    """Make grains of the columns of `_core.decode_many`; None where a blob was refused.

    A call for each grain would cost more than the whole loop.
    """
    new = Grain.__new__
    grains: list[Grain | None] = []
    add = grains.append
    for blob, fields, said in zip(blobs, read, known, strict=True):
        if fields is None:
            add(None)
            continue
        grain = new(Grain)
        grain._blob = blob
        grain._fields = fields
        grain._known = said
        grain._header = grain._address = None
        add(grain)
    return grains


def stored_grain(blob: bytes, address: str) -> Grain:
    """Make a grain of a blob that a store checked when it was put. It is decoded on first use.

    The store keeps the envelope of a signed blob beside it. A sealed grain has no fields. A grain
    that the store has opened keeps the address that it is stored under.
    """
    grain = Grain.__new__(Grain)
    grain._blob = blob
    grain._address = address
    grain._fields = grain._header = grain._known = None
    return grain


def bare(blob: bytes) -> bytes:
    """A blob as if it were not signed: the form in which the core reads it."""
    return blob[:1] + bytes((blob[1] & ~SIGNED_BIT,)) + blob[2:] if blob[1] & SIGNED_BIT else blob


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def _json_bytes(value: object) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    raise TypeError(f"a grain holds no {type(value).__name__}")


def plain(value: Any) -> Any:
    """The value made of JSON's types alone.

    Bytes are ``{"$bytes": base64}``. NaN and the infinities, which only a wrongly written blob or
    a vector can hold, are ``{"$float": "nan"}``; whatever else JSON has not is its text.
    """
    if isinstance(value, Mapping):
        return {_text(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return _json_bytes(bytes(value))
    if isinstance(value, float) and not isfinite(value):
        return {"$float": str(value)}
    if value is None or isinstance(value, bool | float | str):
        return value
    return value if isinstance(value, int) and value.bit_length() <= _BITS else _text(value)


def _text(value: object) -> str:
    try:
        return str(value)
    except ValueError:  # of thousands of digits
        return f"<{type(value).__name__}>"


def decode(blob: bytes, strict: bool = True) -> Grain:
    """Read a blob. Spec: OMS §4.10.

    Args:
        blob: header and payload.
        strict: refuse everything that the writer would not write. ``False`` reads what another
            writer made wrongly, for inspection: the refusal stands in ``warnings``, and the store
            does not take such a grain.

    Raises:
        OmsError: the refusal, with code, reason and byte offset.
    """
    if strict:
        return Grain(blob)
    from omsgrain.lenient import read_leniently

    return read_leniently(as_bytes(blob))


def __dir__() -> list[str]:
    return __all__
