# SPDX-License-Identifier: Apache-2.0
"""Messages of ROS 2: every kind of field, both byte orders, and hostile bytes."""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import numpy as np
import pytest
from rosbags.typesys import Stores, get_typestore

from omsgrain.errors import FormatError, OmsError, TooLargeError, UnsupportedError
from omsgrain.formats.bag.cdr import DEPTH, FIELDS, VALUES, decoder
from support.bag_files import SCAN, SCAN_TYPE, CdrBytes, scan

TYPES = get_typestore(Stores.ROS2_HUMBLE)
#: Those that say all kinds of fields together; a decoder that reads them reads the others.
ALIKE = [
    "sensor_msgs/msg/Imu", "sensor_msgs/msg/Image", "sensor_msgs/msg/NavSatFix",
    "sensor_msgs/msg/LaserScan", "sensor_msgs/msg/PointCloud2", "sensor_msgs/msg/JointState",
    "diagnostic_msgs/msg/DiagnosticArray", "nav_msgs/msg/Path", "nav_msgs/msg/OccupancyGrid",
    "geometry_msgs/msg/TwistStamped", "tf2_msgs/msg/TFMessage", "std_msgs/msg/Empty",
    "std_msgs/msg/Byte", "std_msgs/msg/Char", "std_msgs/msg/Int8MultiArray",
    "std_msgs/msg/UInt64MultiArray", "sensor_msgs/msg/BatteryState", "std_msgs/msg/Bool",
    "visualization_msgs/msg/Marker", "rcl_interfaces/msg/ParameterDescriptor",
]  # fmt: skip


def test_every_kind_of_field() -> None:
    decode = decoder(SCAN_TYPE, SCAN)
    for big in (False, True):
        assert decode(scan(3, big=big)) == {
            "header": {
                "stamp": {"sec": 1_768_471_200, "nanosec": 3_000_000},
                "frame_id": "lidar_link",
            },
            "ranges": [1.5, 2.5],
            "raw": b"\1\2",
            "valid": [True, False],
            "note": "scan 3",
            "corners": [{"x": 0.25, "y": -3}],
        }


def made(name: str, seed: random.Random) -> Any:
    """A message of a type with random values, as `rosbags` has it."""

    def value(kind: int, detail: Any) -> Any:
        if kind == 1:
            base, most = detail
            if base == "string":
                return "ä" * seed.randrange(min(most or 9, 9))
            if base == "bool":
                return seed.random() < 0.5
            if base.startswith("float"):
                return np.dtype(base).type(seed.uniform(-9, 9)).item()
            if base in ("octet", "byte", "char"):
                return seed.randrange(128)  # above that, rosbags takes octets for signed
            limits = np.iinfo(base)
            return seed.randint(limits.min, limits.max)
        if kind == 2:
            return made(detail, seed)
        (kind, inner), size = detail
        count = size or seed.randrange(4)
        items = [value(kind, inner) for _ in range(count)]
        if kind == 1 and inner[0] != "string":
            return np.array(items, dtype={"octet": "uint8"}.get(inner[0], inner[0]))
        return items

    fields = TYPES.fielddefs[name][1]
    return TYPES.types[name](**{field: value(*of) for field, of in fields})


def plain(value: Any) -> Any:
    """The values of a message of `rosbags` as our decoder returns them."""
    if hasattr(value, "__msgtype__"):
        names = [name for name, _ in TYPES.fielddefs[value.__msgtype__][1]]
        return {
            name: plain(getattr(value, name))
            for name in names
            if name != "structure_needs_at_least_one_member"
        }
    if isinstance(value, np.ndarray):
        return bytes(value) if value.dtype == np.uint8 else value.tolist()
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value


@pytest.mark.parametrize("name", ALIKE)
def test_messages_are_as_rosbags_has_them(name: str) -> None:
    seed = random.Random(name)
    decode = decoder(name, TYPES.generate_msgdef(name, ros_version=2)[0])
    for _ in range(10):
        data = bytes(TYPES.serialize_cdr(made(name, seed), name))
        assert decode(data) == plain(TYPES.deserialize_cdr(data, name))


def test_all_definitions_of_ros_are_read() -> None:
    for name in TYPES.types:
        decoder(name, TYPES.generate_msgdef(name, ros_version=2)[0])


@pytest.mark.parametrize(
    ("definition", "error"),
    [
        ("int32", FormatError),
        ("int32 x[3]", None),  # the name ends at the bracket, as in ROS
        ("int32[0] x", FormatError),
        ("int32[<=] x", FormatError),
        ("Point p", FormatError),
        ("a/M m", FormatError),
        ("wstring w", UnsupportedError),
        ("int32 x\nint32 CONSTANT=3 # why\nstring s 'default'", None),
        ("\n".join(f"int8 f{n}" for n in range(FIELDS + 1)), FormatError),
    ],
)
def test_definitions(definition: str, error: type[OmsError] | None) -> None:
    if error is None:
        decoder("a/msg/M", definition)
        return
    with pytest.raises(error):
        decoder("a/msg/M", definition)


def nested(depth: int) -> str:
    parts = ["N1 x"] + [f"MSG: a/N{n}\nN{n + 1} x" for n in range(1, depth)]
    return "\n===\n".join([*parts, f"MSG: a/N{depth}\nint8 x"])


def test_deep_definitions_are_refused() -> None:
    decode = decoder("a/msg/M", nested(DEPTH - 1))
    assert str(decode(b"\0\1\0\0\7")).count("{") == DEPTH
    with pytest.raises(FormatError):
        decoder("a/msg/M", nested(DEPTH))
    with pytest.raises(FormatError):
        decoder("a/msg/M", nested(5_000))


def test_a_wide_definition_does_not_double_at_each_level() -> None:
    parts = ["A1 x\nA1 y"] + [f"MSG: a/A{n}\nA{n + 1} x\nA{n + 1} y" for n in range(1, 30)]
    decode = decoder("a/msg/M", "\n===\n".join([*parts, "MSG: a/A30\nint8 x"]))
    with pytest.raises(FormatError):
        decode(b"\0\1\0\0" + bytes(1_000))


@pytest.mark.parametrize(
    "definition",
    ["X[] xs\n===\nMSG: a/X\nuint8[4] a", "X[] xs\n===\nMSG: a/X\n", "string[] s", "bool[] b",
     "float64[] d", "uint8[] b", "string s", "X[4000000000] xs\n===\nMSG: a/X\nuint8[9] a"],
)  # fmt: skip
def test_counts_are_compared_with_the_bytes_first(definition: str) -> None:
    """A library makes four billion objects of such a message, or returns a text cut short."""
    try:
        decode = decoder("a/msg/M", definition)
    except FormatError:
        return
    for count in (0xFFFFFFFF, 9, 5):
        with pytest.raises(FormatError) as caught:
            decode(b"\0\1\0\0" + struct.pack("<I", count) + b"\1\1\1\1")
        assert caught.value.offset is not None and 4 <= caught.value.offset <= 12


def test_many_elements_are_too_large() -> None:
    decode = decoder("a/msg/M", "int8[] xs")
    with pytest.raises(TooLargeError):
        decode(CdrBytes().octets(bytes(VALUES + 1)).done())
    assert len(decode(CdrBytes().octets(bytes(1_000)).done())["xs"]) == 1_000


def test_what_follows_a_message() -> None:
    decode = decoder("a/msg/M", "string s\nfloat64[2] d")
    good = CdrBytes().text("ä").add("d", 1.0, math.inf).done()
    assert decode(good + bytes(3)) == {"s": "ä", "d": [1.0, math.inf]}
    with pytest.raises(FormatError):
        decode(good + bytes(4))
    for cut in range(len(good)):
        with pytest.raises(OmsError):
            decode(good[:cut])
    with pytest.raises(FormatError):  # not UTF-8
        decode(good.replace("ä".encode(), b"\xc3\x28"))
    for head in (b"\0\2\0\0", b"\0\7\0\0", b"\1\1\0\0"):
        with pytest.raises(UnsupportedError):
            decode(head + good[4:])


def test_mutated_messages_decode_or_are_refused() -> None:
    seed, decode, good = random.Random(7), decoder(SCAN_TYPE, SCAN), scan(1)
    for _ in range(3_000):
        data = bytearray(good)
        for _ in range(seed.randrange(1, 4)):
            data[seed.randrange(len(data))] = seed.choice((0, 1, 0x7F, 0xFF, seed.randrange(256)))
        try:
            decode(bytes(data))
        except OmsError:
            continue
