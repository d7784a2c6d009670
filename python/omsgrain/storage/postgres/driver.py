# SPDX-License-Identifier: Apache-2.0
"""The database driver, which comes with an extra: imported first, so that its absence is told."""

from __future__ import annotations

from omsgrain.errors import UnsupportedError, packages_of

try:
    import psycopg
except ImportError:
    raise UnsupportedError(
        "a store in PostgreSQL needs more packages", expected=packages_of("postgres")
    ) from None

if not psycopg.Pipeline.is_supported():
    raise UnsupportedError(
        "a store in PostgreSQL needs a newer client library",
        expected="libpq 14 or newer",
        found=f"libpq {psycopg.pq.version() // 10_000}",
    )


def check_driver() -> str:
    """Return the version of the driver."""
    return psycopg.__version__
