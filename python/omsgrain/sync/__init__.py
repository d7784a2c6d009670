# SPDX-License-Identifier: Apache-2.0
"""Sync between any two stores, like git fetch and push."""
