# SPDX-License-Identifier: Apache-2.0
"""Which grains a store takes only with a signature that it has verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from unicodedata import normalize

from omsgrain.errors import SchemaError
from omsgrain.grain import Grain
from omsgrain.policy.rules import matches
from omsgrain.registry import TYPES

_FIELD = "/require_signatures"


@dataclass(frozen=True, slots=True)
class Required:
    """What must be so of a grain that has to be signed, all of it; empty, it is so of every one.

    Attributes:
        types: its type byte is one of these.
        namespaces: its namespace is one of these; ``robots:*`` stands for all that begin so.
    """

    types: frozenset[int] = frozenset()
    namespaces: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: object) -> Required | None:
        """Read what ``require_signatures`` was given."""
        if value is None or value is False:
            return None
        if value is True:
            return cls()
        if not isinstance(value, Mapping) or not value:
            expected = "True, or type and namespace with a list each"
            raise SchemaError("not what must be signed", field=_FIELD, expected=expected)
        if unknown := value.keys() - {"type", "namespace"}:
            raise SchemaError(
                "no such condition",
                field=f"{_FIELD}/{min(map(str, unknown))}",
                expected="type or namespace",
            )
        types = frozenset(map(_type_byte, _names(value, "type")))
        return cls(types, tuple(map(_pattern, _names(value, "namespace"))))

    def asks(self, grain: Grain) -> bool:
        """Tell whether a grain has to be signed; one whose namespace cannot be read has to."""
        if self.types and grain.header.type_byte not in self.types:
            return False
        if not self.namespaces or grain.sealed:
            return True
        return matches(grain.get("namespace"), self.namespaces)


def _names(value: Mapping[str, object], key: str) -> list[str]:
    names = value.get(key)
    if key not in value:
        return []
    # An empty list would ask for everything or for nothing, and nobody could tell which.
    if not isinstance(names, list | tuple | set | frozenset) or not names:
        raise SchemaError("a list of names", field=f"{_FIELD}/{key}")
    if not all(isinstance(name, str) and name for name in names):
        raise SchemaError("a list of names", field=f"{_FIELD}/{key}")
    return list(names)


def _type_byte(name: str) -> int:
    for kind in TYPES:
        if name == kind.name or name in kind.legacy or name in kind.later:
            return kind.byte
    expected = ", ".join(kind.name for kind in TYPES)
    raise SchemaError("no such grain type", field=f"{_FIELD}/type", expected=expected)


def _pattern(name: str) -> str:
    if "*" in name.removesuffix(":*"):  # it would be taken for a letter, and ask for nothing
        raise SchemaError(
            "not a namespace", field=f"{_FIELD}/namespace", expected="a name, or name:*"
        )
    return normalize("NFC", name)
