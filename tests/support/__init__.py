# SPDX-License-Identifier: Apache-2.0
"""What tests share: grains, stores, documents, servers and oracles."""
