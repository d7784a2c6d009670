# SPDX-License-Identifier: Apache-2.0
"""Names: of chunks and entities, of producers, of tenants. Spec: AIMEM §2.1, §2.3."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from omsgrain.formats.aimem.limits import LOCAL, PRODUCER
from omsgrain.formats.uuids import is_uuid

__all__ = ["Urn", "is_producer", "is_tenant", "of_producer", "parse", "urn"]

_PRODUCER = f"[a-z0-9-]{{1,{PRODUCER}}}"
_LOCAL = f"[\\x21-\\x39\\x3b-\\x7e]{{1,{LOCAL}}}"  # printable, but for the colon
_URN = re.compile(f"urn:aimem:({_PRODUCER}):({_LOCAL})")
_NAMESPACE = re.compile(_PRODUCER)
# RFC 3986, as far as it can be said without the scheme: an absolute URI.
_URI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+"
)


class Urn(NamedTuple):
    """An identifier: who gave it, and what it is there. The local part means nothing here."""

    producer: str
    local: str

    def __str__(self) -> str:
        return f"urn:aimem:{self.producer}:{self.local}"


def parse(text: str) -> Urn | None:
    """Take an identifier apart; None if it is none."""
    # fullmatch: `$` would let a line end pass.
    found = _URN.fullmatch(text)
    return None if found is None else Urn(found[1], found[2])


def of_producer(producer: str) -> Callable[[str], object]:
    """Tells whether a text is an identifier of one producer; of any, if it is empty."""
    return re.compile(f"urn:aimem:{producer}:{_LOCAL}" if producer else _URN.pattern).fullmatch


def urn(producer: str, local: str) -> str:
    """Put an identifier together. What it is made of was checked."""
    return str(Urn(producer, local))


def is_producer(text: str) -> bool:
    """Whether this is a producer namespace."""
    return _NAMESPACE.fullmatch(text) is not None


def is_tenant(text: str) -> bool:
    """Whether this can name a tenant: a UUID, or a URI, such as a DID."""
    return is_uuid(text) or _URI.fullmatch(text) is not None
