# SPDX-License-Identifier: Apache-2.0
"""``omsgrain keygen`` and ``omsgrain sign``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from omsgrain.cli import output
from omsgrain.cli.change import actor_option
from omsgrain.cli.manual import Manual, argument
from omsgrain.cli.newpath import NewPath
from omsgrain.cli.opening import keys_option, plain_option
from omsgrain.cli.store import StoreParam
from omsgrain.storage.location import Where

KEYGEN = """
A key for a robot; what is printed is the name that its signatures have:
    omsgrain keygen robot.pem
"""
SIGN = """
A grain, into the envelope grain.mg.cose; a whole container, with robot.mg.sig beside it:
    omsgrain sign grain.mg --key signer.pem
    omsgrain sign robot.mg --key signer.pem
    omsgrain verify robot.mg.sig
A grain of a store:
    omsgrain sign ADDRESS --store memory.omsg --key signer.pem
"""


@click.command(cls=Manual, short_help="Make a key to sign with.", examples=KEYGEN)
@argument(
    "file",
    type=NewPath(),
    help="The new file of the private key.",
)
@click.option(
    "--type",
    "kind",
    type=click.Choice(["ed25519", "p256"]),
    default="ed25519",
    show_default=True,
    help="Signatures by EdDSA, or by ECDSA (ES256).",
)
@click.option(
    "--format",
    type=click.Choice(["pem", "jwk", "cose"]),
    default="pem",
    show_default=True,
    help="PKCS#8, JSON Web Key or COSE_Key.",
)
@output.json_option
def keygen(file: Path, kind: Any, format: Any, as_json: bool) -> None:
    """Make a private key in the new FILE, and print its DID, the name that signatures have.

    Only the owner may read FILE, and it has no password: who has it can sign in this name. The key
    cannot be made again from the DID, so keep a copy.
    """
    from omsgrain.ops import keys

    did = keys.keygen(file, kind=kind, format=format)
    if as_json:
        output.emit({"did": did, "path": str(file)})
    else:
        click.echo(did)


@click.command(cls=Manual, short_help="Sign a grain or a file.", examples=SIGN)
@argument(
    "source",
    metavar="FILE|ADDRESS",
    help="A blob, or any file; with --store the address of a grain.",
)
@click.option(
    "--key",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The key file; others must not be able to read it.",
)
@click.option("--did", metavar="DID", help="Sign in this name, such as a did:web with the key.")
@click.option(
    "-o",
    "--output",
    "target",
    type=NewPath(),
    help="Write to this new file; without it, FILE.cose or FILE.sig.",
)
@click.option("--detached", is_flag=True, help="Sign a blob as a file too.")
@click.option(
    "--store",
    type=StoreParam(file_okay=False),
    help="Sign the grain at ADDRESS of this store, in place of a file.",
)
@click.option("--justification", metavar="TEXT", help="With --store: why; policies may ask.")
@actor_option
@plain_option
@keys_option
@output.json_option
def sign(
    source: str,
    key: Path,
    did: str | None,
    target: Path | None,
    detached: bool,
    store: Where | None,
    justification: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Sign FILE, or with --store the grain at ADDRESS.

    A blob, one grain, is put into an envelope, FILE.cose, with its signed bit set; its new address
    is printed. Of anything else, such as a .mg container, the signature is written beside it, to
    FILE.sig, and covers every byte; of an AIMEM bundle it covers what that says, however spelled.

    In a store, a grain that is signed already gets one more signature. An unsigned one is
    superseded by the same grain signed, at a new address, which is printed; its policy decides.
    """
    from omsgrain.ops import keys

    if store is not None:
        if target is not None or detached:
            raise click.UsageError("-o and --detached go with a FILE")
        address, by = keys.sign_stored(
            store, source, key, did=did, justification=justification, actor=actor
        )
        if as_json:
            output.emit({"path": None, "did": by, "address": address})
        else:
            click.echo(output.safe(f"{address}: signed by {by}"))
        return
    if justification is not None or actor is not None:
        raise click.UsageError("--justification and --actor go with --store")
    file = Path(source)
    if not file.exists() or file.is_dir():
        raise click.UsageError(f"{source!r} is no file; for a grain of a store give --store")
    done = keys.sign(file, key, did=did, target=target, detached=detached)
    if as_json:
        output.emit({"path": str(done.path), "did": done.did, "address": done.address})
        return
    click.echo(output.safe(f"{done.path}: signed by {done.did}"))
    if done.address is not None:
        click.echo(f"address {done.address}")
