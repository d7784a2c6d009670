# SPDX-License-Identifier: Apache-2.0
"""A document as YAML: all strings in double quotes, so that every reader finds what was there.

It asks for no library. Spec: MIF 1.0 §1, YAML 1.2 §7.3
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

__all__ = ["write"]

_STEP: Final = "  "
_LONGEST: Final = 1_000  # characters of a key in one line; YAML has 1,024
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def write(document: dict[str, Any]) -> bytes:
    """Write a document, in UTF-8."""
    return "".join(f"{line}\n" for line in _block(document, "")).encode()


def _block(value: Any, pad: str) -> Iterator[str]:
    """The lines of a value; those of an object or an array begin with the pad."""
    if not value or not isinstance(value, dict | list) or _is_flat(value):
        yield pad + _inline(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            name = _quoted(key)
            if len(name) > _LONGEST:
                yield f"{pad}? {name}"
                name = ""
            if not item or not isinstance(item, dict | list) or _is_flat(item):
                yield f"{pad}{name}: {_inline(item)}"
            else:
                yield f"{pad}{name}:"
                yield from _block(item, pad + _STEP)
    else:
        for item in value:
            first = True
            for line in _block(item, pad + _STEP):
                yield f"{pad}- {line[len(pad) + 2 :]}" if first else line
                first = False


def _is_flat(value: Any) -> bool:
    """Whether all is numbers, as in a vector, which stands in one line."""
    return isinstance(value, list) and {*map(type, value)} <= {int, float}


def _inline(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if type(value) is float:
        text = repr(value)
        # Without a point a reader of YAML 1.1 would take it for a string.
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return "{}" if isinstance(value, dict) else json.dumps(value)


def _quoted(text: str) -> str:
    return _ESCAPED.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
