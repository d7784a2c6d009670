# SPDX-License-Identifier: Apache-2.0
"""Write the golden stores that are not there yet. Those that exist are frozen.

    python tests/data/golden/make_stores.py

Each is a zip of a store as LMDB left it, its key file if it has one, and what was exported from
it in every codec; `*.answers.json` is what `tests/support/golden.py` asked of it then.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

import omsgrain as og  # noqa: E402
from omsgrain.cli import run  # noqa: E402
from omsgrain.crypto.keyring import KeyRing  # noqa: E402
from support import golden  # noqa: E402
from support.aimem_files import chunk, made  # noqa: E402
from support.signers import ALICE, BOB  # noqa: E402

T = golden.TIME


def belief(n: int, **more: Any) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": f"shelf-{n}",
        "relation": "mg:perceives",
        "object": f"{n} boxes of tea",
        "confidence": 0.9,
        "created_at": T + n,
        "user_id": "ada",
        **more,
    }


def event(n: int, **more: Any) -> dict[str, Any]:
    return {
        "type": "event",
        "content": f"Ada asked about bed {n}",
        "session_id": "s1",
        "role": "user",
        "created_at": T + 100 + n,
        "user_id": "ada",
        "structural_tags": ["garden"],
        **more,
    }


def fill(store: og.GrainStore) -> None:
    """Put rows into every table."""
    beliefs = [store.put(belief(n)) for n in range(30)]
    events = [store.put(event(n)) for n in range(10)]
    store.put_many([belief(n, user_id=f"user-{n}") for n in range(100, 140)])
    store.put({**belief(200), "user_id": None})
    store.supersede(beliefs[0], belief(0, object="31 boxes of coffee", created_at=T + 50))
    store.supersede(beliefs[1], belief(1, object="none", created_at=T + 51))
    store.contest(beliefs[2], reason="seen otherwise")
    store.retract(beliefs[3], reason="a mistake")
    store.trust.set_verification(beliefs[4], "verified")
    store.delete(beliefs[5], reason="asked for")
    store.holds.add(beliefs[6], authority="court", reason_code="case")
    store.holds.add(beliefs[7], authority="court", reason_code="case")
    store.holds.release(beliefs[7], authority="court", reason_code="over")
    store.privacy.restrict(beliefs[8], reason_code="art18")
    soft = store.put(belief(60, invalidation_policy={"mode": "soft_locked"}))
    new = belief(60, object="61", created_at=T + 61, supersession_justification="counted again")
    store.supersede(soft, new)
    lineage = {"mode": "soft_locked", "scope": "lineage"}
    first = store.put(belief(62, invalidation_policy=lineage))
    more = {"created_at": T + 63, "supersession_justification": "counted again"}
    store.supersede(first, belief(62, object="63", **more))
    signed = store.sign(beliefs[9], ALICE, iat=T // 1000)
    store.sign(beliefs[10], BOB, iat=T // 1000)
    store.vectors.add(events[0], [0.5, 0.25, 1.0], model="small")
    store.vectors.add(signed, [0.5, 0.5, 0.0], model="small")
    consent = {
        "type": "consent",
        "subject_did": ALICE.did,
        "grantee_did": BOB.did,
        "scope": ["analytics"],
        "is_withdrawal": False,
        "created_at": T + 300,
        "user_id": "ada",
    }
    given = store.put(consent)
    cascade = {"mode": "consent_cascade"}
    store.put(belief(63, processing_basis=given, invalidation_policy=cascade))
    store.privacy.withdraw_consent(given, reason="changed her mind", sla_days=30)
    store.put(belief(300, user_id="erin"))
    store.privacy.erase(["erin"], reason_code="request")
    store.consumers.set_position("follower", 7)
    for address in beliefs[10:13]:
        store.get(address)
    store.search("tea", sealed=False)
    store.flush()


def reading(n: int, **more: Any) -> dict[str, Any]:
    return {
        "type": "observation",
        "observer_id": f"gauge-{n % 3}",
        "observer_type": "garden:gauge",
        "subject": "greenhouse",
        "object": {"celsius": 20 + n / 2},
        "created_at": T + n,
        **more,
    }


def fill_paths(store: og.GrainStore) -> None:
    """Index paths before and after the first encrypted grain, and drop one again."""
    store.put_many([reading(n) for n in range(6)])
    store.paths.add("observer_id")
    own = [store.put(reading(n, user_id="ada")) for n in range(6, 12)]
    store.paths.add("object.celsius", "subject")
    store.paths.drop("subject")
    store.put(reading(12, user_id="ada"))
    store.supersede(own[0], reading(6, user_id="ada", object={"celsius": 21}))
    store.delete(own[1], reason="asked for")
    store.flush()


def documents(folder: Path, keys: bool) -> None:
    """Import one document of each format, and make a token."""
    path = folder / "store.omsg"
    (folder / "x.aimem.json").write_bytes(made(chunk(1), chunk(2, "24 beds")))
    memory = {
        "id": "00000000-0000-4000-8000-000000000001",
        "content": "Ada waters the beds",
        "created_at": "2026-01-15T10:00:00Z",
    }
    document = {"mif_version": "2.0", "memories": [memory]}
    (folder / "x.mif.json").write_text(json.dumps(document), "utf-8")
    given = []
    if keys:
        master = folder.with_name("master.key")
        master.write_bytes(golden.MASTER)
        master.chmod(0o600)
        given = ["--keys", str(folder / "keys.omsk"), "--master", str(master)]
    for name in ("x.aimem.json", "x.mif.json"):
        user = [] if "aimem" in name else ["--user", "ada"]
        assert run(["import", str(path), str(folder / name), *user, *given]) == 0
        (folder / name).unlink()
    tenant = "11111111-1111-4111-8111-111111111111"
    assert run(["token", "add", str(path), "app", "--tenant", tenant, "--scope", "import"]) == 0


def make(name: str) -> None:
    keys = name.startswith("sealed")
    if name == "short-addresses":
        # Else a small store has no old addresses.
        mock.patch("omsgrain.storage.lmdb.writer.NEWEST_ADDRESSES", 20).start()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / name
        folder.mkdir()
        if keys:
            KeyRing.create(folder / "keys.omsk", master=golden.MASTER).close()
        else:
            og.open(folder / "store.omsg").close()
        with golden.opened(folder, count_access=True) as store:
            (fill_paths if name == "sealed-7" else fill)(store)
        if name != "sealed-7":
            documents(folder, keys)
        for codec in golden.CODECS:
            with golden.opened(folder) as store:
                store.export_mg(folder / f"{codec}.mg", codec=codec, sort=True)
        frozen = folder.with_name(name + "-asked")
        shutil.copytree(folder, frozen)
        with golden.opened(frozen) as store:
            answers = golden.answers(store)
        text = json.dumps(answers, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        (HERE / f"{name}.answers.json").write_text(text, "utf-8")
        with zipfile.ZipFile(HERE / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(folder.rglob("*")):
                if file.is_file() and "lock" not in file.name:
                    archive.write(file, file.relative_to(folder))


if __name__ == "__main__":
    for name in golden.STORES:
        if not (HERE / f"{name}.zip").exists():
            make(name)
