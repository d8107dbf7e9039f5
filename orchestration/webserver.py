"""Dagster's webserver for the browsers of this machine, restricted to requests from its own pages; `ui` runs it.

Dagster's own webserver executes any request, even one from a page of another site: the address of a picture can launch
a job. If another site's name is made to lead to this machine, that site's page can also read the answers, such as the
price and the draw of a charge, and authorize the charge.
"""

from dagster_webserver.cli import main
from dagster_webserver.webserver import DagsterWebserver
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestration.hosts import HostMiddleware, has_own_origin

HOSTS = ("127.0.0.1", "localhost")


class OwnPagesMiddleware:
    """Refuses requests from pages of other sites, except links to a page. Requests without a browser are answered."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or _is_own(scope):
            await self._app(scope, receive, send)
        else:
            await PlainTextResponse("This is not asked by a page of this server.", 403)(scope, receive, send)


def _is_own(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    site = headers.get("sec-fetch-site", "")
    if not has_own_origin(headers):
        return False
    if site in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
        return False
    # Some browsers do not state the purpose of a request, and Dagster executes such requests too, except for its pages.
    asks = scope["type"] == "http" and scope["method"] == "GET" and scope["path"].endswith("/graphql")
    return not asks or "text/html" in headers.get("accept", "")


def guard() -> None:
    """Have every webserver of this process refuse other sites' requests."""
    build = DagsterWebserver.build_middleware

    def build_middleware(server: DagsterWebserver) -> list[Middleware]:
        hosts = Middleware(HostMiddleware, allowed_hosts=HOSTS, www_redirect=False)
        return [hosts, Middleware(OwnPagesMiddleware), *build(server)]

    DagsterWebserver.build_middleware = build_middleware  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    guard()
    main()
