# SPDX-License-Identifier: Apache-2.0
"""Tokens: shown once, kept as hashes, good for what they say, ended at once."""

from __future__ import annotations

import os
import re
import signal
import stat
from hashlib import sha256
from pathlib import Path

import lmdb
import pytest

import omsgrain as og
from omsgrain.errors import IntegrityError, NotFoundError, SchemaError, StoreError
from omsgrain.storage.base import Storage
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.location import location_of
from omsgrain.storage.tables import AUDIT, TOKENS
from omsgrain.storage.tokens import Tokens, is_token, open_tokens
from support.child_process import run as run_child
from support.http_process import Served
from support.http_server import ADA, GRACE, lamp, site
from support.shell import USAGE, Shell, exit_code
from support.tokens import add_token, list_tokens


def test_form(below: Storage) -> None:
    secrets = {Tokens(below).add(f"t{n}", ADA, ["export"]) for n in range(5)}
    assert len(secrets) == 5
    assert all(re.fullmatch(r"omg_[A-Za-z0-9_-]{43}", secret) for secret in secrets)


def test_only_its_hash_is_kept(below: Storage) -> None:
    secret = Tokens(below).add("laptop", ADA, ["admin", "import"])
    with below.read() as reader:
        rows = [*reader.rows(TOKENS), *reader.rows(AUDIT)]
    assert sha256(secret.encode()).digest() in [key for key, _ in rows]
    assert not any(secret.encode() in key + value for key, value in rows)
    found = Tokens(below).find(secret)
    assert found is not None
    assert (found.name, found.tenant, found.scopes) == ("laptop", ADA, ("import", "admin"))


@pytest.mark.parametrize(
    "secret", ["", "omg_", "omg_" + "a" * 43, "omg_" + "a" * 42 + "\n", "x" * 47]
)
def test_what_is_none(below: Storage, secret: str) -> None:
    Tokens(below).add("laptop", ADA, ["export"])
    assert Tokens(below).find(secret) is None
    assert is_token(secret) == (secret == "omg_" + "a" * 43)


@pytest.mark.parametrize(
    ("name", "tenant", "scopes"),
    [
        ("", ADA, ["export"]),
        ("a b", ADA, ["export"]),
        ("a" * 65, ADA, ["export"]),
        ("laptop", "", ["export"]),
        ("laptop", "ad\udce4", ["export"]),  # Latin-1 on the command line
        ("laptop", ADA, []),
        ("laptop", ADA, ["export", "root"]),
        ("taken", ADA, ["export"]),
        ("laptop", None, ["export"]),
        ("laptop", None, ["sync:read", "export"]),
    ],
)
def test_what_cannot_be_added(
    below: Storage, name: str, tenant: str | None, scopes: list[str]
) -> None:
    Tokens(below).add("taken", ADA, ["export"])
    with pytest.raises(SchemaError):
        Tokens(below).add(name, tenant, scopes)
    assert len(Tokens(below).list()) == 1


def test_for_syncing(below: Storage) -> None:
    """Such a token is for namespaces, a tenant, or all; the others are for a tenant."""
    tokens = Tokens(below)
    secret = tokens.add("robot", None, ["sync:write"], namespaces=["hall", "attic", "hall"])
    found = tokens.find(secret)
    assert found is not None
    assert (found.tenant, found.namespaces) == (None, ("attic", "hall"))
    whole = tokens.find(tokens.add("hub", None, ["sync:read", "sync:write"]))
    assert whole is not None
    assert (whole.tenant, whole.namespaces) == (None, ())
    for tenant, scopes, names in (
        (ADA, ["export"], ["hall"]),
        (ADA, ["sync:read"], []),
        (ADA, ["sync:read", "export"], []),
        (None, ["sync:read"], [""]),
        (None, ["sync:read"], ["\udce4"]),
        (None, ["sync:read"], ["a" * 257]),
        (None, ["sync:read"], [str(n) for n in range(65)]),
    ):
        with pytest.raises(SchemaError):
            tokens.add("x", tenant, scopes, namespaces=names)
    assert tokens.forget([ADA]) == 0


def test_revoking(below: Storage) -> None:
    tokens = Tokens(below, clock=lambda: 7)
    secret = tokens.add("laptop", ADA, ["export"])
    tokens.revoke("laptop")
    assert tokens.find(secret) is None
    assert [(t.name, t.created, t.revoked) for t in tokens.list()] == [("laptop", 7, 7)]
    with pytest.raises(NotFoundError):
        tokens.revoke("laptop")
    assert tokens.find(tokens.add("laptop", ADA, ["export"])) is not None  # a new one of the name
    tokens.revoke("laptop", forget=True)
    assert tokens.list() == []


def test_damage(below: Storage) -> None:
    secret = Tokens(below).add("laptop", ADA, ["export"])
    below.write(lambda w: w.set_row(TOKENS, sha256(secret.encode()).digest(), b"\x81\xa1n\x01"))
    with pytest.raises(IntegrityError):
        Tokens(below).find(secret)


def test_the_trail_names_only_the_token(tmp_path: Path) -> None:
    path = tmp_path / "m.omsg"
    og.open(path).close()
    with open_tokens(path, actor="grace") as tokens:
        tokens.add("laptop", ADA, ["export"])
        tokens.revoke("laptop")
    with og.open(path, readonly=True) as store:
        entries = list(store.audit.entries())
    assert [(e.operation, e.reason_code, e.actor, dict(e.details)) for e in entries] == [
        ("key", "token_added", "grace", {"token": "laptop"}),
        ("key", "token_revoked", "grace", {"token": "laptop"}),
    ]


def test_a_running_server_sees_what_another_process_does(tmp_path: Path) -> None:
    code = """
        import sys
        from pathlib import Path
        from omsgrain.storage.tokens import open_tokens
        path, act = Path(sys.argv[1]), sys.argv[2]
        with open_tokens(path) as tokens:
            if act == "add":
                print(tokens.add("other", sys.argv[3], ["export"]))
            else:
                tokens.revoke("other")
    """
    with site(tmp_path / "m.omsg") as served:
        (secret,) = run_child(code, served.path, "add", GRACE)
        assert served.ask("GET", "/v1/grains", secret).status_code == 200
        run_child(code, served.path, "revoke")
        assert served.ask("GET", "/v1/grains", secret).status_code == 401


def test_commands(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "m.omsg"
    og.open(path).close()
    options = ("--tenant", ADA, "--scope", "export", "--scope", "import")
    made = shell.json("token", "add", path, "laptop", *options)
    assert is_token(made["token"])
    assert shell("token", "add", path, "phone", *options) == 0
    assert is_token(shell.out.decode().strip())
    listed = shell.json("token", "list", path)
    assert {one["name"] for one in listed} == {"laptop", "phone"}
    assert made["token"] not in shell.out.decode()
    assert shell("token", "list", path) == 0
    assert shell("token", "revoke", path, "phone") == 0
    code, error = shell.error("token", "revoke", path, "phone")
    assert (code, error["code"]) == (exit_code("ERR_NOT_FOUND"), "ERR_NOT_FOUND")
    assert shell("token", "add", path, "x", "--tenant", ADA, "--scope", "root") == USAGE
    code, error = shell.error("token", "add", path, "x", "--tenant", "no one", "--scope", "admin")
    assert (code, error["field"]) == (exit_code("ERR_SCHEMA"), "--tenant")
    assert "{" not in error["message"] and "no one" not in error["message"]
    scoped = ("token", "add", path, "x", "--scope", "import")
    assert shell.error(*scoped, "--namespace", "plant")[1]["field"] == "--namespace"
    assert len(list_tokens(path)) == 2
    shell.json("token", "revoke", path, "phone", "--forget")
    assert len(list_tokens(path)) == 1
    for whose in (
        (),
        ("--whole-store", "--namespace", "hall"),
        ("--whole-store", "--tenant", ADA),
    ):
        refused = shell("token", "add", path, "x", "--scope", "sync:read", *whose)
        assert refused == exit_code("ERR_SCHEMA")
    whole = ("--scope", "sync:read", "--whole-store")
    assert is_token(shell.json("token", "add", path, "hub", *whole)["token"])
    hall = ("--scope", "sync:write", "--namespace", "hall")
    assert shell("token", "add", path, "robot", *hall) == 0
    assert shell("token", "list", path) == 0
    assert "robot  sync:write  hall" in shell.out.decode()


def test_a_private_file(tmp_path: Path, shell: Shell) -> None:
    path, file = tmp_path / "m.omsg", tmp_path / "token"
    og.open(path).close()
    made = ("token", "add", str(path), "laptop", "--tenant", ADA, "--scope", "export")
    assert shell(*made, "-o", str(tmp_path / "none" / "token")) != 0
    assert list_tokens(path) == []  # nobody could know it
    before = os.umask(0)
    try:
        assert shell(*made, "-o", str(file)) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret = file.read_text()
    assert re.fullmatch(r"omg_[A-Za-z0-9_-]{43}\n", secret)
    assert secret.strip().encode() not in shell.out
    below = LmdbStorage(path, readonly=True)
    assert Tokens(below).find(secret.strip()) is not None
    below.close()
    again = ("token", "add", str(path), "second", "--tenant", ADA, "--scope", "export")
    assert shell(*again, "-o", str(file)) != 0
    assert file.read_text() == secret
    assert [one.name for one in list_tokens(path)] == ["laptop"]
    told = shell.json(*again, "-o", str(tmp_path / "second"))
    assert told == {"name": "second", "path": str(tmp_path / "second"), "scopes": ["export"]}


def test_a_backup_has_the_tokens(tmp_path: Path) -> None:
    path = tmp_path / "m.omsg"
    with og.open(path) as store:
        secret = add_token(path, "laptop", ADA, ["export"])
        store.maintenance.backup(tmp_path / "b.omsg")
    below = LmdbStorage(tmp_path / "b.omsg", readonly=True)
    assert Tokens(below).find(secret) is not None
    below.close()


def test_a_store_from_before_there_were_tokens(tmp_path: Path) -> None:
    path = tmp_path / "m.omsg"
    with og.open(path) as store:
        address = store.put(lamp())
    with lmdb.open(str(path), max_dbs=64) as env, env.begin(write=True) as txn:
        txn.drop(env.open_db(TOKENS.name, txn=txn, create=False))
    with pytest.raises(StoreError):
        og.open(path, readonly=True)
    og.open(path).close()
    with og.open(path, readonly=True) as store:
        assert address in store


def test_a_token_ends_by_itself(below: Storage) -> None:
    now = 1_000
    tokens = Tokens(below, clock=lambda: now)
    secret = tokens.add("ada", ADA, ["export"], expires=2_000)
    with pytest.raises(SchemaError):
        tokens.add("late", ADA, ["export"], expires=1_000)
    found = tokens.find(secret)
    assert found is not None and found.expires == 2_000
    assert tokens.count([ADA]) == 1
    now = 2_000
    assert tokens.find(secret) is None
    assert tokens.count([ADA]) == 0
    again = tokens.add("ada", ADA, ["export"])  # its name is free again
    assert tokens.find(again) is not None
    tokens.revoke("ada")
    assert tokens.find(again) is None


def test_the_use_of_a_token_is_noted_once_an_hour(below: Storage) -> None:
    now, hour = 1_000, 3_600_000
    tokens = Tokens(below, clock=lambda: now)
    secret = tokens.add("ada", ADA, ["export"])
    (token,) = tokens.list()
    assert token.used is None
    for then, used in ((5_000, 5_000), (6_000, 5_000), (5_000 + hour, 5_000 + hour)):
        now = then
        tokens.note_use(secret)
        found = tokens.find(secret)
        assert found == token  # it is the same one to who keeps something for it
        assert found is not None and found.used == used
        assert not tokens.is_use_due(found)
    tokens.note_use("omg_" + "a" * 43)
    assert len(tokens.list()) == 1


def test_a_server_notes_which_tokens_are_used(tmp_path: Path) -> None:
    path = tmp_path / "m.omsg"
    with site(path) as served:
        token = served.token()
        served.token("idle")
        for _ in range(3):
            assert served.ask("GET", "/v1/grains", token).status_code == 200
    # Closed, it has written what it had to.
    used = {one.name: one.used is not None for one in list_tokens(path)}
    assert used == {"ada": True, "idle": False}


def test_stores_are_made_when_that_is_said(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "new.omsg"
    add = ("token", "add", path, "ada", "--tenant", ADA, "--scope", "export", "--json")
    assert shell(*add) == exit_code("ERR_STORE")
    assert not path.exists()
    assert shell(*add, "--create", "--expires", "30d") == 0
    assert shell(*add[:3], "other", *add[4:], "--expires", "2019-01-01T00:00:00Z") != 0
    assert shell(*add[:3], "other", *add[4:], "--expires", "soon") == USAGE
    (one,) = list_tokens(path)
    assert one.expires is not None and one.expires - one.created == pytest.approx(30 * 86_400_000)
    assert shell("init", path, "--json") == 0
    assert shell("init", tmp_path / "other.omsg", "--json") == 0
    assert location_of(tmp_path / "other.omsg").exists()
    assert shell("serve", tmp_path / "third.omsg") == exit_code("ERR_STORE")
    assert shell("mcp", tmp_path / "third.omsg", "--user", "ada") == exit_code("ERR_STORE")
    assert not (tmp_path / "third.omsg").exists()
    with Served(tmp_path / "third.omsg", "--create") as served:
        assert served.end(signal.SIGTERM) == 0
    assert location_of(tmp_path / "third.omsg").exists()
