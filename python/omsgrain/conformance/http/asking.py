# SPDX-License-Identifier: Apache-2.0
"""Ask a server whether it speaks the AIMEM HTTP profile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from omsgrain.conformance.http.probe import TenantTokens
from omsgrain.conformance.http.runner import CaseOutcome, cases, run
from omsgrain.errors import SchemaError, UnsupportedError, packages_of


def aimem(
    url: str,
    tokens: TenantTokens,
    *,
    draft_only: bool = False,
    erase: bool = False,
    timeout: float = 30.0,
    ca: Path | None = None,
) -> Iterator[CaseOutcome]:
    """Run every case against the server at a URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SchemaError("not a URL of HTTP", expected="http://... or https://...")
    if erase and tokens.admin is None:
        raise SchemaError("erasing takes an admin token")
    try:
        import httpx
    except ImportError:
        raise UnsupportedError("httpx is not installed", expected=packages_of("web")) from None
    import ssl

    verify = ssl.create_default_context()
    if ca is not None:
        verify.load_verify_locations(ca)
    # No redirects and no proxies: it is this server that is judged.
    with httpx.Client(
        base_url=url.rstrip("/"), timeout=timeout, verify=verify, trust_env=False
    ) as client:
        yield from run(client, tokens, cases(draft_only=draft_only, erase=erase))
