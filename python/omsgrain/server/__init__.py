# SPDX-License-Identifier: Apache-2.0
"""A store over HTTP: the profile of AIMEM, grains, and sync. Spec: AIMEM §3.

options   limits and settings            routes     the one table of routes, and OpenAPI
errors    refusals and statuses          bundles    export, import, erasure
auth      tokens and signatures          grains     put, get, delete, query, search, verify
bodies    bodies and media types         sync       requests of another store
request   one request, its parameters    public     routes without a token
service   places, threads, connections   streaming  answers of any length
serving   the store and the address      log        the access log
app       requests to routes, processes
"""

from __future__ import annotations
