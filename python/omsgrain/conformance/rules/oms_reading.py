# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2, level 1: what a reader takes, what it refuses, and the address."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import omsgrain as og
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.rule import Table, Tried, equal, refuses, takes
from omsgrain.conformance.rules.vectors import grains, read, vector, write

_rule: Final = Table("oms", 1)
RULES: Final = _rule.rules
_add: Final = _rule.add

_FACT = bytes.fromhex(vector("oms", 1)["stages"]["blob_hex"])
_FACT_AT = "3288d0d41cf49a1d428e404f0b6a6fe60388be9536937557f6139b813d53a520"
_BELIEF = bytes.fromhex(vector("types", 1)["stages"]["blob_hex"])

# fmt: off
# the header
_add("header.size", "3", "A blob is nine bytes of header and a payload; ten bytes at the least",
     read(1, 2, 3))
_add("header.version", "3", "Byte 0 is 1; a reader refuses any other version", read(4, 5))
_add("header.flags.plain", "3.2", "No bit is set where nothing asks for it", grains("flags", 1))
_add("header.flags.content", "3.2", "Bit 3 is set just where content_refs has an entry",
     grains("flags", 2, 3), read(14, 15))
_add("header.flags.embedding", "3.2", "Bit 4 is set just where embedding_refs has an entry",
     grains("flags", 4, 5), read(16, 17))
_add("header.flags.cbor", "3.2", "Bit 5 says that the payload is CBOR", grains("flags", 6, 7))
_add("header.flags.sensitivity", "3.2", "Bits 6 and 7 hold the sensitivity, 0 to 3",
     grains("flags", 15, 17, 18))
_add("header.sensitivity.tags", "13",
     "The sensitivity is at least what the tags ask for: phi: 3; pii:, sec:, legal: 2; reg: 1",
     grains("flags", 8, 9, 10, 11, 12, 13, 14, 16))
_add("header.sensitivity.lower", "13", "A blob whose header says less than its tags is refused",
     read(18, 19))
_add("header.sensitivity.higher", "13", "A blob whose header says more than its tags is taken",
     grains("flags", 33))
_add("header.flags.signed", "3.2",
     "Bit 0: the blob stands in an envelope, and is not read without",
     grains("flags", 40))
_add("header.flags.encrypted", "3.2", "Bit 1: the blob is sealed, and is not read without a key",
     grains("flags", 41))
_add("header.type", "3", "Byte 2 is the type: 0 is none, and it agrees with the payload's type",
     read(6, 7))
_add("header.type.reserved", "3",
     "Types 0x0B to 0xEF are reserved, 0xF0 to 0xFF of domains: both are read, as opaque maps",
     grains("types", 31, 32))
_add("header.type.hidden", "3", "A known type cannot stand under a byte of another range",
     read(8, 9), write(207))
_add("header.namespace", "3.3",
     "Bytes 3 and 4 are the first two of the SHA-256 of the namespace; zero without one",
     grains("flags", 19, 20), read(11, 12))
_add("header.namespace.others", "3.3",
     "Without a namespace the hashes of the empty one and of \"shared\" are read as well",
     grains("flags", 34, 35))
_add("header.created", "3", "Bytes 5 to 8 are the whole seconds of created_at, big-endian",
     read(13), grains("values", 31, 33))
# fmt: on


@_rule("header.fields", "3", "The header of the first vector: version 1, no flags, type 1, a4d2")
def _header(_: Bench) -> Iterator[Tried]:
    found = og.read_header(_FACT)
    yield Tried(
        "header 010001a4d26968baa0",
        (1, 0, 1, 0xA4D2, 0x6968BAA0),
        (found.version, found.flags, found.type_byte, found.ns_hash, found.created_at),
    )


# fmt: off
# the payload, MessagePack
_add("payload.map", "4", "The payload is a map", read(22, 23, 190))
_add("payload.whole", "4", "The payload ends where the blob ends", read(20, 21, 191))
_add("payload.type", "4", "The payload has a type", read(10))
_add("msgpack.integers.unsigned", "4", "Integers from 0 on stand in the shortest unsigned form",
     read(101, 102, 103, 104, 109, 110))
_add("msgpack.integers.negative", "4", "Negative integers stand in the shortest form",
     read(105, 106, 107, 108))
_add("msgpack.strings", "4", "Strings have the shortest head", read(111, 112, 113))
_add("msgpack.bytes", "4", "Bytes have the shortest head", read(114, 115))
_add("msgpack.arrays", "4", "Arrays have the shortest head", read(116, 117))
_add("msgpack.maps", "4", "Maps have the shortest head", read(118, 119, 146))
_add("msgpack.floats", "4.3", "A float has 64 bits, never 32", read(120))
_add("msgpack.ext", "4", "Ext types, and the byte that begins nothing, are refused",
     read(126, 127, 128))
_add("msgpack.keys.sorted", "4", "Keys are sorted by their bytes, at every level",
     read(139, 144))
_add("msgpack.keys.unique", "4", "No key stands twice", read(138, 145))
_add("msgpack.keys.strings", "4", "Keys are strings", read(136, 137))
_add("msgpack.nil", "4.5", "No map has nil as a value", read(124, 125))
_add("msgpack.lengths", "4.10", "A length that the bytes do not hold is refused, not reserved for",
     read(141, 142, 143))
# both
_add("text.utf8", "4.4", "Strings are UTF-8: no other bytes, surrogates or longer forms",
     read(129, 130, 131, 181))
_add("text.nfc", "4.4", "Strings and keys are in NFC", read(133, 134, 179))
_add("text.bom", "4.4", "No string and no key begins with a byte order mark", read(132, 135, 180))
_add("floats.finite", "4.3", "NaN and the infinities are refused, whatever their width",
     read(121, 122, 123, 163, 164, 165))
_add("depth", "4", "At most 32 levels, of which the payload map is the first", read(140, 185))
# the payload, CBOR
_add("cbor.integers", "16.2", "Integers have the shortest head", read(151, 152, 153, 154, 155))
_add("cbor.range", "16.2", "Integers below -2^63 are refused", read(172))
_add("cbor.strings", "16.2", "Strings and bytes have the shortest head", read(156, 157))
_add("cbor.containers", "16.2", "Arrays and maps have the shortest head", read(158, 159))
_add("cbor.floats", "16.2", "A float has the fewest of 16, 32 or 64 bits that keep its value",
     read(160, 161, 162), grains("values", 4))
_add("cbor.indefinite", "16.2", "Nothing is of indefinite length",
     read(173, 174, 175, 176, 178, 189))
_add("cbor.simple", "16.2", "No tags, bignums, undefined or simple values; no null in a map",
     read(166, 167, 168, 169, 170, 171, 177))
_add("cbor.keys", "16.2", "Keys are strings, once each, sorted by their encoded bytes",
     read(182, 183, 184, 188))
_add("cbor.lengths", "16.2", "A length that the bytes do not hold is refused, not reserved for",
     read(186, 187))

# what the fields are
_add("read.names", "6", "A full name where the short key belongs is refused", read(201, 202))
_add("read.kinds", "6", "A value of another kind than its field's is refused",
     read(209, 214, 215))
_add("read.floats", "6", "An integer in a field of floats is refused, for it has another address",
     read(203))
_add("read.index", "5.6", "Fields that the store keeps are in no blob", read(204))
_add("read.required", "8", "What the type requires is there", read(205, 206, 217, 218))
_add("read.ranges", "6", "Numbers and times outside their range are refused", read(207, 208))
_add("read.enums", "6", "A word that a closed list lacks is refused", read(210, 219))
_add("read.references", "6", "Entries of content_refs have their required members", read(220))
_add("read.addresses", "5", "Addresses inside are 64 lower-case hex digits", read(211, 212))
_add("read.dids", "9", "A DID is did:method:id", read(213))
_add("read.1-1.fields", "6", "1.1 field names are taken only in a grain with a 1.1 type name",
     read(216))
_add("read.1-1.types", "8",
     "The 1.1 names fact, episode, checkpoint and tool_call are read, and keep their bytes",
     grains("oms", 1), grains("types", 27, 28, 29))
_add("read.1-1.sensor", "6", "sensor_id and sensor_type of 1.1 are observer_id and observer_type",
     grains("types", 30))
_add("read.unknown", "6", "Fields that nobody knows pass, and come back as they were",
     grains("values", 27, 28))
_add("read.elided", "10", "A view with hidden fields is read", grains("types", 33))

# compression
_add("zstd.read", "3.2", "Bit 2: the payload is one zstd frame", grains("flags", 30, 31, 32))
_add("zstd.streamed", "3.2", "A frame need not state its content size", grains("flags", 42, 43))
_add("zstd.frame", "3.2", "Just one frame, whole, with nothing around it",
     read(302, 303, 307, 308, 310, 311, 312))
_add("zstd.size", "3.2", "A frame holds as much as it states", read(304, 305))
_add("zstd.bomb", "3.2", "What unpacks to more than the profile's size is refused", read(306, 313))
_add("zstd.canonical", "3.2", "What is unpacked is read as strictly as what never was packed",
     read(309))

# the address
_add("address", "5", "The address is the SHA-256 of the blob, in 64 lower-case hex digits", equal({
    "OMS vector 1, pinned": (_FACT_AT, lambda: og.address(_FACT)),
    "\"abc\" (FIPS 180-4)": (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        lambda: og.address(b"abc")),
    "448 bits (FIPS 180-4)": (
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        lambda: og.address(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
    "a million times \"a\" (FIPS 180-4)": (
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
        lambda: og.address(b"a" * 1_000_000)),
    "many at once": ([_FACT_AT] * 3, lambda: og.address_many([_FACT] * 3)),
}))  # fmt: skip
_add("address.verify", "5", "A blob with another address is refused", read(401))
_add("address.form", "5",
     "An address in upper case, of another length or with a prefix is refused",
     read(402, 403, 404))
# fmt: on


@_rule("address.every-byte", "5", "A blob with any byte changed is refused under its address")
def _flipped(_: Bench) -> Iterator[Tried]:
    passed = []
    for at in range(len(_FACT)):
        changed = _FACT[:at] + bytes([_FACT[at] ^ 1]) + _FACT[at + 1 :]
        try:
            og.verify(changed, _FACT_AT)
        except og.errors.OmsError:
            continue
        passed.append(at)
    yield Tried(f"each of {len(_FACT)} bytes flipped", [], passed)


@_rule("read.exact", "4.10", "What was read and is written again gives the same bytes")
def _again(_: Bench) -> Iterator[Tried]:
    for what, blob in (("vector 1, a fact", _FACT), ("a belief", _BELIEF)):
        grain = og.decode(blob)
        yield Tried(what, blob, og.encode(grain.to_dict(), keep_type_name=True))


@_rule("read.upgrade", "8", "A 1.1 grain keeps its address; its 1.2 form has another")
def _upgraded(_: Bench) -> Iterator[Tried]:
    grain = og.decode(_FACT)
    yield Tried("the fact as read", (_FACT_AT, "belief"), (grain.address, grain.type))
    yield Tried(
        "the belief made of it",
        "f06c02f500fe38fd2c77458315b651d4b84542df635b8722c502944286d40cc5",
        grain.upgrade().address,
    )


@_rule("read.lenient", "4.10", "What another wrote badly can be looked at, and is not taken")
def _lenient(bench: Bench) -> Iterator[Tried]:
    bad = bytes.fromhex(vector("refusals/read", 139)["blob_hex"])
    yield takes("read with strict=False", lambda: og.decode(bad, strict=False))
    yield refuses("put into a store", "ERR_CORRUPT", lambda: bench.store().put(bad))


@_rule("json.bytes", "4", 'JSON shows bytes as {"$bytes": base64}', must=False)
def _json(_: Bench) -> Iterator[Tried]:
    blob = og.encode({"type": "state", "context": {"x": b"\x00\xff"}, "created_at": 1000})
    context = json.loads(og.decode(blob).to_json())["context"]
    yield Tried("bytes 00 ff", {"x": {"$bytes": "AP8="}}, context)
