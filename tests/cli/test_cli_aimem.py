# SPDX-License-Identifier: Apache-2.0
"""Bundles and stores on the command line: taken in, written, erased."""

from __future__ import annotations

import json
from pathlib import Path
from stat import S_IMODE

import pytest

import omsgrain as og
from omsgrain import container
from support.aimem_files import EXAMPLE, chunk, made, records
from support.aimem_strategies import TENANT
from support.shell import USAGE, Shell, belief, count, exit_code
from support.signers import ALICE

SECRET = "the door code is 4711"
REFUSED = exit_code("ERR_FORMAT")
UNSIGNED = exit_code("ERR_SIGNATURE")
DENIED = exit_code("ERR_INVALIDATION_DENIED")


# -- import ---------------------------------------------------------------------------------------


def audited(shell: Shell) -> list[str | None]:
    """The signatures of all imports, by the audit trail."""
    entries = shell.json("audit", "m.omsg", "--operation", "import")
    return [entry["details"].get("signature") for entry in entries]


@pytest.mark.parametrize("name", ["x.aimem.json", "x.aimem.ndjson"])
def test_import(shell: Shell, tmp_path: Path, name: str) -> None:
    assert shell("convert", EXAMPLE, name, "--embeddings") == 0
    said = shell.json("import", "m.omsg", name)
    assert (said["chunks_inserted"], said["edges_inserted"], said["conflicts"]) == (8, 3, [])
    before = count(tmp_path / "m.omsg")
    said = shell.json("import", "m.omsg", name, "--format", "aimem")
    assert (said["chunks_inserted"], said["chunks_skipped_idempotent"]) == (0, 8)
    assert count(tmp_path / "m.omsg") == before == 19
    (found,) = shell.json("query", "m.omsg", "--origin", "urn:aimem:robot-7:chunk-4")["results"]
    assert found["grain"]["relation"] == "mg:avoids"
    assert shell("import", "m.omsg", name) == 0


def test_a_bad_bundle_makes_no_store(shell: Shell, tmp_path: Path, bundle_file: Path) -> None:
    assert shell("convert", bundle_file, "bad.aimem.ndjson") == 0
    Path("bad.aimem.ndjson").write_bytes(Path("bad.aimem.ndjson").read_bytes()[:-200])
    bundle_file.write_bytes(made(chunk(1, SECRET, zone="cellar"), chunk(2, "")))
    for path in (bundle_file, "bad.aimem.ndjson"):
        assert shell("import", "m.omsg", path) == REFUSED
        assert SECRET.encode() not in shell.out + shell.err
    assert shell("import", "m.omsg", bundle_file) == REFUSED
    assert b"empty_content" in shell.err
    code, error = shell.error("import", "m.omsg", bundle_file)
    assert (code, error["rule"], error["field"]) == (REFUSED, "invalid_zone", "/chunks/0/zone")
    assert [one["rule"] for one in error["problems"]] == ["invalid_zone", "empty_content"]
    assert not Path("m.omsg").exists()


def test_a_user_with_another_tenant_id(shell: Shell, tmp_path: Path, bundle_file: Path) -> None:
    assert shell("import", "m.omsg", bundle_file, "--tenant", "ada") == 0
    export = ("export", "m.omsg", "y.aimem.json", "--tenant", "ada")
    assert shell.error(*export)[1]["rule"] == "invalid_tenant"
    assert shell(*export, "--tenant-id", "urn:example:ada") == 0
    whole = json.loads((tmp_path / "y.aimem.json").read_bytes())
    assert (whole["tenant_id"], len(whole["chunks"])) == ("urn:example:ada", 2)
    said = shell.json("import", "m.omsg", "y.aimem.json", "--tenant", "ada")
    assert said["chunks_skipped_idempotent"] == 2


def test_files_that_are_called_bundles_and_are_none(shell: Shell, tmp_path: Path) -> None:
    for text in (b"", made(chunk(1)).decode().encode("utf-16"), b'{"format":"other"}'):
        (tmp_path / "y.aimem.json").write_bytes(text)
        assert shell.error("import", "n.omsg", "y.aimem.json")[1]["code"] == "ERR_UNSUPPORTED"
    assert shell.error("import", "n.omsg", "nowhere.aimem.json")[1]["code"] == "ENOENT"
    assert not (tmp_path / "n.omsg").exists()


def test_a_dry_run(shell: Shell, tmp_path: Path, bundle_file: Path) -> None:
    assert shell.json("import", "m.omsg", bundle_file, "--dry-run")["chunks_inserted"] == 2
    assert not Path("m.omsg").exists()
    assert shell("import", "m.omsg", bundle_file) == 0
    bundle_file.write_bytes(made(chunk(1, "Ada likes coffee"), chunk(3)))
    code, said = shell.refused("import", "m.omsg", bundle_file, "--dry-run")
    assert (code, said["chunks_inserted"], len(said["conflicts"])) == (DENIED, 1, 1)
    assert count(tmp_path / "m.omsg") == 2


def test_conflicts_are_listed(shell: Shell, tmp_path: Path, bundle_file: Path) -> None:
    assert shell("import", "m.omsg", bundle_file) == 0
    bundle_file.write_bytes(made(*(chunk(n, "Otherwise") for n in (1, 2))))
    code, said = shell.refused("import", "m.omsg", bundle_file)
    assert [one["reason"] for one in said["conflicts"]] == ["created_at_conflict"] * 2
    assert shell("import", "m.omsg", bundle_file) == code == DENIED
    assert b"urn:aimem:robots:1: created_at_conflict" in shell.err


def test_dna_updates(shell: Shell, bundle_file: Path) -> None:
    bundle_file.write_bytes(made(chunk(1, memory_type="preference")))
    assert shell("import", "m.omsg", bundle_file) == 0
    newer = chunk(1, "coffee", memory_type="preference", created_at="2026-05-01T00:00:00Z")
    bundle_file.write_bytes(made(newer))
    code, said = shell.refused("import", "m.omsg", bundle_file)
    assert (code, [one["reason"] for one in said["conflicts"]]) == (DENIED, ["dna_conflict"])
    assert (
        shell.json("import", "m.omsg", bundle_file, "--allow-dna-updates")["chunks_updated"] == 1
    )


def test_into_the_memory_of_another(shell: Shell, bundle_file: Path) -> None:
    other = "did:web:example.org:grace"
    assert shell("import", "m.omsg", bundle_file, "--tenant", other) == 0
    found = shell.json("query", "m.omsg", "--user", other)["results"]
    assert len(found) == 2
    assert shell.json("query", "m.omsg", "--user", TENANT)["results"] == []


def test_import_of_signed_bundles(shell: Shell, bundle_file: Path, alice_keys: Path) -> None:
    plain = ("import", "m.omsg", bundle_file)
    assert shell.error(*plain, "--trust", "alice.cose", "--require-signature") == (
        UNSIGNED,
        {"code": "ERR_SIGNATURE", "rule": "signature_missing"}
        | {
            "message": shell.error(*plain, "--trust", "bob.cose", "--require-signature")[1][
                "message"
            ]
        },
    )
    assert not Path("m.omsg").exists()
    assert shell(*plain, "--trust", "alice.cose") == 0
    assert shell("sign", bundle_file, "--key", alice_keys) == 0
    assert shell.error(*plain, "--trust", "bob.cose")[1]["rule"] == "signature_untrusted"
    assert shell(*plain, "--trust", "bob.cose", "--trust", "alice.cose") == 0
    assert shell(*plain) == 0
    assert audited(shell) == ["missing", "verified", "skipped"]
    bundle_file.write_bytes(made(chunk(5)))
    assert shell.error(*plain, "--trust", "alice.cose")[1]["rule"] == "signature_invalid"
    assert shell(*plain, "--require-signature") == USAGE


def test_options_of_the_other_format(shell: Shell, tmp_path: Path, bundle_file: Path) -> None:
    container.write(tmp_path / "x.mg", [og.encode(belief(1))])
    for option in (["--tenant", "a"], ["--dry-run"], ["--require-signature"]):
        assert shell("import", "m.omsg", "x.mg", *option) == USAGE
    assert shell("import", "m.omsg", bundle_file, "--errors", "collect") == USAGE
    assert shell("import", "m.omsg", "x.mg") == 0
    for option in (["--codec", "zstd"], ["--sort"], ["--type", "belief"], ["--current"]):
        assert shell("export", "m.omsg", "y.aimem.json", "--tenant", TENANT, *option) == USAGE
    for option in (["--tenant", "a"], ["--stream"], ["--scope", "FULL"], ["--sign", "k"]):
        assert shell("export", "m.omsg", "y.mg", *option) == USAGE
    assert shell("export", "m.omsg", "y.aimem.json") == USAGE
    assert shell("export", "m.omsg", "y.aimem.json", "--tenant", "a", "--key-url", "u") == USAGE
    assert shell("export", "m.omsg", "y.aimem.json", "--tenant", "a", "--model", "m") == USAGE
    assert not Path("y.aimem.json").exists()


# -- export ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["y.aimem.json", "y.aimem.ndjson"])
def test_export(shell: Shell, tmp_path: Path, name: str) -> None:
    """An exported bundle changes nothing when it is imported again."""
    tenant = json.loads(EXAMPLE.read_bytes())["tenant_id"]
    assert shell("import", "m.omsg", EXAMPLE) == 0
    said = shell.json("export", "m.omsg", name, "--tenant", tenant, "--embeddings")
    assert [one["path"] for one in said["files"]] == [name]
    assert said["losses"] == []
    assert shell("convert", name, "z.aimem.json", "--embeddings") == 0
    assert records(Path("z.aimem.json")) == records(EXAMPLE)
    assert shell.json("import", "m.omsg", name)["chunks_skipped_idempotent"] == 8
    bare = shell.json("export", "m.omsg", "bare.aimem.json", "--tenant", tenant)
    assert bare["records"]["chunk"] == 8
    assert b"embedding" not in Path("bare.aimem.json").read_bytes()


def test_export_by_scope(shell: Shell, tmp_path: Path) -> None:
    tenant = json.loads(EXAMPLE.read_bytes())["tenant_id"]
    assert shell("import", "m.omsg", EXAMPLE) == 0
    export = ("export", "m.omsg", "--tenant", tenant)
    assert shell.json(*export, "d.aimem.json", "--scope", "DNA_ONLY")["records"]["chunk"] == 6
    since = ("--since", "2026-04-03T07:00:00Z")
    assert shell.json(*export, "s.aimem.json", *since)["records"]["chunk"] == 3
    assert shell.json("verify", "d.aimem.json", "s.aimem.json")["verified"] == 2
    assert shell.json(*export, "y.aimem.json", "--since", "1000w")["records"]["chunk"] > 3
    assert shell.json(*export, "h.aimem.json", "--since", "@1775199600")["records"]["chunk"] == 3
    assert json.loads(Path("h.aimem.json").read_bytes())["since"] == "2026-04-03T07:00:00Z"
    assert shell.error(*export, "t.aimem.json", "--scope", "SINCE")[1]["rule"] == "since_missing"
    assert shell.error(*export, "t.aimem.json", "--since", "now")[0] != 0
    assert not Path("t.aimem.json").exists()


@pytest.mark.parametrize("ending", ["json", "ndjson"])
def test_export_of_several_producers(
    shell: Shell, tmp_path: Path, bundle_file: Path, ending: str
) -> None:
    bundle_file.write_bytes(made(chunk(1), chunk(2, "24 beds", id="urn:aimem:others:2")))
    assert shell("import", "m.omsg", bundle_file) == 0
    export = ("export", "m.omsg", f"y.aimem.{ending}", "--tenant", TENANT)
    (tmp_path / f"y-robots.aimem.{ending}").write_bytes(b"mine")
    before = {path.name for path in tmp_path.iterdir()}
    assert shell.error(*export)[1]["code"] == "EEXIST"
    assert {path.name for path in tmp_path.iterdir()} == before
    (tmp_path / f"y-robots.aimem.{ending}").chmod(0o600)
    files = shell.json(*export, "--replace")["files"]
    assert S_IMODE((tmp_path / f"y-robots.aimem.{ending}").stat().st_mode) == 0o600
    named = [(one["path"], one["producer"]) for one in files]
    assert named == [(f"y-{p}.aimem.{ending}", p) for p in ("others", "robots")]
    for name, _ in named:
        assert shell.json("verify", name)["documents"][0]["records"]["chunks"] == 1


@pytest.mark.parametrize("name", ["y.aimem.json", "y.aimem.ndjson"])
def test_export_signed(
    shell: Shell, tmp_path: Path, bundle_file: Path, alice_keys: Path, name: str
) -> None:
    assert shell("import", "m.omsg", bundle_file) == 0
    export = ("export", "m.omsg", name, "--tenant", TENANT)
    url = "https://memory.example.org/.well-known/aimem-pubkey"
    for more in ((), ("--key-url", url)):
        (one,) = shell.json(*export, "--sign", alice_keys, "--replace", *more)["files"]
        assert one["signed"] == ALICE.did
        assert shell("import", "n.omsg", name, "--trust", alice_keys, "--require-signature") == 0
    assert shell(*export, "--replace") == 0
    assert not Path(f"{name}.sig").exists()


def test_export_of_native_grains(shell: Shell, tmp_path: Path) -> None:
    with og.open(tmp_path / "m.omsg") as store:
        store.put(belief(1, user_id=TENANT))
    export = ("export", "m.omsg", "--tenant", TENANT)
    assert shell.json(*export, "y.aimem.json")["losses"] == []
    assert shell.json("import", "n.omsg", "y.aimem.json")["chunks_inserted"] == 1
    assert shell.json("query", "n.omsg") == shell.json("query", "m.omsg")
    assert shell.json(*export, "z.aimem.json", "--strict")["lost"] > 0
    assert shell(*export, "z.aimem.json", "--strict", "--replace") == 0
    assert b"lost: " in shell.err


def test_export_of_a_tenant_without_records(shell: Shell, bundle_file: Path) -> None:
    assert shell("import", "m.omsg", bundle_file) == 0
    nobody = ("export", "m.omsg", "y.aimem.json", "--tenant")
    assert shell.json(*nobody, "did:web:example.org:nobody")["records"].get("chunk", 0) == 0
    assert shell.error(*nobody, "no tenant", "--replace")[1]["rule"] == "invalid_tenant"


# -- erase ----------------------------------------------------------------------------------------


def test_erase_a_tenant(shell: Shell, tmp_path: Path, bundle_file: Path) -> None:
    other = "did:web:example.org:grace"
    assert shell("import", "m.omsg", bundle_file) == 0
    assert shell("import", "m.omsg", bundle_file, "--tenant", other) == 0
    erase = ("erase", "m.omsg", "--tenant", TENANT, "--reason", "gdpr17")
    assert shell.json(*erase, "--dry-run")["own"] == 2
    assert shell.json(*erase)["erased"] == 2
    assert TENANT.encode() not in shell.out + shell.err
    assert shell.json("query", "m.omsg", "--user", TENANT)["results"] == []
    assert len(shell.json("query", "m.omsg", "--user", other)["results"]) == 2
    code, said = shell.refused("import", "m.omsg", bundle_file)
    assert code == exit_code("ERR_ERASED")
    assert [one["reason"] for one in said["conflicts"]] == ["erased", "erased"]
    assert shell.json("import", "m.omsg", bundle_file, "--allow-erased")["chunks_inserted"] == 2
    token = ("token", "add", "m.omsg", "--tenant", TENANT, "--scope", "export")
    assert shell(*token, "phone") == shell(*token, "laptop") == 0
    assert shell("token", "revoke", "m.omsg", "phone") == 0
    assert shell.json(*erase)["tokens"] == 1
    assert len(shell.json("token", "list", "m.omsg")) == 2
    assert shell.json(*erase, "--forget-tokens")["tokens"] == 0
    assert shell.json("token", "list", "m.omsg") == []
    assert TENANT.encode() not in (tmp_path / "m.omsg" / "data.mdb").read_bytes()
    for more in (["Ada"], ["--mentions", "erase"], ["--ciphertext"]):
        assert shell(*erase, *more) == USAGE


def test_an_export_prints_what_it_adds(shell: Shell, tmp_path: Path) -> None:
    memory = {"id": "a1b2c3d4-e5f6-4890-abcd-ef1234567891", "content": "x", "created_at": "then"}
    store, file, out = (tmp_path / name for name in ("m.omsg", "a.mif.json", "a.aimem.json"))
    file.write_text(json.dumps({"mif_version": "2.0", "memories": [memory]}))
    assert shell("import", store, file, "--user", TENANT) == 0
    assert shell("export", store, out, "--tenant", TENANT) == 0
    told = {line.rpartition(b":")[0] for line in shell.err.splitlines()}
    assert told == {b"added: memory_type", b"added: created_at"}
    added = shell.json("export", store, out, "--tenant", TENANT, "--replace")["added"]
    assert {one["field"] for one in added} == {"memory_type", "created_at"}
