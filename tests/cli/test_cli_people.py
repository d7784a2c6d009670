# SPDX-License-Identifier: Apache-2.0
"""The rights of people on the command line: reports, erasures, consents, restrictions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.crypto import verify_detached
from omsgrain.crypto.keyring import KeyRing
from omsgrain.memory.removal import erase_tenant
from omsgrain.store.privacy.certificate import Certificate
from support.shell import TIME, USAGE, Shell, exit_code, lamp
from support.signers import ALICE, BOB

MIRA, JONAS = "mira.quill@example.org", "jonas.tarn@example.org"
KEYS = ("--keys", "people.keys", "--master", "master.key")
NOTHING = exit_code("ERR_NOT_FOUND")
HOLD = ("--authority", "court", "--reason", "litigation")


@pytest.fixture
def people(shell: Shell, tmp_path: Path) -> dict[str, str]:
    """A store with sealed grains of two people, and others that name one: addresses by name."""
    (tmp_path / "master.key").touch(0o600)
    (tmp_path / "master.key").write_bytes(bytes(range(32)))
    ring = KeyRing.create(tmp_path / "people.keys", master=tmp_path / "master.key")
    with ring, og.open(tmp_path / "m.omsg", keys=ring) as store:
        return {
            "sealed": store.put(lamp("brass and old", user_id=MIRA)),
            "other": store.put(lamp("glass", 1, user_id=JONAS)),
            "clear": store.put(lamp("lit", 2, author_did=ALICE.did)),
            "named": store.put(lamp("a friend", 3, subject=MIRA)),
        }


def nobody_is_named(shell: Shell) -> None:
    for name in (MIRA, ALICE.did):
        assert name.encode() not in shell.out + shell.err


def test_dry_run_changes_nothing(shell: Shell, tmp_path: Path, people: dict[str, str]) -> None:
    erase = ("erase", "m.omsg", MIRA, ALICE.did, "--reason", "gdpr17", "--dry-run")
    with og.open(tmp_path / "m.omsg") as store:
        store.holds.add(people["clear"], authority="court", reason_code="litigation")
        entries = len(list(store.audit.entries()))
    assert shell.json(*erase, *KEYS) == {
        "keys": 1, "own": 2, "sealed": 1, "named": 1, "kept": {"hold": 1}, "unopened": 0,
    }  # fmt: skip
    nobody_is_named(shell)
    assert shell.json(*erase)["unopened"] == 2
    assert shell(*erase) == 0
    nobody_is_named(shell)
    with og.open(tmp_path / "m.omsg", readonly=True) as store:
        assert len(store) == 4
        assert len(list(store.audit.entries())) == entries
    assert shell.json("get", "m.omsg", people["sealed"], *KEYS)["grain"]["user_id"] == MIRA


def test_erase(shell: Shell, tmp_path: Path, people: dict[str, str]) -> None:
    (tmp_path / "names.txt").write_bytes(f"\ufeff{MIRA}\r\n\n  {ALICE.did}\n".encode())
    erase = ("erase", "m.omsg", "--identity-file", "names.txt", "--reason", "gdpr17", *KEYS)
    told = shell.json(*erase, "--actor", "clerk")
    assert (told["complete"], told["keys"], told["sealed"], told["erased"]) == (True, 1, 1, 1)
    assert told["named"] == [[people["named"], ["subject"]]]
    nobody_is_named(shell)
    assert shell.error("get", "m.omsg", people["sealed"], *KEYS)[1]["code"] == "ERR_ERASED"
    assert shell.error("get", "m.omsg", people["clear"], *KEYS)[1]["code"] == "ERR_NOT_FOUND"
    assert shell.json("get", "m.omsg", people["other"], *KEYS)["grain"]["object"] == "glass"
    assert shell.json("keys", "status", "people.keys", *KEYS[2:])["erased"] == 1
    again = shell.json(*erase, "--mentions", "erase", "--ciphertext")
    assert (again["keys"], again["erased"]) == (0, 2)
    assert shell(*erase) == NOTHING
    nobody_is_named(shell)
    assert shell(*erase, "--allow-none") == 0
    entries = shell.json("audit", "m.omsg", "--operation", "erase")
    assert {entry["reason_code"] for entry in entries} == {"gdpr17"}
    assert entries[0]["actor"] == "clerk"
    nobody_is_named(shell)


def test_names_that_match_nothing_are_no_success(
    shell: Shell, tmp_path: Path, people: dict[str, str]
) -> None:
    """A misspelt name would leave the person where they are, and pass for an erasure."""
    nobody = "mira.qill@example.org"
    for given in (
        ("erase", "m.omsg", nobody, "--reason", "gdpr17", *KEYS),
        ("erase", "m.omsg", nobody, "--reason", "gdpr17", "--dry-run", *KEYS),
        ("erase", "m.omsg", "--tenant", nobody, "--reason", "gdpr17", *KEYS),
        ("report", "m.omsg", nobody, "-o", "x.json", *KEYS),
    ):
        code, error = shell.error(*given)
        assert (code, error["code"]) == (NOTHING, "ERR_NOT_FOUND"), given
        assert nobody.encode() not in shell.err
        (tmp_path / "x.json").unlink(missing_ok=True)
        assert shell(*given, "--allow-none") == 0, given
    assert shell("report", "m.omsg", MIRA, *KEYS) == 0
    with og.open(tmp_path / "m.omsg") as store:
        assert len(store) == 4


def test_without_keys_earlier_copies_still_hold_what_was_erased(
    shell: Shell, tmp_path: Path, people: dict[str, str]
) -> None:
    with og.open(tmp_path / "plain.omsg") as store:
        store.put(lamp("lit", author_did=ALICE.did))
    erase = ("erase", "plain.omsg", ALICE.did, "--reason", "gdpr17")
    assert shell("backup", "plain.omsg", "before.omsg") == 0
    assert shell(*erase) == 0
    assert b"earlier copies" in shell.err
    told = shell.json("erase", "before.omsg", *erase[2:])
    assert told["in_earlier_copies"] is True
    told = shell.json("erase", "m.omsg", MIRA, "--reason", "gdpr17", *KEYS)
    assert told["in_earlier_copies"] is False


def test_the_certificate_of_an_erasure(
    shell: Shell, tmp_path: Path, people: dict[str, str]
) -> None:
    ALICE.save(tmp_path / "clerk.pem")
    with og.open(tmp_path / "m.omsg") as store:
        store.holds.add(people["clear"], authority="court", reason_code="litigation")
    names = (MIRA, ALICE.did)
    erase = ("erase", "m.omsg", *names, "--reason", "gdpr17", *KEYS)
    signed = ("--certificate", "done.json", "--key", "clerk.pem")
    assert shell(*erase, *signed[:2]) == shell(*erase, *signed[2:]) == USAGE
    assert shell(*erase, *signed, "--dry-run") == USAGE
    assert shell(*erase, *signed) == exit_code("ERR_INVALIDATION_DENIED")
    text = (tmp_path / "done.json").read_text()
    told = json.loads(text)
    assert MIRA not in text
    assert not any(address in text for address in people.values())
    counts = ("keys_destroyed", "grains_unreadable", "grains_removed", "grains_named")
    assert tuple(told[name] for name in counts) == (1, 1, 0, 1)
    assert (told["reason_code"], told["of"], told["kept"]) == ("gdpr17", "person", {"hold": 1})
    assert (told["complete"], told["incomplete"]) == (False, ["kept"])
    assert shell("verify", "done.json") == 0
    (one,) = shell.json("verify", "done.json", "--trust", ALICE.did)["signed"]
    assert one["signer"] == ALICE.did
    assert shell("verify", "done.json", "--trust", BOB.did) == exit_code("ERR_SIGNATURE")
    # The audit trail was there when it was made, and is what it was.
    (tmp_path / "end.json").write_text(json.dumps(told["checkpoint"]))
    assert shell("audit", "m.omsg", "--verify", "--against", "end.json") == 0
    for name, value in [
        ("grains_removed", 7), ("reason_code", "other"), ("time", 1), ("complete", True),
        ("kept", {}), ("checkpoint", told["checkpoint"] | {"number": 1}),
    ]:  # fmt: skip
        (tmp_path / "false.json").write_text(json.dumps(told | {name: value}))
        assert shell("verify", "false.json") == exit_code("ERR_SIGNATURE"), name
    unsigned = {name: value for name, value in told.items() if name != "signature"}
    (tmp_path / "false.json").write_text(json.dumps(unsigned))
    assert shell("verify", "false.json") == exit_code("ERR_SIGNATURE")
    for broken in (
        told | {"more": 1}, told | {"kept": [1]}, told | {"grains_removed": -1},
        told | {"of": "cat"}, told | {"signature": 7}, told | {"complete": 1},
        told | {"checkpoint": {}}, {"kind": told["kind"]}, told | {"incomplete": 7},
        told | {"kind": told["kind"] + "0"},
    ):  # fmt: skip
        (tmp_path / "false.json").write_text(json.dumps(broken))
        assert shell("verify", "false.json") == exit_code("ERR_FORMAT"), broken
    (tmp_path / "false.json").write_text(text.replace('"time"', '"time": 1, "time"', 1))
    assert shell("verify", "false.json") == exit_code("ERR_FORMAT")
    (tmp_path / "again.json").write_text(json.dumps(told))  # another spelling says the same
    assert shell("verify", "again.json") == 0


def test_the_certificate_of_a_tenant_in_python(tmp_path: Path) -> None:
    with og.open(tmp_path / "m.omsg") as store:
        store.put(lamp("lit", user_id="ada"))
        report = erase_tenant(store, "ada", reason_code="contract_ended")
        made = store.privacy.certify(report, BOB, reason_code="contract_ended", of="tenant", iat=5)
    again = Certificate.from_json(made.to_json().encode())
    assert again == made
    assert (again.of, again.grains_removed, again.complete) == ("tenant", 1, True)
    assert again.signature is not None
    proof = verify_detached(again.signature, again.signed_bytes())
    assert (proof.signer, proof.iat) == (BOB.did, 5)


def test_erased_grains_return_only_with_allow_erased(
    shell: Shell, tmp_path: Path, people: dict[str, str]
) -> None:
    assert shell("export", "m.omsg", "before.mg") == 0
    assert shell("erase", "m.omsg", ALICE.did, "--reason", "gdpr17", *KEYS) == 0
    text = json.dumps(lamp("lit", 2, author_did=ALICE.did)).encode()
    for command in (("ingest", "m.omsg"), ("import", "m.omsg", "before.mg")):
        code, error = shell.error(*command, stdin=text)
        assert (code, error["code"]) == (exit_code("ERR_ERASED"), "ERR_ERASED")
    assert shell.json("import", "m.omsg", "before.mg", "--allow-erased")["stored"] == 1
    assert shell("erase", "m.omsg", ALICE.did, "--reason", "gdpr17", *KEYS) == 0
    assert shell.json("ingest", "m.omsg", "--allow-erased", stdin=text)["stored"] == 1


def test_erase_that_is_not_done_yet(shell: Shell, people: dict[str, str]) -> None:
    assert shell("hold", "m.omsg", people["clear"], *HOLD) == 0
    erase = ("erase", "m.omsg", "--identity-file", "-", "--reason", "gdpr17", *KEYS)
    assert shell(*erase, "--json", stdin=ALICE.did.encode()) == exit_code(
        "ERR_INVALIDATION_DENIED"
    )
    told = json.loads(shell.out)
    assert told["kept"] == [[people["clear"], "hold"]]
    assert told["incomplete"] == ["kept"]
    assert shell("release", "m.omsg", people["clear"], *HOLD) == 0
    queued = shell.json("due", "m.omsg")
    assert [entry["kind"] for entry in queued] == ["release"]
    assert shell("due", "m.omsg", "--run", *KEYS) == 0
    assert shell.error("get", "m.omsg", people["clear"])[1]["code"] == "ERR_NOT_FOUND"
    queue = ("erase", "m.omsg", MIRA, "--reason", "x", "--scrub", "queued", "--within", 0, *KEYS)
    told = shell.json(*queue)
    assert told["incomplete"] == ["scrub"]
    assert told["scrub_due"] is not None
    assert shell("due", "m.omsg") == 0
    assert b"scrub" in shell.out
    assert shell.json("due", "m.omsg", "--run", "--everything", *KEYS)["complete"]
    assert shell.json("due", "m.omsg") == []
    assert shell("due", "m.omsg", "--everything") == USAGE


def test_erase_and_rekey(shell: Shell, tmp_path: Path, people: dict[str, str]) -> None:
    assert shell("keys", "master", "new.key") == 0
    erase = ("erase", "m.omsg", MIRA, "--reason", "gdpr17", "--new-master", "new.key")
    assert shell.error(*erase)[0] == exit_code("ERR_SCHEMA")  # without keys
    assert shell.json(*erase, *KEYS)["rekeyed"]
    get = ("get", "m.omsg", people["other"], "--keys", "people.keys", "--master")
    assert shell.error(*get, "master.key")[1]["code"] == "ERR_KEY"
    assert shell.json(*get, "new.key")["grain"]["object"] == "glass"


def test_erase_with_wrong_arguments(shell: Shell, tmp_path: Path, people: dict[str, str]) -> None:
    erase = ("erase", "m.omsg", *KEYS)
    assert shell(*erase, MIRA) == USAGE  # no reason
    assert shell(*erase, "--reason", "gdpr17") == USAGE  # nobody
    assert shell(*erase, MIRA, "--reason", "x", "--scrub", "later") == USAGE
    assert shell.error(*erase, MIRA, "--reason", "two words")[0] == exit_code("ERR_SCHEMA")
    (tmp_path / "names").write_bytes(b"\xff\xfe\n")
    code, error = shell.error(*erase, "--identity-file", "names", "--reason", "x")
    assert (code, error["code"]) == (exit_code("ERR_FORMAT"), "ERR_FORMAT")
    with og.open(tmp_path / "m.omsg", readonly=True) as store:
        assert len(store) == 4


def test_report(shell: Shell, tmp_path: Path, people: dict[str, str]) -> None:
    assert shell("report", "m.omsg", MIRA, *KEYS) == 0
    told = json.loads(shell.out)
    assert (told["own"], told["named"], told["complete"]) == (1, 1, True)
    assert {one["address"] for one in told["grains"]} == {people["sealed"], people["named"]}
    for name in ("mira.json", "mira.mg"):
        counts = shell.json("report", "m.omsg", "-o", name, MIRA, *KEYS)
        assert counts == {
            "path": name, "own": 1, "named": 1, "complete": True, "incomplete": [],
        }  # fmt: skip
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
        error = shell.error("report", "m.omsg", "-o", name, MIRA, *KEYS)[1]
        assert error["code"] == "EEXIST"
    assert json.loads((tmp_path / "mira.json").read_bytes())["grains"] == told["grains"]
    assert shell.json("verify", "mira.mg")["verified"] == 2
    assert shell("report", "m.omsg", "-o", "x.json", MIRA, *KEYS) == 0
    nobody_is_named(shell)


def test_a_report_that_lacks_something(shell: Shell, people: dict[str, str]) -> None:
    assert shell("report", "m.omsg", MIRA) == exit_code("ERR_KEY")
    told = json.loads(shell.out)
    assert (told["own"], told["complete"]) == (0, False)
    assert shell.err
    assert shell("report", "m.omsg", "nobody@example.org", *KEYS) == NOTHING
    told = json.loads(shell.out)
    assert (told["grains"], told["complete"]) == ([], True)
    assert shell("report", "m.omsg") == USAGE


def test_a_report_that_cannot_be_leaves_no_file(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, error = shell.error("report", "empty", MIRA, "-o", "x.json")
    assert (code, error["code"]) == (exit_code("ERR_STORE"), "ERR_STORE")
    assert not (tmp_path / "x.json").exists()


def test_withdraw_a_consent(shell: Shell, tmp_path: Path) -> None:
    given = {
        "type": "consent", "subject_did": ALICE.did, "grantee_did": BOB.did,
        "scope": ["store"], "is_withdrawal": False, "created_at": TIME,
    }  # fmt: skip
    with og.open(tmp_path / "m.omsg") as store:
        consent = store.put(given)
        cascade = {"mode": "consent_cascade"}
        gone = store.put(lamp("on", 1, processing_basis=consent, invalidation_policy=cascade))
        stays = store.put(lamp("off", 2, processing_basis=consent))
    withdraw = ("consent", "withdraw", "m.omsg", consent)
    told = shell.json(*withdraw, "--reason", "no more", "--within", 0, "--actor", "clerk")
    assert (told["queued"], told["others"], told["complete"]) == ([gone], [stays], True)
    assert shell(*withdraw) == 0
    assert stays.encode() in shell.out
    (entry,) = shell.json("due", "m.omsg")
    assert (entry["kind"], entry["address"], entry["overdue"]) == ("consent", gone, True)
    assert shell.json("due", "m.omsg", "--run")["erased"] == 1
    assert shell.error("get", "m.omsg", gone)[1]["code"] == "ERR_NOT_FOUND"
    assert shell.error("consent", "withdraw", "m.omsg", stays)[0] == exit_code("ERR_SCHEMA")
    assert shell(*withdraw, "--within", 31) == USAGE


def test_restrict(shell: Shell, people: dict[str, str]) -> None:
    reason = ("--reason", "gdpr18")
    named = people["named"]
    assert shell("restrict", "m.omsg", named) == USAGE
    assert shell.json("restrict", "m.omsg", named, *reason)["restricted"]
    assert shell.json("query", "m.omsg", "--subject", MIRA)["results"] == []
    assert shell.json("state", "m.omsg", named)["restricted"]
    assert shell("unrestrict", "m.omsg", named, *reason) == 0
    assert len(shell.json("query", "m.omsg", "--subject", MIRA)["results"]) == 1
    assert shell.error("restrict", "m.omsg", "0" * 64, *reason)[0] == exit_code("ERR_NOT_FOUND")


@pytest.mark.parametrize(
    "command",
    [
        ("erase", MIRA, "--reason", "x"),
        ("erase", MIRA, "--reason", "x", "--dry-run"),
        ("report", MIRA),
        ("consent", "withdraw", "0" * 64),
        ("due", "--run"),
        ("due",),
        ("restrict", "0" * 64, "--reason", "x"),
    ],
)
def test_no_command_makes_a_store_by_mistake(
    shell: Shell, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "empty").mkdir()
    names = 2 if command[0] == "consent" else 1
    code, error = shell.error(*command[:names], "empty", *command[names:])
    assert (code, error["code"]) == (exit_code("ERR_STORE"), "ERR_STORE")
    assert list((tmp_path / "empty").iterdir()) == []
