# SPDX-License-Identifier: Apache-2.0
"""``omsgrain verify``: check that bytes are what their address says and what OMS allows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from omsgrain.cli import output

if TYPE_CHECKING:
    from omsgrain.ops import Failure


@click.command(short_help="Check blobs, .mg files and stores.")
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(exists=True, readable=True, path_type=Path)
)
@click.option("--address", help="The address that the one blob must have.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but what is wrong.")
@output.json_option
def verify(paths: tuple[Path, ...], address: str | None, quiet: bool, as_json: bool) -> int:
    """Check blobs, .mg containers, stores, and directories of files.

    Of each grain: canonical form, schema, address. Of a container, which begins with MG, every
    byte besides: header, index, frames, manifest and the hash at its end. What is wrong is named
    by its part and number, and a grain by the address that its bytes have now.

    In a directory, the files ending in .mg and those named by an address are checked, the latter
    also against their name. The exit code is that of the first failure.
    """
    from omsgrain import ops

    if address is not None and (len(paths) != 1 or paths[0].is_dir()):
        raise click.UsageError("--address goes with one blob")
    failures: list[Failure] = []
    verified = 0
    with output.progress(len(paths), "paths", as_json or quiet) as advance:
        for path in paths:
            found = ops.verify(path, address)
            verified += found.verified
            failures += found.failures
            advance(1)
    if as_json:
        output.emit({"verified": verified, "failed": [bad.to_dict() for bad in failures]})
    else:
        for bad in failures:
            click.echo(output.safe(str(bad)), err=True)
        if not quiet:
            click.echo(f"{verified} verified, {len(failures)} failed")
    return failures[0].error.exit_code if failures else 0
