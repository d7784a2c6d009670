# SPDX-License-Identifier: Apache-2.0
"""What speaks with the outside, and is no command line."""
