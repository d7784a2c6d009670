# SPDX-License-Identifier: Apache-2.0
"""Rows E: dicts and JSON to blobs and addresses, and back.

The packers among the peers are given dicts with short keys, so that they write the very bytes of
our payloads; they rename, check, compose and head nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from hashlib import sha256

import cbor2

import omsgrain as og
from benches import data, peer, spawn
from benches.machine import cpu_flags
from benches.measure import ALL_CORES, ALL_SETS, Case, Plan, Row, check, timed

HEADER = 9

Pack = Callable[[data.Fields], tuple[bytes, str]]


def _packer() -> Pack:
    ormsgpack = peer.module("ormsgpack")
    packb, in_order = ormsgpack.packb, ormsgpack.OPT_SORT_KEYS

    def pack(fields: data.Fields) -> tuple[bytes, str]:
        payload = packb(fields, option=in_order)
        return payload, sha256(payload).hexdigest()

    return pack


def _pack_cbor(fields: data.Fields) -> tuple[bytes, str]:
    payload = cbor2.dumps(fields, canonical=True)
    return payload, sha256(payload).hexdigest()


def _both(batch: og.batch.GrainBatch) -> tuple[list[str], list[bytes]]:
    return batch.addresses, batch.blobs


def _hashes(blobs: list[bytes]) -> list[str]:
    return [sha256(blob).hexdigest() for blob in blobs]


def encode_many(plan: Plan) -> Case:
    pack, grains = _packer(), plan.grains()
    short = data.compacted(grains)
    addresses, blobs = _both(og.encode_many(grains))
    check([b[HEADER:] for b in blobs] == [pack(s)[0] for s in short], "the peer writes our bytes")
    check(addresses == _hashes(blobs), "addresses")
    return Case(
        timed(lambda: _both(og.encode_many(grains))),
        timed(lambda: [pack(s) for s in short]),
        len(grains),
    )


def encode(plan: Plan) -> Case:
    pack, grains = _packer(), plan.grains()
    short = data.compacted(grains)
    check([og.encode(g)[HEADER:] for g in grains] == [pack(s)[0] for s in short], "same bytes")

    def ours() -> list[tuple[bytes, str]]:
        return [(blob := og.encode(g), og.address(blob)) for g in grains]

    check([a for _, a in ours()] == og.encode_many(grains).addresses, "addresses")
    return Case(timed(ours), timed(lambda: [pack(s) for s in short]), len(grains))


def encode_jsonl(plan: Plan) -> Case:
    orjson = peer.module("orjson")
    grains = plan.grains()
    lines = [orjson.dumps(g) for g in grains]
    text = b"\n".join(lines)
    check(_both(og.encode_jsonl(text)) == _both(og.encode_many(grains)), "same grains")
    check([orjson.loads(line) for line in lines] == grains, "the peer reads the lines")
    return Case(
        timed(lambda: _both(og.encode_jsonl(text))),
        timed(lambda: [orjson.loads(line) for line in lines]),
        len(grains),
    )


def encode_jsonl_threads(plan: Plan) -> Case:
    def seconds(threads: int) -> float:
        return statistics.median(spawn.run("E3", plan.set, plan.count, 3, threads).ours)

    return Case(lambda: seconds(2), lambda: seconds(1), plan.count)


def decode_many(plan: Plan) -> Case:
    unpack, grains = peer.module("ormsgpack").unpackb, plan.grains()
    blobs = og.encode_many(grains).blobs
    return _decoded(grains, blobs, unpack, [blob[HEADER:] for blob in blobs])


def decode_many_ipld(plan: Plan) -> Case:
    """The peer reads the same maps as DAG-CBOR, which it wrote."""
    libipld, grains = peer.module("libipld"), plan.grains()
    payloads = [libipld.encode_dag_cbor(short) for short in data.compacted(grains)]
    return _decoded(grains, og.encode_many(grains).blobs, libipld.decode_dag_cbor, payloads)


def _decoded(
    grains: list[data.Fields],
    blobs: list[bytes],
    unpack: Callable[[bytes], object],
    payloads: list[bytes],
) -> Case:
    def ours() -> list[object]:
        return [grain.fields for grain in og.decode_many(blobs)]

    def theirs() -> list[object]:
        return [unpack(payload) for payload in payloads]

    check(ours() == grains, "fields by full name")
    check(theirs() == data.compacted(grains), "the peer reads the payloads")
    return Case(timed(ours), timed(theirs), len(grains))


def to_dict(plan: Plan) -> Case:
    grains = plan.grains()
    blobs = og.encode_many(grains).blobs

    def ours() -> list[object]:
        return [grain.to_dict() for grain in og.decode_many(blobs)]

    def theirs() -> list[object]:
        return [grain.fields for grain in og.decode_many(blobs)]

    check(ours() == theirs() == grains, "fields by full name")
    return Case(timed(ours), timed(theirs), len(grains))


def address_many(plan: Plan) -> Case:
    blobs = og.encode_many(plan.grains()).blobs
    check(og.address_many(blobs) == _hashes(blobs), "addresses")
    return Case(timed(lambda: og.address_many(blobs)), timed(lambda: _hashes(blobs)), len(blobs))


def verify_many(plan: Plan) -> Case:
    batch = og.encode_many(plan.grains())
    addresses, blobs = _both(batch)
    pairs = list(zip(blobs, addresses, strict=True))
    check(og.verify_many(pairs).verified == len(pairs), "all are good")
    wrong = [(blobs[0], addresses[1]), *pairs[1:]]
    check([e.index for e in og.verify_many(wrong, errors="collect").errors] == [0], "one is not")
    return Case(timed(lambda: og.verify_many(pairs)), timed(lambda: _hashes(blobs)), len(pairs))


def encode_many_cbor(plan: Plan) -> Case:
    grains = plan.grains()
    short = data.compacted(grains)
    addresses, blobs = _both(og.encode_many(grains, encoding="cbor"))
    check([b[HEADER:] for b in blobs] == [_pack_cbor(s)[0] for s in short], "same bytes")
    check(addresses == _hashes(blobs), "addresses")
    return Case(
        timed(lambda: _both(og.encode_many(grains, encoding="cbor"))),
        timed(lambda: [_pack_cbor(s) for s in short]),
        len(grains),
    )


PACKER = "ormsgpack.packb, sorted, + hashlib.sha256"
HASHES = "hashlib.sha256 in a loop"
ONE = (1,)
ALL_AND_ONE = (ALL_CORES, 1)
# Where the processor hashes by itself, OpenSSL uses that too.
SIDE_BY_SIDE = 1.4 if "sha_ni" in cpu_flags() else 3.0 if "avx2" in cpu_flags() else 1.0
DECODED = {"standard": 1.5, "events": 1.0, "sensors": 1.5}

ROWS = (
    Row(
        "E1",
        "encode_many: dicts to blobs and addresses",
        PACKER,
        {"standard": 2.0, "events": 1.2, "sensors": 2.5},
        encode_many,
        ALL_SETS,
        ONE,
    ),
    Row(
        "E2",
        "encode and address, one by one",
        PACKER,
        {"standard": 1.2, "events": 1.0, "sensors": 1.2},
        encode,
        ALL_SETS,
        ONE,
    ),
    Row(
        "E3",
        "encode_jsonl: JSON lines to blobs and addresses",
        "orjson.loads of the lines, alone",
        2.0,
        encode_jsonl,
        ALL_SETS,
        ONE,
    ),
    Row(
        "E3-threads",
        "encode_jsonl with two threads",
        "encode_jsonl with one",
        1.7,
        encode_jsonl_threads,
        threads=(2,),
    ),
    Row(
        "E4",
        "decode_many to dicts by full name, strictly",
        "ormsgpack.unpackb of the payloads",
        DECODED,
        decode_many,
        ALL_SETS,
        ALL_AND_ONE,
    ),
    Row(
        "E4-ipld",
        "decode_many to dicts by full name, strictly",
        "libipld.decode_dag_cbor of the same maps",
        DECODED,
        decode_many_ipld,
        ALL_SETS,
    ),
    Row(
        "E4-dict",
        "decode_many and to_dict() of each",
        "decode_many and .fields of each",
        1 / 1.2,
        to_dict,
        threads=ONE,
    ),
    Row("E5", "address_many", HASHES, SIDE_BY_SIDE, address_many, ALL_SETS, ONE),
    Row(
        "E6",
        "verify_many: address, canonical form, schema",
        HASHES,
        {"standard": 1.2, "events": 1.0, "sensors": 1.2},
        verify_many,
        ALL_SETS,
        ALL_AND_ONE,
    ),
    Row(
        "E7",
        "encode_many in CBOR",
        "cbor2.dumps, canonical, + hashlib.sha256",
        {"standard": 10.0, "events": 3.0, "sensors": 10.0},
        encode_many_cbor,
        ALL_SETS,
        ALL_AND_ONE,
    ),
)
