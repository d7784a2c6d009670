# SPDX-License-Identifier: Apache-2.0
"""Tests an AIMEM server from outside, over HTTP.

cases   single requests, and bundles to accept or refuse; runs all cases
flows   cases of several requests
probe   sends requests and reads responses
"""
