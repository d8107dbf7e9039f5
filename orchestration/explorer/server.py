"""The explorer's server: Streamlit's, the publications and the documentation, under the names of this machine alone.

Streamlit itself checks the host name only of requests for a page's connection. Another site's name can be made to lead
to this machine, and that site's pages could then read the answers to any other request. `process` runs it.
"""

from pathlib import Path

from markdown_it import MarkdownIt
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope
from streamlit.starlette import App

from orchestration.explorer.process import APP, DOCUMENTATION
from orchestration.explorer.settings import read_settings
from orchestration.hosts import HostMiddleware

_POLICY = "sandbox allow-downloads; default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:"
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Stirred</title><style>:root {{ color-scheme: light dark }}
body {{ max-width: 50rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 sans-serif }}
img {{ max-width: 100% }} pre {{ overflow: auto }} table {{ border-collapse: collapse; display: block; overflow: auto }}
td, th {{ border: 1px solid #888; padding: .2rem .5rem; text-align: left; vertical-align: top }}</style>{}</html>"""


class Files(StaticFiles):
    """Files of a folder, with Markdown files as pages. No file can run a script, or load anything but pictures beside
    it."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if path.endswith(".md") and isinstance(response, FileResponse):
            text = Path(response.path).read_text(encoding="utf-8")
            response = HTMLResponse(_PAGE.format(MarkdownIt().enable("table").render(text)))
        response.headers.update({"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"})
        return response


def open_first_page(request: Request) -> Response:
    """Streamlit gives the first page no name of its own, unlike the other pages."""
    return RedirectResponse(f"/?{request.url.query}".rstrip("?"))


app = App(
    APP,
    routes=[
        Route("/budgets", open_first_page),
        Mount("/published", Files(directory=read_settings().published, html=True, check_dir=False)),
        Mount("/documentation", Files(directory=DOCUMENTATION, check_dir=False)),
    ],
    middleware=[Middleware(HostMiddleware, allowed_hosts=read_settings().hosts, www_redirect=False)],
)
