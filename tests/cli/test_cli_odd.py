# SPDX-License-Identifier: Apache-2.0
"""Odd input of a shell: odd names, files without text, invalid numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import omsgrain as og
from support.shell import USAGE, Shell, belief, exit_code, lamp
from support.tokens import add_token

MAIN = (sys.executable, "-c", "from omsgrain.cli import main; main()")
NAME = os.fsdecode(b"caf\xe9.mg")  # as a disk of another encoding has it


@pytest.fixture
def store(shell: Shell) -> str:
    """A store with a grain, in the current directory."""
    with og.open("m.omsg") as grains:
        grains.put(belief(1))
    return "m.omsg"


def test_a_name_that_is_not_utf_8(shell: Shell, store: str) -> None:
    assert shell("export", store, NAME) == 0
    assert b"caf\\udce9.mg" in shell.out
    assert shell.json("export", store, NAME, "--replace")["paths"] == [NAME]
    assert shell("verify", NAME) == 0
    address = og.address(og.encode(belief(1)))
    assert shell("get", store, address[:12]) == exit_code("ERR_HASH_LENGTH")
    assert b"--full" in shell.err  # where whole ones are shown
    assert shell("import", "other.omsg", NAME) == 0
    assert shell("inspect", store, "-o", f"{NAME}.html") == 0
    assert b"problems: caf\\udce9" in shell.out
    Path(NAME).write_bytes(b"neither")
    assert shell("verify", NAME, "--json") != 0
    assert json.loads(shell.out)["failed"][0]["name"] == NAME
    Path(NAME).write_bytes(b"{}\n")
    assert shell("ingest", store, NAME, "--errors", "collect") != 0
    assert b"rejects: caf\\udce9" in shell.out


def test_a_store_with_a_name_that_is_not_utf_8(shell: Shell, store: str) -> None:
    odd = os.fsdecode(b"caf\xe9.omsg")
    assert shell("export", store, "all.mg") == 0
    assert shell("import", odd, "all.mg") == 0
    assert shell.json("stats", odd)["grains"] == 1
    assert shell("compact", odd) == shell("check", odd) == 0
    assert shell("inspect", odd, "-o", "odd.html") == 0
    assert b"caf\\udce9" in Path("odd.html").read_bytes()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("get", "m.omsg", NAME), exit_code("ERR_HASH_LENGTH")),
        (
            ("hold", "m.omsg", "0" * 64, "--authority", NAME, "--reason", "x"),
            exit_code("ERR_SCHEMA"),
        ),
        (
            ("sync", "m.omsg", "n.omsg", "--create", "--namespace", NAME),
            exit_code("ERR_SCHEMA"),
        ),
    ],
    ids=["get", "hold", "sync"],
)
def test_an_argument_that_is_not_utf_8(
    shell: Shell, store: str, words: tuple[str, ...], code: int
) -> None:
    if words[0] == "hold":
        with og.open(store) as grains:
            words = (*words[:2], grains.put(belief(1)), *words[3:])
    assert shell(*words) == code


def test_a_container_where_one_grain_is_asked_for(shell: Shell, store: str) -> None:
    """Both are called .mg, and "version 77" would not show which this is."""
    assert shell("export", store, "all.mg") == 0
    for words in (("show", "all.mg"), ("show", "all.mg", "--lenient"),
                  ("disclose", "all.mg", "--hide", "subject")):  # fmt: skip
        assert shell.error(*words)[1]["code"] == "ERR_UNSUPPORTED"


@pytest.mark.skipif(os.name == "nt", reason="a name of bytes, and a locale")
def test_an_output_that_has_few_letters(store: str) -> None:
    with og.open(store) as grains:
        grains.put(lamp("größer als …"))
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*MAIN, "query", store], capture_output=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"gr\\xf6\\xdfer" in done.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(("blocks", "letters"), [(0, 9), (8, 20_000)], ids=["at once", "late"])
@pytest.mark.skipif(os.name == "nt", reason="limits of a shell")
def test_an_output_that_fills_the_disk(
    store: str, blocks: int, letters: int, unbuffered: str
) -> None:
    with og.open(store) as grains:
        grains.put(lamp("x" * letters))
    # A block is 512 bytes or 1 KiB, as the shell counts.
    script = f'trap "" XFSZ; ulimit -f {blocks}; exec "$@" > out'
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        ["sh", "-c", script, "sh", *MAIN, "query", store, "--json"],
        capture_output=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert json.loads(done.stderr)["error"]["code"] == "EFBIG"


@pytest.mark.parametrize("words", [(), ("keys",)], ids=["nothing", "keys"])
def test_without_a_command_all_commands_are_listed(shell: Shell, words: tuple[str, ...]) -> None:
    assert shell(*words, "--help") == 0
    whole = shell.out
    shell(*words)
    assert whole.strip() in shell.out + shell.err


@pytest.mark.parametrize(
    "words",
    [
        ("sync", "m.omsg", "http://127.0.0.1:9", "--token-file", "secret"),
        ("verify", "x.mif.json", "--passphrase-file", "secret"),
        ("import", "m.omsg", "x.mif.json", "--user", "a", "--passphrase-file", "secret"),
        ("export", "m.omsg", "y.mif.json", "--user", "a", "--passphrase-file", "secret"),
        ("convert", "x.mif.json", "y.mif.yaml", "--passphrase-file", "secret"),
        ("bridge", "m.omsg", "--mqtt", "mqtt://127.0.0.1:9", "--topic", "a", "--dead-letter", "b",
         "--user", "u", "--password-file", "secret"),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
@pytest.mark.parametrize("secret", [b"", b"\nrest", b"\xff\xfe\n", b"x" * 70_000])
def test_a_file_without_a_secret(
    shell: Shell, store: str, words: tuple[str, ...], secret: bytes
) -> None:
    Path("secret").write_bytes(secret)
    Path("x.mif.json").write_text('{"mif_version": "2.0", "memories": []}')
    assert shell(*words) == USAGE
    assert b"first line" in shell.err


@pytest.mark.parametrize(
    "words",
    [
        ("bench", "--seconds", "nan"),
        ("conformance", "--aimem-url", "http://127.0.0.1:9", "--token", "t", "--timeout", "nan"),
        ("conformance", "--aimem-url", "http://127.0.0.1:9", "--token", "t", "--timeout", "-1"),
        ("serve", "m.omsg", "--timeout", "nan"),
        ("serve", "m.omsg", "--grace", "nan"),
        ("audit", "m.omsg", "--limit", str(2**63)),
        ("audit", "m.omsg", "--verify", "--limit", "1"),
        ("audit", "m.omsg", "--checkpoint", "--operation", "put"),
        ("sync", "m.omsg", "n.omsg", "--token-file", "secret"),
        ("sync", "m.omsg", "n.omsg", "--ca", "secret"),
    ],
    ids=" ".join,
)
def test_options_that_mean_nothing(shell: Shell, store: str, words: tuple[str, ...]) -> None:
    Path("secret").write_text("omg_secret")
    assert shell(*words) == USAGE


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "m.omsg", "--port", "0", "--tls-cert", "x.pem", "--tls-key", "x.pem"),
        ("conformance", "--aimem-url", "https://127.0.0.1:9", "--token", "t", "--ca", "x.pem"),
        ("bridge", "m.omsg", "--mqtt", "mqtts://127.0.0.1:9", "--topic", "a", "--dead-letter",
         "b", "--ca", "x.pem"),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_certificates_that_are_none(shell: Shell, store: str, words: tuple[str, ...]) -> None:
    Path("x.pem").write_text("not PEM")
    assert shell(*words, "--json") == 1
    *_, said = shell.err.splitlines()  # a bridge has logged before it
    assert json.loads(said)["error"]["code"] == "TLS"


def test_an_erasure_that_is_refused_does_nothing(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimmed: list[object] = []
    monkeypatch.setattr(
        "omsgrain.memory.removal.clear_mentions", lambda *given: trimmed.append(given)
    )
    tenant = "6f1c3d7a-58b2-4c0e-9d41-0a7e52b8c936"
    with og.open("m.omsg") as grains:
        grains.put(belief(1, user_id=tenant))
    add_token(tmp_path / "m.omsg", "laptop", tenant, ["export"])
    erase = ("erase", "m.omsg", "--tenant", tenant, "--forget-tokens", "--reason")
    for more in (("two words",), ("x", "--new-master", "nowhere.key")):
        assert shell(*erase, *more) == exit_code("ERR_SCHEMA")
    named = ("erase", "m.omsg", tenant, "--mentions", "erase", "--reason")
    assert shell(*named, "two words") == exit_code("ERR_SCHEMA")
    assert trimmed == []
    assert [one["name"] for one in shell.json("token", "list", "m.omsg")] == ["laptop"]
    assert shell.json(*erase, "gdpr17")["tokens"] == 0
    assert shell(*named, "gdpr17", "--allow-none") == 0 and len(trimmed) == 1


def test_a_reason_is_a_word_wherever_it_stays(shell: Shell) -> None:
    with og.open("m.omsg") as grains:
        address = grains.put(belief(1))
    by = ("--authority", "court 7")
    for words in (("hold", *by), ("release", *by), ("restrict",), ("unrestrict",)):
        name, *rest = words
        code, error = shell.error(name, "m.omsg", address, *rest, "--reason", "Ada has asked")
        assert (code, error["code"]) == (exit_code("ERR_SCHEMA"), "ERR_SCHEMA"), name


@pytest.mark.skipif(os.name == "nt", reason="modes of files")
def test_a_report_is_private_from_its_first_byte(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with og.open("m.omsg") as grains:
        grains.put(belief(1, user_id="ada"))
    seen: list[int] = []
    replace = os.replace

    def watched(source: str, target: str) -> None:
        seen.append(Path(source).stat().st_mode & 0o777)
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    assert shell("report", "m.omsg", "ada", "-o", "ada.mg") == 0
    assert seen == [0o600] == [Path("ada.mg").stat().st_mode & 0o777]


@pytest.mark.parametrize(
    "words",
    [
        ("export", "m.omsg", "-"),
        ("export", "m.omsg", "-", "--parquet"),
        ("convert", "all.mg", "-", "--format", "mif2"),
        ("inspect", "m.omsg", "-o", "-"),
        ("backup", "m.omsg", "-"),
        ("backup", "m.omsg", "--to", "-"),
        ("init", "-"),
        ("ingest", "-", "all.jsonl"),
        ("ingest", "m.omsg", "all.jsonl", "--rejects", "-"),
        ("keygen", "-"),
        ("keys", "master", "-"),
        ("sync", "m.omsg", "-"),
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_a_dash_where_a_file_is_made(shell: Shell, store: str, words: tuple[str, ...]) -> None:
    """Some take it for stdout; a file of this name is hard to remove.

    An empty name is that of a variable without a value, and no name of the directory.
    """
    assert shell("export", store, "all.mg") == 0
    assert shell("query", store, "--json") == 0
    Path("all.jsonl").write_text("")
    before = sorted(Path().iterdir())
    assert shell(*words) == USAGE
    assert b"./-" in shell.err
    unnamed = shell(*("" if word == "-" else word for word in words))
    assert unnamed in (USAGE, exit_code("ERR_STORE"))
    assert sorted(Path().iterdir()) == before


@pytest.mark.skipif(os.name == "nt", reason="a pipe with a name")
@pytest.mark.parametrize(
    "words",
    [
        ("export", "m.omsg", "pipe.mg", "--replace"),
        ("export", "m.omsg", "pipe.mg", "--parquet", "--replace"),
        ("convert", "all.mg", "pipe.mg", "--format", "mif2", "--replace"),
        ("inspect", "m.omsg", "-o", "pipe.mg", "--replace"),
        ("export", "m.omsg", "link", "--replace"),
        ("sync", "m.omsg", "pipe.mg"),
    ],
    ids=lambda words: " ".join(words[::2]),
)
def test_a_path_that_is_no_file_is_never_replaced(
    shell: Shell, store: str, words: tuple[str, ...]
) -> None:
    """As root it was the end of /dev/null, and with it of the shells of the machine."""
    assert shell("export", store, "all.mg") == 0
    os.mkfifo("pipe.mg")
    Path("link").symlink_to("pipe.mg")
    code, error = shell.error(*words)
    assert (code, error["code"]) == (exit_code("ERR_STORE"), "ERR_STORE")
    assert Path("pipe.mg").is_fifo() and Path("link").is_symlink()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what /dev/stdout is on Linux")
def test_a_path_of_an_open_file_is_never_replaced(shell: Shell, store: str) -> None:
    with Path("out").open("wb") as out:
        Path("stdout").symlink_to(f"/proc/self/fd/{out.fileno()}")
        assert shell.error("export", store, "stdout", "--replace")[1]["code"] == "ERR_STORE"
    assert Path("stdout").is_symlink()


@pytest.mark.skipif(os.name == "nt", reason="a pipe with a name")
@pytest.mark.parametrize(
    "words",
    [
        ("verify", "pipe"),
        ("ontology", "check", "pipe"),
        ("import", "m.omsg", "pipe"),
        ("import", "m.omsg", "pipe", "--format", "mg"),
    ],
    ids=" ".join,
)
def test_a_pipe_that_would_be_read_twice(shell: Shell, store: str, words: tuple[str, ...]) -> None:
    """Nobody writes to it a second time, so that it was waited for without end."""
    assert shell("export", store, "all.mg") == 0
    reading, writing = os.pipe()
    try:
        os.write(writing, Path("all.mg").read_bytes())
        os.close(writing)
        pipe = f"/dev/fd/{reading}"  # as a shell spells <(...); it ends where a named one waits
        asked = (pipe if word == "pipe" else word for word in words)
        assert shell.error(*asked)[1]["code"] == "ERR_UNSUPPORTED"
    finally:
        os.close(reading)


@pytest.mark.parametrize(
    "words",
    [
        ("keys", "status", "loop"),
        ("keys", "create", "loop"),
        ("keys", "backup", "people.keys", "loop"),
        ("stats", "m.omsg", "--keys", "loop"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_key_file_that_is_a_link_to_itself(
    shell: Shell, store: str, words: tuple[str, ...]
) -> None:
    assert shell("keys", "master", "master.key") == 0
    assert shell("keys", "create", "people.keys", "--master", "master.key") == 0
    Path("loop").symlink_to("loop")
    code, error = shell.error(*words, "--master", "master.key")
    assert code != 0 and error["code"]
    assert Path("loop").is_symlink()


def test_a_dash_where_stdout_is_written_without_a_file(shell: Shell, store: str) -> None:
    address = og.address(og.encode(belief(1)))
    for words in (
        ("get", store, address, "--blob"),
        ("report", store, "ada"),
        ("conformance", "--rule", "oms.2.1", "--format", "json"),
    ):
        code, said = shell(*words), shell.out
        option = "--output" if words[0] == "conformance" else "-o"
        assert (shell(*words, option, "-"), len(shell.out)) == (code, len(said))
    assert not Path("-").exists()


@pytest.mark.parametrize("value", ['{"$float": []}', '{"$bytes": 5}', '[{"$float": null}]'])
def test_nan_and_odd_numbers_are_not_json(shell: Shell, store: str, value: str) -> None:
    assert shell("query", store, "--object-json", value) == USAGE
    old = og.address(og.encode(belief(1)))
    fields = json.dumps(belief(2) | {"object": json.loads(value)}).encode()
    assert shell.error("supersede", store, old, "-", stdin=fields)[1]["code"] == "ERR_FORMAT"


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(
    "words",
    [
        ("import", "m.omsg", "postgresql://robot:hunter2@hub/d?tenant=a"),
        ("export", "m.omsg", "postgresql://robot:hunter2@hub/d"),
        ("query", "m.omsg", "--limit", "postgresql://robot:hunter2@hub/d"),
        ("postgresql://robot:hunter2@hub/d", "m.omsg"),
        ("import", "m.omsg", "postgresql://me@corp:hunter2@hub/d"),
        ("import", "m.omsg", "postgresql://hall/me:hunter2@hub/d"),
        ("import", "m.omsg", "postgresql://hub/d?user=me&password=hunter2&tenant=a"),
        ("query", "m.omsg", "--limit", "9" * 20_000),
        ("export", "m.omsg", "x" * 20_000),
        ("ingest", "x" * 20_000),
        ("query", "m.omsg", "--" + "x" * 20_000),
    ],
    ids=["url to read", "url to write", "url as a number", "url first", "at", "slash",
         "parameter", "number", "name", "store", "option"],
)  # fmt: skip
def test_errors_shorten_input_and_hide_passwords(
    shell: Shell, store: str, words: tuple[str, ...], form: tuple[str, ...]
) -> None:
    assert shell(*words, *form) != 0
    assert b"hunter2" not in shell.err
    assert len(shell.err) < 2_000
    assert not form or json.loads(shell.err)["error"]["message"]


@pytest.mark.parametrize(
    "words",
    [("export", "m.omsg", ""), ("inspect", "m.omsg", "-o", ""), ("backup", "m.omsg", "")],
    ids=["export", "inspect", "backup"],
)
def test_what_is_written_has_a_name(shell: Shell, store: str, words: tuple[str, ...]) -> None:
    assert shell(*words) == USAGE
