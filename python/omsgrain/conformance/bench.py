# SPDX-License-Identifier: Apache-2.0
"""Directories, stores, a server of this build, and signers with known keys, for checks."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import cbor2
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import omsgrain as og
from omsgrain.crypto.signers import Ed25519Signer, ES256Signer, KeySigner
from omsgrain.errors import packages_of
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.tables import AUDIT
from omsgrain.storage.tokens import open_tokens
from omsgrain.store.context import Settings

if TYPE_CHECKING:
    import httpx

    from omsgrain.conformance.probe import Probe

NOW: Final = 1_768_471_200_000
"""The time of the stores' clocks, ms since 1970."""
TENANT: Final = "11111111-1111-4111-8111-111111111111"
"""The tenant of the server and of the sample bundle."""
_SERVER: Final = "http://omsgrain.test"


class MissingError(Exception):
    """A package that a rule needs is not installed."""


class Bench:
    """Directories, stores and a server for checks; `close` closes all of them."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root)
        self._made = 0
        self._open = ExitStack()
        self._storages: dict[og.GrainStore, MemoryStorage] = {}
        self.clock = NOW  # of stores in memory, ms since 1970; checks set it

    def close(self) -> None:
        self._open.close()

    def directory(self) -> Path:
        self._made += 1
        path = self._root / str(self._made)
        path.mkdir()
        return path

    def store(self, **settings: Any) -> og.GrainStore:
        """Open a new store in memory; its clock does not advance."""
        self.clock = NOW
        storage = MemoryStorage()
        made = og.GrainStore(storage, Settings(clock=lambda: self.clock, **settings))
        self._storages[made] = storage
        return self._open.enter_context(made)

    def storage(self, store: og.GrainStore) -> MemoryStorage:
        return self._storages[store]

    def audit_rows(self, store: og.GrainStore) -> bytes:
        """Return all audit rows of a store in memory."""
        with self.storage(store).read() as reader:
            return b"".join(key + row for key, row in reader.rows(AUDIT))

    def opened(self, path: Path, **options: Any) -> og.GrainStore:
        return self._open.enter_context(og.open(path, **options))

    def keys(self) -> og.crypto.KeyRing:
        path = self.directory() / "people.keys"
        made = og.crypto.KeyRing.create(path, master=bytes(range(32)))
        return self._open.enter_context(made)

    @cached_property
    def probe(self) -> Probe:
        """Sends HTTP requests to a server of this build, as one tenant."""
        from omsgrain.conformance.probe import Probe, TenantTokens

        try:
            import httpx

            from omsgrain.server.app import application
            from omsgrain.server.log import Log
            from omsgrain.server.service import HttpService, ServerOptions, Stores
        except ImportError as error:
            raise MissingError(f"no {error.name}: needs {packages_of('server')}") from None
        path = self.directory() / "served.omsg"
        og.open(path).close()
        service = HttpService(Stores(og.open(path, count_access=False)), ServerOptions())
        self._open.callback(service.close)
        self._open.callback(service.stop)
        app = application(service, Log("json", io.StringIO()))
        client = self._open.enter_context(
            httpx.Client(transport=httpx.MockTransport(partial(_answer, app)), base_url=_SERVER)
        )
        with open_tokens(path) as tokens:
            full, out, brought, admin = (
                tokens.add("-".join(scopes), TENANT, scopes)
                for scopes in (("import", "export"), ("export",), ("import",), ("admin",))
            )
        return Probe(client, TenantTokens(full, out, brought, admin))

    @cached_property
    def tools(self) -> dict[str, dict[str, Any]]:
        """The MCP tools, with the schemas of their arguments."""
        from omsgrain.mcp.tools import TOOLS

        return {tool.name: tool.tool()["inputSchema"] for tool in TOOLS.values()}


def _answer(app: Any, request: httpx.Request) -> httpx.Response:
    """Send a request to an application of this process, in an event loop of its own."""
    import httpx

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=_SERVER) as client:
            return await client.request(
                request.method, str(request.url), headers=request.headers, content=request.read()
            )

    found = asyncio.run(ask())
    headers = [  # httpx has already decompressed the content
        (name, value) for name, value in found.headers.items() if name != "content-encoding"
    ]
    return httpx.Response(found.status_code, headers=headers, content=found.content)


ADA: Final = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"
"""The DID of the Ed25519 private key 00 01 .. 1f."""
BEN: Final = "did:key:zDnaeVuZeVRqvscGkiEoR9PFFra2xZUMp97ZPuGFK1VLU7iYN"
"""The DID of the P-256 private key 01 02 .. 20."""
CAT: Final = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"
"""The DID of the Ed25519 private key of zeros."""
MSGPACK: Final = "application/vnd.mg+msgpack"


@cache
def ada() -> KeySigner:
    """Signs with Ed25519."""
    return Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))


@cache
def ben() -> KeySigner:
    """Signs with ES256."""
    return ES256Signer(derive_private_key(int.from_bytes(bytes(range(1, 33)), "big"), SECP256R1()))


@cache
def cat() -> KeySigner:
    """Signs with Ed25519, too."""
    return Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes(32)))


SIGNERS: Final[dict[str, Callable[[], KeySigner]]] = {"ada": ada, "ben": ben, "cat": cat}


def by_hand(
    protected: dict[Any, Any],
    payload: bytes | None,
    signer: KeySigner,
    *,
    detached: bytes = b"",
    aad: bytes = b"",
) -> bytes:
    """A COSE_Sign1 whose signature holds, whatever is in it. Spec: RFC 9052 §4.2, §4.4."""
    head = cbor2.dumps(protected)
    what = detached if payload is None else payload
    signature = signer.sign(cbor2.dumps(["Signature1", head, aad, what]))
    return cbor2.dumps(cbor2.CBORTag(18, [head, {}, payload, signature]))
