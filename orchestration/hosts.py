"""The check of the name that a request is made to: a server answers under the names that it is given alone.

Another site's name can be made to lead to this machine, whose pages could then read what is answered to them.
"""

from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import Receive, Scope, Send


class HostMiddleware(TrustedHostMiddleware):
    """Refuses other hosts, and a request with several (RFC 9112, Section 3.2)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and len(Headers(scope=scope).getlist("host")) > 1:
            scope = {**scope, "headers": []}
        await super().__call__(scope, receive, send)
