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
from jsonschema import Draft202012Validator, FormatChecker

from omsgrain.formats import times
from omsgrain.formats.mif1 import check
from omsgrain.formats.mif1.format import MIF1
from support.edited_documents import damaged
from support.mif1_documents import DOCUMENTS, EXAMPLES, PUBLISHED, SEP
from support.mif2_documents import spelled

SCHEMA = json.loads(Path(check.__file__).with_name("schema.json").read_text("utf-8"))
FORMATS = FormatChecker(formats=())


@FORMATS.checks("date-time")
def is_time(value: object) -> bool:
    return not isinstance(value, str) or times.parse(value, floating=True) is not None


VALIDATOR = Draft202012Validator(SCHEMA, format_checker=FORMATS)


def test_the_schema_is_that_of_the_table() -> None:
    docs = Path(__file__).parents[3] / "docs"
    made = runpy.run_path(str(docs / "make_schemas.py"))
    assert made["mif1_schema"]() == SCHEMA
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("whole", EXAMPLES)
def test_documents_of_others_are_valid(whole: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(whole)


DAMAGED = damaged(st.one_of(DOCUMENTS, st.sampled_from([SEP, PUBLISHED])))


@given(st.one_of(DOCUMENTS, DAMAGED, DAMAGED))
def test_the_schema_and_the_checks_agree(whole: Any) -> None:
    found = MIF1.validate(spelled(whole), layout="json")
    assert VALIDATOR.is_valid(whole) == (found.total == 0)
