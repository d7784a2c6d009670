# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of what is parsed in Python: `PYTHONPATH=tests python -m fuzz [TARGET...]`.

    mutate      seeds changed as bytes, as lines, and as trees of values
    target      what a target is, and its one rule: a declared error, or a result that holds
    grains, containers, trust, syncing, documents, asking
                the targets
    table       all of them by name
    faulty      a parser with a fault, to see that it is found
    watching    what bounds a single input: memory, and time
    lines       which lines of the package an input has reached first
    running     a target for some seconds, or for some inputs
    __main__    each target in a process of its own, so that one that dies names its input

What was found stays in tests/crashers/TARGET, and is tried again by every run of the tests.
"""
