"""An officer's first day in the UI: a refusal, its authorization, the ledger's page, and a publication's link.

The deployment is the built-in release of 1940, on a dataset that asks before it is charged; publications are served.
"""

import contextlib
import functools
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page, TimeoutError, expect

from tests.browser.deployment import IN_A_BROWSER, PATIENCE, Site, copied_project, cut, deployed, group

RELEASE = "ma1940/tenure_by_county"
WIDTH, HEIGHT = 1440, 900
MOST_SECONDS = 60
"""The most processor seconds that the UI, its runs and the browser may take for the walk."""

pytestmark = [*IN_A_BROWSER, pytest.mark.deep]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *values: object) -> None:
        """Nothing is logged."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    project, home = copied_project(tmp_path_factory.mktemp("project")), tmp_path_factory.mktemp("deployment")
    shutil.rmtree(project / "orchestration" / "defs" / "two_states")
    with (project / "orchestration" / "defs" / "ma1940" / "dataset" / "defs.yaml").open("a") as declaration:
        declaration.write("  charging: ask\n")
    (home / "published").mkdir()
    files = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=home / "published"))
    threading.Thread(target=files.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIRRED_PUBLISHED_URL", f"http://127.0.0.1:{files.server_port}")
        patch.setenv("PYTHONPATH", str(project))
        before = os.times()
        with deployed(project, home) as site:
            site.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
            yield site
        # Of processes that have ended, as all of these have by now.
        after = os.times()
    files.shutdown()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert spent < MOST_SECONDS


def looked_at(page: Page, folder: Path, name: str) -> None:
    """A screenshot, for people."""
    page.screenshot(path=folder / f"{name}.png")


def latest_run(site: Site) -> None:
    site.page.goto(f"{site.job(RELEASE)}/runs")
    site.page.locator("a[href^='/runs/']").first.click()


def test_a_refusal_is_authorized_and_the_pages_say_so(site: Site, tmp_path: Path) -> None:
    """One walk, because each step follows from the one before."""
    page = site.page

    site.launch(RELEASE)
    latest_run(site)
    expect(page.get_by_text("Failure", exact=True).first).to_be_visible()
    expect(page.get_by_text("Nobody has authorized it.", exact=False).first).to_be_visible()
    page.get_by_role("button", name=re.compile("View full message")).last.click()
    expect(page.get_by_role("dialog").get_by_text("authorized_draw", exact=False).first).to_be_visible()
    message = page.get_by_role("dialog").inner_text()
    looked_at(page, tmp_path, "refusal")
    assert "would charge ε = 12.4850" in message
    assert "Nothing was drawn, and nothing was charged." in message
    # Dagster adds where in its code the run ended; that stands below everything an officer needs.
    assert "File " not in message.partition("stirred launch")[0]
    draw = re.search(r'authorized_draw: "([0-9a-f]{12})"', message)
    assert draw
    assert not site.certificate(RELEASE).exists()

    page.goto(f"{site.address}/assets/ledger")
    expect(page.get_by_text("Never materialized")).to_be_visible()
    expect(page.get_by_text("Failed", exact=True)).to_have_count(0)

    page.goto(site.job(RELEASE))
    page.get_by_role("button", name="Materialize all").click(modifiers=["Shift"])
    editor = page.get_by_role("dialog").locator(".CodeMirror").first
    expect(editor).to_contain_text("authorized_loss")
    given = {"authorized_loss": "ε = 12.4850", "authorized_draw": draw[1], "authorized_by": "Ada Ruiz"}
    lines = [f'      {name}: "{value}"' for name, value in given.items()]
    config = "\n".join(["ops:", f"  {group(RELEASE)}__charge:", "    config:", *lines])
    editor.evaluate("(editor, text) => editor.CodeMirror.setValue(text)", config)
    expect(editor).to_contain_text("Ada Ruiz")
    looked_at(page, tmp_path, "launchpad")
    page.get_by_role("dialog").get_by_role("button", name="Materialize").click()
    deadline = time.monotonic() + 2 * PATIENCE / 1000
    while not site.certificate(RELEASE).exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert site.certificate(RELEASE).exists()

    # The ledger follows by itself, some seconds later; the page must be opened again to show it.
    deadline = time.monotonic() + PATIENCE / 1000
    while page.get_by_text("Ada Ruiz").count() == 0 and time.monotonic() < deadline:
        page.goto(f"{site.address}/assets/ledger")
        with contextlib.suppress(TimeoutError):
            page.get_by_text("Ada Ruiz").first.wait_for(timeout=10_000)
    expect(page.get_by_text("Ada Ruiz").first).to_be_visible()
    seen = re.sub(r"\s+", " ", page.inner_text("body").replace("\N{NON-BREAKING HYPHEN}", "-"))
    for fact in (
        "ma1940 ε = 12.4850 27.5150 ███░░░░░░░ 31 % of 40.0000",
        "ma1940 / tenure_by_county, edition 1 ε = 12.4850 ε = 12.4850",
        f"{draw[1]}…",
        "escrowed",
        "entry 2, 20",
        "same output",
    ):
        assert fact in seen, fact
    budget = page.get_by_text("27.5150", exact=True).bounding_box()
    assert budget
    assert budget["y"] < HEIGHT, "what is left is seen without scrolling"
    assert cut(page) <= 0
    looked_at(page, tmp_path, "ledger")

    page.goto(f"{site.address}/assets/{RELEASE}/publication")
    assert cut(page) <= 0
    page.get_by_role("link", name="certificate.html", exact=True).click()
    page.wait_for_url("**/certificate.html")
    expect(page.get_by_text("12.4850").first).to_be_visible()
    looked_at(page, tmp_path, "certificate")
    page.goto(page.url.partition("ma1940/")[0])
    page.get_by_role("link", name="Tenure of dwellings by county").click()
    expect(page.get_by_text("12.4850").first).to_be_visible()
