# SPDX-License-Identifier: Apache-2.0
"""The texts do not lie: tables are compared, links followed, names looked up."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors, registry
from omsgrain.container import layout
from omsgrain.header import SENSITIVITIES
from support.doc_blocks import PAGES
from support.markdown_page import fences, table
from support.paths import ROOT

DESIGN, ERRORS = ROOT / "docs/design.md", ROOT / "docs/errors.md"
POLICIES = ROOT / "docs/policies.md"
FIELDS = {"type": "belief", "subject": "a", "relation": "b", "object": "c", "confidence": 1}
BELIEF: dict[str, Any] = FIELDS | {"created_at": 1768471200123}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text("utf-8")):
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), target
        if not anchor:
            continue
        headings = re.findall(r"^#+ (.+)$", there.read_text("utf-8"), re.MULTILINE)
        slugs = [re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings]
        assert not anchor or anchor in slugs, target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_install_what_exists(page: Path) -> None:
    """From a clone or a wheel: no registry has a release, and anyone could take the name there."""
    installs = re.findall(
        r"(?:pipx?|uv(?: tool| pip)?) (?:install|add) ([^\n`]*)", page.read_text("utf-8")
    )
    for arguments in installs:
        for package in re.findall(r"[^\s'\"]+", arguments):
            assert not re.match(r"omsgrain($|[\[=<>~@])", package), arguments


def test_readme_names_its_two_commands() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert "git objects for agent memory" in text.split("\n\n")[1]
    assert "make demo" in text
    assert "make test" in text


def test_contributing_names_what_exists() -> None:
    page = ROOT / "CONTRIBUTING.md"
    for _, places in table(page, "to change", "open"):
        for place in re.split("[`, ]+", places):
            assert (ROOT / place).exists(), place
    text = page.read_text("utf-8")
    for path in re.findall(r"`((?:rust|python|tests|docs|test_vectors|release)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path
    drawing = next(fences(page)).text
    named = {name for names in re.findall(r"^  (\w+(?:, \w+)*) ", drawing, re.M)
             for name in names.split(", ")}  # fmt: skip
    packages = {path.parent.name for path in (ROOT / "python/omsgrain").glob("*/*.py")}
    assert named == packages
    targets = {row[0].removeprefix("make ") for row in table(page, "target", "what it does")}
    phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert phony is not None
    assert targets == set(phony[1].split())


def test_changelog_begins_with_the_format() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert "## [Unreleased]\n\n### Format\n" in text


def test_error_codes() -> None:
    rows = [row[:3] for row in table(ERRORS, "code", "class", "exit code", "when")]
    known = sorted(errors.BY_CODE.values(), key=lambda cls: cls.exit_code)
    assert rows == [[cls.code, cls.__name__, str(cls.exit_code)] for cls in known]


def test_error_groups() -> None:
    rows = [row[:2] for row in table(ERRORS, "class", "exit code", "catches")]
    classes = [
        c
        for c in vars(errors).values()
        if isinstance(c, type) and issubclass(c, og.errors.OmsError)
    ]
    under = {base for cls in classes for base in cls.__bases__}
    groups = [cls for cls in classes if cls in under and cls is not og.errors.OmsError]
    assert rows == [[cls.__name__, str(cls.exit_code)] for cls in groups]


def test_header_layout() -> None:
    blob = og.encode(BELIEF | {"namespace": "n"}, encoding="cbor", sensitivity=2)
    header = og.read_header(blob)
    end = 0
    for offset, size, name, _ in table(DESIGN, "offset", "size", "field", "holds"):
        assert int(offset) == end
        end += int(size)
        assert int.from_bytes(blob[int(offset) : end], "big") == getattr(header, name), name
    assert blob[end] >> 5 == 5  # the payload begins there: a CBOR map


def test_flag_bits() -> None:
    bits = {name: bit for bit, name, _ in table(DESIGN, "bit", "name", "set when")}
    low, high = map(int, bits.pop("sensitivity").split("-"))
    assert 1 << (high - low + 1) == len(SENSITIVITIES)
    for level in range(len(SENSITIVITIES)):
        blob = og.encode(BELIEF, sensitivity=level)
        assert blob[1] == level << low
        assert og.read_header(blob).sensitivity == level
    assert [int(bit) for bit in bits.values()] == list(range(low))
    nothing = og.header.Header(1, 0, 1, 0, 0)
    for name, bit in bits.items():
        header = og.header.Header(1, 1 << int(bit), 1, 0, 0)
        differ = {n for n in bits if getattr(header, n) != getattr(nothing, n)}
        assert differ == {name}
    content = {"content_refs": [{"uri": "file:a.png", "modality": "image"}]}
    vector = {"embedding_refs": [{"vector_id": "v", "model": "m", "dimensions": 3}]}
    for name, blob in {
        "compressed": og.encode(BELIEF, compress=True),
        "has_content_refs": og.encode(BELIEF | content),
        "has_embedding_refs": og.encode(BELIEF | vector),
        "encoding": og.encode(BELIEF, encoding="cbor"),
    }.items():
        assert blob[1] == 1 << int(bits[name]), name
    for name, code in {"signed": "ERR_SIGNED_MISMATCH", "encrypted": "ERR_KEY"}.items():
        blob = og.encode(BELIEF)
        with pytest.raises(og.errors.OmsError) as caught:
            og.decode(blob[:1] + bytes([1 << int(bits[name])]) + blob[2:])
        assert caught.value.code == code


def nested(depth: int) -> dict[str, Any]:
    """A belief of this depth, its own map counted."""
    value: Any = "x"
    for _ in range(depth - 1):
        value = {"k": value}
    return BELIEF | {"object": value}


def test_limits() -> None:
    for name, size, depth, fields in table(DESIGN, "profile", "bytes", "depth", "fields"):
        profile: Any = name
        og.encode(nested(int(depth)), profile=profile)
        with pytest.raises(errors.CorruptError):
            og.encode(nested(int(depth) + 1), profile=profile)
        text = "x" * (int(size) // 2)
        text += "x" * (int(size) - len(og.encode(BELIEF | {"object": text})))
        text = text[len(og.encode(BELIEF | {"object": text})) - int(size) :]
        assert len(og.encode(BELIEF | {"object": text}, profile=profile)) == int(size)
        with pytest.raises(errors.TooLargeError):
            og.encode(BELIEF | {"object": text + "x"}, profile=profile)
        if fields != "all":
            assert set(re.findall(r"\w+", fields)) == set(registry.LIGHTWEIGHT)


def test_header_of_a_container() -> None:
    rows = table(DESIGN, "offset", "size", "header field", "holds")
    header = layout.ContainerHeader(31, 0x0A0B0C0D, "lz4", manifest_at=0x01020304)
    values = {"magic": int.from_bytes(layout.MAGIC, "big"), "version": layout.VERSION}
    values |= {"field_map": layout.FIELD_MAP_VERSION, "codec": layout.CODECS.index("lz4")}
    values |= {"flags": 31, "count": header.count, "manifest_at": header.manifest_at}
    values |= {"reserved": 0}
    end = 0
    for offset, size, name, _ in rows:
        assert int(offset) == end
        end += int(size)
        assert int.from_bytes(header.pack()[int(offset) : end], "big") == values.pop(name), name
    assert end == layout.HEADER_SIZE
    assert values == {}


def test_flags_of_a_container() -> None:
    for bit, name, _ in table(DESIGN, "bit", "flag", "set when"):
        assert getattr(layout, name.upper()) == 1 << int(bit)


@pytest.mark.parametrize(
    ("page", "start", "attribute"),
    [
        (POLICIES, "**D20.", "supersede_only"),
        (DESIGN, "- A field of the index layer", "index_layer"),
    ],
)
def test_listed_fields(page: Path, start: str, attribute: str) -> None:
    """A passage that lists fields lists them all."""
    text = page.read_text("utf-8")
    passage = re.split(r"\n\n|\n- ", text[text.index(start) :])[0]
    names = {field.name for field in registry.FIELDS}
    listed = set(re.findall(r"`(\w+)`", passage)) & names
    assert listed == {f.name for f in registry.FIELDS if getattr(f, attribute)}


def test_crate_of_the_unicode_version() -> None:
    lock = (ROOT / "Cargo.lock").read_text("utf-8")
    pinned = re.search(r'name = "unicode-normalization"\nversion = "([^"]+)"', lock)
    assert pinned is not None
    assert f"unicode-normalization {pinned[1]}" in DESIGN.read_text("utf-8")


NO_NAMES = {"omsgrain.format", "omsgrain.h", "omsgrain.stores"}
"""A record, a file and a table, which look like names of the package."""


def test_names_in_the_prose_exist() -> None:
    """A name such as `store.holds.add` or `formats.dump` in a page is one of the package."""
    roots: dict[str, Any] = {"og": og, "omsgrain": og, "formats": og.formats}
    with og.open(":memory:") as store:
        roots["store"] = store
        for page in PAGES:
            if page.name == "CHANGELOG.md":  # it names what was there once
                continue
            for span in re.findall(
                r"`((?:og|omsgrain|formats|store)(?:\.\w+)+)", page.read_text()
            ):
                if span not in NO_NAMES:
                    assert found(roots, span), (page.name, span)


def found(roots: dict[str, Any], name: str) -> bool:
    """Tell whether a dotted name leads to something."""
    first, *rest = name.split(".")
    place, path = roots[first], getattr(roots[first], "__name__", "")
    for part in rest:
        path += f".{part}"
        if not hasattr(place, part) and path.startswith("omsgrain"):
            with suppress(ImportError):
                importlib.import_module(path)
        if not hasattr(place, part):
            return False
        place = getattr(place, part)
    return True


def test_exports_are_sorted_and_complete() -> None:
    assert og.__all__ == sorted(og.__all__)
    assert all(hasattr(og, name) for name in og.__all__)
    own = {
        name
        for name, value in vars(og).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("omsgrain")
    }
    assert own <= set(og.__all__)


def test_import_loads_little() -> None:
    heavy = {"lmdb", "click", "rich", "cryptography", "pycose", "cbor2", "msgpack"}
    code = f"import sys, omsgrain; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_shows_its_surface() -> None:
    verbs = (
        "open restore encode decode address verify read_header encode_many encode_jsonl "
        "decode_many address_many verify_many disclose"
    )
    constructors = (
        "Action Belief Consensus Consent Event Goal Observation Reasoning State Workflow"
    )
    version = "__version__"
    classes = "AsyncMemory BackupRepository Grain GrainStore Mapping Memory"
    packages = "errors registry container crypto formats sync"
    shown = f"{verbs} {constructors} {packages} {classes} {version}"
    assert dir(og) == sorted(shown.split())
