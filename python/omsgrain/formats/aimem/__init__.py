# SPDX-License-Identifier: Apache-2.0
"""AIMEM bundles: checked, read and written. Spec: AIMEM §2."""
