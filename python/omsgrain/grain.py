# SPDX-License-Identifier: Apache-2.0
"""One grain: its exact blob, decoded on demand."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

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
Known = tuple[str | None, tuple[str, ...]]  # the type by its 1.2 name, None if opaque; warnings


_SHOWN = 60  # characters of a value in a repr
_BITS = 1_024  # maximum bits of an integer in JSON; Python does not convert much longer ones


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
    """Check the options of `encode`, and return them in the core's order."""
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
            "type_byte is out of range", expected="0 to 255", found=number_found(type_byte)
        )
    if not (isinstance(compress, bool) and isinstance(keep_type_name, bool)):
        raise SchemaError("compress and keep_type_name must be True or False")
    return (encoding, compress, level, keep_type_name, type_byte, profile)


def encode(fields: Mapping[str, Any], **kwargs: Unpack[EncodeOptions]) -> bytes:
    """Encode a grain as its canonical blob. Spec: OMS §4.9.

    A field that looks like a mistake, such as a misspelt name, causes an ``OmsWarning``.

    Args:
        fields: the fields by full name, including ``type`` and ``created_at``.
        **kwargs: see ``omsgrain.grain.EncodeOptions``.

    Returns:
        The blob: nine bytes of header and the payload.

    Raises:
        SchemaError: a field is missing, of the wrong kind or not allowed. Subclasses are
            NoTypeError, UnknownTypeError, EmptyError and RangeError.
        CorruptError: a value is nested too deeply, or two keys are equal in NFC.
        FloatInvalidError: a float is NaN or infinite.
        TooLargeError: the blob exceeds the profile's limit.
    """
    if not kwargs and (plain := _core.encode_plain(fields)) is not None:
        return plain
    blob, notes = _core.encode(fields, options(**kwargs))
    for note in notes:
        warnings.warn(note, OmsWarning, stacklevel=2)
    return blob


def make(fields: Mapping[str, Any], **kwargs: Unpack[EncodeOptions]) -> Grain:
    """Encode fields, and return the grain with its warnings; options as for `encode`."""
    if not kwargs and (plain := _core.encode_plain(fields)) is not None:
        return Grain(plain)
    blob, _ = _core.encode(fields, options(**kwargs))
    return Grain(blob)


def address(blob: bytes) -> str:
    """Return the address of a blob: its SHA-256 as 64 lower-case hex digits. Spec: OMS §5.

    Args:
        blob: the blob, which is not checked.
    """
    return _core.address(blob if type(blob) is bytes else as_bytes(blob))


def verify(blob: bytes, address: str | None = None) -> Header:
    """Verify that a blob is the canonical form of a valid grain, and has the given address.

    Args:
        blob: the blob.
        address: the expected address; None to check only the form.

    Returns:
        The header of the verified blob.

    Raises:
        IntegrityError: the blob has another address.
        HashFormatError, HashLengthError: the address is malformed.
        OmsError: the blob breaks a rule of the format.
    """
    try:
        return Header(*_core.verify(as_bytes(blob), address))
    except UnicodeEncodeError:
        return Header(*_core.verify(as_bytes(blob), as_unicode(address or "")))


def as_unicode(address: str) -> str:
    """Replace unpaired surrogates, which JSON can contain, so that the core can reject it."""
    return address.encode("utf-8", "replace").decode()


class Grain(Mapping[str, Any]):
    """An immutable memory grain, and a read-only mapping of its fields by full name.

    It keeps the exact blob, and decodes the fields on first use. Grains are equal if their blobs
    are.

    Attributes:
        blob: the exact bytes.
        warnings: messages about what is allowed but looks like a mistake.
    """

    # Public names are properties without a setter. That makes a grain immutable, and is faster
    # than a `__setattr__` that every slot has to bypass.
    __slots__ = ("_address", "_blob", "_fields", "_header", "_known")

    _blob: bytes
    _address: str | None
    _fields: Mapping[str, Any] | None
    _header: HeaderTuple | None  # None: read it from the blob
    _known: Known | None  # None before the first use

    def __init__(self, blob: bytes) -> None:
        """Decode and check a blob.

        Args:
            blob: header and payload.

        Raises:
            OmsError: the blob breaks a rule of the format.
        """
        self._blob = blob = blob if type(blob) is bytes else as_bytes(blob)
        self._header, name, notes = _core.check(blob)
        self._known = (name, tuple(notes))
        self._fields = None
        self._address = None

    def _look(self) -> Known:
        """Return type and warnings, which `stored_grain` leaves open."""
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
        """The exact bytes of the grain."""
        return self._blob

    @property
    def warnings(self) -> tuple[str, ...]:
        """Messages about what is allowed but looks like a mistake."""
        return self._look()[1]

    @property
    def _known_type(self) -> str | None:
        """The type by its 1.2 name; None if the grain is opaque."""
        return self._look()[0]

    @property
    def opaque(self) -> bool:
        """Whether OMS 1.2 does not define the type, so that no rules apply to the fields."""
        return self._known_type is None

    def __reduce__(self) -> tuple[Any, ...]:
        own = self._address is None or self._address == _core.address(self.blob)
        if not own or self.blob[1] & (SIGNED_BIT | ENCRYPTED_BIT):
            return (stored_grain, (self.blob, self.address))
        return (Grain, (self.blob,))

    @property
    def address(self) -> str:
        """The address: 64 hex digits."""
        address = self._address
        if address is None:
            self._address = address = _core.address(self.blob)
        return address

    @property
    def sealed(self) -> bool:
        """Whether the grain is encrypted, not decrypted: only its header is readable."""
        return bool(self.blob[1] & ENCRYPTED_BIT)

    @property
    def header(self) -> Header:
        """The header: the nine bytes before the payload."""
        self._look()
        held = self._header
        if held is None:
            self._header = held = _core.header(self._blob)
        return Header(*held)

    @property
    def type(self) -> str:
        """The type by its 1.2 name; for an opaque grain, its own name or its type byte in hex."""
        known = self._known_type
        if known is not None:
            return known
        own = self.fields.get("type")
        return own if isinstance(own, str) else f"0x{self.header.type_byte:02x}"

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields by full name, read-only. ``type`` is the name in the blob."""
        fields = self._fields
        if fields is None:
            self._fields = fields = _core.fields(self._blob)
        return fields

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a new dict, for ``encode(..., keep_type_name=True)``."""
        held = self.fields
        # dict() of a mapping proxy asks it for each key.
        fields = held.copy() if isinstance(held, MappingProxyType) else dict(held)
        for name, value in fields.items():
            if type(value) not in _IMMUTABLE:
                fields[name] = _copy(value)
        return fields

    def to_json(self) -> str:
        """Return the fields as one line of JSON, with bytes as ``{"$bytes": base64}``.

        A grain that was decoded with ``strict=False`` can contain other values: NaN and infinities
        become ``{"$float": "nan"}``, and everything else its text.
        """
        try:
            return json.dumps(
                self.to_dict(), ensure_ascii=False, allow_nan=False, default=_json_bytes
            )
        except (TypeError, ValueError):
            return json.dumps(plain(self.fields), ensure_ascii=False, allow_nan=False)

    @staticmethod
    def adapt(blob: bytes) -> Grain:
        """Convert a non-conforming blob of another writer into a grain that conforms.

        The grain is derived from the blob's address and contains the blob in ``x_original``, so
        that erasing the grain erases the blob. Values in another form are converted. ``x_foreign``
        has values without a place in OMS 1.2 by field. ``x_added`` lists required fields that the
        blob lacks. The same blob always results in the same grain.

        Args:
            blob: the blob. One that conforms is returned unchanged.

        Raises:
            OmsError: the blob is unreadable, signed, encrypted or compressed, or lacks a field
                that has no default.
        """
        from omsgrain.lenient import adapt

        return adapt(as_bytes(blob))

    def upgrade(self) -> Grain:
        """Return the grain in canonical form with the names of OMS 1.2.

        Its blob and address change unless it has that form already. An opaque grain is returned
        unchanged.
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
        fields = self._fields
        return (self.fields if fields is None else fields)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __eq__(self, other: object) -> bool:
        return self.blob == other.blob if isinstance(other, Grain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.blob)

    def __repr__(self) -> str:
        """Return a line with the type, the start of the address, and the main fields."""
        says = ("subject", "relation", "object", "content", "description", "observer_id")
        shown = [f"{name}={_short(self.fields[name])}" for name in says if name in self.fields]
        return f"<{self.type} {self.address[:12]} {' '.join(shown)}>".replace(" >", ">")


def as_put(grain: Grain) -> Grain:
    """Return a grain under the address of its own blob, which may differ from its stored address.

    A decrypted grain is stored under another address. A signed grain does not change; the store
    has its envelope.
    """
    return stored_grain(grain.blob, _core.address(grain.blob))


def checked_grain(
    blob: bytes,
    header: HeaderTuple | None,
    name: str | None,
    notes: Sequence[str],
    fields: Mapping[str, Any] | None,
) -> Grain:
    """Make a grain from parts that the core or the lenient reader has checked.

    Without a header, it is read from the blob.
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
    """Make grains from the columns of `_core.decode_many`; None for a rejected blob.

    A call for each grain would take longer than the whole loop.
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
    """Make a grain from a blob that the store checked on put; it is decoded on first use.

    The store keeps the envelope of a signed blob. An encrypted grain has no fields. A grain that
    the store has decrypted keeps its stored address.
    """
    grain = Grain.__new__(Grain)
    grain._blob = blob
    grain._address = address
    grain._fields = grain._header = grain._known = None
    return grain


def stored_grains(stored: Iterable[tuple[bytes, str]]) -> list[Grain]:
    """Make grains of blobs and addresses, as ``stored_grain`` does, without a call for each."""
    new = Grain.__new__
    grains: list[Grain] = []
    for blob, address in stored:
        grain = new(Grain)
        grain._blob = blob
        grain._address = address
        grain._fields = grain._header = grain._known = None
        grains.append(grain)
    return grains


def decoded_grains(blobs: Sequence[bytes]) -> list[Grain | None]:
    """Make grains of stored plain blobs, and decode them together; None for a damaged one."""
    fields, known, _ = _core.decode_many([bare(blob) for blob in blobs])
    return checked_grains(blobs, fields, known)


def text_marks(texts: Iterable[str]) -> _core.Marks:
    """Return what finds the blobs that may have one of some texts as a key or a value."""
    found = [text.encode() for text in texts]
    return _core.Marks([head + one for one in found for head in _heads(len(one))])


def _heads(size: int) -> tuple[bytes, bytes]:
    """Return the bytes before a text of this size in MessagePack and in CBOR."""
    if size < 24:
        return bytes((0xA0 + size,)), bytes((0x60 + size,))
    if size < 32:
        return bytes((0xA0 + size,)), bytes((0x78, size))
    if size < 1 << 8:
        return bytes((0xD9, size)), bytes((0x78, size))
    if size < 1 << 16:
        return b"\xda" + size.to_bytes(2, "big"), b"\x79" + size.to_bytes(2, "big")
    return b"\xdb" + size.to_bytes(4, "big"), b"\x7a" + size.to_bytes(4, "big")


def bare(blob: bytes) -> bytes:
    """Return a blob without the signed bit, which is the form that the core reads."""
    return blob[:1] + bytes((blob[1] & ~SIGNED_BIT,)) + blob[2:] if blob[1] & SIGNED_BIT else blob


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


_IMMUTABLE: Final = frozenset({str, int, float, bool, bytes, type(None)})


def _copy(value: Any) -> Any:
    if type(value) in _IMMUTABLE:
        return value
    if isinstance(value, list):
        return [_copy(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return value


def _json_bytes(value: object) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    raise TypeError(f"a grain cannot contain a value of type {type(value).__name__}")


def plain(value: Any) -> Any:
    """Convert a value to JSON's types.

    Bytes become ``{"$bytes": base64}``. NaN and infinities, which occur in invalid blobs and in
    vectors, become ``{"$float": "nan"}``. Everything else that JSON lacks becomes its text.
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
    except ValueError:  # an integer of thousands of digits
        return f"<{type(value).__name__}>"


def decode(blob: bytes, strict: bool = True) -> Grain:
    """Decode a blob. Spec: OMS §4.10.

    Args:
        blob: header and payload.
        strict: accept only what the writer would write. ``False`` also decodes non-canonical blobs
            of other writers, for inspection: ``warnings`` has the reason, and a store rejects such
            a grain.

    Raises:
        OmsError: the blob is rejected, with code, reason and byte offset.
    """
    if strict:
        return Grain(blob)
    from omsgrain.lenient import read_leniently

    return read_leniently(as_bytes(blob))


def __dir__() -> list[str]:
    return __all__
