# SPDX-License-Identifier: Apache-2.0
"""A store over HTTP: the AIMEM profile, grains, and sync. Spec: AIMEM §3.

process   the process: address, connections, workers
app       the ASGI application: access log, requests to routes
routes    the table of routes, and OpenAPI
request   one request: token, parameters, body
service   shared by requests: store, limits, threads, queues
export    exports of bundles               grains   put, get, delete, query, search, verify
bundles   imports of bundles, erasure      sync     requests of another store
errors    refusals and statuses            log      the lines of the log
"""

from __future__ import annotations
