# SPDX-License-Identifier: Apache-2.0
"""The black-box runner: it passes our server, twice, and notices servers that do otherwise."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h11
import httpx
import pytest

from omsgrain.conformance.http import FLOWS, REQUESTS, CaseOutcome, HttpCase, ask, cases, run
from omsgrain.conformance.probe import TenantTokens
from omsgrain.errors import SchemaError
from support.http_server import Site, site
from support.shell import Shell

Answers = Callable[[httpx.Request], httpx.Response]


class Through(httpx.BaseTransport):
    """Requests to a server in this process."""

    def __init__(self, served: Site) -> None:
        self._site = served

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        found = self._site.ask(
            request.method, str(request.url), headers=request.headers, content=request.read()
        )
        headers = [  # its content is unpacked
            (name, value) for name, value in found.headers.items() if name != "content-encoding"
        ]
        return httpx.Response(found.status_code, headers=headers, content=found.content)


def client(answers: Answers | httpx.BaseTransport) -> httpx.Client:
    whole = answers if isinstance(answers, httpx.BaseTransport) else httpx.MockTransport(answers)
    return httpx.Client(transport=whole, base_url="http://omsgrain.test")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path / "m.omsg") as found:
        yield found


def tokens_of(served: Site) -> TenantTokens:
    return TenantTokens(
        served.token("full", scopes=("import", "export")),
        served.token("out", scopes=("export",)),
        served.token("in", scopes=("import",)),
        served.token("admin", scopes=("admin",)),
    )


def failed(outcomes: list[CaseOutcome]) -> list[tuple[str, str | None, str | None]]:
    return [(one.name, one.expected, one.found) for one in outcomes if one.passed is not True]


@pytest.mark.parametrize("part", range(3))
def test_our_server_passes(served: Site, part: int) -> None:
    """Every case, none left out."""
    chosen = cases(erase=True)
    size = len(chosen) // 3 + 1
    tokens = tokens_of(served)
    outcomes = list(run(client(Through(served)), tokens, chosen[part * size : (part + 1) * size]))
    assert outcomes and failed(outcomes) == []


def test_it_can_be_run_again_on_the_same_store(served: Site) -> None:
    tokens = TenantTokens(tokens_of(served).full)
    flows = {flow.name for flow in FLOWS}
    chosen = [case for case in cases(draft_only=True) if case.needs or case.name in flows]
    for _ in range(2):
        with client(Through(served)) as asked:
            outcomes = list(run(asked, tokens, chosen))
        left = {one.name for one in outcomes if one.passed is None}
        assert left == {"GET export without the scope"}
        assert failed([one for one in outcomes if one.passed is not None]) == []


def test_cases_are_distinguished() -> None:
    every, draft = cases(erase=True), cases(draft_only=True, erase=True)
    names = [case.name for case in every]
    assert sorted(names) == sorted(set(names))
    assert {case.basis for case in draft} == {"draft"}
    assert {case.name for case in draft} < set(names)
    assert [case for case in every if case.needs == ("admin",)] == [every[-1]]


def test_nothing_is_erased_unless_asked_for() -> None:
    methods = set()

    def answers(request: httpx.Request) -> httpx.Response:
        methods.add(request.method)
        return httpx.Response(404)

    list(run(client(answers), TenantTokens("t", "e", "i", "a")))
    assert methods == {"GET", "POST", "PUT"}


@pytest.mark.parametrize("status", [200, 404, 500, 302])
def test_a_server_that_always_says_the_same(status: int) -> None:
    """Those that pass want just this status, and no more of the answer."""
    outcomes = list(
        run(client(lambda _: httpx.Response(status)), TenantTokens("t", "e", "i", "a"))
    )
    passed = {one.name for one in outcomes if one.passed}
    assert all(one.expected and one.found for one in outcomes if one.passed is False)
    assert len(passed) <= 12 and (status == 200 or not passed), passed


def of_each_kind() -> list[HttpCase]:
    """Some of the many cases that judge alike, and all of the others."""
    kinds: dict[str, list[HttpCase]] = {}
    for case in cases():
        kind, many, _ = case.name.partition(" ")
        alike = many and kind in ("takes", "refuses", "names")
        kinds.setdefault(kind if alike else case.name, []).append(case)
    return [case for alike in kinds.values() for case in alike[:3]]


EACH = of_each_kind()
_BUNDLE, _LINES = "application/aimem-bundle+json", "application/x-ndjson"


@pytest.mark.parametrize(("body", "media"), [
    (b"{", _BUNDLE), (b"null", _LINES), (b"[]", "application/problem+json"),
    (b'{"chunks": 7}', _BUNDLE), (b'{"chunks": [7, {"id": 1}]}', _BUNDLE), (b"\xff", _LINES),
    (b'"x"', "application/problem+json"), (b"[" * 5_000, _LINES),
    (b'{"chunks_rejected_conflict": null, "conflicts": 7}', _BUNDLE),
])  # fmt: skip
def test_any_answer_is_a_result(body: bytes, media: str) -> None:
    """No answer, however odd, stops the run."""
    for status in (200, 422):
        answer = httpx.Response(status, content=body, headers={"content-type": media})
        outcomes = list(run(client(lambda _: answer), TenantTokens("t"), EACH))  # noqa: B023
        assert any(one.passed is False for one in outcomes)


def changed(served: Site, change: Callable[[httpx.Request, httpx.Response], Any]) -> httpx.Client:
    """Our server, but for some answers."""
    through = Through(served)

    def answers(request: httpx.Request) -> httpx.Response:
        found = through.handle_request(request)
        other = change(request, found)
        return found if other is None else other

    return client(answers)


def _no_checksum(request: httpx.Request, found: httpx.Response) -> httpx.Response | None:
    if request.method != "GET" or found.status_code != 200:
        return None
    return httpx.Response(
        200, content=found.content.replace(b"sha256:", b"sha256:0", 1), headers=found.headers
    )


def _other_status(request: httpx.Request, found: httpx.Response) -> httpx.Response | None:
    if found.status_code not in (409, 422):
        return None
    return httpx.Response(400, content=found.content, headers={"content-type": "text/plain"})


def _media(request: httpx.Request, found: httpx.Response) -> httpx.Response | None:
    return httpx.Response(
        found.status_code, content=found.content, headers={"content-type": "application/json"}
    )


@pytest.mark.parametrize(("change", "cases_failed"), [
    (_no_checksum, {"an export is a bundle with the right checksum"}),
    (_other_status, {"refuses version: missing", "refuses checksum: cut short"}),
    (_media, {"GET export", "the stream is an envelope, then a record a line"}),
])  # fmt: skip
def test_defects_are_noticed(served: Site, change: Any, cases_failed: set[str]) -> None:
    tokens = TenantTokens(served.token())
    good = "importing again is a no-op" if change is not _media else "refuses scope: another"
    chosen = [case for case in cases(draft_only=True) if case.name in {*cases_failed, good}]
    with changed(served, change) as asked:
        outcomes = list(run(asked, tokens, chosen))
    assert {one.name for one in outcomes if one.passed is False} == cases_failed
    assert [one.name for one in outcomes if one.passed] == [good]


def test_a_server_that_stops_answering() -> None:
    count = 0

    def answers(request: httpx.Request) -> httpx.Response:
        nonlocal count
        count += 1
        if count > 1:
            raise httpx.ReadTimeout("too slow")
        return httpx.Response(401, headers={"www-authenticate": "Bearer"})

    outcomes = list(run(client(answers), TenantTokens("t")))
    assert {one.found for one in outcomes if one.passed is False} == {"ReadTimeout: too slow"}


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def test_no_server_answers() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionError):
        list(ask(url, TenantTokens("t")))
    for odd in ("ftp://x", "omsgrain.test", "http://"):
        with pytest.raises(SchemaError):
            list(ask(odd, TenantTokens("t")))
    with pytest.raises(SchemaError):
        list(ask(url, TenantTokens("t"), erase=True))


def test_the_command(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    shell = Shell(capfdbinary, monkeypatch)
    made = [
        CaseOutcome("one", "2.1", "draft", True),
        CaseOutcome("two", "2.2", "draft", False, "422", "500"),
        CaseOutcome("three", "2.3", "recommendation", None, found="no token: admin"),
    ]
    monkeypatch.setattr("omsgrain.conformance.http.ask", lambda *_, **__: iter(made))
    call = ("conformance", "--aimem-url", "http://omsgrain.test", "--token", "secret")
    assert shell(*call) == 1 and b"1 passed, 1 failed, 1 left out" in shell.out
    assert b"secret" not in shell.out + shell.err
    assert shell(*call, "--json") == 1
    told = json.loads(shell.out)
    assert (told["failed"], told["cases"][1]["found"]) == (1, "500")
    made.pop(1)
    assert shell(*call) == 0


def test_tokens_are_not_shown() -> None:
    assert "secret" not in repr(TenantTokens("secret", "secret", "secret", "secret"))


def test_all_that_is_asked_can_be_sent() -> None:
    """By a client that holds to HTTP: a header ends with no space, say."""
    for request in REQUESTS:
        token = request["token"]
        token = "" if token in ("full", "export_only", "import_only") else token
        headers = [("host", "x"), *request["headers"].items()]
        if token:
            headers.append(("authorization", token))
        connection = h11.Connection(h11.CLIENT)
        assert connection.send(h11.Request(method=request["method"], target="/", headers=headers))
