# SPDX-License-Identifier: Apache-2.0
"""Messages in protobuf, decoded by the library of that name with the schema in the file."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, MutableSequence
from graphlib import TopologicalSorter
from typing import Any, Final

from omsgrain.errors import FormatError, TooLargeError, UnsupportedError, library
from omsgrain.formats.bag.cdr import VALUES, Decoder

LARGEST: Final = 16 << 20
"""Bytes of a message: the library makes an object for each two bytes of a hostile one."""
_MAP_VALUE: Final = 2  # the number of the value in an entry of a map
_NEED: Final = "messages in protobuf need protobuf"


def decoder(name: str, schema: bytes) -> Decoder:
    """Return the function that decodes messages of a type, such as "foxglove.Log".

    The schema is a FileDescriptorSet. As ``cdr.decoder``, it refuses types that it cannot decode;
    also those with a field whose name the library uses itself.
    """
    failures = library("protobuf", "google.protobuf.message", _NEED)
    kind = _message_class(name, schema, failures)

    def decode(data: bytes) -> dict[str, Any]:
        if len(data) > LARGEST:
            raise TooLargeError("the message is too large", expected=f"at most {LARGEST} bytes")
        message = kind()
        try:
            message.ParseFromString(data)
        except failures.DecodeError:
            raise FormatError("not a message of its type") from None
        return _Values().values(message)

    return decode


def _message_class(name: str, schema: bytes, messages: Any) -> Any:
    """Return the class of a message; the schema has the files that it depends on too."""
    descriptors = library("protobuf", "google.protobuf.descriptor_pb2", _NEED)
    pools = library("protobuf", "google.protobuf.descriptor_pool", _NEED)
    factory = library("protobuf", "google.protobuf.message_factory", _NEED)
    pool = pools.DescriptorPool()
    try:
        files = {one.name: one for one in descriptors.FileDescriptorSet.FromString(schema).file}
        for one in files.values():
            _check_names(one.message_type, messages.Message)
        order = TopologicalSorter({name: one.dependency for name, one in files.items()})
        for file in order.static_order():
            pool.AddSerializedFile(files[file].SerializeToString())
        return factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except (messages.DecodeError, TypeError, KeyError, ValueError):
        raise FormatError("not a schema of protobuf", expected="a FileDescriptorSet") from None


def _check_names(types: Iterable[Any], base: type) -> None:
    """Refuse fields such as HasField: they would take the place of the library's own methods."""
    left = list(types)
    while left:
        one = left.pop()
        left += one.nested_type
        if any(hasattr(base, field.name) for field in one.field):
            raise UnsupportedError("a field of a message has a name of the library protobuf")


class _Values:
    """Turns a message into plain values; fields without presence have their default."""

    def __init__(self) -> None:
        self._left = VALUES

    def values(self, message: Any) -> dict[str, Any]:
        fields = message.DESCRIPTOR.fields
        self._charge(len(fields))  # an empty message has as many values as its type has fields
        found = {}
        for field in fields:
            if field.has_presence and not message.HasField(field.name):
                continue
            found[field.name] = self._value(field, getattr(message, field.name))
        return found

    def _value(self, field: Any, value: Any) -> Any:
        if hasattr(value, "DESCRIPTOR"):  # Struct and ListValue count as dict and list too
            return self.values(value)
        if isinstance(value, MutableMapping):
            self._charge(len(value))
            inner = field.message_type.fields_by_number.get(_MAP_VALUE)
            if inner is None:
                raise FormatError("the schema has a map without values")
            return {str(key): self._value(inner, value[key]) for key in value}
        if isinstance(value, MutableSequence):
            self._charge(len(value))
            return [self._value(field, one) for one in value]
        if field.enum_type is not None:
            known = field.enum_type.values_by_number.get(value)
            return value if known is None else known.name
        return value

    def _charge(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise TooLargeError("the message has too many elements", expected=f"{VALUES}")
