# SPDX-License-Identifier: Apache-2.0
"""What everybody may ask: the key of our signatures, whether the server works, what it offers."""

from __future__ import annotations

from starlette.responses import Response

from omsgrain.crypto import signers
from omsgrain.crypto.did import PublicKey, resolve
from omsgrain.server.bodies import COSE_KEY
from omsgrain.server.errors import HttpRefusal
from omsgrain.server.request import RequestContext, as_json


async def pubkey(call: RequestContext) -> Response:
    """The key that signs our exports. Spec: AIMEM §5.3."""
    signer = call.service.options.signer
    if signer is None:
        raise HttpRefusal("not_found", "nothing is signed here")
    key: PublicKey = getattr(signer, "public_key", None) or resolve(signer.did)
    return Response(signers.dumps_public(key, signer.did), media_type=COSE_KEY)


async def health(call: RequestContext) -> Response:
    """Whether the store can be read."""
    call.service.check_running()
    await call.service.quick(lambda: len(call.service.stores.main))
    return as_json({"status": "ok"})


async def openapi(call: RequestContext) -> Response:
    """The description of all routes."""
    from omsgrain.server.routes import document

    return as_json(document())
