# SPDX-License-Identifier: Apache-2.0
"""Documents of other formats into a store, and out of it."""
