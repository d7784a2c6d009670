# SPDX-License-Identifier: Apache-2.0
"""The core and the library for C on small machines. It needs Debian's packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import omsgrain as og
from support.paths import ROOT
from support.servers.debian import needed

pytestmark = pytest.mark.services

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
NOSTD, EXAMPLE = ROOT / "rust" / "nostd", ROOT / "examples" / "c" / "observation.c"
CORTEX_M4 = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
LINKING = ("--gc-sections", "--undefined=vectors", "--section-start=.vectors=0")


@pytest.fixture(scope="module")
def said() -> str:
    """The output of the script that builds for both machines."""
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(
        [ROOT / "rust" / "i686.sh"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return done.stdout


def test_core_and_library_work_with_32_bits(said: str) -> None:
    assert said.count("test result: ok.") == 2
    assert re.search(r"C: \d{4} grains in 4 threads, 0 wrong", said)


def test_the_library_fits_a_microcontroller(said: str) -> None:
    code = re.search(r"Cortex-M4: (\d+) bytes of code", said)
    assert code is not None and int(code[1]) < 100_000


@pytest.mark.usefixtures("said")
def test_the_example_writes_its_file_on_a_microcontroller(tmp_path: Path) -> None:
    emulator = needed("qemu-system-arm", "qemu-system-arm")
    compiler = needed("libnewlib-arm-none-eabi gcc-arm-none-eabi", "arm-none-eabi-gcc")
    library = TARGET / "i686/nostd/thumbv7em-none-eabihf/release/libomsgrain.a"
    program, file = tmp_path / "observation.elf", tmp_path / "readings.mg"
    sources = (f"-I{NOSTD}", NOSTD / "cortex_m4.c", EXAMPLE, library)
    linking = ("--specs=rdimon.specs", *(f"-Wl,{option}" for option in LINKING))
    flags = (*CORTEX_M4, "-std=gnu99", "-Os")
    command = (compiler, *flags, *sources, *linking, "-o", program)
    subprocess.run([str(part) for part in command], check=True)
    board = ("-M", "mps2-an386", "-display", "none", "-monitor", "none", "-serial", "none")
    host = f"enable=on,target=native,arg=observation,arg={file}"
    run = (emulator, *board, "-semihosting-config", host, "-kernel", program)
    done = subprocess.run([str(part) for part in run], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2_000:]
    printed = [line.split()[0] for line in (done.stdout + done.stderr).splitlines()]
    assert len(printed) == 8
    assert [og.address(blob) for blob in og.container.read(file)] == printed
