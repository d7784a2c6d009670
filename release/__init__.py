# SPDX-License-Identifier: Apache-2.0
"""What leaves the house: looked at, tried as a stranger would, and told of.

    audit      what is known against the crates and packages that we depend on
    contents   what is in a wheel and an sdist, and what must not be
    wheels     wheels for other machines: built, and checked
    trial      both installed in new environments, away from this tree
    notes      the release notes of a version

Each is a program of its own, ``python -m release.audit``, behind a target of the Makefile.
"""
