# SPDX-License-Identifier: Apache-2.0
"""The server's description of itself is true for every route and request."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain.errors import SchemaError
from omsgrain.formats.aimem.check import RULES as AIMEM
from omsgrain.server.errors import RULES, HttpRefusal, answer, refusal_of
from omsgrain.server.metrics import RequestCounts
from omsgrain.server.routes import ROUTES, document
from omsgrain.server.service import ServerOptions
from omsgrain.sync import protocol
from omsgrain.sync.peer import FRAME, START, Batch, Hello
from omsgrain.sync.protocol import Changes, Get, Reconcile
from support.http_server import ALL, BLOB, BUNDLE, GRACE, LINES, Site, bundle, chunk, lamp, site
from support.http_status_table import LIMIT, ROWS, Row
from support.markdown_page import table
from support.paths import ROOT

SERVING = ROOT / "docs" / "serving.md"
FORMATS = SERVING.with_name("formats.md")
PROJECT = dict(one.split(", ") for one in metadata("omsgrain").get_all("Project-URL") or ())
ADDRESS = "0" * 64


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    options = ServerOptions(document=LIMIT, lines=2 * LIMIT, counts=RequestCounts(()))
    with site(tmp_path_factory.mktemp("api") / "m.omsg", options) as found:
        yield found


@pytest.fixture(scope="module")
def token(served: Site) -> str:
    return served.token()


def anchors(page: Path) -> list[tuple[str, str]]:
    """The anchors of rules on a page, each once, beside the rule that it is about."""
    found = re.findall(r'<a id="(.*?)"></a>`(.*?)`', page.read_text("utf-8"))
    assert all(anchor == rule for anchor, rule in found) and len(found) == len(set(found))
    return found


@pytest.mark.parametrize("rule", [*RULES, *AIMEM, "packed", "a-rule-of-a-preset"])
def test_the_type_of_a_refusal_links_to_a_page(rule: str) -> None:
    """A rule that is neither the server's nor the format's has the general type."""
    known = rule in {*RULES, *AIMEM}
    error = SchemaError("no", rule=rule) if not known or rule in AIMEM else None
    refusal = HttpRefusal(rule) if error is None else refusal_of(error)
    found = json.loads(bytes(answer(refusal).body))
    page, _, anchor = (
        found["type"].removeprefix(f"{PROJECT['Repository']}/blob/main/docs/").partition("#")
    )
    assert (anchor, anchor) in anchors(SERVING.parent / page)
    assert found["rule"] == rule and anchor == (rule if known else "invalid_grain")


def told(path: str, method: str) -> dict[str, Any] | None:
    """The description of a method of a path."""
    for template, methods in document()["paths"].items():
        fixed = template.partition("{")[0]
        same = path == template or ("{" in template and path.startswith(fixed) and path != fixed)
        if same and "/" not in path[len(fixed) :] and method.lower() in methods:
            found: dict[str, Any] = methods[method.lower()]
            return found
    return None


def fits(answer: httpx.Response, path: str, method: str) -> None:
    """An answer is one that the description names, with its media type and its members."""
    operation = told(path.partition("?")[0], method)
    if operation is None:
        assert answer.status_code in (404, 405)
        return
    shown = operation["responses"].get(str(answer.status_code))
    assert shown is not None, (method, path, answer.status_code)
    media = answer.headers["content-type"]
    assert media in shown["content"]
    if media.endswith(("/json", "+json")):
        follows(answer.json(), shown["content"][media]["schema"])


def follows(value: Any, schema: dict[str, Any]) -> None:
    if "$ref" in schema:
        schema = document()["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    if schema.get("type") == "object":
        assert isinstance(value, dict)
        assert set(schema.get("required", ())) <= value.keys()
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                follows(value[name], inner)
    if schema.get("type") == "array":
        for item in value:
            follows(item, schema["items"])
    if "const" in schema:
        assert value == schema["const"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_refusals_are_described(served: Site, token: str, row: Row) -> None:
    method = row.method
    operation = told(row.path.partition("?")[0], method)
    if operation is not None:
        assert str(row.status) in operation["responses"], row.name


def test_good_answers_are_described(served: Site, token: str) -> None:
    typed = {"content-type": BUNDLE}
    put = served.ask("POST", "/v1/grains", token, json=lamp())
    address = put.json()["addresses"][0]
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/v1/grains", {"json": [lamp()]}),
        ("POST", "/v1/brain/import", {"content": bundle(chunk(1)), "headers": typed}),
        ("GET", "/v1/brain/export", {}),
        ("GET", "/v1/brain/export/stream", {}),
        ("GET", "/v1/grains?subject=lamp", {}),
        ("GET", f"/v1/grains/{address}", {}),
        ("GET", f"/v1/grains/{address}", {"headers": {"accept": BLOB}}),
        ("GET", "/v1/search?text=on", {}),
        ("GET", "/v1/changes", {}),
        ("POST", "/v1/verify", {"json": {"address": address}}),
        ("POST", "/v1/verify", {"content": bundle(chunk(1)), "headers": typed}),
        ("POST", "/mcp", {"json": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}}),
        ("DELETE", f"/v1/grains/{address}", {}),
        ("DELETE", "/v1/brain", {}),
        ("GET", "/healthz", {}),
        ("GET", "/readyz", {}),
        ("GET", "/metrics", {}),
        ("GET", "/openapi.json", {}),
    ]
    syncs = served.sync_token()
    questions: dict[str, Any] = {
        "greet": Hello(),
        "share": (),
        "changes": Changes(START, Hello(), 1),
        "reconcile": Reconcile("grains", b"", Hello(), True, FRAME),
        "lacking": (),
        "give": Get("grains", (), Hello()),
        "take": Batch(b""),
    }
    for name, question in questions.items():
        given = {"content": protocol.pack(question), "headers": {"content-type": protocol.MEDIA}}
        asked.append(("POST", protocol.PATH + name, given))
    for method, path, more in asked:
        shown = syncs if path.startswith(protocol.PATH) else token
        answer = served.ask(method, path, shown, **more)
        assert answer.status_code == 200, answer.text
        fits(answer, path, method)
    described = {(route.method, route.path) for route in ROUTES if "pubkey" not in route.path}
    covered = {(m, p.partition("?")[0].replace(address, "{address}")) for m, p, _ in asked}
    assert described == covered


PATHS = st.sampled_from([r.path.replace("{address}", ADDRESS) for r in ROUTES]) | st.text(
    "abc/{}.%", max_size=9
).map(lambda text: "/" + text)
NAMES = sorted({one.name for route in ROUTES for one in route.parameters})
VALUES = st.text(max_size=12) | st.sampled_from(["FULL", "SINCE", "true", "1", "-1", "1e9", "lab"])
MEDIA = st.sampled_from(["", BUNDLE, "application/json", LINES, BLOB, 'a/b; c="d', "text/plain"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=4) | st.sampled_from([*lamp(), "$bytes"]), inner, max_size=4
        )
    ),
    max_leaves=6,
)
BODIES = (
    st.binary(max_size=40)
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.tuples(st.sampled_from([*lamp(), *chunk(1)]), JSON).map(
        lambda change: json.dumps(lamp() | {change[0]: change[1]}).encode()
    )
    | st.tuples(st.integers(0, 400), st.binary(max_size=3)).map(
        lambda cut: bundle(chunk(1))[: cut[0]] + cut[1] + bundle(chunk(1))[cut[0] :]
    )
)


@given(
    st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]),
    PATHS,
    st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), VALUES, max_size=3),
    MEDIA,
    BODIES,
    st.sampled_from(["", "gzip", "identity"]),
)
def test_nothing_that_is_asked_breaks_it(
    served: Site,
    token: str,
    method: str,
    path: str,
    parameters: dict[str, str],
    media: str,
    body: bytes,
    encoding: str,
) -> None:
    headers = {"content-type": media} if media else {}
    if encoding:
        headers["content-encoding"] = encoding
    content = body if method in ("POST", "PUT") else b""
    request = httpx.URL("http://omsgrain.test").copy_with(path=path or "/", params=parameters)
    answer = served.ask(method, str(request), token, content=content, headers=headers)
    assert answer.status_code < 500, (method, path, answer.text)
    assert "defect" not in served.log.getvalue()
    if method in ("GET", "POST", "DELETE"):
        fits(answer, request.path, method)


def test_the_page_names_all_routes_and_all_refusals() -> None:
    rows = table(SERVING, "method and path", "scope", "takes", "gives")
    routes = [f"{route.method} {route.path}" for route in ROUTES]
    assert [row[0] for row in rows] == routes
    assert [row[1] for row in rows] == [" or ".join(route.scopes) for route in ROUTES]
    rows = table(SERVING, "status", "rule", "when")
    assert {(int(row[0]), row[1]) for row in rows} == {
        (rule.status, name) for name, rule in RULES.items()
    }
    assert not RULES.keys() & AIMEM.keys()
    assert set(ALL) <= {
        row[1] for row in table(SERVING, "method and path", "scope", "takes", "gives")
    }
    assert {name for name, _ in anchors(SERVING)} == set(RULES)
    assert {name for name, _ in anchors(FORMATS)} == set(AIMEM)
    assert GRACE not in SERVING.read_text("utf-8")
