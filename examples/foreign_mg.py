# SPDX-License-Identifier: Apache-2.0
"""Verify a .mg file from elsewhere before you trust anything in it.

    python examples/foreign_mg.py mission.mg [DID]

The program checks every byte: header, index, frames, manifest and the hash at the end. Of each
grain it checks the canonical form, the schema and the address. It reports all defects, not only
the first. It checks a signature beside the file (FILE.sig); with a DID, that signer must have
made it. It stores nothing, and shows no grain of a damaged file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from omsgrain import container
from omsgrain.crypto.detached import signature_path, verify_file
from omsgrain.errors import OmsError


def signer_of(file: Path) -> str | None:
    """Who has signed the file; None if nobody has.

    Raises:
        OmsError: the signature does not hold.
    """
    signature = signature_path(file)
    return verify_file(file, signature.read_bytes()).signer if signature.exists() else None


def main(arguments: list[str]) -> int:
    """Verify; the exit code is that of the first thing that is wrong."""
    file, *wanted = arguments
    try:
        signer = signer_of(Path(file))
        with container.read(file) as opened:
            report = opened.verify(errors="collect")
            for problem in report.problems:
                number = "" if problem.number is None else f" {problem.number}"
                print(f"{problem.part}{number}: {problem.error}")
            if report.problems:
                return report.problems[0].error.exit_code
            states = len(opened.manifest)
    except OmsError as error:
        print(error)
        return error.exit_code
    if wanted and signer != wanted[0]:
        print(f"signed by {signer or 'nobody'}, and not by {wanted[0]}")
        return 1
    print(f"{report.verified} grains verified; its manifest tells what became of {states}")
    print(f"signed by {signer}" if signer else "not signed: it is whole, but nobody says whose")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
