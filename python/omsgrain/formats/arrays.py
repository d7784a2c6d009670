# SPDX-License-Identifier: Apache-2.0
"""The arrays of records in a document, taken out of it and put back, by their JSON pointers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from omsgrain.errors import FormatError
from omsgrain.formats.texts import Texts

__all__ = ["fill", "lift"]


def lift(
    document: dict[str, Any], pointers: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Take the arrays of records out of a document.

    Args:
        document: any; it is not changed.
        pointers: where its arrays may stand. What is not there, or is no array, is left as it is.

    Returns:
        The document with these arrays empty, and the arrays by pointer: lists, or `Texts`.
    """
    envelope: dict[str, Any] = document
    arrays: dict[str, Any] = {}
    for pointer in pointers:
        array = _at(document, pointer)
        if isinstance(array, list | Texts):
            arrays[pointer] = array
            envelope = _with(envelope, pointer, [])
    return envelope, arrays


def fill(envelope: dict[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Put the arrays of records into a document again; the other way of `lift`.

    Raises:
        FormatError: the envelope has no place for one.
    """
    document = envelope
    for pointer, array in arrays.items():
        if not isinstance(_at(envelope, pointer), list):
            raise FormatError("no array of records stands there", field=pointer, rule="manifest")
        document = _with(document, pointer, array)
    return document


def _at(value: Any, pointer: str) -> Any:
    for key in _keys(pointer):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _with(document: dict[str, Any], pointer: str, array: Any) -> dict[str, Any]:
    """The document with another array; only what leads to it is copied."""
    *way, last = _keys(pointer)
    whole = place = dict(document)
    for key in way:
        place[key] = dict(place[key])
        place = place[key]
    place[last] = array
    return whole


def _keys(pointer: str) -> list[str]:
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
