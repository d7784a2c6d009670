# SPDX-License-Identifier: Apache-2.0
"""`omsgrain bridge` as a command line: what makes no sense, who asks, what is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.services.bridge.mqtt import Mqtt
from omsgrain.services.bridge.transport import BrokerError
from shell import USAGE, Shell, exit_code

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


def test_who_asks_is_in_no_url_and_no_message(
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
    monkeypatch.delitem(sys.modules, f"omsgrain.services.bridge.{module}", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, library, None)
    code, error = shell.error("bridge", "m.omsg", *options, *DEAD)
    assert code == exit_code("ERR_UNSUPPORTED")
    assert f"'{module}'" in error["expected"]
    assert not Path("m.omsg").exists()
