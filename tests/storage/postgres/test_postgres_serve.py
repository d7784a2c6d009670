# SPDX-License-Identifier: Apache-2.0
"""Many processes over one store in PostgreSQL: nothing that was answered is lost."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import httpx
import pytest

import omsgrain as og
from support import store_kinds
from support.http_process import Served
from support.http_server import (
    ADA,
    ALL,
    BUNDLE,
    EXPORT,
    GRACE,
    IMPORT,
    bundle,
    chunk,
    chunks,
    lamp,
)
from support.processes import Process
from support.tokens import add_token, revoke_token

pytestmark = pytest.mark.services


@pytest.fixture
def url(tmp_path: Path) -> str:
    made = store_kinds.url_of(tmp_path)
    og.open(made).close()
    return made


def test_processes_that_write_at_once(url: str) -> None:
    code = """if True:
        import sys, omsgrain as og
        with og.open(sys.argv[1], actor=sys.argv[2]) as store:
            print("ready", flush=True)
            sys.stdin.readline()
            for n in range(40):
                store.put(og.Belief(subject=f"{sys.argv[2]} {n}", relation="has", object="light",
                                    created_at=1_700_000_000_000 + n))
                store.put({"type": "belief", "subject": f"all {n}", "relation": "has",
                           "object": "light", "confidence": 0.5,
                           "created_at": 1_700_000_000_000 + n})
        print("done", flush=True)
    """
    writers = [Process(code, url, f"w{n}") for n in range(4)]
    try:
        for step in ("ready", "done"):
            for one in writers:
                assert one.hear() == step
            for one in writers if step == "ready" else ():
                one.say()
    finally:
        for one in writers:
            one.__exit__()
    with og.open(url) as store:
        subjects = [grain["subject"] for grain in store]
        assert len(subjects) == len(set(subjects)) == 4 * 40 + 40
        assert store.query(relation="has", count=True).total == 200
        assert store.maintenance.check().ok
        assert store.audit.verify(grains=True).ok


def test_a_killed_worker_loses_nothing_that_was_answered(url: str) -> None:
    headers = {"authorization": f"Bearer {add_token(url, 'ada', ADA, ALL)}"}
    with (
        Served(url, "--workers", 2, "--log-format", "json") as one,
        Served(url) as two,
    ):
        while len(one.workers()) < 2:
            assert httpx.get(f"{one.url}/healthz").status_code == 200
        half = Barrier(9)

        def post(number: int) -> list[str]:
            answered = []
            with httpx.Client(headers=headers, timeout=60) as client:
                for n in range(24):
                    if n == 12:
                        half.wait(60)
                        half.wait(60)
                    place = (one, two)[(number + n) % 2].url
                    grain = lamp(f"{number}-{n}")
                    while True:
                        try:
                            answer = client.post(f"{place}/v1/grains", json=grain)
                        except httpx.TransportError:
                            continue  # its worker was killed: asked again
                        assert answer.status_code == 200, answer.text
                        answered.append(grain["object"])
                        break
            return answered

        with ThreadPoolExecutor(8) as pool:
            posting = [pool.submit(post, number) for number in range(8)]
            half.wait(60)
            half.wait(60)
            os.kill(one.workers()[1], signal.SIGKILL)
            answered = [said for task in posting for said in task.result()]
        while len(one.workers()) < 3:
            assert httpx.get(f"{one.url}/healthz").status_code == 200
        assert (one.end(signal.SIGTERM), two.end(signal.SIGTERM)) == (0, 0)
    with og.open(url) as store:
        there = {grain["object"] for grain in store}
        assert there == set(answered)
        assert len(there) == 8 * 24
        assert store.maintenance.check().ok


def test_processes_see_each_others_changes(url: str) -> None:
    token = add_token(url, "ada", ADA, ALL)
    headers = {"authorization": f"Bearer {token}"}
    with Served(url, "--workers", 2) as one, Served(url) as two:
        data = bundle(chunk(1, "of Ada"), chunk(2, "24 beds"))
        typed = headers | {"content-type": BUNDLE}
        assert httpx.post(one.url + IMPORT, content=data, headers=typed).status_code == 200
        for place in (two, one, one):
            assert len(chunks(httpx.get(place.url + EXPORT, headers=headers))) == 2
            found = httpx.get(f"{place.url}/v1/search?text=beds", headers=headers).json()
            assert len(found["results"]) == 1
        later = {"authorization": f"Bearer {add_token(url, 'grace', GRACE, ALL)}"}
        for place in (one, two):
            assert chunks(httpx.get(place.url + EXPORT, headers=later)) == []
        revoke_token(url, "grace")
        for place in (one, one, two):
            assert httpx.get(place.url + EXPORT, headers=later).status_code == 401
        erased = httpx.delete(f"{two.url}/v1/brain", headers=headers, timeout=60)
        assert (erased.status_code, erased.json()["complete"]) == (200, True)
        for place in (one, one, two):
            assert chunks(httpx.get(place.url + EXPORT, headers=headers)) == []
            found = httpx.get(f"{place.url}/v1/search?text=beds", headers=headers).json()
            assert found["results"] == []
        assert httpx.post(one.url + IMPORT, content=data, headers=typed).json()["conflicts"]


def test_a_writer_that_is_killed_loses_nothing_that_had_returned(url: str) -> None:
    code = """if True:
        import sys, omsgrain as og
        with og.open(sys.argv[1]) as store:
            n = 0
            while True:
                print(store.put(og.Belief(subject=f"room {n}", relation="has", object="light",
                                          created_at=1_700_000_000_000 + n)), flush=True)
                n += 1
    """
    for _ in range(3):
        with Process(code, url) as writer:
            returned = [writer.hear() for _ in range(20)]
            writer.child.kill()
            writer.child.wait()
        with og.open(url) as store:
            assert all(store.exists(address) for address in returned)
            assert store.maintenance.check().ok
