# SPDX-License-Identifier: Apache-2.0
"""Every row of the status table is refused with its status and its rule, and nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omsgrain.server.errors import RULES
from omsgrain.server.service import ServerOptions
from support.http_server import ALL, GRACE, Site, site
from support.http_status_table import LIMIT, ROWS, Row


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    options = ServerOptions(document=LIMIT, lines=2 * LIMIT)
    with site(tmp_path_factory.mktemp("status") / "m.omsg", options) as found:
        yield found


@pytest.fixture(scope="module")
def tokens(served: Site) -> dict[str, str]:
    made = {scope: served.token(scope, scopes=[scope]) for scope in ALL}
    return made | {
        "sync": served.sync_token(),
        "reader": served.sync_token("reader", ["sync:read"]),
        "writer": served.sync_token("writer", ["sync:write"]),
        "hall": served.sync_token("hall", ["sync:read"], "hall"),
        "all": served.token("all"),
        "unknown": "omg_" + "a" * 43,
        "short": "omg_abc",
        "grace": served.token("grace", GRACE),
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_refused(served: Site, tokens: dict[str, str], row: Row) -> None:
    token = None if row.token is None else tokens[row.token]
    answer = served.ask(row.method, row.path, token, content=row.body, headers=row.headers)
    told = answer.json()
    assert (answer.status_code, told["rule"]) == (row.status, row.rule), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert told["status"] == row.status
    assert {"type", "title", "code"} <= told.keys()
    assert ("www-authenticate" in answer.headers) == (
        row.status == 401 or row.rule == "missing_scope"
    )
    assert ("allow" in answer.headers) == (row.status == 405)
    assert answer.headers["cache-control"] == "no-store"


def test_nothing_was_written(served: Site, tokens: dict[str, str]) -> None:
    """It runs after all the others of this file."""
    assert len(served.service.stores.main) == 0
    assert not [line for line in served.lines() if line["event"] == "defect"]
    assert "-" not in {line["status"] for line in served.lines()}


def test_each_rule_of_the_server_is_tested() -> None:
    """The rest needs a server in trouble: see test_http_trouble.py."""
    elsewhere = {
        "slow_request", "erased", "refused_by_policy", "unknown_reference", "too_many_requests",
        "internal", "store_unavailable", "stopping",
    }  # fmt: skip
    here = {row.rule for row in ROWS}
    assert set(RULES) - elsewhere <= here
    assert not elsewhere & here
