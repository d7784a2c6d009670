# SPDX-License-Identifier: Apache-2.0
"""Vectors of grains from embedding models, in the store's own tables.

A grain has at most one vector per model name. A model is a name and a dimension: vectors of one
name with different lengths belong to different models, so no user sets the dimension for others.
Vectors of different models are never compared. The last vector of a model takes the model with it.
Vectors are not normalised, so that ``get`` returns the stored values.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Any, TypeAlias, TypeGuard

import msgpack

from omsgrain.errors import (
    KeyMissingError,
    NotFoundError,
    OmsError,
    RangeError,
    SchemaError,
    StoreError,
)
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.records import forget_vectors
from omsgrain.storage.tables import EMBEDDED, MODELS, SEALED, SEQUENCE, VECTORS, VEILED

DIMENSIONS = 8_192
"""Maximum number of values in a vector."""

Vector: TypeAlias = Sequence[float] | bytes | bytearray | memoryview | Any
"""Numbers; little-endian float32 bytes; or an object with a buffer of numbers, such as numpy's."""

Seal: TypeAlias = Callable[[bytes, bytes], bytes]
"""Encrypts or decrypts a vector: its bytes, and the key of its row."""

_NAME = 200  # bytes; LMDB's keys have at most 511
_END = b"\0"  # ends a name in a key; names cannot contain it
_MODELS = 100  # of one user: reading a grain's vectors costs a look-up for each model
_FLOAT = 4


@dataclass(frozen=True, slots=True)
class Model:
    """An embedding model with vectors in the store.

    Attributes:
        name: its name.
        id: its number in this store, from 1.
        dimension: number of values of each vector.
    """

    name: str
    id: int
    dimension: int

    @property
    def prefix(self) -> bytes:
        return self.id.to_bytes(4, "big")

    def key(self, seq: int) -> bytes:
        return self.prefix + SEQUENCE.pack(seq)


def pack(vector: Vector) -> bytes:
    values = unpacked(bytes(vector)) if _is_raw(vector) else _numbers(vector)
    _check_count(len(values))
    if not 0 < math.hypot(*values) < math.inf:  # also false for NaN
        raise RangeError(
            "a vector must be finite and not zero",
            field="/vector",
            expected="finite numbers in the range of a float32, not all zero",
        )
    return _swapped(values).tobytes()


def _check_count(count: int) -> None:
    if not 1 <= count <= DIMENSIONS:
        raise RangeError(
            "a vector has too many or too few values",
            field="/vector",
            expected=f"1 to {DIMENSIONS}",
            found=str(count),
        )


def _is_raw(vector: object) -> TypeGuard[bytes | bytearray | memoryview]:
    """Whether a vector is float32 bytes; other buffers with bytes are numbers."""
    if isinstance(vector, memoryview):
        return vector.format == "B" and vector.ndim == 1
    return isinstance(vector, bytes | bytearray)


def _numbers(vector: Any) -> array[float]:
    if isinstance(vector, str | Mapping) or not hasattr(vector, "__getitem__"):
        raise _wrong(vector)
    try:
        _check_count(len(vector))  # before converting anything
        try:
            view = memoryview(vector)
        except TypeError:
            return array("f", vector)
        if view.ndim != 1:
            raise _wrong(vector)
        if view.format == "f":
            return array("f", view.tobytes())
        return array("f", vector)
    except OverflowError:  # an integer that exceeds every float
        return array("f", [math.inf])
    except (TypeError, ValueError, BufferError) as error:
        raise _wrong(vector) from error


def _wrong(vector: object) -> SchemaError:
    return SchemaError(
        "invalid vector",
        field="/vector",
        expected="a sequence of numbers, or float32 bytes",
        found=type(vector).__name__,
    )


def unpacked(data: bytes) -> array[float]:
    if len(data) % _FLOAT:
        raise _wrong(data)
    return _swapped(array("f", data))


def _swapped(values: array[float]) -> array[float]:
    """Swap between the byte order of the table and the machine's."""
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values


def models(reader: Reader) -> list[Model]:
    found = (_model(key, row) for key, row in reader.rows(MODELS))
    return sorted(found, key=lambda model: (model.name, model.dimension))


def _model(key: bytes, row: bytes) -> Model:
    try:
        record = msgpack.unpackb(row)
        name = key.partition(_END)[0].decode()
        return Model(name, int(record["id"]), int(record["dimension"]))
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError("a row in the table of models is damaged") from error


def model_of(reader: Reader, name: str | None, dimension: int) -> Model | None:
    """Return the model for a search; None if the store has no vectors."""
    known = models(reader)
    if not known:
        return None
    names = {model.name for model in known}
    if name is None and len(names) == 1:
        (name,) = names
    if not isinstance(name, str) or name not in names:
        raise SchemaError(
            "unknown model, or several models to choose from",
            field="/model",
            expected=", ".join(sorted(names)[:10]),
        )
    for model in known:
        if (model.name, model.dimension) == (name, dimension):
            return model
    raise SchemaError(
        "no vector of this model has this many values",
        field="/vector",
        found=f"{dimension} values",
    )


def add(writer: Writer, seq: int, vector: Vector, model: str, seal: Seal | None = None) -> None:
    data = pack(vector)
    blob = writer.blob_at(seq)
    if blob is None:
        raise NotFoundError("no grain with this sequence number is in the store")
    if blob[1] & ENCRYPTED_BIT and seal is None:
        raise KeyMissingError(
            "the grain is encrypted, and its key is missing to encrypt its vector"
        )
    known = _known(writer, model, len(data) // _FLOAT, seq)
    others = [other.prefix for other in _named(writer, model) if other != known]
    forget_vectors(writer, [seq], others)
    if seal is not None:
        writer.set_row(VEILED, known.key(seq), seal(data, known.key(seq)))
        writer.event(EMBEDDED, seq, sha256(blob).digest())
        return
    if writer.row(VECTORS, known.key(seq)) != data:
        writer.set_row(VECTORS, known.key(seq), data)
        writer.event(EMBEDDED, seq, sha256(blob).digest())


def _known(writer: Writer, name: str, dimension: int, seq: int) -> Model:
    """Return the model of a grain's vector; create it if it is new."""
    key = _key(name) + _END + b"%d" % dimension
    for known in _named(writer, name):
        if known.dimension == dimension:
            return known
    every = models(writer)
    owner = _owner(writer, seq)
    if sum(_owner(writer, first) == owner for first in _first(writer, every)) >= _MODELS:
        raise RangeError(
            "too many embedding models for one user", field="/model", expected=f"at most {_MODELS}"
        )
    new = Model(name, 1 + max((model.id for model in every), default=0), dimension)
    writer.set_row(MODELS, key, msgpack.packb({"dimension": dimension, "id": new.id}))
    return new


def _named(reader: Reader, name: str) -> list[Model]:
    return [_model(key, row) for key, row in reader.rows(MODELS, prefix=_key(name) + _END)]


def _first(reader: Reader, known: Iterable[Model]) -> Iterator[int]:
    """Return a grain of each model: its owner counts as the model's user."""
    for model in known:
        seqs = [
            int.from_bytes(key[len(model.prefix) :], "big")
            for table in (VECTORS, VEILED)
            for key, _ in islice(reader.rows(table, prefix=model.prefix), 1)
        ]
        if seqs:
            yield min(seqs)


def _owner(reader: Reader, seq: int) -> bytes | str | None:
    """Return the owner of a grain: the number of its key, or a user; None without either."""
    key = reader.row(SEALED, SEQUENCE.pack(seq))
    if key is not None:
        return key
    with suppress(OmsError):  # a damaged grain counts as without owner
        grain = reader.grain(seq)
        user = None if grain is None else grain.get("user_id")
        return user if isinstance(user, str) else None
    return None


def _key(name: str) -> bytes:
    try:
        key = name.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise SchemaError("invalid model name", field="/model", expected="text") from error
    if not 1 <= len(key) <= _NAME or _END in key:
        raise RangeError(
            "invalid model name",
            field="/model",
            expected=f"1 to {_NAME} bytes of UTF-8 without U+0000",
            found=f"{len(key)} bytes",
        )
    return key


def vectors_of(reader: Reader, seq: int, unseal: Seal | None = None) -> dict[str, array[float]]:
    """Return the vectors of a grain by model name, encrypted ones if possible."""
    found = {}
    for model in models(reader):
        key = model.key(seq)
        row = reader.row(VECTORS, key)
        veiled = None if unseal is None else reader.row(VEILED, key)
        if veiled is not None and unseal is not None:
            row = unseal(veiled, key)
        if row is not None:
            found[model.name] = unpacked(row)
    return found
