# SPDX-License-Identifier: Apache-2.0
"""Run a test vector of bytes around grains: files, streams, signatures, sealed grains, views."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import omsgrain as og
from omsgrain import container, crypto
from omsgrain.crypto import seal
from omsgrain.errors import OmsError

_KEYS: Final = ("kind", "id", "description", "made_by", "checked_by")
"""The members that every vector has."""
_MORE: Final[dict[str, tuple[set[str], ...]]] = {
    "container": (
        {"file_hex", "flags", "codec", "grains", "addresses", "manifest"},
        {"file_hex", "wrong"},
    ),
    "stream": ({"stream_hex", "grains"},),
    "envelope": ({"envelope_hex", "signer", "iat", "address"},),
    "detached": ({"signature_hex", "signer", "data_hex", "aad_hex"},),
    "sealed": ({"sealed_hex", "key_hex", "blob_hex", "address"},),
    "disclosure": ({"original_hex", "hide", "elided", "view_hex", "address"},),
}


def run(vector: Mapping[str, Any], name: str) -> tuple[str, str | None]:
    """Run one vector."""
    wrong = vector.get("wrong")
    expected = str(wrong["code"] if wrong else vector.get("address", "good"))
    shapes = _MORE.get(str(vector["kind"]), ())
    if not any(set(vector) == {*_KEYS, *shape} for shape in shapes):
        return expected, "unknown or missing keys"
    if not name.endswith(str(vector["id"])):
        return expected, f"the id is {vector['id']!r}"
    try:
        pairs = _RUN[str(vector["kind"])](vector)
    except OmsError as error:
        return expected, f"refused: {error}"
    differ = next((what for what, (left, right) in pairs.items() if left != right), None)
    return expected, None if differ is None else f"{differ} differs"


_Pairs = dict[str, tuple[object, object]]


def _container(vector: Mapping[str, Any]) -> _Pairs:
    with tempfile.TemporaryDirectory() as room:
        path = Path(room) / "vector.mg"
        path.write_bytes(bytes.fromhex(vector["file_hex"]))
        problems = container.verify(path, errors="collect").problems
        first = problems[0] if problems else None
        told = first and {"part": first.part, "number": first.number, "code": first.error.code}
        if "wrong" in vector:
            return {"wrong": (vector["wrong"], told)}
        with container.read(path) as found:
            return {
                "the verdict": (None, told),
                "flags": (vector["flags"], found.flags),
                "codec": (vector["codec"], ("none", "zstd", "lz4").index(found.codec)),
                "grains": (vector["grains"], [grain.hex() for grain in found]),
                "addresses": (vector["addresses"], list(map(found.address, range(len(found))))),
                "manifest": (vector["manifest"], dict(found.manifest)),
            }


def _stream(vector: Mapping[str, Any]) -> _Pairs:
    grains = list(container.read_stream(io.BytesIO(bytes.fromhex(vector["stream_hex"]))))
    written = io.BytesIO()
    container.write_stream(written, grains)
    return {
        "grains": (vector["grains"], [grain.hex() for grain in grains]),
        "stream_hex written": (vector["stream_hex"], written.getvalue().hex()),
    }


def _envelope(vector: Mapping[str, Any]) -> _Pairs:
    signed = crypto.open_signed(bytes.fromhex(vector["envelope_hex"]))
    return {
        "signer": (vector["signer"], signed.signer),
        "iat": (vector["iat"], signed.iat),
        "address": (vector["address"], signed.grain.address),
    }


def _detached(vector: Mapping[str, Any]) -> _Pairs:
    signature, data, aad = (
        bytes.fromhex(vector[name]) for name in ("signature_hex", "data_hex", "aad_hex")
    )
    return {"signer": (vector["signer"], crypto.verify_detached(signature, data, aad).signer)}


def _sealed(vector: Mapping[str, Any]) -> _Pairs:
    sealed = bytes.fromhex(vector["sealed_hex"])
    opened = seal.unseal(sealed, bytes.fromhex(vector["key_hex"]), check=True)
    return {
        "address": (vector["address"], og.address(sealed)),
        "blob_hex": (vector["blob_hex"], opened.hex()),
    }


def _disclosure(vector: Mapping[str, Any]) -> _Pairs:
    original = bytes.fromhex(vector["original_hex"])
    view = og.Grain(bytes.fromhex(vector["view_hex"]))
    return {
        "elided": (vector["elided"], view.fields["_elided"]),
        "address": (vector["address"], view.address),
        "_disclosure_of": (
            og.address(original),
            str(view.fields["_disclosure_of"]).removeprefix("sha256:"),
        ),
    }


_RUN: Final[dict[str, Callable[[Mapping[str, Any]], _Pairs]]] = {
    "container": _container,
    "stream": _stream,
    "envelope": _envelope,
    "detached": _detached,
    "sealed": _sealed,
    "disclosure": _disclosure,
}
