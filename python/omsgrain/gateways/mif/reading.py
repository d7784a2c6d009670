# SPDX-License-Identifier: Apache-2.0
"""A document of either version, read by the one that it is of."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from omsgrain import formats
from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.formats.document import Import
from omsgrain.gateways.mif.versions import NAMES
from omsgrain.grain import Grain

__all__ = ["read"]


def read(
    data: bytes,
    *,
    format: str = "auto",
    user_id: str | None = None,
    most: int | None = None,
    passphrase: str | None = None,
    **options: Any,
) -> Import:
    """Read a document.

    Args:
        data: its bytes.
        format: ``mif2``, ``mif1``, ``mif-ld``, or ``auto``: told from the content.
        user_id: whose memory it becomes; by default whose the document says it is.
        most: bytes at the most; by default what the format takes.
        passphrase: what opens it, if it is encrypted.
        **options: of ``formats.load``.

    Raises:
        DocumentError: it breaks a rule of its format.
        UnsupportedError: it is no document of MIF.
        SchemaError: no such format; or a passphrase for what has no envelope.
    """
    if format == "auto":
        format = formats.sniff(data)
        if format not in NAMES:
            raise UnsupportedError("no MIF document", expected=", ".join(NAMES), found=format)
    if format == "mif1":
        from omsgrain.formats.mif1.limits import LIMITS as LIMITS1

        if passphrase is not None:
            options["passphrase"] = passphrase
        if most is not None:
            options["limits"] = replace(LIMITS1, document=most)
    elif format in NAMES:
        limits = f"omsgrain.formats.{format.replace('-', '_')}.limits"
        LIMITS = import_module(limits).LIMITS

        if passphrase is not None:
            expected = "only MIF 1.0 has an envelope"
            raise SchemaError("no place for a passphrase", field="/format", expected=expected)
        if most is not None:
            options["limits"] = replace(LIMITS, document=most)
    if user_id is not None:
        return formats.load(data, format=format, user_id=user_id, **options)
    found = formats.load(data, format=format, **options)
    owner = found.grains[-1].get("user_id") if found.grains else None
    # What is asked of a grain it keeps, so others are asked.
    if all(Grain(grain.blob).get("user_id") == owner for grain in found.grains):
        return found
    # A grain that went along is taken as it is by the one whose it was, and by nobody else.
    return formats.load(data, format=format, user_id=owner, **options)
