# SPDX-License-Identifier: Apache-2.0
"""Data protection: report, restrict and erase personal data. Spec: OMS §9."""
