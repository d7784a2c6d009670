# SPDX-License-Identifier: Apache-2.0
"""``omsgrain serve``: serve a store over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import (
    EXISTING,
    Seconds,
    command,
    create_option,
    flag,
    log_format_option,
    need,
    size_option,
    store_argument,
)
from omsgrain.cli.open import (
    actor_option,
    authority_options,
    make_store,
    open_store,
    plain_option,
    policy_option,
    resolver_in_use,
    trust_options,
)
from omsgrain.cli.retain import LimitArguments, history_options
from omsgrain.storage.location import Where

EXAMPLES = r"""
For programs on this machine:
    omsgrain serve memory.omsg
For many clients, over a store in a database:
    omsgrain serve postgresql://robots@hub/memory --workers 4
For readings of a month, in a file of at most 2 GB:
    omsgrain serve memory.omsg --keep 30d --max-bytes 2GB
For other machines, with TLS:
    omsgrain serve memory.omsg --host 0.0.0.0 --port 8443 --tls-cert chain.pem --tls-key key.pem
A token for a client:
    omsgrain token add memory.omsg laptop --tenant TENANT --scope import --scope export
"""


@command("Serve a store over HTTP.", EXAMPLES)
@store_argument(file_okay=False, create=True)
@create_option
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="The address to listen on; 0.0.0.0 listens on all.",
)
@click.option(
    "--port",
    default=8080,
    type=click.IntRange(0, 65_535),
    metavar="N",
    help="The port; 0 chooses a free one.",
)
@click.option(
    "--producer",
    default="omsgrain",
    metavar="NAME",
    help="The namespace of the server's own bundles.",
)
@click.option(
    "--trust",
    multiple=True,
    metavar="KEY",
    help="A trusted key for imports: a file with a public key, or a DID. Repeatable.",
)
@flag("--require-signature", help="Accept only signed bundles.")
@policy_option
@authority_options
@click.option(
    "--purpose",
    type=click.Choice(["move", "access", "transfer", "sale"]),
    default="transfer",
    help="The purpose of exports, for the rules: `access` if tenants hold the tokens.",
)
@click.option("--sign", "sign_with", type=EXISTING, help="Sign exports with this private key.")
@click.option("--did", metavar="DID", help="Sign as this DID, such as a did:web of the key.")
@click.option("--tls-cert", type=EXISTING, help="Certificate and chain, PEM.")
@click.option("--tls-key", type=EXISTING, help="The certificate's private key, PEM.")
@flag("--behind-proxy", help="A proxy in front of the server handles TLS.")
@size_option("--body-limit", "64MB", "The largest body of one document, uncompressed.")
@size_option("--lines-limit", "8GB", "The largest bundle by lines, uncompressed.")
@click.option(
    "--values-limit",
    type=click.IntRange(1),
    default=8_000_000,
    metavar="N",
    help="The most values in one document, without keys.",
)
@click.option(
    "--timeout",
    type=Seconds(0.1, 3_600),
    default=30.0,
    metavar="SECONDS",
    help="How many seconds a client may be idle: 0.1 to 3600.",
)
@click.option(
    "--grace",
    type=Seconds(0, 3_600),
    default=10.0,
    metavar="SECONDS",
    help="How many seconds running requests may take when the server stops: 0 to 3600.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    metavar="N",
    help="Server processes, 1 to 64: for stores in a database, or mostly reads.",
)
@click.option(
    "--origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="A web page's origin that may use /mcp, such as https://chat.example; by default none. "
    "Repeatable.",
)
@history_options
@log_format_option
@flag("--metrics", help="Serve figures for Prometheus at /metrics, openly.")
@flag("--log-tokens", help="Log the name of the token in the access log.")
@actor_option
@plain_option
@trust_options
@output.json_option
def serve(
    store: Where,
    create: bool,
    host: str,
    port: int,
    producer: str,
    trust: tuple[str, ...],
    require_signature: bool,
    policy: str | None,
    hold_authorities: tuple[str, ...],
    erasure_authorities: tuple[str, ...],
    purpose: Any,
    sign_with: Path | None,
    did: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    body_limit: int,
    lines_limit: int,
    values_limit: int,
    timeout: float,
    grace: float,
    workers: int,
    origins: tuple[str, ...],
    limits: LimitArguments,
    log_format: Any,
    metrics: bool,
    log_tokens: bool,
    actor: str | None,
    as_json: bool,
) -> None:
    """Serve STORE over HTTP, until SIGTERM or Ctrl-C.

    It imports and exports AIMEM bundles, reads and writes grains, and syncs with other stores.
    Agents use it over MCP at /mcp, with the extra 'mcp'.
    Create access tokens with `omsgrain token`. The server prints its URL once it listens. On
    addresses other than this machine's own it requires TLS, its own or that of a proxy.
    """
    if require_signature and not trust:
        raise click.UsageError("--require-signature needs --trust")
    if did is not None and sign_with is None:
        raise click.UsageError("--did needs --sign")
    from omsgrain.crypto.signers import load_signer
    from omsgrain.crypto.trust import Trust
    from omsgrain.storage.location import location_of

    need("server", "starlette", "uvicorn")
    from omsgrain.server.log import Log
    from omsgrain.server.metrics import RequestCounts
    from omsgrain.server.process import Listening, run
    from omsgrain.server.routes import ROUTES
    from omsgrain.server.service import ServerOptions, Stores, check_producer

    check_producer(producer)
    listening = Listening(host, port, tls_cert, tls_key, behind_proxy, grace)
    listening.check()
    options = ServerOptions(
        producer=producer,
        purpose=purpose,
        signer=None if sign_with is None else load_signer(sign_with, did),
        trust=Trust.load(trust, resolver_in_use()) if trust else None,
        require_signature=require_signature,
        document=body_limit,
        lines=lines_limit,
        values=values_limit,
        timeout=timeout,
        log_tokens=log_tokens,
        counts=RequestCounts((one.path for one in ROUTES), workers) if metrics else None,
        origins=origins,
    )

    def ready(url: str) -> None:
        output.emit({"url": url}) if as_json else click.echo(f"listening on {url}")

    if create:
        make_store(store, actor=actor)
    location_of(store).must_exist()  # report one error, not one per worker

    def stores() -> Stores:
        opened = open_store(
            store,
            actor=actor,
            policy=policy,
            hold_authorities=hold_authorities,
            erasure_authorities=erasure_authorities,
            count_access=False,  # a request must leave no trace on another tenant's grain
            **limits,
        )
        return Stores(opened)

    run(stores, options, listening, Log(log_format), ready, workers=workers)
