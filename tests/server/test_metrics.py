# SPDX-License-Identifier: Apache-2.0
"""Figures for Prometheus: its own parser reads them, and they have no content."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

import omsgrain as og
from omsgrain.bridge.bridge import BridgeCounts
from omsgrain.bridge.metrics import metrics_served, metrics_text
from omsgrain.errors import StoreError
from omsgrain.server.metrics import BUCKETS, Figure, RequestCounts, text_of
from omsgrain.server.routes import ROUTES
from omsgrain.server.service import ServerOptions
from omsgrain.store.context import context_of
from support.http_process import Served
from support.http_server import ADA, lamp, site
from support.shell import USAGE, Shell, belief, lines


def parsed(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def samples(family: Metric) -> dict[tuple[str, ...], float]:
    """The samples by the values of their labels."""
    return {(*sample.labels.values(),): sample.value for sample in family.samples}


def test_a_server_counts_its_requests(tmp_path: Path) -> None:
    counts = RequestCounts(route.path for route in ROUTES)
    with site(tmp_path / "m.omsg", ServerOptions(counts=counts)) as served:
        token = served.token()
        for n in range(3):
            assert served.ask("POST", "/v1/grains", token, json=lamp(str(n))).status_code == 200
        assert served.ask("GET", "/v1/grains", token).status_code == 200
        assert served.ask("GET", "/v1/grains").status_code == 401
        assert served.ask("GET", f"/v1/secret/{ADA}").status_code == 404
        answer = served.ask("GET", "/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        found = parsed(answer.text)
        requests = samples(found["omsgrain_http_requests"])
        assert requests == {
            ("/v1/grains", "2xx"): 4.0,
            ("/v1/grains", "4xx"): 1.0,
            ("other", "4xx"): 1.0,
        }
        times = [one for one in found["omsgrain_http_request_seconds"].samples]
        assert {s.value for s in times if s.labels.get("le") == "+Inf"} == {5.0, 1.0}
        assert samples(found["omsgrain_store_grains"]) == {(): 3.0}
        assert found["omsgrain_info"].samples[0].labels == {"version": og.__version__}
        assert ADA not in answer.text and "violet" not in answer.text


def test_without_the_option_there_are_no_metrics(tmp_path: Path) -> None:
    with site(tmp_path / "m.omsg") as served:
        assert served.ask("GET", "/metrics").status_code == 404
        assert served.ask("GET", "/readyz").json() == {"status": "ok"}


def test_a_server_whose_store_cannot_be_written_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site(path := tmp_path / "m.omsg") as served:

        def reason(code: str) -> str:
            answer = served.ask("GET", "/readyz")
            told = answer.json()
            assert (answer.status_code, told["rule"], told["code"]) == (
                503, "store_unavailable", code,
            )  # fmt: skip
            assert served.ask("GET", "/healthz").status_code == 200
            assert str(tmp_path) not in answer.text
            return str(told["detail"])

        path.rename(away := tmp_path / "away.omsg")
        assert "directory" in reason("ERR_STORE")
        away.rename(path)
        assert served.ask("GET", "/readyz").json() == {"status": "ok"}
        usage = shutil.disk_usage(path)
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=4096))
            assert "full" in reason("ERR_DISK_FULL")

        def refuse(*_: object) -> None:
            raise StoreError("map resized")

        monkeypatch.setattr(type(context_of(served.service.stores.main).inner), "write", refuse)
        assert reason("ERR_STORE")


def test_workers_answer_for_all(tmp_path: Path) -> None:
    og.open(path := tmp_path / "m.omsg").close()
    with Served(path, "--workers", 2, "--metrics", "--log-format", "json") as served:
        asked = 0
        while len(served.workers()) < 2:
            httpx.get(f"{served.url}/healthz")
            asked += 1
        os.kill(served.workers()[0], signal.SIGKILL)
        while len(served.workers()) < 3:
            httpx.get(f"{served.url}/healthz")
            asked += 1
        for _ in range(8):
            httpx.get(f"{served.url}/healthz")
            asked += 1
        found = parsed(httpx.get(f"{served.url}/metrics").text)
        assert samples(found["omsgrain_http_requests"])["/healthz", "2xx"] == asked
        assert served.end(signal.SIGTERM) == 0


@given(
    st.lists(st.tuples(st.sampled_from(["/a", "/b", "/c"]), st.none() | st.integers(100, 599),
                       st.integers(0, 1 << 40), st.floats(0, 100)), max_size=20)
)  # fmt: skip
def test_counts_add_up(requests: list[tuple[str, int | None, int, float]]) -> None:
    counts = RequestCounts(["/a", "/b"], workers=3)
    for number, (route, status, size, seconds) in enumerate(requests):
        counts.worker = number % 3
        counts.add(route, status, size, seconds)
    found = parsed(text_of(counts.figures()))
    total = sum(samples(found["omsgrain_http_requests"]).values())
    sizes = sum(samples(found["omsgrain_http_response_bytes"]).values())
    assert (total, sizes) == (len(requests), sum(size for _, _, size, _ in requests))
    for bound in BUCKETS:
        below = sum(
            one.value
            for one in found["omsgrain_http_request_seconds"].samples
            if one.labels.get("le") == str(bound)
        )
        assert below == sum(seconds <= bound for *_, seconds in requests)


def test_labels_are_escaped() -> None:
    odd = 'a"b\\c\nd'
    text = text_of([Figure("x", "gauge", "A figure.", [("", {"name": odd}, 1.5)])])
    assert parsed(text)["x"].samples[0].labels == {"name": odd}


def test_a_bridge_serves_its_counts() -> None:
    counts = BridgeCounts(messages=3, stored=2, commit_seconds=0.25)
    with og.open(":memory:") as store:
        store.put(belief(1))
        with metrics_served(0, lambda: metrics_text(store, counts)) as port:
            answer = httpx.get(f"http://127.0.0.1:{port}/metrics")
            assert httpx.get(f"http://127.0.0.1:{port}/").status_code == 404
            with pytest.raises(StoreError), metrics_served(port, str):
                pass
    found = parsed(answer.text)
    assert samples(found["omsgrain_bridge_messages"]) == {(): 3.0}
    assert samples(found["omsgrain_bridge_commit_seconds"]) == {(): 0.25}
    assert samples(found["omsgrain_store_grains"]) == {(): 1.0}


def test_stats_in_the_text_format(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(capfdbinary, monkeypatch)
    assert shell("ingest", path := tmp_path / "m.omsg", stdin=lines(belief(1), belief(2))) == 0
    assert shell("stats", path, "--prometheus") == 0
    assert samples(parsed(shell.out.decode())["omsgrain_store_grains"]) == {(): 2.0}
    assert shell("stats", path, "--prometheus", "--json") == USAGE
