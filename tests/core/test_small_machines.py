# SPDX-License-Identifier: Apache-2.0
"""The core and the library for C on small machines. It needs Debian's packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from support.paths import ROOT


@pytest.mark.services
def test_core_and_library_work_with_32_bits_and_fit_a_microcontroller() -> None:
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(
        [ROOT / "rust" / "i686.sh"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    assert done.stdout.count("test result: ok.") == 2
    assert re.search(r"C: \d{4} grains in 4 threads, 0 wrong", done.stdout)
    code = re.search(r"Cortex-M4: (\d+) bytes of code", done.stdout)
    assert code is not None and int(code[1]) < 100_000
