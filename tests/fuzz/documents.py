# SPDX-License-Identifier: Apache-2.0
"""Documents of other formats: what is taken comes back, and goes into the other formats."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

from fuzz import seeds
from fuzz.target import Run, Target
from omsgrain import formats
from omsgrain.errors import OmsError
from omsgrain.formats import ontology
from omsgrain.formats.aimem import document as bundle
from omsgrain.formats.aimem import document as stream
from omsgrain.formats.aimem.document import checksum_of
from omsgrain.formats.mif1 import document as layouts
from omsgrain.formats.mif1 import envelope
from omsgrain.formats.mif1.check import Mif1Limits
from omsgrain.formats.mif1.format import MIF1 as MIF1_FORMAT
from omsgrain.formats.mif2.format import MIF2
from omsgrain.formats.mif_ld import markdown, validate
from omsgrain.formats.mif_ld.validate import judge
from omsgrain.formats.schema import Shapes
from omsgrain.formats.source import NAMES
from omsgrain.formats.table import sniff_file
from omsgrain.policy.presets import Preset, explain
from omsgrain.policy.rule_files import read_rules
from support.foreign_files import DATA, FILES
from support.mif1_documents import EXAMPLES as MIF1
from support.mif_ld_examples import CORPUS, FULL, ONTOLOGY, REINFORCED

_KEY = bytes(range(32))
_CHEAP = Mif1Limits(memory_kib=64, iterations=2, parallelism=2)
_RULES = Path(bundle.__file__).parents[2] / "privacy" / "presets"


def _document(format: str) -> Callable[[Path], Any]:
    """Read as a format, written again, and then as any other."""

    @contextmanager
    def opened(room: Path) -> Iterator[Run]:
        options: dict[str, Any] = {} if format == "aimem" else {"exact": True}

        def run(data: bytes) -> None:
            found = formats.load(data, format=format, **options)
            if not found.problems and format != "aimem":
                extra: dict[str, Any] = {"local": True} if format == "mif-ld" else {}
                written = formats.dump(found, format=format, exact=True, **extra)
                assert written.data == data
            elif not found.problems:
                written = formats.dump(found, format=format, embeddings=True)
                assert _plain(written.data) == _plain(data)
            others = [name for name in NAMES if name != format]
            formats.dump(found, format=others[crc32(data) % len(others)], strict=bool(data[0] & 1))

        yield run

    return opened


def _plain(data: bytes) -> str:
    """A bundle but for its checksum, and where it has no records of a kind."""
    document = json.loads(data)
    for name in ("checksum", "format"):  # of today; an older name is read too
        document.pop(name)
    return json.dumps({n: v for n, v in document.items() if v != []}, sort_keys=True)


@contextmanager
def _any(room: Path) -> Iterator[Run]:
    """Of whatever format its content says."""
    path = room / "document"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        try:
            told = sniff_file(path)
            assert told in (*formats.FORMATS, "mg")
        except OmsError:
            pass
        formats.load(data)

    yield run


@contextmanager
def _bundle_lines(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        file = io.BytesIO(data)
        counts = stream.scan(file).counts
        file.seek(0)
        assert len(list(stream.records(file))) == sum(counts.values())

    yield run


@contextmanager
def _sealed(room: Path) -> Iterator[Run]:
    """The envelope of MIF 1.0: under a key, and under a passphrase that costs little."""

    def run(data: bytes) -> None:
        ways: list[dict[str, Any]] = [{"passphrase": "tea"}, {"key": _KEY}]
        for given in ways:
            try:
                envelope.open_document(data, limits=_CHEAP, **given)
            except OmsError:
                continue
        formats.load(data, format="mif1", key=_KEY, limits=_CHEAP)

    yield run


def _sealed_documents() -> list[bytes]:
    kdf = envelope.Kdf(bytes(16), 64, 1, 1)
    plain = [layouts.spell(MIF1[0], "json"), layouts.spell(MIF1[1], "yaml")]
    return [
        *(envelope.seal_document(one, key=_KEY) for one in plain),
        *(envelope.seal_document(one, "tea", kdf=kdf) for one in plain),
    ]


@contextmanager
def _markdown(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        found = formats.load(data, format="mif-ld", layout="markdown", exact=True)
        if not found.problems:
            formats.dump(found, format="mif-ld", local=True)
        markdown.read_bytes(data)

    yield run


@contextmanager
def _at_sight(room: Path) -> Iterator[Run]:
    """Values that the core accepts at one look are good field by field."""

    def verdicts(data: bytes) -> list[object]:
        found: list[object] = [
            bundle.validate(data),
            MIF1_FORMAT.validate(data, None),
            MIF2.validate(data, None),
        ]
        with suppress(ValueError, RecursionError):
            found.append(judge(json.loads(data)))
        return found

    def run(data: bytes) -> None:
        with (
            patch.object(Shapes, "fit", return_value=False),
            patch.object(validate, "shape_at_sight", return_value=None),
        ):
            walked = verdicts(data)
        assert verdicts(data) == walked

    yield run


_MEMORY: dict[str, Any] = {
    "@id": "urn:mif:a",
    "namespace": "_semantic/garden",
    "entity": {"name": "x", "entity_type": "plant", "day": "2026-01-01"},
    "relationships": [{"type": "GrowsBeside", "target": "urn:mif:x"}],
}


@contextmanager
def _ontology(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        library = ontology.load([data], strict=False)
        for report in library.reports:
            assert all(problem.rule for problem in report.problems)
        for known in library.known:
            ontology.suggest("a shed with a lathe", "shed/lathe.md", known, enabled_only=False)
            memory = _MEMORY | {"ontology": {"id": known.ontology.id}}
            ontology.judge_entity(memory, library, others={"urn:mif:x": memory})
        ontology.load([data])

    yield run


@contextmanager
def _rules(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        file = read_rules(data, "a file")
        explain(Preset((file.name,), (file.title,), file.rules))

    yield run


def _foreign(name: str) -> Callable[[Path], Any]:
    """A file of another system: what is read of it is a good document of MIF 2.0."""

    @contextmanager
    def opened(room: Path) -> Iterator[Run]:
        path = room / "file"

        def run(data: bytes) -> None:
            path.write_bytes(data)
            found = formats.FORMATS[name].load_file(path, user_id="ada")
            written = formats.dump(found, format="mif2").data
            assert not formats.load(written, user_id="ada").problems

        yield run

    return opened


def _files_of(name: str) -> Callable[[], list[bytes]]:
    return lambda: [path.read_bytes() for of, path in FILES if of == name]


def with_checksum(data: bytes) -> bytes:
    """A bundle with the checksum of its current content."""
    try:
        document = json.loads(data)
        document["checksum"] = checksum_of(json.dumps(document).encode())
        return json.dumps(document).encode()
    except Exception:  # of the mutation, not of what is tried
        return data


def _spelled(*documents: Any) -> list[bytes]:
    return [json.dumps(one, ensure_ascii=False).encode() for one in documents]


def _of_mif1(layout: Any) -> Callable[[], list[bytes]]:
    return lambda: [
        *(layouts.spell(one, layout) for one in MIF1),
        *seeds.documents("mif1", layout),
    ]


def _every() -> list[bytes]:
    found = [data for format in NAMES for data in seeds.documents(format)]
    return [*found, *_sealed_documents(), *seeds.containers()[:3]]


TARGETS = {
    "aimem": Target(
        _document("aimem"), lambda: seeds.documents("aimem", "document"), "json", with_checksum
    ),
    "aimem lines": Target(_bundle_lines, lambda: seeds.documents("aimem", "lines"), "lines"),
    "mif2": Target(_document("mif2"), lambda: seeds.documents("mif2"), "json"),
    "mif1": Target(_document("mif1"), _of_mif1("json"), "json"),
    "mif1 yaml": Target(_document("mif1"), _of_mif1("yaml"), "lines"),
    "mif1 lines": Target(_document("mif1"), _of_mif1("jsonl"), "lines"),
    "mif1 sealed": Target(_sealed, _sealed_documents, "json"),
    "mif-ld": Target(
        _document("mif-ld"),
        lambda: [
            *_spelled(FULL, REINFORCED, ONTOLOGY, CORPUS),
            *seeds.documents("mif-ld", "document", "array", "corpus", "lines"),
        ],
        "json",
    ),
    "markdown": Target(_markdown, lambda: seeds.documents("mif-ld", "markdown"), "lines"),
    "at sight": Target(
        _at_sight,
        lambda: [
            *_of_mif1("json")(),
            *seeds.documents("mif2"),
            *seeds.documents("aimem", "document"),
            *_spelled(FULL, REINFORCED),
            *seeds.documents("mif-ld", "document", "array"),
        ],
        "json",
    ),
    "any document": Target(_any, _every, "lines"),
    "mcp-memory": Target(_foreign("mcp-memory"), _files_of("mcp-memory"), "lines"),
    "mem0": Target(_foreign("mem0"), _files_of("mem0"), "json"),
    "letta": Target(_foreign("letta"), _files_of("letta"), "json"),
    "areev": Target(_foreign("areev"), lambda: [(DATA / "areev.mgb").read_bytes()]),
    "langgraph": Target(_foreign("langgraph"), _files_of("langgraph")),
    "ontology": Target(_ontology, seeds.ontologies, "lines"),
    "rules": Target(
        _rules, lambda: [path.read_bytes() for path in sorted(_RULES.glob("*.toml"))], "lines"
    ),
}
