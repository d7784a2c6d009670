# SPDX-License-Identifier: Apache-2.0
"""Adapters of ``omsgrain.Memory`` and of stores to agent frameworks, one module for each."""
