# SPDX-License-Identifier: Apache-2.0
"""MIF documents on the command line: taken in, written, given back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import SchemaError
from omsgrain.interchange.mif_export import export_document
from support.mif_imports import MAKERS, Maker
from support.shell import USAGE, Shell, exit_code

BAD = exit_code("ERR_FORMAT")
KEPT_HERE = exit_code("ERR_UNSUPPORTED")
SECRET = "correct horse battery"

makers = pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.format)


def written(path: Path, document: dict[str, Any]) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    two = MAKERS[0]
    return written(tmp_path / "x.mif.json", two.document(two.memory(1, "tea"), two.memory(2, "x")))


@makers
def test_in_and_out(shell: Shell, tmp_path: Path, maker: Maker) -> None:
    document = maker.document(maker.memory(1, "tea"), maker.memory(2, "tea"), x_more=[None])
    file = written(tmp_path / "in.mif.json", document)
    told = shell.json("import", "m.omsg", file, "--user", "ada")
    assert (told["memories_imported"], told["duplicates_skipped"], told["stored"]) == (1, 1, True)
    assert shell("import", "m.omsg", file, "--user", "ada") == 0
    assert b"1 unchanged, 1 duplicate" in shell.out
    out = tmp_path / "out.mif.json"
    told = shell.json("export", "m.omsg", out, "--user", "ada", "--format", maker.format)
    assert (told["memories_exported"], told["lost"]) == (1, 1)  # x_more
    assert [one["content"] for one in json.loads(out.read_bytes())["memories"]] == ["tea"]
    back = tmp_path / "back.mif.json"
    assert shell("export", "m.omsg", back, "--user", "ada", "--document", "exp_a1b2") == 0
    assert json.loads(back.read_bytes()) == document
    assert shell("export", "m.omsg", back, "--user", "ada") != 0  # it is there
    assert shell("export", "m.omsg", back, "--user", "ada", "--replace") == 0


@pytest.mark.parametrize("name", ["x.mif.json", "x.mif.yaml", "x.mif.jsonl", "old.mif.json"])
@pytest.mark.parametrize("strict", [False, True])
def test_a_document_of_ours_that_was_changed_is_refused(
    shell: Shell, file: Path, tmp_path: Path, name: str, strict: bool
) -> None:
    """In every layout: our own checksum says what it is made of, and is checked."""
    assert shell("import", "m.omsg", file, "--user", "ada") == 0
    out = tmp_path / f"out-{name}"
    options = ["--format", "mif1"] if name.startswith("old") else []
    options += ["--strict"] if strict else []
    assert shell("export", "m.omsg", out, "--user", "ada", *options) == 0
    assert shell("verify", out) == 0
    text = out.read_text()
    assert text.count("tea") == 1
    out.write_text(text.replace("tea", "tee"))
    assert shell("verify", out, "--json") == BAD
    (failed,) = json.loads(shell.out)["failed"]
    assert failed["error"]["rule"] == "checksum_mismatch"
    for command in (("import", "n.omsg", out, "--user", "ada"), ("convert", out, "n.mg")):
        assert shell.error(*command)[1]["rule"] == "checksum_mismatch"
    assert not Path("n.omsg").exists() and not Path("n.mg").exists()


@makers
def test_a_checksum_of_others_is_no_error(shell: Shell, tmp_path: Path, maker: Maker) -> None:
    document = maker.document(maker.memory(1, "tea"))
    around = document["export_meta" if maker.format == "mif2" else "export"]
    around["checksum"] = f"sha256:{'9f' * 32}"
    file = written(tmp_path / "x.mif.json", document)
    for of in (None, "records", 7):
        around["checksum_of"] = of
        file = written(tmp_path / "x.mif.json", document)
        assert shell("verify", file) == 0
        assert shell("import", "m.omsg", file, "--user", "ada") == 0


@makers
def test_an_import_that_refuses_a_record_ends_with_its_code(
    shell: Shell, tmp_path: Path, maker: Maker
) -> None:
    one = written(tmp_path / "x.mif.json", maker.document(maker.memory(1, "tea")))
    assert shell("import", "m.omsg", one, "--user", "ada") == 0
    assert shell("erase", "m.omsg", "ada", "--reason", "gdpr17") == 0
    two = maker.document(maker.memory(1, "tea"), maker.memory(2, "milk"))
    both = written(tmp_path / "y.mif.json", two)
    assert shell("import", "m.omsg", both, "--user", "ada") == exit_code("ERR_ERASED")
    assert b"1 imported" in shell.out
    assert shell("import", "m.omsg", both, "--user", "ada", "--allow-erased") == 0


@pytest.mark.parametrize("data", [b"", b"[]", b"\x1f\x8b\x08\0", b"{}", b"\xff\xfe{\0"])
def test_a_file_that_is_no_document_is_named(shell: Shell, tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "x.mif.json"
    file.write_bytes(data)
    for options in ([], ["--user", "ada"]):
        assert shell.error("import", "m.omsg", file, *options)[0] == KEPT_HERE
    other = file.rename(tmp_path / "x")
    assert shell.error("import", "m.omsg", other, "--user", "ada")[0] == KEPT_HERE
    assert not (tmp_path / "m.omsg").exists()


@pytest.mark.parametrize(
    "option",
    [["--redact"], ["--strict"], ["--no-graph"], ["--since", "2026-01-01T00:00:00Z"],
     ["--embeddings"], ["--layout", "json"]],
)  # fmt: skip
def test_a_document_that_is_given_back_is_not_changed(
    shell: Shell, file: Path, tmp_path: Path, option: list[str]
) -> None:
    assert shell("import", "m.omsg", file) == 0
    back = tmp_path / "back.mif.json"
    given = ["export", "m.omsg", back, "--user", "ada", "--document", "exp_a1b2"]
    assert shell(*given, *option) == USAGE
    assert not back.exists()
    with og.open("m.omsg") as store, pytest.raises(SchemaError):
        export_document(store, "ada", document="exp_a1b2", redact_pii=True)


@makers
def test_a_passphrase_for_what_is_not_encrypted(
    shell: Shell, tmp_path: Path, maker: Maker
) -> None:
    file = written(tmp_path / "x.mif.json", maker.document(maker.memory(1, "tea")))
    secret = tmp_path / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    given = "--passphrase-file", secret
    code, error = shell.error("import", "m.omsg", file, *given)
    assert (code, error["field"]) == (exit_code("ERR_SCHEMA"), "--passphrase-file")
    sealed, back = tmp_path / "sealed.mif.json", tmp_path / "back.mif.json"
    to = "--format", "mif1"
    assert shell("convert", file, sealed, *to, *given, "--encrypt") == 0
    assert shell("convert", sealed, back, "--format", maker.format, *given) == 0
    assert json.loads(back.read_bytes()) == json.loads(file.read_bytes())


def test_warnings_name_the_place(shell: Shell, file: Path) -> None:
    assert shell("import", "m.omsg", file) == 0
    assert b"invalid_uuid: the id is not a UUID (at /export_meta/id)" in shell.err


def test_the_report_names_the_rule_that_keeps_a_grain(shell: Shell, tmp_path: Path) -> None:
    one = MAKERS[1]
    told = one.document(one.memory(1, "tea"), consent={"sharing_allowed": False})
    assert shell("import", "m.omsg", written(tmp_path / "x.mif.json", told)) == 0
    assert shell("export", "m.omsg", tmp_path / "o.mif.json", "--user", "ada") == KEPT_HERE
    assert b"consent:sharing" in shell.err


def test_an_observation_is_shown_with_its_owner_once(shell: Shell, file: Path) -> None:
    assert shell("import", "m.omsg", file) == 0
    assert shell("query", "m.omsg", "--type", "observation") == 0
    assert b"ada tea" in shell.out
    assert b"ada ada" not in shell.out


@pytest.mark.parametrize("ending", ["yaml", "jsonl"])
def test_the_file_name_selects_the_layout(
    shell: Shell, file: Path, tmp_path: Path, ending: str
) -> None:
    assert shell("import", "m.omsg", file) == 0
    out = tmp_path / f"out.mif.{ending}"
    assert shell("export", "m.omsg", out, "--user", "ada") == 0
    told = shell.json("import", "other.omsg", out, "--user", "ada")
    assert (told["format"], told["memories_imported"]) == ("mif1", 2)


def test_a_passphrase(shell: Shell, file: Path, tmp_path: Path) -> None:
    words, wrong = tmp_path / "words", tmp_path / "wrong"
    words.write_text(SECRET + "\n", encoding="utf-8")
    wrong.write_text("another\n", encoding="utf-8")
    assert shell("import", "m.omsg", file) == 0
    out = tmp_path / "out.mif.json"
    sealing = ("--user", "ada", "--format", "mif1", "--passphrase-file", words)
    assert shell("export", "m.omsg", out, *sealing) == 0
    assert b'"tea"' not in out.read_bytes()  # base64 can have these three letters by chance
    assert shell("import", "other.omsg", out, "--passphrase-file", wrong) != 0
    assert not (tmp_path / "other.omsg").exists()
    told = shell.json("import", "other.omsg", out, "--passphrase-file", words)
    assert told["memories_imported"] == 2
    assert SECRET.encode() not in shell.out + shell.err


def test_a_dry_run_makes_no_store(shell: Shell, file: Path, tmp_path: Path) -> None:
    told = shell.json("import", "m.omsg", file, "--dry-run")
    assert (told["memories_imported"], told["stored"]) == (2, False)
    assert not (tmp_path / "m.omsg").exists()


def test_bad_records_are_reported_and_the_others_imported(shell: Shell, tmp_path: Path) -> None:
    two = MAKERS[0]
    memories = [two.memory(1, "tea"), {"id": two.id(2), "content": 7, "created_at": "2026-01-01"}]
    file = written(tmp_path / "x.mif.json", two.document(*memories))
    assert shell("import", "m.omsg", file) == BAD
    assert b"/memories/1" in shell.err
    assert b"1 imported" in shell.out
    assert shell("import", "p.omsg", file, "--dry-run") == BAD
    assert shell("import", "n.omsg", file, "--atomic") == BAD
    assert b"nothing was stored" in shell.out
    broken = tmp_path / "broken.mif.json"
    broken.write_bytes(file.read_bytes()[:-9])
    assert shell("import", "o.omsg", broken, "--format", "mif2") == BAD
    assert not (tmp_path / "o.omsg").exists()


def test_what_a_consent_forbids(shell: Shell, tmp_path: Path) -> None:
    one = MAKERS[1]
    document = one.document(one.memory(1, "tea"), consent={"sharing_allowed": False})
    assert shell("import", "m.omsg", written(tmp_path / "x.mif.json", document)) == 0
    out = tmp_path / "out.mif.json"
    assert shell("export", "m.omsg", out, "--user", "ada") == KEPT_HERE
    assert not out.exists()
    assert shell("export", "m.omsg", out, "--user", "ada", "--purpose", "access") == 0


@pytest.mark.parametrize(
    "command",
    [
        ("export", "m.omsg", "out.mif.json"),
        ("export", "m.omsg", "out.mif.json", "--user", "ada", "--tenant", "x"),
        ("export", "m.omsg", "out.mg", "--redact"),
        ("import", "m.omsg", "x.mif.json", "--allow-dna-updates"),
        ("import", "m.omsg", "x.mif.json", "--merge-strategy", "merge"),
    ],
)
def test_options_that_do_not_go_with_it(
    shell: Shell, file: Path, command: tuple[str, ...]
) -> None:
    assert shell("import", "m.omsg", file) == 0
    assert shell(*command) == USAGE


@makers
def test_an_export_warns_of_personal_data(shell: Shell, tmp_path: Path, maker: Maker) -> None:
    file = tmp_path / "in.mif.json"
    written(file, maker.document(maker.memory(1, "mail joe@example.com"), maker.memory(2, "tea")))
    assert shell("import", "m.omsg", file, "--user", "ada") == 0
    export = ("export", "m.omsg", tmp_path / "out.mif.json", "--user", "ada", "--replace",
              "--format", maker.format)  # fmt: skip
    assert shell(*export) == 0
    assert b"warning: personal_data: " in shell.err
    assert b"1 email" in shell.err and b"joe" not in shell.err
    for option in ("--no-scan", "--redact"):
        assert shell(*export, option) == 0
        assert b"personal_data" not in shell.err
    (warning,) = shell.json(*export)["warnings"]
    assert warning["rule"] == "personal_data"
    assert shell(*export, "--document", "exp_a1b2", "--no-scan") == USAGE
