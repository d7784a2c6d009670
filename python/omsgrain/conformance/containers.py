# SPDX-License-Identifier: Apache-2.0
"""Rules about .mg files and streams of grains."""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import omsgrain as og
from omsgrain import container
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.rule import Entry, Tried, refuses, takes
from omsgrain.conformance.stores import belief
from omsgrain.conformance.vectors import blob, data


def files(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``file``: good files that are read and written again, and bad ones with their error."""
    for name in entry["files"]:
        one = _file(name)
        path = bench.directory() / "x.mg"
        path.write_bytes(bytes.fromhex(one["file"]))
        kind, _, rest = name.partition("-")
        yield from _good(rest, one, path) if kind == "good" else _bad(rest, one, path)


def _good(name: str, one: dict[str, Any], path: Path) -> Iterator[Tried]:
    with container.read(path) as found:
        yield Tried(name.replace("-", " "), one["grains"], [grain.hex() for grain in found])
        addresses = [found.address(number) for number in range(len(found))]
        yield Tried(f"{name}: addresses", one["addresses"], addresses)
        yield Tried(f"{name}: manifest", one["manifest"], dict(found.manifest))
        if one["codec"] == 0:
            again, head = path.with_name("again.mg"), found.header
            container.write(
                again,
                found,
                manifest=one["manifest"],
                sort=head.sorted,
                dedupe=head.deduplicated,
            )
            yield Tried(f"{name}: written", one["file"], again.read_bytes().hex())


def _bad(name: str, one: dict[str, Any], path: Path) -> Iterator[Tried]:
    problems = container.verify(path, errors="collect").problems
    found = [(first.part, first.number, first.error.code) for first in problems[:1]]
    wrong = one["wrong"]
    expected = [(wrong["part"], wrong["number"], wrong["code"])]
    yield Tried(name.replace("-", " "), expected, found)


def _file(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in data("containers") if one["name"] == name)
    return found


def every_byte(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A file with a changed byte is refused."""
    whole = bytes.fromhex(_file("good-manifest")["file"])
    path = bench.directory() / "x.mg"
    passed = []
    for at in range(0, len(whole), 11):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        if container.verify(path, errors="collect").ok:
            passed.append(at)
    yield Tried(f"each eleventh of {len(whole)} bytes changed", [], passed)


def packed(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Compressed grains come back byte for byte; the footer covers the compressed bytes."""
    blobs = [blob("types", n) for n in range(1, 21)]
    for codec in ("zstd", "lz4"):
        path = bench.directory() / "x.mg"
        container.write(path, blobs, codec=codec)
        with container.read(path) as found:
            yield Tried(f"20 grains packed with {codec}", blobs, list(found))
        body = path.read_bytes()
        yield Tried("its footer", hashlib.sha256(body[:-32]).digest(), body[-32:])


def import_verified(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """An import hashes every grain before it writes any."""
    path = bench.directory() / "x.mg"
    whole = bytes.fromhex(_file("good-manifest")["file"])
    body = whole[:40] + bytes([whole[40] ^ 1]) + whole[41:-32]
    path.write_bytes(body + hashlib.sha256(body).digest())
    store = bench.store()
    yield Tried("a changed grain with a new footer", True, _refused(store, path))
    yield Tried("grains in the store", 0, len(store))


def _refused(store: og.GrainStore, path: Any) -> bool:
    try:
        store.import_mg(path)
    except og.errors.OmsError:
        return True
    return False


def states(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """An export includes the states of grains, and an import merges them."""
    source, target = bench.store(), bench.store()
    old = source.put(belief("on"))
    new = source.supersede(old, belief("off", 5000))
    source.contest(new)
    path = bench.directory() / "x.mg"
    source.export_mg(path)
    with container.read(path) as found:
        states = {address: dict(state) for address, state in found.manifest.items()}
    yield Tried(
        "the manifest",
        {
            old: {"superseded_by": new, "system_valid_to": NOW + 5000},
            new: {"verification_status": "contested"},
        },
        states,
    )
    target.import_mg(path)
    yield Tried("superseded there, too", new, target.status(old).superseded_by)


def claims(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """The claims of a file do not raise a verification or a lock."""
    store, path = bench.store(), bench.directory() / "x.mg"
    locked = og.Grain(og.encode(belief("on", invalidation_policy={"mode": "locked"})))
    other = og.Grain(og.encode(belief("off", 5000)))
    container.write(
        path,
        [locked.blob, other.blob],
        manifest={
            locked.address: {"superseded_by": other.address, "verification_status": "verified"}
        },
    )
    store.import_mg(path, errors="collect")
    state = store.status(locked.address)
    yield Tried("a locked grain, claimed to be superseded", None, state.superseded_by)
    yield Tried("a grain claimed to be verified", "unverified", state.verification_status)


def waiting(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A claim about a missing successor takes effect when it arrives."""
    store, path = bench.store(), bench.directory() / "x.mg"
    grain = og.Grain(og.encode(belief("on")))
    container.write(path, [grain.blob], manifest={grain.address: {"superseded_by": "ab" * 32}})
    report = store.import_mg(path)
    yield Tried("waiting claims", 1, report.waiting)
    yield Tried("superseded by", None, store.status(grain.address).superseded_by)


def stream(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A stream repeats u32 length and grain, and ends with u32 0."""
    file = io.BytesIO()
    container.write_stream(file, [blob("oms", 7), blob("oms", 7)])
    one = struct.pack(">I", len(blob("oms", 7))) + blob("oms", 7)
    yield Tried("two grains", one * 2 + bytes(4), file.getvalue())
    yield Tried(
        "read again",
        [blob("oms", 7), blob("oms", 7)],
        list(container.read_stream(io.BytesIO(one * 2 + bytes(4)))),
    )


def stream_cut(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A stream without its end mark or with a wrong length is refused."""
    one = struct.pack(">I", len(blob("oms", 7))) + blob("oms", 7)
    for what, text, code in (
        ("no end mark", one, "ERR_CORRUPT"),
        ("a grain cut", one[:-1], "ERR_CORRUPT"),
        ("3 GiB announced", b"\xc0\x00\x00\x00" + blob("oms", 7), "ERR_TOO_LARGE"),
        ("five bytes announced", b"\x00\x00\x00\x05" + blob("oms", 7), "ERR_TOO_SHORT"),
        (
            "a byte after the grain",
            struct.pack(">I", len(blob("oms", 7)) + 1) + blob("oms", 7) + b"\x00" + bytes(4),
            "ERR_CORRUPT",
        ),
    ):
        yield refuses(what, code, _streamed, text)
    yield takes("an empty stream", lambda: list(container.read_stream(io.BytesIO(bytes(4)))))


def _streamed(text: bytes) -> list[bytes]:
    return list(container.read_stream(io.BytesIO(text)))
