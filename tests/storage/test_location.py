# SPDX-License-Identifier: Apache-2.0
"""Names of stores: paths and URLs, and the visible part of a URL."""

from __future__ import annotations

from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.errors import OmsError, SchemaError, StoreError, UnsupportedError
from omsgrain.storage.base import Sidecar
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.location import (
    DirectoryLocation,
    ServerLocation,
    StoreUrl,
    directory_of,
    location_of,
)
from omsgrain.storage.memory import MemoryStorage
from support.shell import Shell, exit_code

URL = "postgresql://robots:s3cret%40@hub.example:5433/memory"


@pytest.mark.parametrize(
    ("text", "shown", "secret", "tenant"),
    [
        (URL, "postgresql://robots@hub.example:5433/memory", URL, None),
        (
            f"{URL}?tenant=fleet%207&sslmode=require",
            "postgresql://robots@hub.example:5433/memory?tenant=fleet%207",
            f"{URL}?sslmode=require",
            "fleet 7",
        ),
        ("postgres:///memory", "postgresql:///memory", "postgresql:///memory", None),
        (
            "postgresql://a,b:5433/m?password=p&tenant=t",
            "postgresql://a,b:5433/m?tenant=t",
            "postgresql://a,b:5433/m?password=p",
            "t",
        ),
    ],
)
def test_what_a_url_says(text: str, shown: str, secret: str, tenant: str | None) -> None:
    url = StoreUrl.parse(text)
    assert (str(url), url.shown, url.secret, url.tenant) == (shown, shown, secret, tenant)
    assert "s3cret" not in repr(url)
    assert location_of(text) == ServerLocation(url) == location_of(url)
    assert "s3cret" not in str(location_of(text)) + repr(location_of(text))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("mysql://hub/memory", UnsupportedError),
        ("https://hub/memory", UnsupportedError),
        ("postgresql://hub/memory?tenant=", SchemaError),
        ("postgresql://hub/memory?tenant=%ff", SchemaError),
        ("postgresql://hub/memory?tenant=%00", SchemaError),
        ("postgresql://hub/memory?tenant=\udcff", SchemaError),
        ("postgresql://\udcff@hub/memory", SchemaError),
        ("postgresql://hub/mem\0ory", SchemaError),
        ("postgresql://hub/memory?tenant=a&tenant=b", SchemaError),
    ],
)
def test_urls_that_name_no_store(text: str, error: type[OmsError]) -> None:
    for call in (StoreUrl.parse, location_of, og.open):
        with pytest.raises(error):
            call(text)


def test_paths_are_directories(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    home = location_of(path)
    assert home == location_of(str(path)) == DirectoryLocation(path)
    assert (str(home), home.exists(), directory_of(path)) == (str(path), False, path)
    with pytest.raises(StoreError):
        home.must_exist()
    home.open().close()
    assert home.exists()
    home.must_exist()
    assert home.check().ok
    with pytest.raises(UnsupportedError):
        directory_of(URL)


def test_files_beside_a_store(tmp_path: Path) -> None:
    store = LmdbStorage(tmp_path / "memory.omsg")
    assert store.sidecar == Sidecar(folder=tmp_path / "memory.omsg")
    store.close()
    assert MemoryStorage().sidecar == Sidecar()


def test_options_that_a_database_refuses(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        og.open(URL, memory_limit="64MB")
    assert caught.value.field == "/memory_limit"
    for given in ((URL, tmp_path / "new.omsg"), (tmp_path, URL)):
        with pytest.raises(UnsupportedError):
            og.restore(*given)


@pytest.mark.parametrize(
    "command", ["stats URL", "query URL", "search URL owl", "check URL", "token list URL"]
)
def test_a_command_shows_no_password(shell: Shell, command: str) -> None:
    said = command.replace("URL", "mysql://robots:s3cret@hub/memory").split()
    assert shell(*said) == exit_code("ERR_UNSUPPORTED")
    assert b"s3cret" not in shell.err
