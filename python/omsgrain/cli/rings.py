# SPDX-License-Identifier: Apache-2.0
"""``omsgrain keys``: the key file that seals people's grains, and the master key above it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from omsgrain.cli import output
from omsgrain.cli.manual import Chapter, argument
from omsgrain.cli.newpath import NewPath
from omsgrain.cli.opening import SOURCE, master_key, master_option

EXAMPLES = """
A master key and a key file, then a store that seals with them:
    omsgrain keys master new.key
    omsgrain keys create new.keys --master new.key
    omsgrain ingest sealed.omsg grains.jsonl --keys new.keys --master new.key
"""
MASTER = """
Where only the operator of the service can read it:
    omsgrain keys master new.key
"""
CREATE = """
With the master key in a file, or in the environment, as a vault gives it:
    omsgrain keys create new.keys --master master.key
    omsgrain keys create other.keys --master env:OMSGRAIN_MASTER_HEX
"""
STATUS = """
How many people does it have keys of?
    omsgrain keys status people.keys --master master.key
"""
REWRAP = """
Once a year; then the old master key goes, when no copy of the file needs it any more:
    omsgrain keys master new.key
    omsgrain keys rewrap people.keys --master master.key --new-master new.key
"""
REKEY = """
After an erasure, so that copies from before it open nothing:
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


@click.group(cls=Chapter, short_help="Keep the keys that seal people's grains.", examples=EXAMPLES)
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


@keys.command(short_help="Make a random master key.", examples=MASTER)
@_new
@output.json_option
def master(file: Path, as_json: bool) -> None:
    """Write a random master key of 32 bytes into the new FILE, in hex, for its owner only.

    Keep it away from the key file and from backups of the store: both together open everything.
    """
    from omsgrain.ops import rings

    rings.make_master(file)
    output.emit({"path": str(file)}) if as_json else click.echo(output.safe(str(file)))


@keys.command(short_help="Make a key file.", examples=CREATE)
@_new
@master_option
@output.json_option
def create(file: Path, master: str, as_json: bool) -> None:
    """Make the new key FILE, without any user yet; stores make keys as users arrive."""
    from omsgrain.ops import rings

    told(rings.create_keys(file, master_key(master)), as_json)


@keys.command(short_help="Count the users in a key file.", examples=STATUS)
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


@keys.command(short_help="Change the master key.", examples=REWRAP)
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


@keys.command(
    short_help="Write a key file anew, so that old copies are worth nothing.", examples=REKEY
)
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


@keys.command(short_help="Copy a key file.", examples=BACKUP)
@_file
@argument("target", type=NewPath(), help="The new file.")
@master_option
@output.json_option
def backup(file: Path, target: Path, master: str, as_json: bool) -> None:
    """Copy the key FILE to the new TARGET, which the same master key opens.

    Whoever is erased later can still be read with TARGET: after an erasure make another one, and
    destroy this.
    """
    from omsgrain.ops import rings

    told(rings.backup_keys(file, master_key(master), target), as_json)
