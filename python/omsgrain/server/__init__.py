# SPDX-License-Identifier: Apache-2.0
"""A store over HTTP: the profile of AIMEM, and grains. Spec: AIMEM §3.

options       how a server behaves       routes        the one table of routes
problems      refusals and statuses      openapi       the same table as OpenAPI
access        tokens                     bundles       export, import, erasure
gate, work    lines, threads, stopping   grains        put, get, delete
body          bodies, bounded            finding       query, search, verify, changes
streaming     answers of any length      public        what everybody may ask
peers         one for each who syncs     syncing       what another store asks
application   requests to routes         server        the process
connection    an end to silence          crew          several processes
"""

from __future__ import annotations
