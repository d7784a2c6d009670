# SPDX-License-Identifier: Apache-2.0
"""Incremental backups: parts of tables under their hashes, in a directory or object storage."""
