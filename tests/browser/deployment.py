"""Starts and ends a deployment with its UI and a real browser on it, and launches a job as a person does."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
PATIENCE = 300_000
"""Milliseconds after which a page or a run counts as stuck. Waits end as soon as possible, and beside other work, a
page may take many times Playwright's five seconds."""

expect.set_options(timeout=PATIENCE)

_BETWEEN_LOADS = 15_000

IN_A_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and "STIRRED_REQUIRE_BROWSER" not in os.environ, reason="no Chromium on this machine"
    ),
]


@dataclass(frozen=True)
class Site:
    """A running deployment and a browser page on it."""

    address: str
    published: Path
    page: Page

    def certificate(self, release: str) -> Path:
        return self.published / release / "certificate.html"

    def job(self, release: str) -> str:
        """The address of a release's job."""
        return f"{self.address}/locations/stirred/jobs/{group(release)}"

    def await_publication(self, release: str, refused: int = 0) -> None:
        """Wait until a release is published, or a run of it has failed after those that were refused."""
        deadline = time.monotonic() + PATIENCE / 1000
        statuses = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
        failed = dg.RunsFilter(job_name=group(release), statuses=statuses)
        with dg.DagsterInstance.from_config(str(self.published.parent / "dagster")) as instance:
            while not self.certificate(release).exists():
                assert instance.get_runs_count(failed) <= refused, f"{release} is not published: a run failed"
                assert time.monotonic() < deadline, f"{release} is not published"
                time.sleep(0.2)

    def launch(self, release: str) -> None:
        """Launch a release's job as a person does. The page asks for no confirmation, even if other assets were never
        made."""
        page = self.page
        page.goto(self.job(release))
        page.get_by_role("button", name="Materialize all").click()
        confirmation, launched = page.get_by_role("button", name="Confirm"), page.get_by_text("Launched run")
        expect(confirmation.or_(launched)).to_be_visible()
        expect(confirmation).to_have_count(0)


def cut(page: Page) -> int:
    """The number of pixels by which the widest table of an asset's page exceeds its place; 0 if all of it is
    visible."""
    boxes = page.locator("[class*=assetEventMetadataScrollContainer]")
    # A page that was opened before the sensor's run ended does not show its metadata until it is opened again.
    for _ in range(int(PATIENCE / _BETWEEN_LOADS)):
        with contextlib.suppress(AssertionError):
            expect(boxes.first).to_be_visible(timeout=_BETWEEN_LOADS)
            break
        page.reload()
    expect(boxes.first).to_be_visible()
    return max(boxes.evaluate_all("boxes => boxes.map(box => box.scrollWidth - box.clientWidth)"))


def group(release: str) -> str:
    """The name of a release's job and group of assets."""
    return release.replace("/", "__")


def copied_project(folder: Path, datasets: Collection[str]) -> Path:
    """A copy of the project with the declarations of some datasets, to which a test may add others: the server, the
    pages, and every process of a run load them all. The compiled kernels are copied too."""
    for name in ("assets", "mechanisms", "orchestration", "resources", "sql"):
        shutil.copytree(ROOT / name, folder / name)
    for dataset in (folder / "orchestration" / "defs").glob("*/dataset"):
        if dataset.parent.name not in datasets:
            shutil.rmtree(dataset.parent)
    for name in ("pyproject.toml", "workspace.yaml", "dagster.yaml"):
        shutil.copy(ROOT / name, folder)
    return folder


@contextlib.contextmanager
def deployed(project: Path, home: Path) -> Iterator[Site]:
    """The UI of a project, with its state below a folder, and a browser."""
    (home / "dagster").mkdir()
    shutil.copy(ROOT / "dagster.yaml", home / "dagster")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "DAGSTER_HOME": str(home / "dagster"),
        "STIRRED_HOME": str(home / "var"),
        "STIRRED_PUBLISHED": str(home / "published"),
    }
    command = [sys.executable, "-m", "orchestration.ui", "--port", str(port)]
    with (home / "dev.log").open("wb") as log:
        server = subprocess.Popen(
            command,
            cwd=project,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _wait_for(port, server)
        _require_own_webserver(port)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page(viewport={"width": 1500, "height": 1100})
            page.set_default_timeout(PATIENCE)
            yield Site(f"http://127.0.0.1:{port}", home / "published", page)
            browser.close()
    finally:
        # The server's own processes are in its session: none may outlive the tests.
        os.killpg(server.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)


def _require_own_webserver(port: int) -> None:
    """The server must not be Dagster's own webserver, which answers under any name."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/server_info", headers={"Host": "other.example"})
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(request, timeout=60)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        assert server.poll() is None, "the UI ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail("the UI does not answer")
