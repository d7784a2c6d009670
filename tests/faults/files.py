# SPDX-License-Identifier: Apache-2.0
"""Scenarios of files: each is as it was, or whole and new, under its name; or it is not there."""

from __future__ import annotations

from pathlib import Path

import omsgrain as og
from containers import blob, pool
from faults.commits import event, sound
from faults.scenario import Said, Scenario, Steps
from omsgrain import container
from omsgrain.crypto import Ed25519Signer, signers
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import KeyMissingError
from omsgrain.formats import load
from omsgrain.interchange.mif_export import export_mif
from omsgrain.sync import LocalPeer, take_bundle, write_bundle
from omsgrain.sync.bundle import BundleFile
from support.key_rings import MASTER, OTHER, all_of, keys_of
from support.sync_stores import addresses
from support.sync_stores import belief as lamp

# -- .mg and documents ----------------------------------------------------------------------------

OLD, NEW = pool(20, "old"), [blob(n) for n in range(400)]


def _write_first(folder: Path) -> None:
    container.write(folder / "there.mg", OLD, codec="zstd")
    with og.open(folder / "memory.omsg") as store:
        store.put_many([event(n) for n in range(60)])


def _write(folder: Path, step: Steps) -> None:
    step("new.mg", lambda: container.write(folder / "new.mg", NEW, codec="zstd"))
    step("there.mg", lambda: container.write(folder / "there.mg", NEW, sort=True))
    with og.open(folder / "memory.omsg", readonly=True) as store:
        step("store.mg", lambda: store.export_mg(folder / "store.mg", codec="lz4"))
        report = store.privacy.report(["u1"])
        step("report.mg", lambda: report.write_mg(folder / "report.mg"))
        for name in ("new.mif.json", "new.mif.yaml", "new.jsonld"):
            form = {"json": "mif2", "yaml": "mif1", "jsonld": "mif-ld"}[name.rsplit(".")[-1]]
            step(name, lambda name=name, form=form: export_mif(  # type: ignore[misc]
                store, folder / name, user_id="u1", format=form))  # fmt: skip


def _look_at_written(folder: Path, said: Said) -> None:
    for path in sorted(folder.iterdir()):
        if path.suffix in (".partial", ".omsg"):
            continue
        if path.suffix != ".mg":
            assert load(path).grains
            continue
        assert container.verify(path).ok
        with container.read(path) as found:
            grains = list(found)
        whole = {"new.mg": [NEW], "there.mg": [OLD, NEW]}.get(path.name)
        assert whole is None or sorted(grains) in map(sorted, whole)
        assert path.name not in said.results or path.name != "there.mg" or len(grains) == 400
    for name in said.results:
        assert "." not in name or (folder / name).exists(), f"{name} is not there"
    sound(folder / "memory.omsg")


# -- keys -----------------------------------------------------------------------------------------

USERS = ("ada", "grace", "edith")


def _make_ring(folder: Path) -> None:
    with KeyRing.create(folder / "people.keys", master=MASTER) as ring:
        ring.ensure(USERS)


def _use_keys(folder: Path, step: Steps) -> None:
    signer = Ed25519Signer.generate()
    step("signer.pem", lambda: signer.save(folder / "signer.pem"))
    step("signer.jwk", lambda: signer.save(folder / "signer.jwk", "jwk"))
    step("new ring", lambda: KeyRing.create(folder / "new.keys", master=MASTER).close())
    ring = step("open", lambda: KeyRing.open(folder / "people.keys", master=MASTER))
    if ring is None:
        return
    with ring:
        step("ensure", lambda: ring.ensure(["hedy"]))
        step("erase", lambda: ring.erase(["grace"]) == 1)
        step("backup", lambda: ring.backup(folder / "copy.keys"))
        step("rewrap", lambda: ring.rewrap(MASTER))
        step("rekey", lambda: ring.rekey(OTHER))


def _look_at_keys(folder: Path, said: Said) -> None:
    for name in ("signer.pem", "signer.jwk"):
        path = folder / name
        assert path.exists() or name not in said.results
        if path.exists():
            signers.load_private(path)
    for name in ("new.keys", "copy.keys"):
        if (folder / name).exists():
            _opened(folder / name).close()
    with _opened(folder / "people.keys") as ring:
        found = keys_of(ring, "hedy", *USERS)
        assert found["ada"] is not None and found["edith"] is not None
        assert found["hedy"] is not None or "ensure" not in said.results
        assert found["grace"] is None or "erase" not in said.results
        ring.ensure(["later"])
        secrets = [s for keys in ring.users() for s in (all_of(keys) or ())[1:]]
    assert not (said.ended and said.results.get("rekey")) or _opens(folder / "people.keys", OTHER)
    for path in folder.iterdir():
        data = path.read_bytes()
        assert not any(isinstance(s, bytes) and s in data for s in secrets), path.name
        if path.name not in ("signer.pem", "signer.jwk"):
            assert b"PRIVATE KEY" not in data and b'"d"' not in data, f"a key in {path.name}"


def _opened(path: Path) -> KeyRing:
    try:
        return KeyRing.open(path, master=MASTER)
    except KeyMissingError:
        return KeyRing.open(path, master=OTHER)


def _opens(path: Path, master: bytes) -> bool:
    KeyRing.open(path, master=master).close()
    return True


# -- sync by file ---------------------------------------------------------------------------------


def _two_stores(folder: Path) -> None:
    for name, first in (("a", 0), ("b", 100)):
        with og.open(folder / f"{name}.omsg") as store:
            store.put_many([lamp(f"{first + n}", n) for n in range(30)])
    with og.open(folder / "a.omsg") as store:
        write_bundle(LocalPeer(store), folder / "there.mg")


def _bring(folder: Path, step: Steps) -> None:
    with og.open(folder / "a.omsg") as a:
        a.put(lamp("later", 500))
        step("there.mg", lambda: write_bundle(LocalPeer(a), folder / "there.mg"))
        step("new.mg", lambda: write_bundle(LocalPeer(a), folder / "new.mg"))
    b = step("open", lambda: og.open(folder / "b.omsg"))
    if b is not None:
        if (folder / "new.mg").exists():
            step("take", lambda: take_bundle(folder / "new.mg", LocalPeer(b)))
        step("close", lambda: b.close())


def _look_at_brought(folder: Path, said: Said) -> None:
    for name in ("there.mg", "new.mg"):
        if (folder / name).exists():
            with BundleFile(folder / name) as file:
                assert sum(len(batch.grains) for batch in file.batches()) >= 30
        else:
            assert name not in said.results
    with og.open(folder / "a.omsg") as a, og.open(folder / "b.omsg") as b:
        mine = addresses(a)
        if "take" in said.results:
            assert mine <= addresses(b)
        write_bundle(LocalPeer(a), folder / "again.mg")
        take_bundle(folder / "again.mg", LocalPeer(b))
        assert mine <= addresses(b)
        assert len(addresses(b)) >= 60
    sound(folder / "b.omsg")


SCENARIOS = {
    "files": Scenario(_write_first, _write, _look_at_written),
    "keys": Scenario(_make_ring, _use_keys, _look_at_keys),
    "sync by file": Scenario(_two_stores, _bring, _look_at_brought),
}
