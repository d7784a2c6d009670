# SPDX-License-Identifier: Apache-2.0
"""Options and fixtures of the suite: how much is run, and the same examples every time."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

import omsgrain as og
from omsgrain.crypto import signers
from omsgrain.crypto.keyring import KeyRing
from omsgrain.storage.base import Storage
from support import aimem_files, child_process, store_kinds
from support.frameworks import FRAMEWORKS, installed
from support.scale import Scale
from support.shell import Shell
from support.signers import ALICE, BOB

if TYPE_CHECKING:
    from support.servers.postgres import Postgres

settings.register_profile(
    "default",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("long", parent=settings.get_profile("default"), max_examples=2000)

# Tests start hundreds of processes; the first one that compiles a module does it for all.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# tests/integrations/test_frameworks.py runs these, each in an environment of its own.
collect_ignore = [f"integrations/test_{name}.py" for name in FRAMEWORKS if not installed(name)]

_OPT_IN = {"long": "--long", "services": "--services"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("omsgrain")
    group.addoption("--long", action="store_true", help="run the big counts and the long tests")
    group.addoption("--services", action="store_true", help="run tests that need a server")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if config.getoption("--long") else "default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left: dict[str, list[pytest.Item]] = {}
    kept: list[pytest.Item] = []
    for item in items:
        closed = [m for m, option in _OPT_IN.items() if not config.getoption(option)]
        marker = next((m for m in closed if item.get_closest_marker(m)), None)
        (kept if marker is None else left.setdefault(marker, [])).append(item)
    config.stash[_LEFT] = {marker: len(away) for marker, away in left.items()}
    if left:
        config.hook.pytest_deselected(items=[item for away in left.values() for item in away])
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Imported modules and collected tests stay, so the garbage collector skips them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


_LEFT = pytest.StashKey[dict[str, int]]()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker process reports to the main one which tests it left out."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left"] = session.config.stash.get(_LEFT, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every worker leaves the same, so that the last one's word is good."""
    node.config.stash[_LEFT] = getattr(node, "workeroutput", {}).get("left", {})


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    left = config.stash.get(_LEFT, {})
    closed = [(m, option) for m, option in _OPT_IN.items() if not config.getoption(option)]
    counts = [f"{left.get(m, 0)} tests to {option}" for m, option in closed]
    if not config.getoption("--long"):
        counts.append("the big counts to --long")
    if counts:
        terminalreporter.write_line("left: " + ", ".join(counts))


@pytest.fixture(scope="session", autouse=True)
def checks() -> Iterator[None]:
    """A check of a store needs a process of its own, which need not import omsgrain again.

    tests/storage/test_check.py asks the real one.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omsgrain.storage.check.check_in_child", child_process.check)
        yield
    child_process.end()


@pytest.fixture(scope="session")
def scale(pytestconfig: pytest.Config) -> Scale:
    """The counts of this run."""
    if pytestconfig.getoption("--long"):
        return Scale(grains=100_000, noise=1_000_000)
    return Scale(grains=1_000, noise=10_000)


@pytest.fixture(scope="session")
def long(pytestconfig: pytest.Config) -> bool:
    """Whether this run has the counts that the issues name."""
    return bool(pytestconfig.getoption("--long"))


@pytest.fixture(scope="session")
def postgres() -> Postgres:
    """A PostgreSQL server, for all tests that need one; it waits for no disk."""
    return store_kinds.server()


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[KeyRing]:
    """A key ring of its own."""
    with KeyRing.create(tmp_path / "keys.omsk", master=bytes(range(32))) as ring:
        yield ring


@pytest.fixture(params=["memory", "lmdb", store_kinds.POSTGRES])
def below(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    """A store of each kind, to be opened with keys and without."""
    store = store_kinds.made(request.param, tmp_path / "s.omsg")
    yield store
    store.close()


@pytest.fixture(
    params=["plain", "sealed", "in memory", store_kinds.POSTGRES, store_kinds.SEALED_POSTGRES]
)
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.Memory]:
    """An empty memory of one user, in a store of each kind."""
    kind = request.param
    where: Path | str = tmp_path / "a.omsg"
    if kind == "in memory":
        where = ":memory:"
    elif "postgres" in kind:
        where = store_kinds.url_of(tmp_path)
    if "sealed" in kind:
        with (
            KeyRing.create(tmp_path / "keys.omsk", master=bytes(range(32))) as keys,
            og.Memory(where, user="ada", keys=keys) as memory,
        ):
            yield memory
    else:
        with og.Memory(where, user="ada") as memory:
            yield memory


@pytest.fixture
def shell(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Shell:
    """The command line in an empty directory, without keys of the environment."""
    for name in ("OMSGRAIN_KEYS", "OMSGRAIN_MASTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return Shell(capfdbinary, monkeypatch)


@pytest.fixture
def bundle_file(tmp_path: Path) -> Path:
    """A good bundle in a file."""
    path = tmp_path / "x.aimem.json"
    path.write_bytes(aimem_files.made(aimem_files.chunk(1), aimem_files.chunk(2, "24 beds")))
    return path


@pytest.fixture
def alice_keys(tmp_path: Path) -> Path:
    """A private key, with its public half and that of somebody else beside it."""
    ALICE.save(tmp_path / "alice.pem")
    (tmp_path / "alice.cose").write_bytes(signers.dumps_public(ALICE.public_key))
    (tmp_path / "bob.cose").write_bytes(signers.dumps_public(BOB.public_key))
    return tmp_path / "alice.pem"
