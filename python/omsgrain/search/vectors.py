# SPDX-License-Identifier: Apache-2.0
"""Vectors of grains, as an embedding model gave them: kept in the store's own tables.

A grain has one vector of each model name at most. A model is a name and a dimension: vectors of
one name and different lengths belong to different models, so that no user fixes the dimension for
others. Vectors of different models are never compared. A model is forgotten with its last vector.
Each vector is kept as it came, not normalised, so that it can be given out again.
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
from omsgrain.storage.tables import (
    EMBEDDED,
    MODELS,
    SEALED,
    SEQUENCE,
    VECTORS,
    VEILED,
)

DIMENSIONS = 8_192
"""The most values that a vector can have."""

Vector: TypeAlias = Sequence[float] | bytes | bytearray | memoryview | Any
"""Numbers; float32 bytes, little-endian; or an object with a buffer of numbers, as numpy has."""

Seal: TypeAlias = Callable[[bytes, bytes], bytes]
"""Seals or opens a vector: its bytes, and the key of its row."""

_NAME = 200  # bytes; LMDB's keys end at 511
_END = b"\0"  # of a name in a key; no name has it
_MODELS = 100  # of one user: looking for a grain's vectors costs a look-up for each model
_FLOAT = 4


@dataclass(frozen=True, slots=True)
class Model:
    """An embedding model whose vectors a store has.

    Attributes:
        name: as it was given with the first vector.
        id: its number in this store, from 1.
        dimension: how many values each vector has.
    """

    name: str
    id: int
    dimension: int

    @property
    def prefix(self) -> bytes:
        """What the keys of its vectors begin with."""
        return self.id.to_bytes(4, "big")

    def key(self, seq: int) -> bytes:
        """Return the key of a grain's vector."""
        return self.prefix + SEQUENCE.pack(seq)


def pack(vector: Vector) -> bytes:
    """Bring a vector into the form that is stored."""
    values = unpacked(bytes(vector)) if _is_raw(vector) else _numbers(vector)
    _check_count(len(values))
    if not 0 < math.hypot(*values) < math.inf:  # false for NaN too
        raise RangeError(
            "a vector without a direction",
            field="/vector",
            expected="finite numbers in the range of a float32, not all zero",
        )
    return _swapped(values).tobytes()


def _check_count(count: int) -> None:
    if not 1 <= count <= DIMENSIONS:
        raise RangeError(
            "a vector cannot have that many values",
            field="/vector",
            expected=f"1 to {DIMENSIONS}",
            found=str(count),
        )


def _is_raw(vector: object) -> TypeGuard[bytes | bytearray | memoryview]:
    """Whether a vector is float32 bytes; numbers that are bytes come in other buffers."""
    if isinstance(vector, memoryview):
        return vector.format == "B" and vector.ndim == 1
    return isinstance(vector, bytes | bytearray)


def _numbers(vector: Any) -> array[float]:
    """Numbers of any kind as float32."""
    if isinstance(vector, str | Mapping) or not hasattr(vector, "__getitem__"):
        raise _wrong(vector)
    try:
        _check_count(len(vector))  # before anything is converted
        try:
            view = memoryview(vector)
        except TypeError:
            return array("f", vector)
        if view.ndim != 1:
            raise _wrong(vector)
        if view.format == "f":
            return array("f", view.tobytes())
        return array("f", vector)
    except OverflowError:  # an integer beyond every float
        return array("f", [math.inf])
    except (TypeError, ValueError, BufferError) as error:
        raise _wrong(vector) from error


def _wrong(vector: object) -> SchemaError:
    return SchemaError(
        "not a vector",
        field="/vector",
        expected="a sequence of numbers, or float32 bytes",
        found=type(vector).__name__,
    )


def unpacked(data: bytes) -> array[float]:
    """Return the values of a vector as it is stored."""
    if len(data) % _FLOAT:
        raise SchemaError(
            "not a vector",
            field="/vector",
            expected="float32, 4 bytes each",
            found=f"{len(data)} bytes",
        )
    return _swapped(array("f", data))


def _swapped(values: array[float]) -> array[float]:
    """The same values in the order of bytes of the table, or back in the machine's own."""
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values


def models(reader: Reader) -> list[Model]:
    """Return the models whose vectors a store has, by name and dimension."""
    found = (_model(key, row) for key, row in reader.rows(MODELS))
    return sorted(found, key=lambda model: (model.name, model.dimension))


def _model(key: bytes, row: bytes) -> Model:
    try:
        record = msgpack.unpackb(row)
        name = key.partition(_END)[0].decode()
        return Model(name, int(record["id"]), int(record["dimension"]))
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        raise StoreError("a damaged row of the table of models") from error


def model_of(reader: Reader, name: str | None, dimension: int) -> Model | None:
    """Return the model that a search means."""
    known = models(reader)
    if not known:
        return None
    names = {model.name for model in known}
    if name is None and len(names) == 1:
        (name,) = names
    if not isinstance(name, str) or name not in names:
        raise SchemaError(
            "a vector search names one of the store's models",
            field="/model",
            expected=", ".join(sorted(names)[:10]),
        )
    for model in known:
        if (model.name, model.dimension) == (name, dimension):
            return model
    raise SchemaError(
        "no vector of this model has that many values",
        field="/vector",
        found=f"{dimension} values",
    )


def add(writer: Writer, seq: int, vector: Vector, model: str, seal: Seal | None = None) -> None:
    """Give a grain its vector of a model, in place of one that it has."""
    data = pack(vector)
    blob = writer.blob_at(seq)
    if blob is None:
        raise NotFoundError("no such grain")
    if blob[1] & ENCRYPTED_BIT and seal is None:
        raise KeyMissingError("the grain is sealed, and its key is not here to seal its vector")
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
    """The model of a grain's vector, made if it is new."""
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
    """The models of a name."""
    key = _key(name)
    found = [_model(row_key, row) for row_key, row in reader.rows(MODELS, prefix=key + _END)]
    old = reader.row(MODELS, key)  # as it was written when a name had one dimension
    return found if old is None else [_model(key, old), *found]


def _first(reader: Reader, known: Iterable[Model]) -> Iterator[int]:
    """A grain of each model: the owner of its oldest vector counts as the model's user."""
    for model in known:
        seqs = [
            int.from_bytes(key[len(model.prefix) :], "big")
            for table in (VECTORS, VEILED)
            for key, _ in islice(reader.rows(table, prefix=model.prefix), 1)
        ]
        if seqs:
            yield min(seqs)


def _owner(reader: Reader, seq: int) -> bytes | str | None:
    """Whose grain it is: the number of the key that seals it, or a user; None without either."""
    key = reader.row(SEALED, SEQUENCE.pack(seq))
    if key is not None:
        return key
    with suppress(OmsError):  # a damaged grain has no owner
        grain = reader.grain(seq)
        user = None if grain is None else grain.get("user_id")
        return user if isinstance(user, str) else None
    return None


def _key(name: str) -> bytes:
    try:
        key = name.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise SchemaError("not the name of a model", field="/model", expected="text") from error
    if not 1 <= len(key) <= _NAME or _END in key:
        raise RangeError(
            "a model cannot have that name",
            field="/model",
            expected=f"1 to {_NAME} bytes of UTF-8 without U+0000",
            found=f"{len(key)} bytes",
        )
    return key


def vectors_of(reader: Reader, seq: int, unseal: Seal | None = None) -> dict[str, array[float]]:
    """Return the vectors of a grain by the name of their model, sealed ones if they can be."""
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
