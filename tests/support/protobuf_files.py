# SPDX-License-Identifier: Apache-2.0
"""A schema of protobuf with every kind of field, and messages of its type."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

Field = descriptor_pb2.FieldDescriptorProto
KINDS = {
    "volts": Field.TYPE_FLOAT,
    "exact": Field.TYPE_DOUBLE,
    "count": Field.TYPE_INT64,
    "big": Field.TYPE_FIXED64,
    "zig": Field.TYPE_SINT32,
    "on": Field.TYPE_BOOL,
    "note": Field.TYPE_STRING,
    "raw": Field.TYPE_BYTES,
}


def schema() -> descriptor_pb2.FileDescriptorSet:
    """Two files: a type with every kind of field needs the time of the other file."""
    found = descriptor_pb2.FileDescriptorSet()
    file = found.file.add(name="acme/reading.proto", package="acme", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.message_type.add(name="Reading")
    for number, (name, type) in enumerate(KINDS.items(), 1):
        kind.field.add(name=name, number=number, type=type, label=Field.LABEL_OPTIONAL)
    mode = file.enum_type.add(name="Mode")
    for number, name in enumerate(("IDLE", "FAST")):
        mode.value.add(name=name, number=number)
    kind.field.add(name="mode", number=20, type=Field.TYPE_ENUM, type_name=".acme.Mode",
                   label=Field.LABEL_OPTIONAL)  # fmt: skip
    kind.field.add(name="timestamp", number=21, type=Field.TYPE_MESSAGE,
                   type_name=".google.protobuf.Timestamp", label=Field.LABEL_OPTIONAL)  # fmt: skip
    kind.field.add(name="inner", number=22, type=Field.TYPE_MESSAGE,
                   type_name=".acme.Reading", label=Field.LABEL_REPEATED)  # fmt: skip
    kind.field.add(name="values", number=23, type=Field.TYPE_INT32, label=Field.LABEL_REPEATED)
    entry = kind.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Field.TYPE_INT32, label=Field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    kind.field.add(name="tags", number=24, type=Field.TYPE_MESSAGE,
                   type_name=".acme.Reading.TagsEntry", label=Field.LABEL_REPEATED)  # fmt: skip
    timestamp_pb2.DESCRIPTOR.CopyToProto(found.file.add())
    return found


def message(**values: Any) -> Any:
    pool = DescriptorPool()
    for file in reversed(schema().file):
        pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("acme.Reading"))(**values)
