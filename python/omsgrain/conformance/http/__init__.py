# SPDX-License-Identifier: Apache-2.0
"""Does a server speak the AIMEM HTTP profile? It is asked from outside, over HTTP alone.

cases   single requests, bundles that it must take or refuse; runs all of them
flows   cases of several requests
probe   sends requests, reads answers
"""
