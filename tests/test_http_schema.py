# SPDX-License-Identifier: Apache-2.0
"""Schemathesis reads what the server says of itself, and tries to find that it is not so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis import GenerationMode

import omsgrain as og
from http_processes import Served
from http_sites import ADA, ALL
from omsgrain.ops.tokens import add_token
from omsgrain.services.http.routes import ROUTES

FEW, MANY = 8, 300


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("schema") / "m.omsg"
    og.open(path).close()
    token = add_token(path, "ada", ADA, ALL)
    with Served(path) as served:
        found = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
        found.config.update(headers={"Authorization": f"Bearer {token}"})
        yield found


@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_answers_are_those_described(
    schema: Any, route: Any, mode: GenerationMode, long: bool
) -> None:
    @settings(max_examples=MANY if long else FEW)
    @given(schema[route.path][route.method].as_strategy(mode))
    def asked(case: Any) -> None:
        case.call_and_validate()

    asked()
