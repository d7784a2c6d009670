# SPDX-License-Identifier: Apache-2.0
"""As much of curl as the pages use, for machines that have none: it fails as ``curl -f`` does."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def main() -> int:
    """Ask, and print the answer."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("url")
    parser.add_argument("-f", "--fail", action="store_true")
    parser.add_argument("-s", "--silent", action="store_true")
    parser.add_argument("-H", "--header", action="append", default=[])
    parser.add_argument("-X", "--request")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--data-binary")
    given = parser.parse_args()
    body = None
    if given.data_binary is not None:
        text = given.data_binary
        body = Path(text[1:]).read_bytes() if text.startswith("@") else text.encode()
    headers = dict(line.split(": ", 1) for line in given.header)
    try:
        with urlopen(Request(given.url, body, headers, method=given.request)) as answer:
            data = answer.read()
    except HTTPError as error:
        print(error.code, error.read().decode(), file=sys.stderr)
        return 22
    if given.output is not None:
        given.output.write_bytes(data)
    else:
        sys.stdout.buffer.write(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
