# SPDX-License-Identifier: Apache-2.0
"""Servers in trouble: too many clients, slow clients, no room, stopping, defects."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.server import bundles, export, request
from omsgrain.server.app import AccessLog
from omsgrain.server.errors import HttpRefusal
from omsgrain.server.log import Log
from omsgrain.server.service import FairSemaphore, HttpService, ServerOptions, Stores
from support.http_server import ADA, BUNDLE, LINES, Site, bundle, by_lines, chunk, lamp, site

IMPORT, EXPORT = "/v1/brain/import", "/v1/brain/export"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Site]:
    options = ServerOptions(at_work=1, waiting=1, timeout=5.0)
    with site(tmp_path / "m.omsg", options) as found:
        yield found


def headers(token: str, media: str = BUNDLE) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", "content-type": media}


def test_requests_beyond_the_queue_are_asked_to_retry(served: Site) -> None:
    token = served.token()

    async def act() -> list[httpx.Response]:
        async with served.service.work.inside():  # somebody works
            waits = asyncio.ensure_future(served.client.get("/v1/grains", headers=headers(token)))
            while not served.service.work.waiting:
                await asyncio.sleep(0)
            refused = await served.client.get("/v1/grains", headers=headers(token))
        return [refused, await waits]

    refused, waited = served.loop.run_until_complete(act())
    assert (refused.status_code, refused.json()["rule"]) == (429, "too_many_requests")
    assert int(refused.headers["retry-after"]) > 0
    assert waited.status_code == 200


def test_those_that_wait_are_sent_away_when_it_stops(served: Site) -> None:
    token = served.token()

    async def act() -> list[httpx.Response]:
        async with served.service.work.inside():
            waits = asyncio.ensure_future(served.client.get("/v1/grains", headers=headers(token)))
            while not served.service.work.waiting:
                await asyncio.sleep(0)
            served.service.stop()
            return [await waits, await served.client.get("/healthz")]

    for answer in served.loop.run_until_complete(act()):
        assert (answer.status_code, answer.json()["rule"]) == (503, "stopping")
        assert "retry-after" in answer.headers


def test_a_gate_keeps_its_count() -> None:
    async def act() -> list[str]:
        gate, told = FairSemaphore(1, 10, 1), []

        async def pass_through(name: str) -> None:
            async with gate.inside():
                told.append(name)
                await asyncio.sleep(0)

        async with gate.inside():
            tasks = [asyncio.ensure_future(pass_through(str(n))) for n in range(4)]
            await asyncio.sleep(0)
            assert gate.waiting == 4
            tasks[1].cancel()
            await asyncio.sleep(0)
        tasks[0].cancel()  # its turn has come already
        await asyncio.gather(*tasks, return_exceptions=True)
        async with gate.inside():
            assert gate.waiting == 0
            gate.close()
            with pytest.raises(HttpRefusal):
                async with gate.inside():
                    pass
        async with gate.inside():
            return told

    assert asyncio.run(act()) == ["2", "3"]


def test_no_token_has_more_than_half_of_the_places() -> None:
    async def act() -> list[str]:
        gate, told = FairSemaphore(4, 4, 1), []
        held = asyncio.Event()

        async def pass_through(who: str) -> None:
            async with gate.inside(who):
                told.append(who)
                await held.wait()

        tasks = [asyncio.ensure_future(pass_through("ada")) for _ in range(4)]
        await asyncio.sleep(0)
        assert (told, gate.waiting) == (["ada", "ada"], 2)
        with pytest.raises(HttpRefusal) as caught:  # nor of the line
            await pass_through("ada")
        assert caught.value.rule == "too_many_requests"
        tasks += [asyncio.ensure_future(pass_through("grace")) for _ in range(3)]
        await asyncio.sleep(0)
        assert (told[2:], gate.waiting) == (["grace", "grace"], 3)
        held.set()
        await asyncio.gather(*tasks)
        assert (gate._free, gate._inside) == (4, {})
        return told

    assert sorted(asyncio.run(act())) == ["ada"] * 4 + ["grace"] * 3


@pytest.mark.parametrize("end", ["gone", "cut"])
@pytest.mark.parametrize("media", [BUNDLE, LINES])
def test_abandoned_work_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, media: str, end: str
) -> None:
    """The work of this test ends only when it is stopped."""
    begun = threading.Event()

    def endless(*_: Any, alive: Callable[[], None], **__: Any) -> Any:
        begun.set()
        while True:
            alive()

    monkeypatch.setattr(bundles, "import_bundle", endless)
    with site(tmp_path / "m.omsg") as served:
        token, document = served.token(), bundle(chunk(1))
        body = document if media == BUNDLE else by_lines(document)
        sent: list[Any] = []
        taken = False

        async def receive() -> Any:
            nonlocal taken
            if not taken:
                taken = True
                return {"type": "http.request", "body": body, "more_body": False}
            while not begun.is_set():
                await asyncio.sleep(0.001)
            if end == "gone":
                return {"type": "http.disconnect"}
            served.service.stop()
            served.service.cut()
            return await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        given = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", media.encode())]
        scope = {
            "type": "http", "method": "POST", "path": IMPORT, "query_string": b"",
            "headers": given, "http_version": "1.1", "scheme": "http", "server": ("x", 80),
            "client": None, "root_path": "",
        }  # fmt: skip
        served.loop.run_until_complete(asyncio.wait_for(served.app(scope, receive, send), 10))
        assert served.service.work._free == served.service.options.at_work
        if end == "gone":
            assert not sent
        else:
            assert (sent[0]["status"], json.loads(sent[1]["body"])["rule"]) == (503, "stopping")


def test_values_are_bounded(tmp_path: Path) -> None:
    with site(tmp_path / "m.omsg", ServerOptions(values=100)) as served:
        token = served.token()
        many = [lamp(str(n), context={"x": [0] * 200}) for n in range(2)]
        for path, media, body in (
            (IMPORT, BUNDLE, bundle(chunk(1), x=[0] * 400)),
            ("/v1/verify", BUNDLE, bundle(chunk(1), x=[0] * 400)),
            ("/v1/grains", "application/json", json.dumps(many).encode()),
            ("/v1/grains", LINES, b"\n".join(json.dumps(one).encode() for one in many)),
        ):
            answer = served.ask("POST", path, content=body, headers=headers(token, media))
            told = answer.json()
            if path == "/v1/verify":
                assert [one["rule"] for one in told["problems"]] == ["too_large"]
            else:
                assert (answer.status_code, told["rule"]) == (413, "too_large"), told
        assert len(served.service.stores.main) == 0


def test_a_refused_import_is_in_the_audit_trail(served: Site) -> None:
    token = served.token()
    for body, media in ((b"{}", BUNDLE), (b"{}\n", LINES), (bundle(chunk(1)), BUNDLE)):
        served.ask("POST", IMPORT, content=body, headers=headers(token, media))
    with og.open(served.path, readonly=True) as store:
        entries = [e for e in store.audit.entries() if e.operation == "import"]
        assert store.audit.verify().ok
    assert [(e.actor, e.reason_code) for e in entries] == [("token:ada", "aimem")] * 3
    assert [e.details.get("refused") for e in entries] == ["bad_format", "bad_format", None]
    assert entries[0].details["status"] == 422


@pytest.mark.parametrize("slow", ["silent", "trickling"])
def test_a_slow_body_is_given_up(tmp_path: Path, slow: str) -> None:
    options = ServerOptions(timeout=0.05, slowest=1 << 20)
    with site(tmp_path / "m.omsg", options) as served:
        token = served.token()
        never = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield b"{"
            if slow == "silent":
                await never.wait()
            while True:
                await asyncio.sleep(0)
                yield b" "

        answer = served.ask("POST", IMPORT, content=body(), headers=headers(token))
        assert (answer.status_code, answer.json()["rule"]) == (408, "slow_request")


def test_bytes_that_unpack_to_nothing_but_bytes(tmp_path: Path) -> None:
    import gzip

    with site(tmp_path / "m.omsg", ServerOptions(ratio=10)) as served:
        bomb = gzip.compress(b" " * (8 << 20))
        packed = headers(served.token(), LINES) | {"content-encoding": "gzip"}
        answer = served.ask("POST", IMPORT, content=bomb, headers=packed)
        assert (answer.status_code, answer.json()["rule"]) == (413, "body_too_large")
        small = gzip.compress(b" " * 500_000)  # the first MiB counts too
        answer = served.ask("POST", IMPORT, content=small, headers=packed)
        assert (answer.status_code, answer.json()["rule"]) == (413, "body_too_large")


def test_gzip_of_several_parts_in_small_pieces(served: Site) -> None:
    import gzip

    data = by_lines(bundle(*(chunk(n) for n in range(300))))
    packed = gzip.compress(data[:5000]) + gzip.compress(data[5000:])

    async def body() -> AsyncIterator[bytes]:
        for i in range(0, len(packed), 997):
            yield packed[i : i + 997]

    given = headers(served.token(), LINES) | {"content-encoding": "gzip"}
    answer = served.ask("POST", IMPORT, content=body(), headers=given)
    assert answer.json()["chunks_inserted"] == 300


def test_gzip_of_a_great_many_parts(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left after each part is copied, which must not be all of it each time."""
    import gzip
    import zlib

    handed = 0
    real = zlib.decompressobj

    class Counting:
        def __init__(self, kind: int) -> None:
            self._inner = real(kind)

        def decompress(self, data: bytes, most: int) -> bytes:
            nonlocal handed
            handed += len(data)
            return self._inner.decompress(data, most)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    monkeypatch.setattr(zlib, "decompressobj", Counting)
    packed = gzip.compress(b"") * 5_000 + gzip.compress(bundle(chunk(1)))
    given = headers(served.token()) | {"content-encoding": "gzip"}
    answer = served.ask("POST", IMPORT, content=packed, headers=given)
    assert answer.json()["chunks_inserted"] == 1
    assert handed < 200 * len(packed)


def test_no_room_for_a_body(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "no room", "/secret/place")

    monkeypatch.setattr(request, "spool", full)
    given = headers(served.token())
    answer = served.ask("POST", IMPORT, content=bundle(chunk(1)), headers=given)
    assert (answer.status_code, answer.json()["rule"]) == (503, "store_unavailable")
    assert "secret" not in answer.text


@pytest.mark.parametrize("length", [b"\xb2", b"9" * 5_000, b"-1", b""])
def test_a_length_that_is_none(served: Site, length: bytes) -> None:
    """Of a server in front that hands on what it is given; what came is what counts."""
    given = [(name.encode(), value.encode()) for name, value in headers(served.token()).items()]
    given.append((b"content-length", length))
    request = served.client.build_request("POST", IMPORT, content=bundle(chunk(1)), headers=given)
    answer = served.loop.run_until_complete(served.client.send(request))
    assert answer.status_code == (413 if len(length) > 1_000 else 200)


def broken(error: Exception) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def test_a_store_in_trouble(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    token = served.token()
    monkeypatch.setattr(og.GrainStore, "query", broken(StoreError("full: /secret/place")))
    answer = served.ask("GET", "/v1/grains", token)
    assert (answer.status_code, answer.json()["rule"]) == (503, "store_unavailable")
    assert "retry-after" in answer.headers
    assert "secret" not in answer.text


def test_a_defect_reveals_nothing(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    token = served.token()
    monkeypatch.setattr(og.GrainStore, "query", broken(ValueError("violet of Ada")))
    answer = served.ask("GET", "/v1/grains", token)
    assert (answer.status_code, answer.json()["rule"]) == (500, "internal")
    assert "violet" not in answer.text and "ValueError" not in answer.text
    defect, request = served.lines()[-2:]
    assert (defect["event"], defect["error"]) == ("defect", "ValueError")
    assert defect["request"] == request["request"] == answer.headers["x-request-id"]
    assert "violet" not in served.log.getvalue()


def test_erased_and_held(served: Site) -> None:
    token = served.token()
    (address,) = served.ask("POST", "/v1/grains", token, json=lamp()).json()["addresses"]
    served.service.stores.main.holds.add(address, authority="court", reason_code="litigation")
    answer = served.ask("DELETE", f"/v1/grains/{address}", token)
    assert (answer.status_code, answer.json()["rule"]) == (409, "refused_by_policy")
    served.service.stores.main.holds.release(address, authority="court", reason_code="litigation")
    assert served.ask("DELETE", "/v1/brain", token).status_code == 200
    answer = served.ask("POST", "/v1/grains", token, json=lamp())
    assert (answer.status_code, answer.json()["rule"]) == (409, "erased")


def test_a_client_that_goes_away_stops_its_export(tmp_path: Path) -> None:
    with site(tmp_path / "m.omsg") as served:
        token = served.token()
        many = by_lines(bundle(*(chunk(n, "x" * 4_000) for n in range(400))))
        served.ask("POST", IMPORT, content=many, headers=headers(token, LINES))
        sent: list[Any] = []
        gone = asyncio.Event()

        async def receive() -> Any:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            gone.set()
            await asyncio.sleep(0)

        scope = {
            "type": "http", "method": "GET", "path": EXPORT + "/stream", "query_string": b"",
            "headers": [(b"authorization", f"Bearer {token}".encode())], "http_version": "1.1",
            "scheme": "http", "server": ("x", 80), "client": None, "root_path": "",
        }  # fmt: skip
        served.loop.run_until_complete(asyncio.wait_for(served.app(scope, receive, send), 10))
        assert sum(len(m.get("body", b"")) for m in sent) < len(many)
        assert sent[-1].get("more_body", True)  # it did not end as a whole one does
        assert served.ask("GET", "/v1/grains", token).status_code == 200  # and its place is free
        assert served.service.work._free == served.service.options.at_work


@pytest.mark.parametrize(
    ("error", "events", "code"),
    [
        (ValueError("violet"), ["request", "defect", "request"], None),
        (StoreError("violet"), ["request", "request"], "ERR_STORE"),
    ],
    ids=["defect", "error"],
)
def test_an_export_that_breaks_in_the_middle(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    events: list[str],
    code: str | None,
) -> None:
    """It is logged by its code, without its words, and its place is free again."""
    with site(tmp_path / "m.omsg") as served:
        token = served.token()
        many = by_lines(bundle(*(chunk(n, "x" * 4_000) for n in range(200))))
        served.ask("POST", IMPORT, content=many, headers=headers(token, LINES))
        # After what was made before the first byte went out.
        monkeypatch.setattr(export, "gathered", broken(error))
        with pytest.raises(AssertionError):  # httpx misses the end of the answer
            served.ask("GET", EXPORT + "/stream", token)
        told = served.lines()
        assert [line["event"] for line in told] == events
        assert (told[-1]["status"], told[-1].get("code")) == ("200 aborted", code)
        assert "violet" not in str(told[-1])
        assert served.service.work._free == served.service.options.at_work


def test_a_log_without_secrets(served: Site) -> None:
    token = served.token()
    served.ask("GET", "/v1/grains?subject=violet", token)
    served.ask("GET", "/v1/violet/path", token)
    served.ask("POST", IMPORT, content=bundle(chunk(1, "violet")), headers=headers(token))
    logged = served.log.getvalue()
    for secret in (token, token[4:], ADA, "violet", "subject"):
        assert secret not in logged
    assert [(e["method"], e["route"], e["status"]) for e in served.lines()] == [
        ("GET", "/v1/grains", 200),
        ("GET", "-", 404),
        ("POST", IMPORT, 200),
    ]
    assert all(e["bytes"] and e["ms"] >= 0 for e in served.lines())


def test_the_log_can_name_tokens(tmp_path: Path) -> None:
    with site(tmp_path / "m.omsg", ServerOptions(log_tokens=True)) as served:
        token = served.token("laptop-7")
        served.ask("GET", "/v1/grains", token)
        served.ask("GET", "/v1/grains", "omg_" + "a" * 43)
        served.ask("GET", "/healthz")
        assert [line.get("token") for line in served.lines()] == ["laptop-7", None, None]
        assert token not in served.log.getvalue()


def test_closing_stops_what_is_at_work(tmp_path: Path) -> None:
    path = tmp_path / "m.omsg"
    og.open(path).close()
    service = HttpService(Stores(og.open(path)), ServerOptions())

    async def act() -> None:
        async with service.working("ada") as flag:
            service.stop()
            service.close()
            with pytest.raises(Exception):  # noqa: B017
                flag.check()

    asyncio.run(act())


@pytest.mark.parametrize(("announced", "status"), [(b"5", 200), (b"6", "200 aborted")])
def test_a_client_with_the_whole_answer_aborted_nothing(announced: bytes, status: object) -> None:
    """A client that has as many bytes as were announced may go before the server has ended."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", announced)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"hello", "more_body": True})

    async def gone(_: Any = None) -> Any:
        return {"type": "http.disconnect"}

    said = io.StringIO()
    scope = {"type": "http", "method": "GET"}
    asyncio.run(AccessLog(app, Log("json", said))(scope, gone, gone))
    assert json.loads(said.getvalue())["status"] == status
