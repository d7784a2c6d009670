# SPDX-License-Identifier: Apache-2.0
"""The command line as ``python -m omsgrain``."""

from omsgrain.cli import main

main()
