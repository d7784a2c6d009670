# SPDX-License-Identifier: Apache-2.0
"""``omsgrain keygen`` and ``sign``: keys to sign with; ``omsgrain keys``: the key file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import (
    EXISTING,
    Chapter,
    NewPath,
    StoreParam,
    argument,
    command,
    flag,
    target_option,
)
from omsgrain.cli.open import (
    SOURCE,
    actor_option,
    keys_option,
    master_key,
    master_option,
    plain_option,
    writable,
)
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.crypto.keyring.keyring import KeyRing

KEYGEN = """
A key for a robot; it prints the DID of the signer:
    omsgrain keygen robot.pem
"""
SIGN = """
A grain, into the envelope grain.mg.cose; a container, into robot.mg.sig beside it:
    omsgrain sign grain.mg --key signer.pem
    omsgrain sign robot.mg --key signer.pem
    omsgrain verify robot.mg.sig
A grain of a store:
    omsgrain sign ADDRESS --store memory.omsg --key signer.pem
"""
KEYS = """
A master key and a key file, then a store that encrypts with them:
    omsgrain keys master new.key
    omsgrain keys create new.keys --master new.key
    omsgrain ingest sealed.omsg grains.jsonl --keys new.keys --master new.key
"""
MASTER = """
A random master key:
    omsgrain keys master new.key
"""
CREATE = """
With the master key in a file, or in the environment:
    omsgrain keys create new.keys --master master.key
    omsgrain keys create other.keys --master env:OMSGRAIN_MASTER_HEX
"""
STATUS = """
How many users have a key?
    omsgrain keys status people.keys --master master.key
"""
REWRAP = """
Once a year; destroy the old master key once no copy of the file needs it:
    omsgrain keys master new.key
    omsgrain keys rewrap people.keys --master master.key --new-master new.key
"""
REKEY = """
After an erasure, so that older copies open nothing:
    omsgrain keys master new.key
    omsgrain keys rekey people.keys --master master.key --new-master new.key
"""
BACKUP = """
To another disk than that of the store:
    omsgrain keys backup people.keys people.backup --master master.key
"""

_path = click.Path(dir_okay=False, path_type=Path)
_file = argument("file", type=_path, help="The key file.")
_new = argument("file", type=NewPath(), help="The new file.")


@command("Make a key to sign with.", KEYGEN)
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
    help="The type of the key: EdDSA, or ECDSA (ES256).",
)
@click.option(
    "--format",
    type=click.Choice(["pem", "jwk", "cose"]),
    default="pem",
    help="PKCS#8, JSON Web Key or COSE_Key.",
)
@output.json_option
def keygen(file: Path, kind: Any, format: Any, as_json: bool) -> None:
    """Make a private key in the new FILE, and print its DID, which signatures name.

    Only the owner may read FILE. It has no password: anyone with the file can sign as this DID.
    Keep a copy: the DID cannot restore a lost key.
    """
    from omsgrain.crypto.signers import SIGNERS

    signer = SIGNERS[kind].generate()
    signer.save(file, format)
    output.done(as_json, signer.did, did=signer.did, path=str(file))


@command("Sign a grain or a file.", SIGN)
@argument(
    "source",
    metavar="FILE|ADDRESS",
    help="A blob, or any file; with --store the address of a grain.",
)
@click.option(
    "--key",
    required=True,
    type=EXISTING,
    help="The private key; other users must not be able to read it.",
)
@click.option("--did", metavar="DID", help="Sign as this DID, such as a did:web of the key.")
@target_option("Write to this new file; by default FILE.cose or FILE.sig.", stdout=False)
@flag("--detached", help="Sign a blob as a file.")
@click.option(
    "--store",
    type=StoreParam(file_okay=False),
    help="Sign the grain at ADDRESS of this store instead of a file.",
)
@click.option(
    "--justification", metavar="TEXT", help="With --store: the reason; some policies require it."
)
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
    is printed. For any other file, such as a .mg container, the signature is written to FILE.sig
    and covers every byte; for an AIMEM bundle it covers the canonical content.

    In a store, a signed grain gets one more signature. An unsigned grain is superseded by the same
    grain signed, at a new address, which is printed; its policy must allow it.
    """
    from omsgrain.crypto.signers import load_signer

    if store is not None:
        if target is not None or detached:
            raise click.UsageError("-o and --detached need a FILE")
        signer = load_signer(key, did)
        with writable(store, actor) as grains:
            address = grains.sign(source, signer, justification=justification)
        text = f"{address}: signed by {signer.did}"
        output.done(as_json, text, path=None, did=signer.did, address=address)
        return
    if justification is not None or actor is not None:
        raise click.UsageError("--justification and --actor need --store")
    file = Path(source)
    if not file.exists() or file.is_dir():
        raise click.UsageError(f"{source!r} is not a file; for a grain of a store give --store")
    from omsgrain.interchange.signed_files import sign_file

    done = sign_file(file, load_signer(key, did), target=target, in_full=detached)
    text = f"{done.path}: signed by {done.did}"
    if done.address is not None:
        text += f"\naddress {done.address}"
    output.done(as_json, text, path=str(done.path), did=done.did, address=done.address)


@click.group(cls=Chapter, short_help="Manage the key file of users' keys.", examples=KEYS)
def keys() -> None:
    """Manage the key file: a key for each user, which can be destroyed for good.

    All keys are wrapped under a master key, which is kept elsewhere. Without both, encrypted
    grains cannot be read. `keygen` makes keys to sign with. Each command has --json.
    """


def _opened(file: Path, master: str) -> KeyRing:
    from omsgrain.crypto.keyring.keyring import KeyRing

    return KeyRing.open(file, master=master_key(master))


def _print_counts(ring: KeyRing, as_json: bool, copy: Path | None = None) -> None:
    values = asdict(ring.stats())
    if copy is not None:
        values["path"] = str(copy)
    users = f"{output.plural(values['live'], 'user')}, {values['erased']} erased"
    text = f"{values['path']}: {users}, generation {values['generation']}"
    output.done(as_json, text, **values)


@keys.command(short_help="Make a random master key.", examples=MASTER)
@_new
@output.json_option
def master(file: Path, as_json: bool) -> None:
    """Write a random master key of 32 bytes into the new FILE, in hex, for its owner only.

    Keep it away from the key file and from backups of the store: together they open everything.
    """
    from omsgrain.crypto.master_key import make_master

    make_master(file)
    output.emit({"path": str(file)}) if as_json else click.echo(output.safe(str(file)))


@keys.command(short_help="Make a key file.", examples=CREATE)
@_new
@master_option
@output.json_option
def create(file: Path, master: str, as_json: bool) -> None:
    """Make the new key FILE, without users; stores add a key for each new user."""
    from omsgrain.crypto.keyring.keyring import KeyRing

    with KeyRing.create(file, master=master_key(master)) as ring:
        _print_counts(ring, as_json)


@keys.command(short_help="Count the users in a key file.", examples=STATUS)
@_file
@master_option
@output.json_option
def status(file: Path, master: str, as_json: bool) -> None:
    """Count the users with a key in the key FILE, and those that were erased."""
    with _opened(file, master) as ring:
        _print_counts(ring, as_json)


_new_master = click.option(
    "--new-master", required=True, metavar="SOURCE", help=f"The new master key. {SOURCE}"
)


@keys.command(short_help="Change the master key.", examples=REWRAP)
@_file
@master_option
@_new_master
@output.json_option
def rewrap(file: Path, master: str, new_master: str, as_json: bool) -> None:
    """Wrap the key FILE under a new master key, without changing its records.

    Older copies of FILE still open with the old master key; see `rekey`.
    """
    with _opened(file, master) as ring:
        ring.rewrap(master_key(new_master))
        _print_counts(ring, as_json)


@keys.command(short_help="Rewrite a key file, so that old copies open nothing.", examples=REKEY)
@_file
@master_option
@_new_master
@output.json_option
def rekey(file: Path, master: str, new_master: str, as_json: bool) -> None:
    """Rewrite the key FILE under fresh keys and a new master key; users keep their keys.

    Then destroy the old master key. No other key opens copies of FILE from before an erasure, or
    remains of them on a flash medium.
    """
    with _opened(file, master) as ring:
        ring.rekey(master_key(new_master))
        _print_counts(ring, as_json)


@keys.command(short_help="Copy a key file.", examples=BACKUP)
@_file
@argument("target", type=NewPath(), help="The new file.")
@master_option
@output.json_option
def backup(file: Path, target: Path, master: str, as_json: bool) -> None:
    """Copy the key FILE to the new TARGET, which the same master key opens.

    TARGET can still read users who are erased later: after an erasure make another copy, and
    destroy this one.
    """
    with _opened(file, master) as ring:
        ring.backup(target)
        _print_counts(ring, as_json, target)
