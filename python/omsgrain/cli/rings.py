# SPDX-License-Identifier: Apache-2.0
"""``omsgrain keys``: the key file that seals people's grains, and the master key above it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from omsgrain.cli import output
from omsgrain.cli.opening import SOURCE, master_key, master_option

EXAMPLES = r"""
A master key and a key file, then a store that seals with them:
    omsgrain keys master master.key
    omsgrain keys create people.keys --master master.key
    export OMSGRAIN_KEYS=people.keys OMSGRAIN_MASTER=file:master.key
    omsgrain ingest memory.omsg grains.jsonl
"""

_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@click.group(short_help="Keep the keys that seal people's grains.", epilog="\b" + EXAMPLES)
def keys() -> None:
    """Keep the key file: a key for each user, which can be destroyed for good.

    All keys are wrapped under a master key, which stands elsewhere. Whoever loses either can read
    no sealed grain any more. Keys to sign with are made by `keygen`. Each command has --json.
    """


def told(values: dict[str, Any], as_json: bool) -> None:
    """Say what is in a key file."""
    if as_json:
        output.emit(values)
        return
    live, erased = values["live"], values["erased"]
    click.echo(
        output.safe(
            f"{values['path']}: {live} users, {erased} erased, generation {values['generation']}"
        )
    )


@keys.command(short_help="Make a random master key.")
@_file
@output.json_option
def master(file: Path, as_json: bool) -> None:
    """Write a random master key of 32 bytes into the new FILE, in hex, for its owner only.

    Keep it away from the key file and from backups of the store: both together open everything.
    """
    from omsgrain.ops import rings

    rings.make_master(file)
    output.emit({"path": str(file)}) if as_json else click.echo(output.safe(str(file)))


@keys.command(short_help="Make a key file.")
@_file
@master_option
@output.json_option
def create(file: Path, master: str, as_json: bool) -> None:
    """Make the new key FILE, without any user yet; stores make keys as users arrive."""
    from omsgrain.ops import rings

    told(rings.create_keys(file, master_key(master)), as_json)


@keys.command(short_help="Count the users in a key file.")
@_file
@master_option
@output.json_option
def status(file: Path, master: str, as_json: bool) -> None:
    """Open the key FILE, and count the users that it has keys of and those that were erased."""
    from omsgrain.ops import rings

    told(rings.keys_status(file, master_key(master)), as_json)


def _new_master(command: Any) -> Any:
    return click.option(
        "--new-master",
        required=True,
        metavar="SOURCE",
        help=f"The master key from now on. {SOURCE}",
    )(command)


@keys.command(short_help="Change the master key.")
@_file
@master_option
@_new_master
@output.json_option
def rewrap(file: Path, master: str, new_master: str, as_json: bool) -> None:
    """Wrap the key FILE under a new master key; no record is touched.

    Older copies of FILE still open with the old master key; see `rekey`.
    """
    from omsgrain.ops import rings

    told(rings.rewrap(file, master_key(master), master_key(new_master)), as_json)


@keys.command(short_help="Write a key file anew, so that old copies are worth nothing.")
@_file
@master_option
@_new_master
@output.json_option
def rekey(file: Path, master: str, new_master: str, as_json: bool) -> None:
    """Write the key FILE anew under fresh keys and a new master key; users keep their keys.

    Then destroy the old master key where it is kept: copies of FILE from before an erasure, and
    what a flash medium still has of it, open with no other.
    """
    from omsgrain.ops import rings

    told(rings.rekey(file, master_key(master), master_key(new_master)), as_json)


@keys.command(short_help="Copy a key file.")
@_file
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@master_option
@output.json_option
def backup(file: Path, target: Path, master: str, as_json: bool) -> None:
    """Copy the key FILE to the new TARGET, which the same master key opens.

    Whoever is erased later can still be read with TARGET: after an erasure make another one, and
    destroy this.
    """
    from omsgrain.ops import rings

    told(rings.backup_keys(file, master_key(master), target), as_json)
