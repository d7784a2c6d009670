# SPDX-License-Identifier: Apache-2.0
"""The one way in which these tests look at a refusal: by its code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import OmsError

CORRUPT, NOT_MAP, NO_TYPE = "ERR_CORRUPT", "ERR_NOT_MAP", "ERR_NO_TYPE"
SCHEMA, RANGE, EMPTY = "ERR_SCHEMA", "ERR_RANGE", "ERR_EMPTY"
FLOAT, TOO_LARGE, FORMAT = "ERR_FLOAT_INVALID", "ERR_TOO_LARGE", "ERR_FORMAT"


def refused(blob: bytes, *codes: str) -> OmsError:
    """The refusal of a blob, whose code must be one of these; a corrupt one says where."""
    with pytest.raises(OmsError) as caught:
        og.decode(blob)
    error = caught.value
    assert error.code in codes
    if error.code == CORRUPT:
        assert error.offset is not None
        assert error.offset >= 0
    return error


def rejected(
    fields: Mapping[str, Any], *codes: str, field: str | None = None, **options: Any
) -> OmsError:
    """A dict is not written; `field` is the pointer that the error must show, if given."""
    with pytest.raises(OmsError) as caught:
        og.encode(fields, **options)
    assert caught.value.code in codes
    assert field in (None, caught.value.field)
    return caught.value
