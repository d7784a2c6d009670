# SPDX-License-Identifier: Apache-2.0
"""Which grains a store accepts only with a verified signature."""

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
    """Conditions that a grain must all meet to require a signature; without any, all grains do.

    Attributes:
        types: type bytes; empty for all types.
        namespaces: namespaces; ``robots:*`` matches every namespace that begins with ``robots:``.
    """

    types: frozenset[int] = frozenset()
    namespaces: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: object) -> Required | None:
        """Parse the argument ``require_signatures``."""
        if value is None or value is False:
            return None
        if value is True:
            return cls()
        if not isinstance(value, Mapping) or not value:
            expected = "True, or type and namespace with a list each"
            raise SchemaError(
                "require_signatures has an invalid value", field=_FIELD, expected=expected
            )
        if unknown := value.keys() - {"type", "namespace"}:
            raise SchemaError(
                "unknown condition",
                field=f"{_FIELD}/{min(map(str, unknown))}",
                expected="type or namespace",
            )
        types = frozenset(map(_type_byte, _names(value, "type")))
        return cls(types, tuple(map(_pattern, _names(value, "namespace"))))

    def asks(self, grain: Grain) -> bool:
        """Return whether a grain must be signed; with an unreadable namespace, it must."""
        if self.types and grain.header.type_byte not in self.types:
            return False
        if not self.namespaces or grain.sealed:
            return True
        return matches(grain.get("namespace"), self.namespaces)


def _names(value: Mapping[str, object], key: str) -> list[str]:
    names = value.get(key)
    if key not in value:
        return []
    # An empty list is ambiguous: all grains or none.
    if not isinstance(names, list | tuple | set | frozenset) or not names:
        raise SchemaError("expected a list of names", field=f"{_FIELD}/{key}")
    if not all(isinstance(name, str) and name for name in names):
        raise SchemaError("expected a list of names", field=f"{_FIELD}/{key}")
    return list(names)


def _type_byte(name: str) -> int:
    for kind in TYPES:
        if name == kind.name or name in kind.legacy or name in kind.later:
            return kind.byte
    expected = ", ".join(kind.name for kind in TYPES)
    raise SchemaError("unknown grain type", field=f"{_FIELD}/type", expected=expected)


def _pattern(name: str) -> str:
    if "*" in name.removesuffix(":*"):  # elsewhere it would be a literal, and match nothing
        raise SchemaError(
            "invalid namespace", field=f"{_FIELD}/namespace", expected="a name, or name:*"
        )
    return normalize("NFC", name)
