# SPDX-License-Identifier: Apache-2.0
"""Run test vectors: files that say what bytes a grain must give, or with which code it is refused.

The format is described in test_vectors/README.md. A vector with a key or an option that is not
known there fails, so that nothing is passed over in silence.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cbor2
import msgpack

import omsgrain as og
from omsgrain.conformance import byte_vectors, document_vectors
from omsgrain.errors import NotFoundError, OmsError, OmsWarning
from omsgrain.grain import plain
from omsgrain.header import HEADER_SIZE
from omsgrain.json_values import revive

_SOURCES = {"input", "input_json", "blob_hex"}
_KEYS = _SOURCES | {
    "id", "description", "made_by", "checked_by", "options", "stages", "decoded", "address",
    "expect_error",
}  # fmt: skip
_STAGES = {"compacted", "payload_hex", "header_hex", "blob_hex"}
_SHOWN = 600  # characters of a problem; a vector may be a stranger's, and of any size


@dataclass(frozen=True, slots=True)
class VectorOutcome:
    """One vector and what came of it.

    Attributes:
        id: the vector's path without suffix, from the directory that was run.
        expected: an address, or the code of the refusal.
        problem: the first thing that disagrees; None if all agrees.
    """

    id: str
    expected: str
    problem: str | None = None

    @property
    def agrees(self) -> bool:
        """Whether omsgrain does what the vector says."""
        return self.problem is None


def run_vectors(directory: Path) -> Iterator[VectorOutcome]:
    """Run every .json file under the directory, in the order of their paths."""
    paths = [path for path in sorted(directory.rglob("*.json")) if not path.is_dir()]
    if not paths:
        raise NotFoundError("no vectors in the directory", expected="*.json")
    for path in paths:
        name = path.relative_to(directory).with_suffix("").as_posix()
        try:
            vector = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            yield VectorOutcome(name, "", f"it cannot be read: {error.strerror}")
            continue
        except (ValueError, RecursionError) as error:  # not UTF-8, or a number of many digits
            yield VectorOutcome(name, "", _short(f"not JSON: {error}"))
            continue
        # Its id is told by all of the path, so that a folder of them can be run alone.
        outcome = run_vector(vector, path.resolve().with_suffix("").as_posix())
        yield replace(outcome, id=name)


def run_vector(vector: Any, name: str) -> VectorOutcome:
    """Run one vector, already parsed."""
    if not isinstance(vector, Mapping):
        return VectorOutcome(name, "", "no vector: it is no object")
    expected = str(vector.get("expect_error") or vector.get("address", ""))
    try:
        if "bundle" in vector:
            expected, problem = document_vectors.run_bundle(vector, name)
        elif "kind" in vector:
            expected, problem = byte_vectors.run(vector, name)
        elif "document" in vector:
            expected, problem = document_vectors.run(vector, name)
        else:
            problem = _shape(vector, name) or _run(vector)
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError, OmsError) as error:
        problem = f"the vector cannot be run: {error!r}"
    return VectorOutcome(name, _short(str(expected)), None if problem is None else _short(problem))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _shape(vector: Mapping[str, Any], name: str) -> str | None:
    if unknown := set(vector) - _KEYS | set(vector.get("stages", {})) - _STAGES:
        return f"unknown keys: {', '.join(sorted(unknown))}"
    if len(_SOURCES & set(vector)) != 1:
        return f"must have one of {', '.join(sorted(_SOURCES))}"
    if ("expect_error" in vector) == ("decoded" in vector):
        return "must have either expect_error or decoded"
    if not name.endswith(str(vector["id"])):
        return f"the id is {vector['id']!r}"
    return None


def _run(vector: Mapping[str, Any]) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OmsWarning)
        if "expect_error" in vector:
            return _refused(vector)
        try:
            return _read(vector) if "blob_hex" in vector else _write(vector)
        except OmsError as error:
            return f"refused: {error}"


def _refused(vector: Mapping[str, Any]) -> str | None:
    """Every way in must refuse with the code."""
    for way in _ways_in(vector):
        try:
            way()
        except OmsError as error:
            if error.code != vector["expect_error"]:
                return f"refused otherwise: {error}"
        else:
            return "accepted"
    return None


def _ways_in(vector: Mapping[str, Any]) -> Iterator[Callable[[], object]]:
    options = vector.get("options", {})
    if "blob_hex" in vector:
        blob = bytes.fromhex(vector["blob_hex"])
        yield lambda: og.verify(blob, vector.get("address"))
        if "address" not in vector:
            yield lambda: og.decode(blob)
    elif "input_json" in vector:
        yield lambda: og.encode_jsonl(vector["input_json"].encode(), **options)
    else:
        yield lambda: og.encode(revive(vector["input"]), **options)
        if _fits_json(vector["input"]):
            yield lambda: og.encode_jsonl(json.dumps(vector["input"]).encode(), **options)


def _fits_json(fields: Any) -> bool:
    return "$float" not in json.dumps(fields)


def _read(vector: Mapping[str, Any]) -> str | None:
    blob = bytes.fromhex(vector["blob_hex"])
    og.verify(blob, vector["address"])
    return _differ("decoded", vector["decoded"], plain(og.decode(blob).to_dict()))


def _write(vector: Mapping[str, Any]) -> str | None:
    options, stages = vector.get("options", {}), vector["stages"]
    blob = og.encode(revive(vector["input"]), **options)
    header, payload = blob[:HEADER_SIZE], blob[HEADER_SIZE:]
    by_json = og.encode_jsonl(json.dumps(vector["input"]).encode(), **options).blobs[0]
    again = og.encode(
        og.decode(blob).to_dict(),
        **{**options, "keep_type_name": True, "sensitivity": og.read_header(blob).sensitivity},
    )
    for name, expected, found in (
        ("payload_hex", stages["payload_hex"], payload.hex()),
        ("header_hex", stages["header_hex"], header.hex()),
        ("blob_hex", stages["blob_hex"], blob.hex()),
        ("compacted", stages["compacted"], plain(_unpack(payload, options.get("encoding")))),
        ("address", vector["address"], og.address(blob)),
        ("blob_hex from JSON", stages["blob_hex"], by_json.hex()),
        ("blob_hex written again", stages["blob_hex"], again.hex()),
    ):
        if problem := _differ(name, expected, found):
            return problem
    return _read({**vector, "blob_hex": blob.hex()})


def _unpack(payload: bytes, encoding: str | None) -> Any:
    """By libraries that know nothing of grains."""
    if encoding == "cbor":
        return cbor2.loads(payload)
    return msgpack.unpackb(payload, strict_map_key=False)


def _differ(what: str, expected: Any, found: Any) -> str | None:
    """The first difference; types count, so 1 is not 1.0 and not true."""
    left, right = (json.dumps(v, sort_keys=True, ensure_ascii=False) for v in (expected, found))
    if left == right:
        return None
    pairs = enumerate(zip(left, right, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))
    start = max(0, at - 8)
    return f"{what} differs: expected …{left[start : at + 24]}, found …{right[start : at + 24]}"
