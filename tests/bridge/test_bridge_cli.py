# SPDX-License-Identifier: Apache-2.0
"""`omsgrain bridge` as a command line: what makes no sense, who asks, what is missing."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.bridge.broker import BrokerError, Message
from omsgrain.bridge.mqtt import Mqtt
from omsgrain.crypto.keyring import KeyRing
from support.shell import USAGE, Shell, exit_code

URL = ("--mqtt", "mqtt://127.0.0.1:1")
DEAD = ("--dead-letter", "refused")


@pytest.mark.parametrize(
    "options",
    [
        ("--topic", "a", *DEAD),
        (*URL, "--nats", "nats://127.0.0.1:1", "--topic", "a", *DEAD),
        URL,
        (*URL, "--topic", "a"),
        (*URL, "--topic", "a", *DEAD, "--dead-letter-dir", "d"),
        (*URL, "--topic", "a", *DEAD, "--stream", "S"),
        (*URL, "--topic", "#", *DEAD),
        (*URL, "--topic", "a", "--dead-letter", "b/+"),
        (*URL, "--topic", "a", *DEAD, "--publish", "a"),
        (*URL, "--publish", "p", "--group", "g"),
        (*URL, "--topic", "a", *DEAD, "--in-flight", "0"),
        ("--nats", "nats://127.0.0.1:1", "--stream", "S", *DEAD, "--session", "1"),
        ("--nats", "nats://127.0.0.1:1", "--stream", "S", "--dead-letter", "b.>"),
        ("--nats", "nats://127.0.0.1:1", "--stream", "S.1", *DEAD),
        ("--nats", "nats://127.0.0.1:1", "--stream", "S", "--durable", "my hub", *DEAD),
    ],
)
def test_command_lines_that_make_no_sense(shell: Shell, options: tuple[str, ...]) -> None:
    assert shell("bridge", "m.omsg", *options) == USAGE
    assert not Path("m.omsg").exists()


def test_credentials_are_in_no_url_and_no_message(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "word").write_text("sesame\n")
    reading = ("--topic", "a", *DEAD)
    far = ("bridge", "m.omsg", "--mqtt", "mqtt://hub.example.org", *reading, "--user", "ada")
    assert shell(*far, "--password-file", "word") == exit_code("ERR_UNSUPPORTED")
    assert b"sesame" not in shell.out + shell.err
    monkeypatch.setenv("OMSGRAIN_BROKER_PASSWORD", "sesame")
    assert shell(*far) == exit_code("ERR_UNSUPPORTED")
    assert shell("bridge", "m.omsg", *URL, *reading) == USAGE
    monkeypatch.delenv("OMSGRAIN_BROKER_PASSWORD")
    code, error = shell.error("bridge", "m.omsg", "--mqtt", "mqtt://a:sesame@h", *reading)
    assert code == exit_code("ERR_SCHEMA")
    assert "sesame" not in json.dumps(error)


def test_the_store_that_it_makes(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Any, most: int, wait: float) -> Any:
        raise BrokerError("the broker refuses the connection", found="Not authorized")

    monkeypatch.setattr(Mqtt, "fetch", refused)
    assert shell("bridge", "m.omsg", *URL, "--topic", "a", *DEAD) == exit_code("ERR_STORE")
    assert b"0 messages" in shell.out
    assert b"Not authorized" in shell.err
    with og.open("m.omsg", readonly=True) as store:
        assert len(store) == 0


@pytest.mark.parametrize("plain", [False, True])
def test_grains_in_the_clear_beside_sealed_ones_need_plain(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: bool
) -> None:
    user = {"type": "event", "content": "x", "created_at": 1, "user_id": "ada"}
    with KeyRing.create(tmp_path / "keys.omsk", master=bytes(range(32))) as ring:
        with og.open("m.omsg", keys=ring) as store:
            store.put(user | {"content": "sealed"})
    come = [[Message(og.encode(user), "a", False, 1)]]
    settled: list[int] = []

    def fetch(self: Any, most: int, wait: float) -> list[Message]:
        if not settled:
            return come.pop() if come else []
        raise BrokerError("the broker refuses the connection")

    def settle(self: Any, messages: Sequence[Message], refused: Collection[int]) -> None:
        settled.extend(range(len(messages)))

    monkeypatch.setattr(Mqtt, "fetch", fetch)
    monkeypatch.setattr(Mqtt, "settle", settle)
    more = ["--plain"] if plain else []
    more += ["--topic", "a", "--dead-letter-dir", "refused", "--batch", "1"]
    assert shell("bridge", "m.omsg", *URL, *more) == exit_code("ERR_STORE")
    with og.open("m.omsg", readonly=True) as store:
        assert [grain.sealed for grain in store] == [True, False][: 1 + plain]
    letters = [path for path in Path("refused").rglob("*") if path.is_file()]
    assert (b"ERR_KEY" in b"".join(path.read_bytes() for path in letters)) is not plain


@pytest.mark.parametrize(
    ("library", "module", "options"),
    [
        ("paho", "mqtt", (*URL, "--topic", "a")),
        ("nats", "nats", ("--nats", "nats://127.0.0.1:1", "--stream", "S")),
    ],
)
def test_without_its_library(
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    library: str,
    module: str,
    options: tuple[str, ...],
) -> None:
    monkeypatch.delitem(sys.modules, f"omsgrain.bridge.{module}", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, library, None)
    code, error = shell.error("bridge", "m.omsg", *options, *DEAD)
    assert code == exit_code("ERR_UNSUPPORTED")
    assert f"'{module}'" in error["expected"]
    assert not Path("m.omsg").exists()
