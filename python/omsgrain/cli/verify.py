# SPDX-License-Identifier: Apache-2.0
"""``omsgrain verify``: check grains, documents, signatures and stores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from omsgrain.cli import output
from omsgrain.cli.command import (
    EXISTING,
    StoreParam,
    argument,
    command,
    flag,
    passphrase_option,
    refuse_pipe,
    trust_option,
)
from omsgrain.cli.console import progress
from omsgrain.cli.open import open_store, passphrase, resolver_in_use, trust_options
from omsgrain.json_values import time_text
from omsgrain.storage.location import DirectoryLocation, Where, location_of

if TYPE_CHECKING:
    from omsgrain.interchange.signed_files import SignedBy
    from omsgrain.interchange.verify import Verified, VerifyOptions

EXAMPLES = """
A file from a robot; its signature; files that a trusted key must have signed:
    omsgrain verify robot.mg
    omsgrain verify robot.mg.sig
    omsgrain verify robot.mg robot-7.aimem.json --trust signer.pub
One grain with a known address:
    omsgrain verify grain.mg --address ADDRESS
All files of a directory:
    omsgrain verify received/ --quiet
"""


@command(
    "Check blobs, .mg files, bundles, signatures and stores.",
    EXAMPLES,
    exits={0: "All are verified."},
)
@argument(
    "paths",
    nargs=-1,
    required=True,
    type=StoreParam(),
    help="Files, directories, stores.",
)
@click.option("--address", metavar="ADDRESS", help="The address that the blob must have.")
@click.option("--of", type=EXISTING, help="The signed file, if it is not FILE next to FILE.sig.")
@flag("-q", "--quiet", help="Print only problems.")
@trust_option
@passphrase_option
@trust_options
@output.json_option
def verify(
    paths: tuple[Where, ...],
    address: str | None,
    of: Path | None,
    quiet: bool,
    trust: tuple[str, ...],
    passphrase_file: Path | None,
    as_json: bool,
) -> int:
    """Check blobs, .mg containers, bundles, MIF documents, signatures, stores, and directories.

    For each grain it checks canonical form, schema and address. For a container it also checks
    every other byte: header, index, frames, manifest and the final hash. A defect is named by its
    part and number, and a grain by the address of its bytes. For an MCAP file it checks every
    checksum, and the grains attached to it.

    For envelopes, one or many in a row, it also checks the signature. The signature next to a
    file, FILE.sig, must be valid. The output names the signer. The time of signing is the signer's
    claim; no proof of it exists.

    With --trust a trusted key must have signed everything: each file, by the signature next to it
    or in it; each envelope; each grain of a store. Anything unsigned fails.

    For a bundle or a MIF document it checks every rule of the format, and lists each defect with
    its rule and place. For a checkpoint or a certificate it checks the signature.

    In a directory it checks the files ending in .mg, .mcap, .cose, .sig, .aimem.json,
    .aimem.ndjson, .mif.json, .mif.yaml, .mif.jsonl, .jsonld, .mif.ndjson, .memory.json and
    .memory.md. It also checks files named by an address, against their name. A file that cannot be
    read is a failure.
    """
    from omsgrain.crypto.trust import Trust
    from omsgrain.interchange.verify import Verified, VerifyOptions

    files = [path for path in paths if isinstance(path, Path) and not path.is_dir()]
    for file in files:
        refuse_pipe(file)
    if address is not None and not len(paths) == len(files) == 1:
        raise click.UsageError("--address needs one blob")
    if of is not None and not len(paths) == len(files) == 1:
        raise click.UsageError("--of needs one signature")
    resolver = resolver_in_use()
    known = Trust.load(trust, resolver) if trust else None
    options = VerifyOptions(known, resolver, passphrase(passphrase_file))
    found = Verified()
    with progress(len(paths), "paths", as_json or quiet) as advance:
        for path in paths:
            found.add(_verified(path, options, address, of))
            advance(1)
    failures = found.failures
    if as_json:
        values = {"verified": found.verified, "failed": [bad.to_dict() for bad in failures]}
        if found.signed:
            values["signed"] = [one.to_dict() for one in found.signed]
        if found.documents:
            values["documents"] = [one.to_dict() for one in found.documents]
        output.emit(values)
    else:
        for bad in failures:
            click.echo(output.safe(str(bad)), err=True)
        for document in found.documents:
            output.warn([one.to_dict() for one in document.warnings], document.name)
            if not quiet and not document.errors:
                click.echo(output.safe(f"{document.name}: {output.counted(document.records)}"))
        for one in () if quiet else found.signed:
            click.echo(output.safe(_line(one)))
        if not quiet:
            click.echo(f"{found.verified} verified, {len(failures)} failed")
    return failures[0].error.exit_code if failures else 0


def _verified(
    path: Where, options: VerifyOptions, address: str | None, of: Path | None
) -> Verified:
    from omsgrain.interchange.verify import verify_directory, verify_file, verify_store

    home = location_of(path)
    if not isinstance(home, DirectoryLocation) or home.exists():
        with open_store(path, readonly=True) as store:
            return verify_store(store, str(path), options)
    if home.path.is_dir():
        return verify_directory(home.path, options)
    return verify_file(home.path, options, address, of=of)


def _line(signed: SignedBy) -> str:
    at = None if signed.iat is None else time_text(signed.iat * 1000)
    when = (
        "" if signed.iat is None else f", {at or 'at some time'} as the signer says (not proven)"
    )
    return f"{signed.name}: signed by {signed.signer}{when}"
