# SPDX-License-Identifier: Apache-2.0
"""The rights of the people that grains are about: report, restrict, erase. Spec: OMS §9."""
