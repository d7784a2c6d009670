# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2, level 2: .mg files and streams of grains."""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Iterator
from typing import Any, Final

import omsgrain as og
from omsgrain import container
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.rule import Check, Table, Tried, refuses, takes
from omsgrain.conformance.rules.vectors import data, vector

_rule: Final = Table("oms", 2)
RULES: Final = _rule.rules
_add: Final = _rule.add


def _file(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in data("containers") if one["name"] == name)
    return found


def _good(*names: str) -> Check:
    """Files that must be read, and those that are not packed written again to the byte."""

    def check(bench: Bench) -> Iterator[Tried]:
        for name in names:
            one = _file(f"good-{name}")
            path = bench.directory() / "x.mg"
            path.write_bytes(bytes.fromhex(one["file"]))
            with container.read(path) as found:
                yield Tried(name.replace("-", " "), one["grains"], [g.hex() for g in found])
                yield Tried(
                    f"{name}: addresses",
                    one["addresses"],
                    [found.address(i) for i in range(len(found))],
                )
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

    return check


def _bad(*names: str) -> Check:
    """Files of which the part that is wrong, and its code, must be told."""

    def check(bench: Bench) -> Iterator[Tried]:
        for name in names:
            one = _file(f"bad-{name}")
            path = bench.directory() / "x.mg"
            path.write_bytes(bytes.fromhex(one["file"]))
            problems = container.verify(path, errors="collect").problems
            told = [(p.part, p.number, p.error.code) for p in problems[:1]]
            wrong = one["wrong"]
            yield Tried(
                name.replace("-", " "), [(wrong["part"], wrong["number"], wrong["code"])], told
            )

    return check


# fmt: off
_add("file.header", "11", "16 bytes: MG, version 1, flags, count, field map 1, codec, reserved",
     _good("one", "empty"), _bad("magic", "version", "reserved"))
_add("file.count", "11", "The header says how many grains there are", _bad("count"))
_add("file.flags", "11", "A flag that nobody knows is refused", _bad("unknown-flag"))
_add("file.field-map", "11", "A field map of the file's own is not read, and refused",
     _bad("field-map"))
_add("file.codecs", "11", "Codec 0 none, 1 zstd, 2 lz4; others are refused",
     _good("all-kinds", "all-kinds-zstd", "all-kinds-lz4", "empty-zstd"), _bad("unknown-codec"))
_add("file.codec-flag", "11", "Flag 2 is set just where there is a codec",
     _bad("codec-without-flag"))
_add("file.sorted", "11", "Flag 0: grains stand by created_at", _good("sorted"),
     _bad("not-sorted"))
_add("file.deduplicated", "11", "Flag 1: no address stands twice",
     _good("deduplicated", "duplicates-without-the-flag"), _bad("not-deduplicated"))
_add("file.index", "11", "An index of u32 offsets says where each grain begins",
     _bad("offset-too-late", "offsets-decrease", "bytes-behind-the-grains"))
_add("file.grains", "11", "A signed grain stands in its envelope, any other as its blob",
     _good("all-kinds"), _bad("signed-without-envelope", "no-grain"))
_add("file.frames", "11", "Packed grains stand in one frame or in several, cut anywhere",
     _good("frames-at-grains", "frames-within-grains"),
     _bad("frame-cut", "frame-of-another-codec"))
_add("file.frames.others", "11", "Frames of other programs are read, with or without their size",
     _good("zstd-one-call", "zstd-stream", "zstd-two-frames", "lz4-one-call",
           "lz4-like-the-command", "lz4-block-checksums", "no-size-zstd", "no-size-lz4"),
     _bad("frame-cut-no-size", "frame-window"))
_add("file.manifest", "11", "Flag 4: a canonical map of states by address, without defaults",
     _good("manifest", "manifest-signed-last"), _bad("manifest-with-default"))
_add("file.manifest.sealed", "11", "After a sealed last grain the header says where it begins",
     _good("manifest-sealed-last", "manifest-sealed-last-zstd"), _bad("manifest-offset-of-none"))
_add("file.manifest.others", "11", "The manifest speaks of grains of the file alone",
     _bad("manifest-of-another-grain"))
_add("file.footer", "11", "The last 32 bytes are the SHA-256 of all before them", _bad("footer"))
# fmt: on

_FACT = bytes.fromhex(vector("oms", 7)["stages"]["blob_hex"])


@_rule("file.every-byte", "11", "A file with any byte changed is refused")
def _changed(bench: Bench) -> Iterator[Tried]:
    whole = bytes.fromhex(_file("good-manifest")["file"])
    path = bench.directory() / "x.mg"
    passed = []
    for at in range(0, len(whole), 11):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        if container.verify(path, errors="collect").ok:
            passed.append(at)
    yield Tried(f"each eleventh of {len(whole)} bytes changed", [], passed)


@_rule(
    "file.packed", "11", "What is packed comes back to the byte; the footer is of what is packed"
)
def _packed(bench: Bench) -> Iterator[Tried]:
    blobs = [bytes.fromhex(vector("types", n)["stages"]["blob_hex"]) for n in range(1, 21)]
    for codec in ("zstd", "lz4"):
        path = bench.directory() / "x.mg"
        container.write(path, blobs, codec=codec)
        with container.read(path) as found:
            yield Tried(f"20 grains packed with {codec}", blobs, list(found))
        body = path.read_bytes()
        yield Tried("its footer", hashlib.sha256(body[:-32]).digest(), body[-32:])


@_rule("file.import.verified", "11", "An import hashes every grain before anything is written")
def _import_bad(bench: Bench) -> Iterator[Tried]:
    path = bench.directory() / "x.mg"
    whole = bytes.fromhex(_file("good-manifest")["file"])
    body = whole[:40] + bytes([whole[40] ^ 1]) + whole[41:-32]
    path.write_bytes(body + hashlib.sha256(body).digest())
    store = bench.store()
    yield Tried("a grain changed, the footer made anew", True, _refused(store, path))
    yield Tried("grains in the store", 0, len(store))


def _refused(store: og.GrainStore, path: Any) -> bool:
    try:
        store.import_mg(path)
    except og.errors.OmsError:
        return True
    return False


def _belief(what: str, at: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": "lamp",
        "relation": "is",
        "object": what,
        "confidence": 0.5,
        "created_at": NOW + at,
        **more,
    }


@_rule(
    "file.export.states",
    "11",
    "An export tells superseded_by, system_valid_to and verification_status, an import merges",
)
def _states(bench: Bench) -> Iterator[Tried]:
    source, target = bench.store(), bench.store()
    old = source.put(_belief("on"))
    new = source.supersede(old, _belief("off", 5000))
    source.contest(new)
    path = bench.directory() / "x.mg"
    source.export_mg(path)
    with container.read(path) as found:
        told = {address: dict(state) for address, state in found.manifest.items()}
    yield Tried(
        "the manifest",
        {
            old: {"superseded_by": new, "system_valid_to": NOW + 5000},
            new: {"verification_status": "contested"},
        },
        told,
    )
    target.import_mg(path)
    yield Tried("superseded there, too", new, target.state(old).superseded_by)


@_rule("file.import.claims", "11", "What a file claims raises no verification and no lock")
def _claims(bench: Bench) -> Iterator[Tried]:
    store, path = bench.store(), bench.directory() / "x.mg"
    locked = og.Grain(og.encode(_belief("on", invalidation_policy={"mode": "locked"})))
    other = og.Grain(og.encode(_belief("off", 5000)))
    container.write(
        path,
        [locked.blob, other.blob],
        manifest={
            locked.address: {"superseded_by": other.address, "verification_status": "verified"}
        },
    )
    store.import_mg(path, errors="collect")
    state = store.state(locked.address)
    yield Tried("a locked grain, claimed to be superseded", None, state.superseded_by)
    yield Tried("a grain claimed to be verified", "unverified", state.verification_status)


@_rule("file.import.waiting", "11", "A claim of a successor that is not there waits for it")
def _waiting(bench: Bench) -> Iterator[Tried]:
    store, path = bench.store(), bench.directory() / "x.mg"
    grain = og.Grain(og.encode(_belief("on")))
    container.write(path, [grain.blob], manifest={grain.address: {"superseded_by": "ab" * 32}})
    report = store.import_mg(path)
    yield Tried("claims that wait", 1, report.waiting)
    yield Tried("superseded by", None, store.state(grain.address).superseded_by)


@_rule("stream.frames", "11.6", "A stream: u32 length and grain, again and again, then u32 0")
def _stream(_: Bench) -> Iterator[Tried]:
    file = io.BytesIO()
    container.write_stream(file, [_FACT, _FACT])
    one = struct.pack(">I", len(_FACT)) + _FACT
    yield Tried("two grains", one * 2 + bytes(4), file.getvalue())
    yield Tried(
        "read again", [_FACT, _FACT], list(container.read_stream(io.BytesIO(one * 2 + bytes(4))))
    )


@_rule(
    "stream.cut", "11.6", "A stream that ends without its mark, or lies of a length, is refused"
)
def _cut(_: Bench) -> Iterator[Tried]:
    one = struct.pack(">I", len(_FACT)) + _FACT
    for what, text, code in (
        ("no end mark", one, "ERR_CORRUPT"),
        ("a grain cut", one[:-1], "ERR_CORRUPT"),
        ("3 GiB announced", b"\xc0\x00\x00\x00" + _FACT, "ERR_TOO_LARGE"),
        ("five bytes announced", b"\x00\x00\x00\x05" + _FACT, "ERR_TOO_SHORT"),
        (
            "a byte after the grain",
            struct.pack(">I", len(_FACT) + 1) + _FACT + b"\x00" + bytes(4),
            "ERR_CORRUPT",
        ),
    ):
        yield refuses(what, code, _streamed, text)
    yield takes("an empty stream", lambda: list(container.read_stream(io.BytesIO(bytes(4)))))


def _streamed(text: bytes) -> list[bytes]:
    return list(container.read_stream(io.BytesIO(text)))
