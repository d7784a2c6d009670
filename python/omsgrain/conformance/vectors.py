# SPDX-License-Identifier: Apache-2.0
"""Runs test vectors: files with the expected bytes of a grain, or the code that refuses it.

test_vectors/README.md describes the format. A vector with an unknown key or option fails, so that
nothing is passed over in silence. The package carries the vectors that rules name, in
``rules/vectors.json.gz``; ``test_vectors/make.py`` writes that file.
"""

from __future__ import annotations

import io
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import cbor2
import msgpack

import omsgrain as og
from omsgrain import container, crypto, formats
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.rule import Entry, Tried, result, table
from omsgrain.crypto import seal
from omsgrain.errors import NotFoundError, OmsError, OmsWarning, SchemaError, UnsupportedError
from omsgrain.formats.aimem import document as aimem
from omsgrain.formats.aimem.check import RULES
from omsgrain.formats.aimem.document import checksum_of
from omsgrain.formats.document import Import, open_manifest
from omsgrain.formats.problems import DocumentError, Problem
from omsgrain.formats.source import same
from omsgrain.grain import plain
from omsgrain.header import HEADER_SIZE
from omsgrain.json_values import revive

_SOURCES = {"input", "input_json", "blob_hex"}
_KEYS = _SOURCES | {
    "id", "description", "made_by", "checked_by", "options", "stages", "decoded", "address",
    "expect_error",
}  # fmt: skip
_STAGES = {"compacted", "payload_hex", "header_hex", "blob_hex"}
_SHOWN = 600  # characters of a problem; vectors of others can be of any size


@dataclass(frozen=True, slots=True)
class VectorOutcome:
    id: str  # the vector's path without suffix, below the directory
    expected: str  # an address, or the code of the refusal
    problem: str | None = None  # the first difference; None if there is none

    @property
    def agrees(self) -> bool:
        """Whether omsgrain gives the expected result."""
        return self.problem is None


def run_vectors(directory: Path) -> Iterator[VectorOutcome]:
    """Run every .json file under a directory, in path order."""
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
        except (
            ValueError,
            RecursionError,
        ) as error:  # not UTF-8, or a number with too many digits
            yield VectorOutcome(name, "", _short(f"not JSON: {error}"))
            continue
        # The path must end in the id, so that a single folder can be run.
        outcome = run_vector(vector, path.resolve().with_suffix("").as_posix())
        yield replace(outcome, id=name)


def run_vector(vector: Any, name: str) -> VectorOutcome:
    if not isinstance(vector, Mapping):
        return VectorOutcome(name, "", "no vector: it is no object")
    expected = str(vector.get("expect_error") or vector.get("address", ""))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OmsWarning)
            if "bundle" in vector:
                expected, problem = _run_bundle(vector)
            elif "kind" in vector:
                expected, problem = _run_bytes(vector)
            elif "document" in vector:
                expected, problem = _run_document(vector)
            else:
                problem = _shape(vector) or _run(vector)
        if problem is None and not name.endswith(str(vector["id"])):
            problem = f"the id is {vector['id']!r}"
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError, OmsError) as error:
        problem = f"the vector cannot be run: {error!r}"
    return VectorOutcome(name, _short(str(expected)), None if problem is None else _short(problem))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _shape(vector: Mapping[str, Any]) -> str | None:
    if unknown := set(vector) - _KEYS | set(vector.get("stages", {})) - _STAGES:
        return f"unknown keys: {', '.join(sorted(unknown))}"
    if len(_SOURCES & set(vector)) != 1:
        return f"must have one of {', '.join(sorted(_SOURCES))}"
    if ("expect_error" in vector) == ("decoded" in vector):
        return "must have either expect_error or decoded"
    return None


def _run(vector: Mapping[str, Any]) -> str | None:
    if "expect_error" in vector:
        return _refused(vector)
    try:
        return _read(vector) if "blob_hex" in vector else _write(vector)
    except OmsError as error:
        return f"refused: {error}"


def _refused(vector: Mapping[str, Any]) -> str | None:
    """Check that every way to read or encode the input refuses it with the code."""
    for way in _ways_in(vector):
        try:
            way()
        except OmsError as error:
            if error.code != vector["expect_error"]:
                return f"refused with another code: {error}"
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
    """Decode with libraries that do not know grains."""
    if encoding == "cbor":
        return cbor2.loads(payload)
    return msgpack.unpackb(payload, strict_map_key=False)


def _differ(what: str, expected: Any, found: Any) -> str | None:
    """Return the first difference; types count, so 1 differs from 1.0 and true."""
    left, right = (json.dumps(v, sort_keys=True, ensure_ascii=False) for v in (expected, found))
    if left == right:
        return None
    pairs = enumerate(zip(left, right, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))
    start = max(0, at - 8)
    return f"{what} differs: expected …{left[start : at + 24]}, found …{right[start : at + 24]}"


# bytes around grains: files, streams, signatures, encrypted grains, views


_BYTE_KEYS: Final = ("kind", "id", "description", "made_by", "checked_by")
"""The members of every vector."""
_MORE: Final[dict[str, tuple[set[str], ...]]] = {
    "container": (
        {"file_hex", "flags", "codec", "grains", "addresses", "manifest"},
        {"file_hex", "wrong"},
    ),
    "stream": ({"stream_hex", "grains"},),
    "envelope": ({"envelope_hex", "signer", "iat", "address"},),
    "detached": ({"signature_hex", "signer", "data_hex", "aad_hex"},),
    "sealed": ({"sealed_hex", "key_hex", "blob_hex", "address"},),
    "disclosure": (
        {"original_hex", "hide", "elided", "view_hex", "address"},
        {"original_hex", "view_hex", "wrong"},
    ),
}


def _run_bytes(vector: Mapping[str, Any]) -> tuple[str, str | None]:
    wrong = vector.get("wrong")
    expected = str(wrong["code"] if wrong else vector.get("address", "good"))
    shapes = _MORE.get(str(vector["kind"]), ())
    if not any(set(vector) == {*_BYTE_KEYS, *shape} for shape in shapes):
        return expected, "unknown or missing keys"
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
        problem = first and {"part": first.part, "number": first.number, "code": first.error.code}
        if "wrong" in vector:
            return {"wrong": (vector["wrong"], problem)}
        with container.read(path) as found:
            again = path
            if vector["codec"] == 0:
                again = path.with_name("again.mg")
                order: Any = {"sort": found.header.sorted, "dedupe": found.header.deduplicated}
                container.write(again, found, manifest=vector["manifest"], **order)
            return {
                "the verdict": (None, problem),
                "flags": (vector["flags"], found.flags),
                "codec": (vector["codec"], ("none", "zstd", "lz4").index(found.codec)),
                "grains": (vector["grains"], [grain.hex() for grain in found]),
                "addresses": (vector["addresses"], list(map(found.address, range(len(found))))),
                "manifest": (vector["manifest"], dict(found.manifest)),
                "file_hex written": (vector["file_hex"], again.read_bytes().hex()),
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
    original, view = (bytes.fromhex(vector[name]) for name in ("original_hex", "view_hex"))
    if "wrong" in vector:
        found = result(crypto.check_disclosure, view, original)
        return {"wrong": (vector["wrong"], {"code": found})}
    if original[1] & 1:  # its signature is not part of the vector
        unsigned = original[:1] + bytes([original[1] & 0xFE]) + original[2:]
        grain = crypto.with_signed_bit(og.Grain(unsigned))
    else:
        grain = og.Grain(original)
        crypto.check_disclosure(view, grain)
    made = crypto.disclose(grain, vector["hide"])
    return {
        "elided": (vector["elided"], made.fields["_elided"]),
        "address": (vector["address"], made.address),
        "view_hex": (vector["view_hex"], made.blob.hex()),
        "_disclosure_of": (
            og.address(original),
            str(made.fields["_disclosure_of"]).removeprefix("sha256:"),
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


# documents: problems, grains, checksums


_DOCUMENT_KEYS: Final = (
    "document", "id", "description", "made_by", "checked_by", "format", "layout", "section",
    "fault", "problems", "warnings", "grains",
)  # fmt: skip
"""The members of a vector of MIF."""
_LINKED: Final = ("mode", "dropped")
"""Additional members of MIF JSON-LD vectors."""
_BUNDLE_KEYS: Final = (
    "bundle", "id", "description", "made_by", "checked_by", "form", "section", "basis", "problems",
    "warnings", "status", "checksum",
)  # fmt: skip
"""The members of a vector of AIMEM."""
_IN_JSON: Final = ("json", "document", "array", "corpus")


def _run_document(vector: Mapping[str, Any]) -> tuple[str, str | None]:
    """Run one vector of a MIF document."""
    wrong = [one["rule"] for one in [vector.get("fault"), *vector.get("problems", ())] if one]
    expected = wrong[0] if wrong else ", ".join(vector.get("warnings", ())) or "good"
    of = formats.FORMATS.get(vector.get("format", ""))
    linked = of is not None and "mode" in of.load_options
    if unknown := set(vector) ^ {*_DOCUMENT_KEYS, *(_LINKED if linked else ())}:
        return expected, f"unknown or missing keys: {', '.join(sorted(unknown))}"
    data = vector["document"].encode("utf-8", "surrogatepass")
    try:
        if (format := formats.sniff(data)) != vector["format"]:
            return expected, f"detected as {format}"
        found = formats.load(data, **({"mode": vector["mode"]} if linked else {}))
    except UnsupportedError:
        return expected, "no format detected"
    except DocumentError as error:
        fault = _values(error.problems[0])
        return expected, None if fault == vector["fault"] else f"refused for {fault}"
    except SchemaError as error:
        return expected, f"cannot run: {error}"
    return expected, _taken(vector, found)


def _taken(vector: Mapping[str, Any], found: Import) -> str | None:
    """Return the first difference of an accepted document; None if it agrees."""
    if vector["fault"] is not None:
        return "accepted"
    problems = [_values(one) for one in found.problems]
    if problems != vector["problems"]:
        return f"problems differ: found {problems}"
    warnings = [one.rule for one in found.warnings]
    if warnings != vector["warnings"]:
        return f"warnings differ: found {warnings}"
    dropped = [_values(one) for one in found.dropped]
    if dropped != vector.get("dropped", []):
        return f"dropped parts differ: found {dropped}"
    grains = addresses(found)
    if grains != vector["grains"]:
        return f"grains differ: found {grains}"
    if problems or vector.get("mode") == "lenient":
        return None  # skipped parts do not come back
    return None if _comes_back(vector, found) else "the document does not come back equal"


def _comes_back(vector: Mapping[str, Any], found: Import) -> bool:
    layout, text = vector["layout"], vector["document"]
    if layout not in (*_IN_JSON, "lines", "markdown"):
        return True
    again = formats.dump(found, format=vector["format"], local=True).data.decode()
    if layout == "markdown":
        return bool(again == text)
    if layout == "lines":
        one, other = ([json.loads(line) for line in each.splitlines()] for each in (again, text))
        return bool(same(one, other))
    return bool(same(json.loads(again), json.loads(text)))


def addresses(found: Import) -> dict[str, list[str]]:
    """Return the addresses of the records' grains, by array pointer."""
    by_address = {grain.address: grain for grain in found.grains}
    opened = open_manifest(found.grains[-1], by_address.__getitem__)
    return {} if opened is None else opened.arrays


def _values(problem: Problem, *, line: bool | None = None) -> dict[str, Any]:
    """Return a problem in the form of vectors; by default with its line, if it has one."""
    found: dict[str, Any] = {"rule": problem.rule, "pointer": problem.pointer}
    with_line = problem.line is not None if line is None else line
    return found | ({"line": problem.line} if with_line else {})


def _run_bundle(vector: Mapping[str, Any]) -> tuple[str, str | None]:
    wrong = [problem["rule"] for problem in vector.get("problems", ())]
    expected = wrong[0] if wrong else str(vector.get("checksum", ""))
    if unknown := set(vector) ^ set(_BUNDLE_KEYS):
        return expected, f"unknown or missing keys: {', '.join(sorted(unknown))}"
    data = vector["bundle"].encode("utf-8", "surrogatepass")
    problems, warnings = _scanned(data) if vector["form"] == "lines" else _validated(data)
    found = [_values(problem, line=vector["form"] == "lines") for problem in problems]
    if found != vector["problems"]:
        return expected, f"problems differ: expected {vector['problems']}, found {found}"
    if not problems and [one.rule for one in warnings] != vector["warnings"]:
        return expected, f"warnings differ: found {[one.rule for one in warnings]}"
    status = RULES[problems[0].rule].status if problems else 200
    if status != vector["status"]:
        return expected, f"the status is {status}"
    if not problems and vector["form"] == "document":
        own = checksum_of(data)
        document = json.loads(data)
        if {own, document["checksum"]} != {vector["checksum"]}:
            return expected, f"the checksum is {own}"
        again = formats.dump(formats.load(data), format="aimem", embeddings=True).data
        if json.loads(again) != document and "legacy_format" not in vector["warnings"]:
            return expected, "the bundle does not come back equal"
    return expected, None


def _validated(data: bytes) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    verdict = aimem.validate(data)
    return verdict.problems, verdict.warnings


def _scanned(data: bytes) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    try:
        return (), aimem.scan(io.BytesIO(data)).warnings
    except DocumentError as error:
        return error.problems, ()


# vectors that rules name


def data(name: str) -> Any:
    """Return what ``test_vectors/make.py`` packs under a name."""
    return table("vectors")[name]


def bundles() -> list[dict[str, Any]]:
    return [one for one in data("vectors") if "bundle" in one]


@cache
def vector(name: str) -> dict[str, Any]:
    """Return a vector by its id, or by its folder and number, such as ``oms/7``."""
    area, _, number = name.rpartition("/")
    start = f"{area}/{int(number):03}-" if number.isdigit() else None
    for one in data("vectors"):
        if one["id"] == name or (start is not None and one["id"].startswith(start)):
            found: dict[str, Any] = one
            return found
    raise KeyError(name)


def blob(name: str) -> bytes:
    """Return the expected blob of a grain vector, or the one that must be refused."""
    one = vector(name)
    return bytes.fromhex(one.get("blob_hex") or one["stages"]["blob_hex"])


def agree(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``vectors``: input with the expected bytes, or with the code that refuses it."""
    for id in entry["vectors"]:
        one = vector(id)
        outcome = run_vector(one, id)
        yield Tried(one["description"], outcome.expected, outcome.problem or outcome.expected)
