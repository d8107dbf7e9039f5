"""The checks of a request's host name and origin: a server answers only under its given names, and opens WebSocket
connections only to its own pages.

The name of another site can be made to lead to this machine. That site's pages could then read the answers. Browsers
let every page open a WebSocket connection to any server.
"""

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import Receive, Scope, Send


def has_own_origin(headers: Headers) -> bool:
    """Whether a page of the requested host and port, or no page at all, makes a request."""
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")


class HostMiddleware(TrustedHostMiddleware):
    """Refuses other hosts, requests with several hosts (RFC 9112, Section 3.2), and other pages' WebSocket
    connections."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and len(Headers(scope=scope).getlist("host")) > 1:
            scope = {**scope, "headers": []}
        if scope["type"] == "websocket" and not has_own_origin(Headers(scope=scope)):
            await send({"type": "websocket.close", "code": 1008})
        else:
            await super().__call__(scope, receive, send)
