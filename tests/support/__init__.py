# SPDX-License-Identifier: Apache-2.0
"""Helpers of tests: grains, stores, documents, servers and oracles."""
