# SPDX-License-Identifier: Apache-2.0
"""The shipped JSON Schema says what the checks say, of good documents and of bad ones."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from omsgrain.formats.mif2.check import text
from omsgrain.formats.mif2.format import MIF2
from support.edited_documents import damaged
from support.mif2_documents import DIALECT, DOCUMENTS, FULL, MINIMAL, PLACEHOLDERS, spelled

SCHEMA = json.loads(text())
VALIDATOR = Draft202012Validator(SCHEMA)


def test_the_schema_is_that_of_the_table() -> None:
    docs = Path(__file__).parents[3] / "docs"
    made = runpy.run_path(str(docs / "make_schemas.py"))
    assert made["mif2_schema"]() == SCHEMA
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("whole", [MINIMAL, PLACEHOLDERS, FULL, DIALECT])
def test_documents_of_others_are_valid(whole: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(whole)


DAMAGED = damaged(st.one_of(DOCUMENTS, st.sampled_from([FULL, DIALECT])))


@given(st.one_of(DOCUMENTS, DAMAGED, DAMAGED))
def test_the_schema_and_the_checks_agree(whole: Any) -> None:
    assert VALIDATOR.is_valid(whole) == (MIF2.validate(spelled(whole)).total == 0)
