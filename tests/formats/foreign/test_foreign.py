# SPDX-License-Identifier: Apache-2.0
"""What holds for each format of another system: detection, imports, limits, mutations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain import formats
from omsgrain.errors import OmsError, SchemaError, UnsupportedError
from omsgrain.formats.foreign.base import ForeignFormat, ForeignLimits, time_of
from omsgrain.formats.problems import DocumentError
from omsgrain.formats.source import FOREIGN
from omsgrain.formats.table import FORMATS, sniff_directory, sniff_file
from omsgrain.interchange.mif_import import import_document
from support.foreign_files import FILES, IDS, USER, fates, imported, texts
from support.mif_imports import opened
from support.shell import Shell


@pytest.mark.parametrize(("name", "path"), FILES, ids=IDS)
def test_the_content_says_the_format(name: str, path: Path) -> None:
    assert (sniff_directory(path) if path.is_dir() else sniff_file(path)) == name
    assert formats.load(path).origin == name


@pytest.mark.parametrize(("name", "path"), FILES, ids=IDS)
def test_a_second_import_stores_nothing(name: str, path: Path) -> None:
    with opened() as store:
        first = imported(store, path)
        assert first.format == name
        assert set(fates(first)) == {"imported"}
        grains = {grain.address for grain in store}
        again = imported(store, path)
        assert set(fates(again)) == {"unchanged"}
        assert {grain.address for grain in store} == grains
        assert again.warnings == first.warnings


@pytest.mark.parametrize(("name", "path"), FILES, ids=IDS)
def test_a_dry_run_stores_nothing(name: str, path: Path) -> None:
    with opened() as store:
        assert set(fates(imported(store, path, dry_run=True))) == {"imported"}
        assert len(store) == 0


@pytest.mark.parametrize(("name", "path"), FILES, ids=IDS)
def test_erased_memories_stay_erased(name: str, path: Path) -> None:
    with opened() as store:
        first = imported(store, path, keep_document=False)
        store.privacy.erase([USER], reason_code="asked", scrub="queued", ciphertext=True)
        assert fates(imported(store, path)) == ["erased"] * len(first.records)
        assert texts(store) == []


@pytest.mark.parametrize(("name", "path"), FILES, ids=IDS)
def test_nothing_is_lost_on_the_way_to_mif_and_back(name: str, path: Path) -> None:
    read = formats.load(path, user_id=USER)
    written = formats.dump(read, format="mif2", user_id=None).data
    assert not written.count(b"x_omsgrain")
    back = formats.load(written, user_id=USER)
    assert {grain.address for grain in back.grains} == {grain.address for grain in read.grains}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_format_of_another_system_is_only_read(name: str) -> None:
    grain = og.Event(content="hello", created_at=1)
    with pytest.raises(UnsupportedError):
        formats.dump([grain], format=name)
    with pytest.raises(UnsupportedError):
        FORMATS[name].together({}, {})


@pytest.mark.parametrize(("name", "path"), FILES, ids=IDS)
def test_verify_validate_and_convert_read_it(
    name: str,
    path: Path,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = Shell(capfdbinary, monkeypatch)
    (checked,) = shell.json("verify", path)["documents"]
    assert checked["format"] == name
    assert sum(checked["records"].values()) > 0
    (judged,) = shell.json("validate", path)["files"]
    assert (judged["format"], judged["errors"]) == (name, [])
    converted = shell.json("convert", path, tmp_path / "out.mif.json")
    assert (converted["from"], converted["to"]) == (name, "mif2")
    if not FORMATS[name].writes_directories:
        target = ("convert", path, tmp_path / "x", "--format", name)
        assert shell(*target) == UnsupportedError.exit_code
        assert not (tmp_path / "x").exists()
    report = shell.json("import", tmp_path / "s.omsg", path, "--user", USER)
    assert (report["format"], report["errors"]) == (name, [])


def test_the_user_must_be_named() -> None:
    with opened() as store, pytest.raises(SchemaError) as refused:
        import_document(store, OF_BYTES[0][1].read_bytes())
    assert refused.value.field == "/user_id"


@pytest.mark.parametrize(("name", "path"), FILES, ids=IDS)
def test_limits_are_kept(name: str, path: Path) -> None:
    known = FORMATS[name]
    assert isinstance(known, ForeignFormat)
    for limits in (ForeignLimits(document=80), ForeignLimits(records=1)):
        with pytest.raises(DocumentError) as refused:
            read = known.load_directory if path.is_dir() else known.load_file
            read(path, limits=limits)
        assert refused.value.rule in ("too_large", "too_many")


OF_BYTES = [one for one in FILES if one[1].is_file() and not FORMATS[one[0]].opens_files]


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, bytes]:
    """A good file with some bytes changed, removed or repeated."""
    name, path = draw(st.sampled_from(OF_BYTES))
    data = bytearray(path.read_bytes())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        size = draw(st.sampled_from((0, 1, 8, 200)))
        data[at : at + size] = draw(
            st.one_of(st.binary(max_size=4), st.just(data[at // 2 : at // 2 + 60]),
                      st.sampled_from((b"null", b"[]", b"{}", b'"', b"\\ud800", b"\xff", b"\n")))
        )  # fmt: skip
    return name, bytes(data)


@given(mutations())
def test_a_mutation_gives_an_error_or_a_report(given: tuple[str, bytes]) -> None:
    name, data = given
    try:
        found = formats.load(data, format=name, user_id=USER)
    except OmsError:
        return
    written = formats.dump(found, format="mif2").data
    assert len(json.loads(written)["memories"]) <= len(found.pointers)


@pytest.mark.parametrize(
    ("said", "time"),
    [
        ("2026-11-24T15:32:01.081381+00:00", "2026-11-24T15:32:01.081381+00:00"),
        ("2026-11-24 15:32:01", "2026-11-24T15:32:01Z"),
        ("2026-11-24", "2026-11-24T00:00:00Z"),
        ("yesterday", None),
        (1_767_225_600, None),
        (None, None),
    ],
)
def test_times(said: Any, time: str | None) -> None:
    assert time_of(said) == time
