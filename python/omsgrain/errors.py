# SPDX-License-Identifier: Apache-2.0
"""Every error of omsgrain: one tree, with one stable code per class.

    OmsError
    ├── BlobError                     the bytes of a grain are invalid
    │   ├── TooShortError             ERR_TOO_SHORT
    │   ├── TooLargeError             ERR_TOO_LARGE
    │   ├── VersionError              ERR_VERSION
    │   ├── CorruptError              ERR_CORRUPT
    │   ├── NotMapError               ERR_NOT_MAP
    │   ├── FloatInvalidError         ERR_FLOAT_INVALID
    │   ├── SignedMismatchError       ERR_SIGNED_MISMATCH
    │   └── SensitivityMismatchError  ERR_SENSITIVITY_MISMATCH
    ├── SchemaError                   ERR_SCHEMA: the fields do not fit the type
    │   ├── NoTypeError               ERR_NO_TYPE
    │   ├── UnknownTypeError          ERR_UNKNOWN_TYPE
    │   ├── EmptyError                ERR_EMPTY
    │   └── RangeError                ERR_RANGE
    ├── AddressError                  an address is malformed or does not match
    │   ├── HashFormatError           ERR_HASH_FORMAT
    │   ├── HashLengthError           ERR_HASH_LENGTH
    │   └── IntegrityError            ERR_INTEGRITY
    ├── PolicyError                   a policy denies the change
    │   ├── InvalidationDeniedError   ERR_INVALIDATION_DENIED
    │   └── EvidenceRequiredError     ERR_EVIDENCE_REQUIRED
    ├── TrustError                    signatures, identities and keys
    │   ├── SignatureError            ERR_SIGNATURE
    │   ├── DidError                  ERR_DID
    │   ├── KeyMissingError           ERR_KEY
    │   └── ErasedError               ERR_ERASED
    ├── StoreError                    ERR_STORE: full, locked, damaged, or not a store
    │   ├── NotFoundError             ERR_NOT_FOUND
    │   ├── DiskFullError             ERR_DISK_FULL
    │   ├── AccessDeniedError         ERR_ACCESS
    │   ├── StoreDamagedError         ERR_DAMAGED
    │   └── StoreCutError             ERR_CUT_SHORT
    ├── FormatError                   ERR_FORMAT: a document breaks a rule of its format
    └── UnsupportedError              ERR_UNSUPPORTED

Compare codes or classes, never messages. No message contains a grain's content or a key.
"""

from __future__ import annotations

from typing import Any, ClassVar


class OmsError(Exception):
    """The base class of all errors of omsgrain.

    Attributes:
        code: the stable code, ``ERR_...``.
        exit_code: the exit code of the command line.
        message: one sentence, without content of the grain.
        field: the place in the grain as a JSON pointer ("/related_to/0/hash"), if known; of one
            of many grains, with its place among them ("/17/related_to/0/hash").
        offset: byte offset in the blob (uncompressed) or in the JSON text, if known.
        line: line of the input, from 1, if it has lines.
        expected: what would be valid, in a few words.
        found: what was there instead: kinds and sizes, never personal content.
        rule: the broken rule: of a document format, a policy or a preset.
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
        """Return one line: code, message, place, expected and found."""
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
        """Pickle with all attributes, for other processes."""
        return (_rebuild, (type(self), self.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON-ready values, without absent attributes."""
        names = ("message", "field", "offset", "line", "expected", "found", "rule")
        values = {name: getattr(self, name) for name in names}
        return {"code": self.code} | {k: v for k, v in values.items() if v is not None}


def _rebuild(cls: type[OmsError], values: dict[str, Any]) -> OmsError:
    values = dict(values)
    values.pop("code")
    return cls(values.pop("message"), **values)


def packages_of(extra: str) -> str:
    """Return how to install the packages of an extra."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires("omsgrain") or []
    except PackageNotFoundError:
        lines = []
    apart = (line.partition(";") for line in lines)
    named = [need.strip() for need, _, mark in apart if extra in mark.replace('"', "'").split("'")]
    return f"the extra {extra!r}: pip install " + " ".join(f"'{need}'" for need in named)


def library(extra: str, module: str, says: str) -> Any:
    """Import a module of an extra; an UnsupportedError if that is not installed."""
    from importlib import import_module

    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        raise UnsupportedError(says, expected=packages_of(extra)) from None


class OmsWarning(UserWarning):
    """Something that is allowed but looks like a mistake, such as a misspelt field name."""


class BlobError(OmsError):
    """The bytes of a grain are invalid."""

    exit_code = 10


class TooShortError(BlobError):
    """There are fewer bytes than a header and an empty map need."""

    code, exit_code = "ERR_TOO_SHORT", 11


class TooLargeError(BlobError):
    """There are more bytes than the profile allows."""

    code, exit_code = "ERR_TOO_LARGE", 12


class VersionError(BlobError):
    """The first byte is not version 1."""

    code, exit_code = "ERR_VERSION", 13


class CorruptError(BlobError):
    """The bytes are not the canonical form of a grain."""

    code, exit_code = "ERR_CORRUPT", 14


class NotMapError(BlobError):
    """The payload is not a map."""

    code, exit_code = "ERR_NOT_MAP", 15


class FloatInvalidError(BlobError):
    """A float is NaN or infinite."""

    code, exit_code = "ERR_FLOAT_INVALID", 16


class SignedMismatchError(BlobError):
    """The signed bit is set without an envelope, or an envelope contains an unsigned blob."""

    code, exit_code = "ERR_SIGNED_MISMATCH", 17


class SensitivityMismatchError(BlobError):
    """The header has a lower sensitivity than the tags require."""

    code, exit_code = "ERR_SENSITIVITY_MISMATCH", 18


class SchemaError(OmsError):
    """The fields do not fit the grain type, or an argument is invalid."""

    code, exit_code = "ERR_SCHEMA", 20


class NoTypeError(SchemaError):
    """The grain has no type."""

    code, exit_code = "ERR_NO_TYPE", 21


class UnknownTypeError(SchemaError):
    """The type is not one of the ten, and not an older name."""

    code, exit_code = "ERR_UNKNOWN_TYPE", 22


class EmptyError(SchemaError):
    """A required field is empty."""

    code, exit_code = "ERR_EMPTY", 23


class RangeError(SchemaError):
    """A number or a time is outside its range."""

    code, exit_code = "ERR_RANGE", 24


class AddressError(OmsError):
    """An address is malformed or does not match."""

    exit_code = 30


class HashFormatError(AddressError):
    """An address has characters other than 0-9 and a-f."""

    code, exit_code = "ERR_HASH_FORMAT", 31


class HashLengthError(AddressError):
    """An address does not have 64 characters."""

    code, exit_code = "ERR_HASH_LENGTH", 32


class IntegrityError(AddressError):
    """The bytes do not match the address."""

    code, exit_code = "ERR_INTEGRITY", 33


class PolicyError(OmsError):
    """A policy denies the change."""

    exit_code = 40


class InvalidationDeniedError(PolicyError):
    """A policy or a hold forbids to supersede, contest, retract, restrict or delete the grain."""

    code, exit_code = "ERR_INVALIDATION_DENIED", 41


class EvidenceRequiredError(PolicyError):
    """A goal cannot be satisfied without its required evidence."""

    code, exit_code = "ERR_EVIDENCE_REQUIRED", 42


class TrustError(OmsError):
    """A problem with signatures, identities or keys."""

    exit_code = 50


class SignatureError(TrustError):
    """A signature is invalid or missing."""

    code, exit_code = "ERR_SIGNATURE", 51


class DidError(TrustError):
    """A DID is malformed or cannot be resolved."""

    code, exit_code = "ERR_DID", 52


class KeyMissingError(TrustError):
    """The key is missing, or is the wrong one."""

    code, exit_code = "ERR_KEY", 53


class ErasedError(TrustError):
    """The grain was erased, or its key was destroyed."""

    code, exit_code = "ERR_ERASED", 54


class StoreError(OmsError):
    """The store is full, locked, damaged, or not a store."""

    code, exit_code = "ERR_STORE", 60


class DiskFullError(StoreError):
    """The disk is full."""

    code, exit_code = "ERR_DISK_FULL", 62


class AccessDeniedError(StoreError):
    """This user may not read or write the files of the store."""

    code, exit_code = "ERR_ACCESS", 63


class StoreDamagedError(StoreError):
    """The data file is damaged."""

    code, exit_code = "ERR_DAMAGED", 64


class StoreCutError(StoreError):
    """The data file is incomplete, like an unfinished copy."""

    code, exit_code = "ERR_CUT_SHORT", 65


class NotFoundError(StoreError, KeyError):
    """The store has no such grain; also for other things that are not found."""

    code, exit_code = "ERR_NOT_FOUND", 61

    __str__ = OmsError.__str__


class FormatError(OmsError):
    """A document breaks a rule of its format; ``rule`` is the rule."""

    code, exit_code = "ERR_FORMAT", 70


class UnsupportedError(OmsError):
    """Well-formed, but not supported."""

    code, exit_code = "ERR_UNSUPPORTED", 71


def _walk(cls: type[OmsError]) -> list[type[OmsError]]:
    return [cls, *(c for sub in cls.__subclasses__() for c in _walk(sub))]


#: Code -> class, for every code.
BY_CODE: dict[str, type[OmsError]] = {c.code: c for c in _walk(OmsError) if "code" in vars(c)}


__all__ = ["BY_CODE", "OmsWarning", *(cls.__name__ for cls in _walk(OmsError))]


def from_core(code: str, message: str, **where: Any) -> OmsError:
    """Make the exception for a code of the Rust core, which is done only here."""
    return BY_CODE[code](message, **where)


PLAIN_NAME = r"[A-Za-z0-9_.:$~/-]{1,64}"
"""A key that an error may show; others may be personal or long, and are shown as "…"."""

_LONG = 128  # maximum bits of an integer in a message


def number_found(value: object) -> str:
    """Describe a value in place of a number: a short number, or else its kind.

    Callers may pass any outside value, and messages must stay short.
    """
    if isinstance(value, int) and value.bit_length() > _LONG:
        return f"an integer of {value.bit_length()} bits"
    return str(value) if isinstance(value, int | float) else type(value).__name__


def see_range(name: str, value: float, least: int, most: int) -> None:
    """Refuse a number outside its range, including NaN."""
    if not isinstance(value, int | float) or not least <= value <= most:
        raise RangeError(
            f"{name} is out of range",
            field=f"/{name}",
            expected=f"{least} to {most}",
            found=number_found(value),
        )


def __dir__() -> list[str]:
    return __all__
