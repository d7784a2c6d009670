# SPDX-License-Identifier: Apache-2.0
"""The test cases for a server, and their outcomes."""

from __future__ import annotations

import gzip
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from omsgrain.conformance.aimem import (
    FAULTS,
    GOODS,
    TEXTS,
    Basis,
    Fault,
    Good,
    TextFault,
    resealed,
    sample,
    sealed,
    spelled,
)
from omsgrain.conformance.http.flows import FLOWS, erased
from omsgrain.conformance.http.probe import (
    BUNDLE,
    EXPORT,
    IMPORT,
    Mismatch,
    Probe,
    TenantTokens,
    as_kind,
    expect,
    must,
)
from omsgrain.conformance.rule import Entry, Tried, edited, table
from omsgrain.errors import SchemaError, UnsupportedError, packages_of

if TYPE_CHECKING:
    import httpx

    from omsgrain.conformance.bench import Bench

_AS_ASKED: Final = "as expected"
_SECTION: Final = "5.2"
_OURS: Final[Basis] = "recommendation"
Body = Literal["bundle", "none", "empty", "array", "text", "gzip", "not gzip", "utf-16", "bom"]
"""The body of a request: a new valid bundle in some encoding, or other content."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        name: a short name.
        section: the section of the draft.
        method: the HTTP method.
        path: the path below the base URL.
        statuses: the allowed statuses.
        token: ``full``, ``export_only``, ``import_only``, or the whole header.
        query: the query parameters.
        body: the kind of body.
        media: the media type of the body.
        headers: further headers.
        basis: the draft, or a recommendation.
    """

    name: str
    section: str
    method: str
    path: str
    statuses: tuple[int, ...]
    token: str = "full"
    query: Mapping[str, str] = field(default_factory=dict)
    body: Body = "none"
    media: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    basis: Basis = "draft"


REQUESTS: Final = tuple(
    Request(**{**row, "statuses": tuple(row["statuses"])}) for row in table("aimem")["requests"]
)
"""Single requests."""


class HttpCase(NamedTuple):
    """One case.

    Attributes:
        name: a short, unique name.
        section: the section of the draft.
        basis: ``draft``, or ``recommendation`` for a choice that the draft leaves open.
        needs: the names of the tokens that it needs.
        run: sends the requests; raises a `Mismatch` on a wrong response.
    """

    name: str
    section: str
    basis: Basis
    needs: tuple[str, ...]
    run: Callable[[Probe], None]


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """The outcome of a case.

    Attributes:
        name: the name of the case.
        section: the section of the draft.
        basis: ``draft`` or ``recommendation``.
        passed: whether it passed; None if it was skipped.
        expected: the expected result of a failed case.
        found: the actual result; for a skipped case, the reason.
    """

    name: str
    section: str
    basis: Basis
    passed: bool | None
    expected: str | None = None
    found: str | None = None


def cases(*, draft_only: bool = False, erase: bool = False) -> list[HttpCase]:
    """Return all cases, in order."""
    found = [
        *(
            HttpCase(
                f"{one.method} {one.name}", one.section, one.basis, _needs(one), partial(_ask, one)
            )
            for one in REQUESTS
        ),
        *(HttpCase(f"takes {g.name}", g.section, g.basis, (), partial(_good, g)) for g in GOODS),
        *(HttpCase(f"refuses {f.name}", f.section, f.basis, (), partial(_bad, f)) for f in FAULTS),
        *(HttpCase(f"refuses {t.name}", t.section, t.basis, (), partial(_text, t)) for t in TEXTS),
        *(
            HttpCase(
                f"names the rule: {f.name}", f.section, "recommendation", (), partial(_rule, f)
            )
            for f in FAULTS
        ),
        *(HttpCase(f.name, f.section, f.basis, (), f.run) for f in FLOWS),
    ]
    if erase:
        found.append(
            HttpCase("erased data does not return", _SECTION, "recommendation", ("admin",), erased)
        )
    return [case for case in found if case.basis == "draft" or not draft_only]


def ask(
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
        raise SchemaError("the URL is not an HTTP URL", expected="http://... or https://...")
    if erase and tokens.admin is None:
        raise SchemaError("erasing needs an admin token")
    try:
        import httpx
    except ImportError:
        raise UnsupportedError("httpx is not installed", expected=packages_of("web")) from None
    verify = ssl.create_default_context()
    if ca is not None:
        verify.load_verify_locations(ca)
    # No redirects or proxies, so that only this server is tested.
    with httpx.Client(
        base_url=url.rstrip("/"), timeout=timeout, verify=verify, trust_env=False
    ) as client:
        yield from run(client, tokens, cases(draft_only=draft_only, erase=erase))


def run(
    client: httpx.Client, tokens: TenantTokens, chosen: Iterable[HttpCase] | None = None
) -> Iterator[CaseOutcome]:
    """Run cases, and yield their outcomes."""
    import httpx

    probe = Probe(client, tokens)
    try:
        probe.send("GET", EXPORT, token="")
    except httpx.HTTPError as error:
        raise ConnectionError(f"no answer from {client.base_url}: {_why(error)}") from None
    for case in cases() if chosen is None else chosen:
        own = (case.name, case.section, case.basis)
        if missing := [name for name in case.needs if getattr(tokens, name) is None]:
            yield CaseOutcome(*own, None, found=f"no token: {', '.join(missing)}")
            continue
        try:
            case.run(probe)
        except Mismatch as error:
            yield CaseOutcome(*own, False, error.expected, error.found)
        except httpx.HTTPError as error:
            yield CaseOutcome(*own, False, "an answer", _why(error))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # A flow expects well-formed responses; this response is malformed.
            yield CaseOutcome(*own, False, "members of the right kinds", type(error).__name__)
        else:
            yield CaseOutcome(*own, True)


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _needs(request: Request) -> tuple[str, ...]:
    return (request.token,) if request.token in ("export_only", "import_only") else ()


def _ask(request: Request, probe: Probe) -> None:
    named = {"full", "export_only", "import_only"}
    headers, token = dict(request.headers), ""
    if request.token in named:
        token = str(getattr(probe.tokens, request.token))
    elif request.token:
        headers["authorization"] = request.token
    answer = probe.send(
        request.method,
        request.path,
        query=request.query,
        body=_body(request, probe),
        media=request.media,
        token=token,
        headers=headers,
    )
    expect(answer, *request.statuses)
    if request.path == EXPORT and answer.status == 200:
        must(answer.media == BUNDLE, BUNDLE, answer.media)
    if request.path == IMPORT and answer.status == 200:
        must(isinstance(answer.json(), dict), "a summary", as_kind(answer.json()))
    if answer.status == 401:
        must("www-authenticate" in answer.headers, "a header WWW-Authenticate", "none")


def _body(request: Request, probe: Probe) -> bytes | None:
    if request.body == "none":
        return None
    text = spelled(sealed(probe.fresh(sample())))
    return {
        "bundle": text,
        "empty": b"",
        "array": b"[" + text + b"]",
        "text": b"hello",
        "gzip": gzip.compress(text),
        "not gzip": text,
        "utf-16": text.decode().encode("utf-16"),
        "bom": b"\xef\xbb\xbf" + text,
    }[request.body]


def _good(good: Good, probe: Probe) -> None:
    document = probe.fresh(edited(sample(), good.change))
    for chunk in document["chunks"]:
        chunk["id"] = chunk["id"].replace("{nonce}", document["producer"])
    answer = probe.put(document)
    expect(answer, 200)
    rejected = answer.json().get("chunks_rejected_conflict", [])
    must(rejected == [], "no chunk rejected", f"{len(rejected)} rejected")


def _broken(fault: Fault, probe: Probe) -> bytes:
    """Make a new bundle with one defect. Its checksum is right, unless that is the defect."""
    document = probe.fresh(edited(sample(), fault.change))
    return spelled(resealed(document, fault.change))


def _bad(fault: Fault, probe: Probe) -> None:
    expect(probe.send("POST", IMPORT, body=_broken(fault, probe), media=BUNDLE), fault.status)


def _rule(fault: Fault, probe: Probe) -> None:
    answer = probe.send("POST", IMPORT, body=_broken(fault, probe), media=BUNDLE)
    found = answer.rule()
    must(found == fault.rule, f"the rule {fault.rule}", found)


def _text(fault: TextFault, probe: Probe) -> None:
    text = spelled(sealed(probe.fresh(sample()))).decode()
    must(fault.old in text, "the text to change", "none")
    body = text.replace(fault.old, fault.new, 1).encode()
    expect(probe.send("POST", IMPORT, body=body, media=BUNDLE), 422)


# the rules


@cache
def _by_name() -> dict[str, HttpCase]:
    return {case.name: case for case in cases(erase=True)}


def ruled(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``http``: test cases against a server of this build."""
    for name in entry["cases"]:
        try:
            _by_name()[name].run(bench.probe)
        except Mismatch as error:
            yield Tried(name, error.expected, error.found)
        else:
            yield Tried(name, _AS_ASKED, _AS_ASKED)
