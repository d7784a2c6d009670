# SPDX-License-Identifier: Apache-2.0
"""Schemathesis reads what the server says of itself, and tries to find that it is not so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

import omsgrain as og
from omsgrain.server.routes import ROUTES
from omsgrain.sync.protocol import MEDIA as SYNC
from support.http_process import Served
from support.http_server import ADA, ALL
from support.tokens import add_token

schemathesis.serializer.alias(SYNC, "application/octet-stream")

FEW, MANY = 4, 300
MODES = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
#: What is a bundle, a grain, a time or a word no schema can say: good ones are refused, too.
PARTLY = {r.path for r in ROUTES if r.bodies or "export" in r.path or "search" in r.path}


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("schema") / "m.omsg"
    og.open(path).close()
    token = add_token(path, "ada", ADA, ALL)
    with Served(path) as served:
        found = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
        found.config.update(headers={"Authorization": f"Bearer {token}"})
        yield found


def asked_for() -> Iterator[Any]:
    """Each route, and with what is wrong where anything can be."""
    for route in ROUTES:
        readable = set(route.bodies) - {SYNC}  # of bytes a schema says nothing that can be broken
        some = route.parameters or readable or "{" in route.path
        for mode in MODES if some else MODES[:1]:
            yield pytest.param(route, mode, id=f"{route.method} {route.path} {mode}")


@pytest.mark.parametrize(("route", "mode"), [*asked_for()])
def test_answers_are_those_described(
    schema: Any, route: Any, mode: GenerationMode, long: bool
) -> None:
    @settings(max_examples=MANY if long else FEW)
    @given(schema[route.path][route.method].as_strategy(mode))
    def asked(case: Any) -> None:
        left_out = []
        if route.path in PARTLY:
            left_out.append(positive_data_acceptance)
        if route.path == "/v1/verify":  # its answer tells what is wrong
            left_out.append(negative_data_rejection)
        case.call_and_validate(excluded_checks=left_out)

    asked()
