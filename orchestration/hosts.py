"""The check of a request's host name: a server answers only under its given names.

The name of another site can be made to lead to this machine. That site's pages could then read the answers.
"""

from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import Receive, Scope, Send


class HostMiddleware(TrustedHostMiddleware):
    """Refuses other hosts, and requests with several hosts (RFC 9112, Section 3.2)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and len(Headers(scope=scope).getlist("host")) > 1:
            scope = {**scope, "headers": []}
        await super().__call__(scope, receive, send)
