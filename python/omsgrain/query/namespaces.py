# SPDX-License-Identifier: Apache-2.0
"""The namespaces of current grains, read from the keys of the index."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator

from omsgrain import _core
from omsgrain.errors import SchemaError
from omsgrain.query.filters import LONG_NAMESPACE, Conditions, Term, conditions
from omsgrain.query.query import among
from omsgrain.query.walk import Walk, is_opened, living
from omsgrain.storage.base import Reader

_KIND = _core.term("namespace", "")  # the first byte of a namespace's key


def namespaces(
    reader: Reader, prefix: str, user_id: str | None, clock: Callable[[], int]
) -> list[str]:
    """Return the namespaces that begin with a prefix, sorted.

    An encrypted grain shows its namespace only when it is opened, so all of its user's are.
    """
    if not isinstance(prefix, str):
        expected = "a string"
        raise SchemaError("a prefix of the wrong kind", field="/prefix", expected=expected)
    begun = unicodedata.normalize("NFC", prefix)
    asked = living(reader, conditions({"user_id": user_id}), clock)
    if user_id is not None and is_opened(reader) and reader.has_sealed():
        reader.keys_to_open(user_id)  # refuses a user with too many grains
        found = _of_grains(reader, asked)
    else:
        found = _of_keys(reader.raw, begun, asked)
    return sorted({name for name in found if name.startswith(begun)})


def _of_keys(reader: Reader, begun: str, whose: Conditions) -> Iterator[str]:
    starts = [_KIND + begun.encode("utf-8", "surrogatepass")]
    if not LONG_NAMESPACE.startswith(starts[0]):
        starts.append(LONG_NAMESPACE)
    for start in starts:
        for key in reader.keys(start, "current"):
            name = _name(reader, key)
            if name is None:
                continue
            # The key is exact where a filter's value could be a prefix.
            terms = (*whose.terms, Term(("namespace",), key))
            asked = whose._replace(equal={**whose.equal, "namespace": name}, terms=terms)
            walk = Walk(reader, asked, True)
            if walk.page(walk.places(None), 1)[0]:
                yield name


def _name(reader: Reader, key: bytes) -> str | None:
    if not key.startswith(LONG_NAMESPACE):
        return key[len(_KIND) :].decode()
    for place in reader.places(key, None, True, "current"):  # the key has only its hash
        grain = reader.grain(int.from_bytes(place[12:], "big"))
        if grain is not None:
            return str(grain["namespace"])
    return None


def _of_grains(reader: Reader, asked: Conditions) -> Iterator[str]:
    walk = Walk(*among(reader, asked, scan=False), True)
    for _, grain in walk.matches(walk.places(None)):
        name = grain.get("namespace")
        if isinstance(name, str):
            yield name
