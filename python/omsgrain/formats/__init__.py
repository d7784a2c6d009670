# SPDX-License-Identifier: Apache-2.0
"""Documents of other formats, to grains and back."""
