"""Dagster's UI of this machine answers its own pages and refuses every request of another site's page."""

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from dagster_webserver.webserver import DagsterWebserver
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import Message
from starlette.websockets import WebSocket

from orchestration import ui, webserver

OWN = {"host": "localhost:3000"}
HTML, JSON = {"accept": "text/html,*/*"}, {"content-type": "application/json", "accept": "*/*"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Starlette:
    """A server with the middleware of Dagster's, which answers everything that comes through."""
    monkeypatch.setattr(DagsterWebserver, "build_middleware", DagsterWebserver.build_middleware)
    webserver.guard()
    middleware = DagsterWebserver.build_middleware(object.__new__(DagsterWebserver))
    answer = Route("/{path:path}", lambda request: PlainTextResponse("done"), methods=["GET", "POST"])
    return Starlette(routes=[WebSocketRoute("/graphql", WebSocket.accept), answer], middleware=middleware)


def ask(server: Starlette, method: str, path: str, headers: dict[str, str]) -> str:
    """The status of the answer; for a websocket ("WS"), the server's first action."""
    given = [(name.encode(), value.encode()) for name, value in (OWN | headers).items()]
    kind = {"type": "websocket", "subprotocols": []} if method == "WS" else {"type": "http", "method": method}
    scope: dict[str, Any] = kind | {
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"query=a",
    }
    scope |= {"headers": given, "scheme": "http", "server": ("localhost", 3000), "client": ("127.0.0.1", 4000)}
    sent = list[Message]()

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect" if method == "WS" else "http.request", "body": b""}

    asyncio.run(server(scope, receive, send))
    return str(sent[0].get("status", sent[0]["type"]))


@pytest.mark.parametrize(
    ("method", "path", "headers", "answer"),
    [
        # A picture, in browsers that state a request's purpose, and in others.
        ("GET", "/graphql", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", **HTML}, "403"),
        ("GET", "/graphql", {"accept": "image/*"}, "403"),
        # A form, also of a page in a frame without an origin, and of another port of this machine.
        ("POST", "/graphql", {"origin": "http://evil.example"}, "403"),
        ("POST", "/report_asset_check/a", {"origin": "null"}, "403"),
        ("POST", "/graphql", {"origin": "http://localhost:3001"}, "403"),
        ("WS", "/graphql", {"origin": "http://evil.example"}, "websocket.close"),
        # Another name of this machine.
        ("POST", "/graphql", {**JSON, "host": "evil.example:3000", "origin": "http://evil.example:3000"}, "400"),
        ("GET", "/", {**HTML, "host": "evil.example:3000"}, "400"),
    ],
)
def test_what_a_page_of_another_site_asks_is_refused(
    server: Starlette, method: str, path: str, headers: dict[str, str], answer: str
) -> None:
    """Dagster executes all of these, so that such a page could launch a job, or authorize a charge."""
    assert ask(server, method, path, headers) == answer


def test_own_pages_links_and_programs_are_answered(server: Starlette) -> None:
    own = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "origin": "http://localhost:3000"}
    link = {**HTML, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert ask(server, "POST", "/graphql", {**JSON, **own}) == "200"
    assert ask(server, "POST", "/graphql", JSON) == "200", "a program has no origin"
    assert ask(server, "GET", "/runs/1", link) == "200"
    assert ask(server, "GET", "/runs/1", {**HTML, "host": "127.0.0.1:3000"}) == "200"
    assert ask(server, "WS", "/graphql", own) == "websocket.accept"


def test_a_ui_that_was_started_in_the_background_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong program: leaves interrupts ignored, as a shell sets them for a command in the background, so that Dagster
    ignores SIGTERM too."""
    heard = []
    monkeypatch.setattr(ui, "forbid_core_files", lambda: None)
    monkeypatch.setattr(ui, "_prevent_wrong_warnings", lambda: None)
    monkeypatch.setattr(ui.ipc, "open_ipc_subprocess", ui.ipc.open_ipc_subprocess)
    monkeypatch.setattr("dagster_dg_cli.cli.main", lambda: heard.append(signal.getsignal(signal.SIGINT)))
    monkeypatch.setattr(sys, "argv", ["ui"])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ui.main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.default_int_handler]


def test_only_settings_that_are_not_used_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Dagster's command warns of every instance elsewhere, even if it has the same settings."""
    logger, warning = logging.getLogger("dagster"), "Found a dagster instance configuration value (dagster.yaml) in …"
    monkeypatch.setattr(logger, "filters", [])
    monkeypatch.setenv("VIRTUAL_ENV", "")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.chdir(Path(ui.__file__).parents[1])
    (tmp_path / ui.SETTINGS).write_text("telemetry: {enabled: true}")
    ui._prevent_wrong_warnings()
    logger.warning(warning)
    (tmp_path / ui.SETTINGS).write_text(Path(ui.SETTINGS).read_text())
    ui._prevent_wrong_warnings()
    logger.warning(warning)
    logger.warning("Another one")
    assert caplog.messages == [warning, "Another one"]
