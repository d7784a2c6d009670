# SPDX-License-Identifier: Apache-2.0
"""Messages in protobuf: every kind of field, and hostile schemas and bytes."""

from __future__ import annotations

import math
import random

import pytest
from google.protobuf import descriptor_pb2, struct_pb2

from omsgrain.errors import FormatError, OmsError, TooLargeError, UnsupportedError
from omsgrain.formats.bag.protobuf import LARGEST, decoder
from support.protobuf_files import message, schema


def test_every_kind_of_field() -> None:
    decode = decoder("acme.Reading", schema().SerializeToString())
    sent = message(
        volts=0.5, exact=math.pi, count=-(2**40), big=2**64 - 1, zig=-7, on=True, note="ä",
        raw=b"\0\xff", mode=1, timestamp={"seconds": 5, "nanos": 6}, inner=[{"zig": 1}],
        values=[1, -2], tags={3: "c"},
    )  # fmt: skip
    empty = {"volts": 0.0, "exact": 0.0, "count": 0, "big": 0, "zig": 0, "on": False, "note": "",
             "raw": b"", "mode": "IDLE", "inner": [], "values": [], "tags": {}}  # fmt: skip
    assert decode(sent.SerializeToString()) == {
        "volts": 0.5, "exact": math.pi, "count": -(2**40), "big": 2**64 - 1, "zig": -7,
        "on": True, "note": "ä", "raw": b"\0\xff", "mode": "FAST",
        "timestamp": {"seconds": 5, "nanos": 6}, "inner": [{**empty, "zig": 1}],
        "values": [1, -2], "tags": {"3": "c"},
    }  # fmt: skip
    assert decode(b"") == empty
    assert decode(message(mode=9).SerializeToString())["mode"] == 9  # of a newer schema


def test_values_of_struct_are_messages_like_others() -> None:
    """The library gives them the methods of a dict and a list."""
    found = descriptor_pb2.FileDescriptorSet()
    struct_pb2.DESCRIPTOR.CopyToProto(found.file.add())
    sent = struct_pb2.Struct()
    sent.update({"a": [1, None], "b": {"c": "d"}})
    data = sent.SerializeToString()
    assert decoder("google.protobuf.Struct", found.SerializeToString())(data) == {
        "fields": {
            "a": {"list_value": {"values": [{"number_value": 1.0}, {"null_value": "NULL_VALUE"}]}},
            "b": {"struct_value": {"fields": {"c": {"string_value": "d"}}}},
        }
    }


@pytest.mark.parametrize("name", ["get", "HasField", "DESCRIPTOR", "FromString", "__class__"])
def test_fields_with_names_of_the_library(name: str) -> None:
    found = descriptor_pb2.FileDescriptorSet()
    file = found.file.add(name="a.proto", package="a", syntax="proto3")
    kind, field = file.message_type.add(name="M"), descriptor_pb2.FieldDescriptorProto
    inner = kind.nested_type.add(name="N")
    inner.field.add(name=name, number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    kind.field.add(name="m", number=1, type=field.TYPE_MESSAGE, type_name=".a.M.N",
                   label=field.LABEL_OPTIONAL)  # fmt: skip
    if name == "get":
        decode = decoder("a.M", found.SerializeToString())
        assert decode(b"\x0a\x03\x0a\x01x") == {"m": {"get": "x"}}
    else:
        with pytest.raises(UnsupportedError):
            decoder("a.M", found.SerializeToString())


def changed(**names: str) -> bytes:
    found = schema()
    for name, value in names.items():
        setattr(found.file[0], name, value)
    return bytes(found.SerializeToString())


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("acme.Reading", b""),
        ("acme.Reading", b"\x0a\x02hi"),
        ("acme.Other", schema().SerializeToString()),
        ("", schema().SerializeToString()),
        ("acme.Reading", changed(package="other")),
        ("acme.Reading", changed(name="google/protobuf/timestamp.proto")),
        ("acme.Reading", schema().SerializeToString()[:-400]),
    ],
)
def test_broken_schemas(name: str, data: bytes) -> None:
    with pytest.raises(FormatError):
        decoder(name, data)


def test_files_that_need_each_other() -> None:
    found = descriptor_pb2.FileDescriptorSet()
    for n in range(3_000):
        found.file.add(name=f"{n}.proto").dependency.append(f"{n + 1}.proto")
    last = found.file.add(name="3000.proto", package="a")
    last.message_type.add(name="M")
    assert decoder("a.M", found.SerializeToString())(b"") == {}
    last.dependency.append("0.proto")
    with pytest.raises(FormatError):
        decoder("a.M", found.SerializeToString())


def test_hostile_messages() -> None:
    decode = decoder("acme.Reading", schema().SerializeToString())
    deep = message()
    at = deep
    for _ in range(150):
        at = at.inner.add()
    with pytest.raises(FormatError):
        decode(deep.SerializeToString())
    with pytest.raises(FormatError):
        decode(b"\xff\xff\xff")
    with pytest.raises(TooLargeError):
        decode(bytes(LARGEST + 1))
    with pytest.raises(TooLargeError):  # two bytes each, and thirteen values
        decode(b"\xb2\x01\x00" * 100_000)
    with pytest.raises(TooLargeError):
        decode(message(values=bytes(2_000_000)).SerializeToString())


def test_mutated_messages_and_schemas() -> None:
    seed, good = random.Random(6), schema().SerializeToString()
    sent = message(volts=1, note="abc", values=[1, 2], inner=[{"note": "x"}]).SerializeToString()
    decode = decoder("acme.Reading", good)
    for n in range(6_000):
        data = bytearray(good if n % 3 == 0 else sent)
        data[seed.randrange(len(data))] = seed.randrange(256)
        try:
            if n % 3 == 0:
                decoder("acme.Reading", bytes(data))(sent)
            else:
                decode(bytes(data))
        except OmsError:
            continue
