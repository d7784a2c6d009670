# SPDX-License-Identifier: Apache-2.0
"""Payloads that are not the one canonical form: MessagePack from 101, CBOR from 151."""

from __future__ import annotations

import struct

import oracle
from source.forms import Vector, refused_read
from source.frames import CBOR, MSGPACK, blob, cbor, msgpack

_CORRUPT = "ERR_CORRUPT"
_SWAPPED = ("ca", "c", "o", "r", "s", "t")
_UNSORTED = b"\x86" + b"".join(oracle.pack_msgpack(key) + MSGPACK[key] for key in _SWAPPED)
_DEEP = b"\x91" * 32 + b"\xc0"  # 32 arrays in the payload map, which is depth 1

# Value of an unknown field "x"; the first group is the same value in a longer form.
_MSGPACK: tuple[tuple[str, str, str, bytes], ...] = (
    ("101-uint8", _CORRUPT, "5 as uint8", b"\xcc\x05"),
    ("102-uint16", _CORRUPT, "255 as uint16", b"\xcd\x00\xff"),
    ("103-uint32", _CORRUPT, "65535 as uint32", b"\xce\x00\x00\xff\xff"),
    ("104-uint64", _CORRUPT, "4294967295 as uint64", b"\xcf\x00\x00\x00\x00\xff\xff\xff\xff"),
    ("105-int8", _CORRUPT, "-1 as int8", b"\xd0\xff"),
    ("106-int16", _CORRUPT, "-128 as int16", b"\xd1\xff\x80"),
    ("107-int32", _CORRUPT, "-32768 as int32", b"\xd2\xff\xff\x80\x00"),
    ("108-int64", _CORRUPT, "-2147483648 as int64", b"\xd3\xff\xff\xff\xff\x80\x00\x00\x00"),
    ("109-int8-positive", _CORRUPT, "5 in the signed family", b"\xd0\x05"),
    ("110-int16-positive", _CORRUPT, "256 in the signed family", b"\xd1\x01\x00"),
    ("111-str8", _CORRUPT, "one character as str8", b"\xd9\x01x"),
    ("112-str16", _CORRUPT, "one character as str16", b"\xda\x00\x01x"),
    ("113-str32", _CORRUPT, "one character as str32", b"\xdb\x00\x00\x00\x01x"),
    ("114-bin16", _CORRUPT, "one byte as bin16", b"\xc5\x00\x01x"),
    ("115-bin32", _CORRUPT, "one byte as bin32", b"\xc6\x00\x00\x00\x01x"),
    ("116-array16", _CORRUPT, "an array of one as array16", b"\xdc\x00\x01\x00"),
    ("117-array32", _CORRUPT, "an array of one as array32", b"\xdd\x00\x00\x00\x01\x00"),
    ("118-map16", _CORRUPT, "a map of one as map16", b"\xde\x00\x01\xa1a\x00"),
    ("119-map32", _CORRUPT, "a map of one as map32", b"\xdf\x00\x00\x00\x01\xa1a\x00"),
    ("120-float32", _CORRUPT, "a float32", b"\xca\x3f\x00\x00\x00"),
    ("121-nan", "ERR_FLOAT_INVALID", "NaN", b"\xcb\x7f\xf8" + bytes(6)),
    ("122-infinity", "ERR_FLOAT_INVALID", "infinity", b"\xcb\x7f\xf0" + bytes(6)),
    ("123-minus-infinity", "ERR_FLOAT_INVALID", "minus infinity", b"\xcb\xff\xf0" + bytes(6)),
    ("124-nil", _CORRUPT, "nil as a map value", b"\xc0"),
    ("125-nil-nested", _CORRUPT, "nil as a value of a nested map", b"\x81\xa1a\xc0"),
    ("126-unused-byte", _CORRUPT, "c1, which begins nothing", b"\xc1"),
    ("127-ext", _CORRUPT, "an ext type", b"\xd4\x01\x00"),
    ("128-timestamp", _CORRUPT, "the timestamp ext type", b"\xd6\xff\x00\x00\x00\x00"),
    ("129-not-utf8", _CORRUPT, "a string that is not UTF-8", b"\xa1\xff"),
    ("130-surrogate", _CORRUPT, "a surrogate in UTF-8", b"\xa3\xed\xa0\x80"),
    ("131-overlong", _CORRUPT, "an overlong form in UTF-8", b"\xa2\xc0\x80"),
    ("132-bom", _CORRUPT, "a string that begins with a BOM", b"\xa4\xef\xbb\xbfx"),
    ("133-not-nfc", _CORRUPT, "a string that is not NFC", b"\xa3e\xcc\x81"),
    ("134-key-not-nfc", _CORRUPT, "a key that is not NFC", b"\x81\xa3e\xcc\x81\x00"),
    ("135-key-bom", _CORRUPT, "a key that begins with a BOM", b"\x81\xa4\xef\xbb\xbfx\x00"),
    ("136-key-int", _CORRUPT, "a key that is no string", b"\x81\x01\x00"),
    ("137-key-bytes", _CORRUPT, "a key of bytes", b"\x81\xc4\x01a\x00"),
    ("138-keys-equal", _CORRUPT, "the same key twice", b"\x82\xa1a\x00\xa1a\x01"),
    ("139-keys-unsorted", _CORRUPT, "nested keys out of order", b"\x82\xa1b\x00\xa1a\x01"),
    ("140-depth-33", _CORRUPT, "one level too deep", _DEEP),
    ("141-string-bomb", _CORRUPT, "a string of 4 GiB that is not there", b"\xdb\xff\xff\xff\xff"),
    ("142-array-bomb", _CORRUPT, "an array of 4 billion that is not there",
     b"\xdd\xff\xff\xff\xff"),
    ("143-map-bomb", _CORRUPT, "a map of 4 billion that is not there", b"\xdf\xff\xff\xff\xff"),
)  # fmt: skip

_CBOR: tuple[tuple[str, str, str, bytes], ...] = (
    ("151-uint8", _CORRUPT, "5 in two bytes", b"\x18\x05"),
    ("152-uint16", _CORRUPT, "255 in three bytes", b"\x19\x00\xff"),
    ("153-uint32", _CORRUPT, "65535 in five bytes", b"\x1a\x00\x00\xff\xff"),
    ("154-uint64", _CORRUPT, "4294967295 in nine bytes", b"\x1b\x00\x00\x00\x00\xff\xff\xff\xff"),
    ("155-negative", _CORRUPT, "-6 in two bytes", b"\x38\x05"),
    ("156-string", _CORRUPT, "one character with a length in two bytes", b"\x78\x01x"),
    ("157-bytes", _CORRUPT, "one byte with a length in two bytes", b"\x58\x01x"),
    ("158-array", _CORRUPT, "an array of one with a count in two bytes", b"\x98\x01\x00"),
    ("159-map", _CORRUPT, "a map of one with a count in two bytes", b"\xb8\x01\x61a\x00"),
    ("160-float64", _CORRUPT, "1.5 in 64 bits", b"\xfb" + struct.pack(">d", 1.5)),
    ("161-float32", _CORRUPT, "1.5 in 32 bits", b"\xfa" + struct.pack(">f", 1.5)),
    ("162-float64-of-32", _CORRUPT, "100000.5 in 64 bits, where 32 keep it",
     b"\xfb" + struct.pack(">d", 100000.5)),
    ("163-nan-16", "ERR_FLOAT_INVALID", "NaN in 16 bits", b"\xf9\x7e\x00"),
    ("164-nan-64", "ERR_FLOAT_INVALID", "NaN in 64 bits", b"\xfb\x7f\xf8" + bytes(6)),
    ("165-infinity", "ERR_FLOAT_INVALID", "infinity in 16 bits", b"\xf9\x7c\x00"),
    ("166-null", _CORRUPT, "null as a map value", b"\xf6"),
    ("167-undefined", _CORRUPT, "undefined", b"\xf7"),
    ("168-simple", _CORRUPT, "a simple value", b"\xf0"),
    ("169-simple-byte", _CORRUPT, "a simple value in two bytes", b"\xf8\x20"),
    ("170-tag", _CORRUPT, "a tag", b"\xc0\x61x"),
    ("171-bignum", _CORRUPT, "a bignum, which is a tag", b"\xc2\x49\x01" + bytes(8)),
    ("172-integer-low", "ERR_RANGE", "-2^64, below the least int64", b"\x3b" + b"\xff" * 8),
    ("173-string-indefinite", _CORRUPT, "a string of indefinite length", b"\x7f\x61x\xff"),
    ("174-bytes-indefinite", _CORRUPT, "bytes of indefinite length", b"\x5f\x41x\xff"),
    ("175-array-indefinite", _CORRUPT, "an array of indefinite length", b"\x9f\x00\xff"),
    ("176-map-indefinite", _CORRUPT, "a map of indefinite length", b"\xbf\x61a\x00\xff"),
    ("177-reserved", _CORRUPT, "a reserved length", b"\x1c"),
    ("178-break", _CORRUPT, "a break that ends nothing", b"\xff"),
    ("179-not-nfc", _CORRUPT, "a string that is not NFC", b"\x63e\xcc\x81"),
    ("180-bom", _CORRUPT, "a string that begins with a BOM", b"\x64\xef\xbb\xbfx"),
    ("181-not-utf8", _CORRUPT, "a string that is not UTF-8", b"\x61\xff"),
    ("182-key-int", _CORRUPT, "a key that is no string", b"\xa1\x01\x00"),
    ("183-keys-equal", _CORRUPT, "the same key twice", b"\xa2\x61a\x00\x61a\x01"),
    ("184-keys-unsorted", _CORRUPT, "a longer key before a shorter", b"\xa2\x62aa\x00\x61b\x01"),
    ("185-depth-33", _CORRUPT, "one level too deep", b"\x81" * 32 + b"\xf6"),
    ("186-string-bomb", _CORRUPT, "a string of 2^63 bytes that is not there",
     b"\x7b\x7f" + b"\xff" * 7),
    ("187-map-bomb", _CORRUPT, "a map of 2^63 that is not there", b"\xbb\x7f" + b"\xff" * 7),
)  # fmt: skip


def vectors() -> list[Vector]:
    """One rule each."""
    out = [
        refused_read(f"refusals/read/{name}", code, text, msgpack({"x": value}))
        for name, code, text, value in _MSGPACK
    ]
    out += [
        refused_read("refusals/read/144-top-keys", _CORRUPT, "keys of the payload out of order",
                     blob(_UNSORTED)),
        refused_read("refusals/read/145-top-twice", _CORRUPT, "a field of the payload twice",
                     blob(b"\x87\xa1c" + MSGPACK["c"] + msgpack()[10:])),
        refused_read("refusals/read/146-top-map16", _CORRUPT, "the payload map as map16",
                     blob(b"\xde\x00\x06" + msgpack()[10:])),
    ]  # fmt: skip
    out += [
        refused_read(f"refusals/read/{name}", code, text, cbor({"x": value}))
        for name, code, text, value in _CBOR
    ]
    in_order = oracle.pack_cbor("ca") + b"\x1b" + MSGPACK["ca"][1:]
    rest = cbor()[10:].removesuffix(in_order)
    return [
        *out,
        refused_read("refusals/read/188-top-keys", _CORRUPT, "the longest key first",
                     blob(b"\xa6" + in_order + rest, CBOR)),
        refused_read("refusals/read/189-top-indefinite", _CORRUPT,
        "the payload map of indefinite length",
                     blob(b"\xbf" + cbor()[10:] + b"\xff", CBOR)),
        refused_read("refusals/read/190-array", "ERR_NOT_MAP", "the payload is an array",
                     blob(b"\x83\x01\x02\x03", CBOR)),
        refused_read("refusals/read/191-trailing", _CORRUPT, "a byte after the payload",
        cbor() + b"\x00"),
    ]  # fmt: skip
