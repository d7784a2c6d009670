# SPDX-License-Identifier: Apache-2.0
"""Sync accepts canonical blobs only: what another engine writes its own way is for importers."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
import oracle
from omsgrain import container
from omsgrain.errors import OmsError
from omsgrain.sync import Batch, Hello, LocalPeer, sync, take_bundle, write_bundle
from omsgrain.sync.bundle import BundleFile, write_file
from omsgrain.sync.peer import SIZE, Position
from support.http_server import site
from support.sync_lines import dialled
from support.sync_stores import TIME, addresses, belief, memory

FOREIGN: dict[str, tuple[int, dict[str, Any]]] = {
    "a tool without input": (5, {"t": "tool", "tn": "ls", "stdout": "x", "xcode": 0}),
    "one parent": (1, {"t": "fact", "s": "a", "r": "b", "o": "c", "df": "ab" * 32}),
    "a graph": (4, {"t": "workflow", "nodes": ["a", "b"], "edges": [{"src": "a", "dst": "b"}]}),
}


def foreign(name: str) -> bytes:
    """A blob that ``decode(strict=False)`` and ``Grain.adapt`` read, and ``decode`` does not."""
    kind, fields = FOREIGN[name]
    payload = oracle.pack_msgpack({"c": 1.0, "ca": TIME, **fields})
    blob = bytes([1, 0, kind, 0, 0]) + (TIME // 1000).to_bytes(4, "big") + payload
    with pytest.raises(OmsError):
        og.decode(blob)
    assert og.decode(blob, strict=False).warnings
    og.verify(og.Grain.adapt(blob).blob)
    return blob


class Giver(LocalPeer):
    """A peer that gives a foreign blob before its own grains."""

    blob: bytes

    def changes(self, since: Position, hello: Hello, size: int = SIZE) -> Batch:
        found = super().changes(since, hello, size)
        return replace(found, grains=(self.blob, *found.grains)) if size else found


def giver(store: og.GrainStore, blob: bytes) -> Giver:
    made = Giver(store)
    made.blob = blob
    return made


@pytest.mark.parametrize("over", ["process", "http"])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_peer_refuses_it_alone(name: str, over: str, tmp_path: Path) -> None:
    blob = foreign(name)
    with memory() as robot, site(tmp_path / "hub.omsg") as hub:
        good = robot.put(belief("on"))
        store = hub.service.stores.main
        peer: Any = LocalPeer(store) if over == "process" else dialled(hub, hub.sync_token())
        report = sync(giver(robot, blob), peer, direction="push")
        assert report.sent.grains == 1
        (refused,) = report.refused
        assert (refused.part, refused.address) == ("grain", sha256(blob).digest())
        assert refused.code.startswith("ERR_")
        assert addresses(store) == {good}
        again = peer.put(Batch(b"o" * 16, grains=(blob,)))
        assert (again.stored, [one.code for one in again.refused]) == (0, [refused.code])
        pulled = sync(LocalPeer(memory()), peer, direction="pull").received
        assert (pulled.grains, pulled.refused) == (1, ())


@pytest.mark.parametrize("name", FOREIGN)
def test_a_client_refuses_it_from_a_server(name: str, tmp_path: Path) -> None:
    blob = foreign(name)
    with memory() as robot, site(tmp_path / "hub.omsg") as hub:
        good = hub.service.stores.main.put(belief("on"))
        hub.service.stores.peer = lambda token: giver(hub.service.stores.main, blob)  # type: ignore[method-assign]
        hub.service.peers._make = hub.service.stores.peer
        report = sync(LocalPeer(robot), dialled(hub, hub.sync_token()), direction="pull")
        assert [one.address for one in report.refused] == [sha256(blob).digest()]
        assert addresses(robot) == {good}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_bundle_with_it_is_refused_whole(name: str, tmp_path: Path) -> None:
    """Every byte of a file is verified before its first batch is written."""
    blob, path, bad = foreign(name), tmp_path / "x.mg", tmp_path / "bad.mg"
    with memory() as robot, memory() as hub:
        robot.put(belief("on"))
        write_bundle(LocalPeer(robot), path)
        with BundleFile(path) as file:
            batches = [replace(one, grains=(blob, *one.grains)) for one in file.batches()]
            write_file(bad, file.head, batches)
        with pytest.raises(OmsError):
            take_bundle(bad, LocalPeer(hub))
        assert not addresses(hub)
        assert take_bundle(path, LocalPeer(hub)).sent.grains == 1


@pytest.mark.parametrize("name", FOREIGN)
def test_the_importer_accepts_what_sync_refuses(name: str, tmp_path: Path) -> None:
    container.write(tmp_path / "x.mg", [foreign(name)], check=False)
    with memory() as hub:
        assert hub.import_mg(tmp_path / "x.mg", adapt=True).stored == 1
