# SPDX-License-Identifier: Apache-2.0
"""Servers from Debian's packages for the tests with the marker ``services``: one file a server."""
