# SPDX-License-Identifier: Apache-2.0
"""Faults of disks, of clocks and of power, at every place where they can happen.

    shim.c      stands between the program and libc: counts what changes files below a directory,
                and fails or kills at the n-th; adds years to the clock
    shim        builds it with the C compiler, and is its hand
    scenario    what a scenario is; a step that was refused
    commits, files, people
                scenarios: each prepares a directory, works in it, and looks what became of it
    table       all of them by name
    driver      the program under the shim: each point of each scenario in a forked child

A kill leaves what was written, as the kernel has it. What a power cut leaves of unsynced writes is
tried for key files in ``cuts.py``, sector by sector; LMDB never writes over what is in use.
"""
