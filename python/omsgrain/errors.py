# SPDX-License-Identifier: Apache-2.0
"""Every error that omsgrain raises: one tree, one stable code a class.

    OmsError
    ├── BlobError                     the bytes of a grain are not what they must be
    │   ├── TooShortError             ERR_TOO_SHORT
    │   ├── TooLargeError             ERR_TOO_LARGE
    │   ├── VersionError              ERR_VERSION
    │   ├── CorruptError              ERR_CORRUPT
    │   ├── NotMapError               ERR_NOT_MAP
    │   ├── FloatInvalidError         ERR_FLOAT_INVALID
    │   ├── SignedMismatchError       ERR_SIGNED_MISMATCH
    │   └── SensitivityMismatchError  ERR_SENSITIVITY_MISMATCH
    ├── SchemaError                   ERR_SCHEMA: the fields are not what the type asks for
    │   ├── NoTypeError               ERR_NO_TYPE
    │   ├── UnknownTypeError          ERR_UNKNOWN_TYPE
    │   ├── EmptyError                ERR_EMPTY
    │   └── RangeError                ERR_RANGE
    ├── AddressError                  a content address is malformed or does not match
    │   ├── HashFormatError           ERR_HASH_FORMAT
    │   ├── HashLengthError           ERR_HASH_LENGTH
    │   └── IntegrityError            ERR_INTEGRITY
    ├── PolicyError                   an invalidation policy refuses
    │   ├── InvalidationDeniedError   ERR_INVALIDATION_DENIED
    │   └── EvidenceRequiredError     ERR_EVIDENCE_REQUIRED
    ├── TrustError                    signatures, identities and keys
    │   ├── SignatureError            ERR_SIGNATURE
    │   ├── DidError                  ERR_DID
    │   ├── KeyMissingError           ERR_KEY
    │   └── ErasedError               ERR_ERASED
    ├── StoreError                    ERR_STORE: full, locked, broken, or not a store
    │   ├── NotFoundError             ERR_NOT_FOUND
    │   ├── DiskFullError             ERR_DISK_FULL
    │   ├── AccessDeniedError         ERR_ACCESS
    │   ├── StoreDamagedError         ERR_DAMAGED
    │   └── StoreCutError             ERR_CUT_SHORT
    ├── FormatError                   ERR_FORMAT: a rule of a JSON format
    └── UnsupportedError              ERR_UNSUPPORTED

Compare codes or classes, never messages. No message holds a grain's content or a key.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "BY_CODE",
    "AccessDeniedError",
    "AddressError",
    "BlobError",
    "CorruptError",
    "DidError",
    "DiskFullError",
    "EmptyError",
    "ErasedError",
    "EvidenceRequiredError",
    "FloatInvalidError",
    "FormatError",
    "HashFormatError",
    "HashLengthError",
    "IntegrityError",
    "InvalidationDeniedError",
    "KeyMissingError",
    "NoTypeError",
    "NotFoundError",
    "NotMapError",
    "OmsError",
    "OmsWarning",
    "PolicyError",
    "RangeError",
    "SchemaError",
    "SensitivityMismatchError",
    "SignatureError",
    "SignedMismatchError",
    "StoreCutError",
    "StoreDamagedError",
    "StoreError",
    "TooLargeError",
    "TooShortError",
    "TrustError",
    "UnknownTypeError",
    "UnsupportedError",
    "VersionError",
]


class OmsError(Exception):
    """Base of all errors of omsgrain.

    Attributes:
        code: the stable code, ``ERR_...``.
        exit_code: what the command line exits with.
        message: one sentence, without content of the grain.
        field: where in the grain, as a JSON pointer ("/related_to/0/hash"), if known.
        offset: byte offset in the blob (of a compressed blob: as if it were unpacked), if known.
        line: line of the input, counted from 1, if it came by lines.
        expected: what would have been right, if it can be said in a few words.
        found: what was there instead; kinds and sizes, never personal content.
        rule: a JSON format's own rule id, if one was broken.
    """

    code: ClassVar[str] = "ERR_OMS"
    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        offset: int | None = None,
        line: int | None = None,
        expected: str | None = None,
        found: str | None = None,
        rule: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.offset = offset
        self.line = line
        self.expected = expected
        self.found = found
        self.rule = rule

    def __str__(self) -> str:
        """One line for a person: code, message, then where, expected and found."""
        where = [
            text
            for text, value in (
                (f"line {self.line}", self.line),
                (f"at {self.field}", self.field),
                (f"byte {self.offset}", self.offset),
            )
            if value is not None
        ]
        text = f"{self.code}: {self.message}"
        if where:
            text += f" ({', '.join(where)})"
        if self.expected is not None:
            text += f"; expected {self.expected}"
        if self.found is not None:
            text += f"; found {self.found}"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with all attributes, so that errors cross process borders whole."""
        return (_rebuild, (type(self), self.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        """The error as JSON-ready values; absent attributes are left out."""
        names = ("message", "field", "offset", "line", "expected", "found", "rule")
        values = {name: getattr(self, name) for name in names}
        return {"code": self.code} | {k: v for k, v in values.items() if v is not None}


def _rebuild(cls: type[OmsError], values: dict[str, Any]) -> OmsError:
    values = dict(values)
    values.pop("code")
    return cls(values.pop("message"), **values)


def packages_of(extra: str) -> str:
    """Say how to install what an extra brings; a clone and a wheel need the same words."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires("omsgrain") or []
    except PackageNotFoundError:
        lines = []
    apart = (line.partition(";") for line in lines)
    named = [need.strip() for need, _, mark in apart if extra in mark.replace('"', "'").split("'")]
    return f"the extra {extra!r}: pip install " + " ".join(f"'{need}'" for need in named)


class OmsWarning(UserWarning):
    """Something that is allowed but looks like a mistake, such as a field name one edit off."""


class BlobError(OmsError):
    """The bytes of a grain are not what they must be."""

    exit_code = 10


class TooShortError(BlobError):
    """Fewer bytes than a header and an empty map need."""

    code, exit_code = "ERR_TOO_SHORT", 11


class TooLargeError(BlobError):
    """More bytes than the profile allows."""

    code, exit_code = "ERR_TOO_LARGE", 12


class VersionError(BlobError):
    """The first byte is not version 1."""

    code, exit_code = "ERR_VERSION", 13


class CorruptError(BlobError):
    """The bytes are not the one canonical form of any grain."""

    code, exit_code = "ERR_CORRUPT", 14


class NotMapError(BlobError):
    """The payload is not a map."""

    code, exit_code = "ERR_NOT_MAP", 15


class FloatInvalidError(BlobError):
    """A float is NaN or infinite."""

    code, exit_code = "ERR_FLOAT_INVALID", 16


class SignedMismatchError(BlobError):
    """Signed bit without an envelope, or an envelope around an unsigned blob."""

    code, exit_code = "ERR_SIGNED_MISMATCH", 17


class SensitivityMismatchError(BlobError):
    """The header says less than the tags ask for."""

    code, exit_code = "ERR_SENSITIVITY_MISMATCH", 18


class SchemaError(OmsError):
    """The fields are not what the grain type asks for."""

    code, exit_code = "ERR_SCHEMA", 20


class NoTypeError(SchemaError):
    """The grain has no type."""

    code, exit_code = "ERR_NO_TYPE", 21


class UnknownTypeError(SchemaError):
    """The type is none of the ten, nor an older name."""

    code, exit_code = "ERR_UNKNOWN_TYPE", 22


class EmptyError(SchemaError):
    """A field that must say something is empty."""

    code, exit_code = "ERR_EMPTY", 23


class RangeError(SchemaError):
    """A number or a time lies outside its range."""

    code, exit_code = "ERR_RANGE", 24


class AddressError(OmsError):
    """A content address is malformed or does not match."""

    exit_code = 30


class HashFormatError(AddressError):
    """An address has other characters than 0-9 and a-f."""

    code, exit_code = "ERR_HASH_FORMAT", 31


class HashLengthError(AddressError):
    """An address has not 64 characters."""

    code, exit_code = "ERR_HASH_LENGTH", 32


class IntegrityError(AddressError):
    """The blob hashes to another address."""

    code, exit_code = "ERR_INTEGRITY", 33


class PolicyError(OmsError):
    """An invalidation policy refuses."""

    exit_code = 40


class InvalidationDeniedError(PolicyError):
    """The grain's policy does not let it be superseded, contested or deleted so."""

    code, exit_code = "ERR_INVALIDATION_DENIED", 41


class EvidenceRequiredError(PolicyError):
    """A goal cannot be satisfied without the evidence it asks for."""

    code, exit_code = "ERR_EVIDENCE_REQUIRED", 42


class TrustError(OmsError):
    """Signatures, identities and keys."""

    exit_code = 50


class SignatureError(TrustError):
    """A signature does not hold."""

    code, exit_code = "ERR_SIGNATURE", 51


class DidError(TrustError):
    """A DID is malformed or cannot be resolved."""

    code, exit_code = "ERR_DID", 52


class KeyMissingError(TrustError):
    """There is no key, or the key is the wrong one."""

    code, exit_code = "ERR_KEY", 53


class ErasedError(TrustError):
    """The key was destroyed; what it sealed is gone."""

    code, exit_code = "ERR_ERASED", 54


class StoreError(OmsError):
    """The store is full, locked, broken, or not a store."""

    code, exit_code = "ERR_STORE", 60


class DiskFullError(StoreError):
    """The disk has no room for what is to be written."""

    code, exit_code = "ERR_DISK_FULL", 62


class AccessDeniedError(StoreError):
    """The files of the store may not be read or written by this user."""

    code, exit_code = "ERR_ACCESS", 63


class StoreDamagedError(StoreError):
    """The data file is not one that LMDB could have written."""

    code, exit_code = "ERR_DAMAGED", 64


class StoreCutError(StoreError):
    """The data file ends too early, as that of a copy that did not end does."""

    code, exit_code = "ERR_CUT_SHORT", 65


class NotFoundError(StoreError, KeyError):
    """No grain with that address is in the store."""

    code, exit_code = "ERR_NOT_FOUND", 61

    __str__ = OmsError.__str__


class FormatError(OmsError):
    """A JSON format's rule is broken; ``rule`` names it."""

    code, exit_code = "ERR_FORMAT", 70


class UnsupportedError(OmsError):
    """Well-formed, but not something that omsgrain does."""

    code, exit_code = "ERR_UNSUPPORTED", 71


def _walk(cls: type[OmsError]) -> list[type[OmsError]]:
    return [cls, *(c for sub in cls.__subclasses__() for c in _walk(sub))]


#: Code -> class, for every code there is.
BY_CODE: dict[str, type[OmsError]] = {c.code: c for c in _walk(OmsError) if "code" in vars(c)}


def from_core(code: str, message: str, **where: Any) -> OmsError:
    """Make the exception for a code of the Rust core (the one place where the two meet)."""
    return BY_CODE[code](message, **where)


PLAIN_NAME = r"[A-Za-z0-9_.:$~/-]{1,64}"
"""A key that an error shows; any other may be personal or of any length, and is shown as "…"."""

_LONG = 128  # bits of an integer that is shown as it is


def number_found(value: object) -> str:
    """What to say of what stands where a number belongs: a number that is short, else its kind.

    A caller may hand on whatever came from outside, so no message is as long as that.
    """
    if isinstance(value, int) and value.bit_length() > _LONG:
        return f"an integer of {value.bit_length()} bits"
    return str(value) if isinstance(value, int | float) else type(value).__name__


def __dir__() -> list[str]:
    return __all__
