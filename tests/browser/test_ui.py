"""A person's view: releases of every kind launched from the Dagster UI, their pages, and their certificates.

The real UI, a real browser. The dataset of 1940 asks before it is charged, and publications are served. `make
test-deep` shows the smallest release, `make prove` one of PHSafe and one of TopDown too. Without Chromium on the
machine, these tests are skipped, unless STIRRED_REQUIRE_BROWSER is set.
"""

import contextlib
import csv
import functools
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page, TimeoutError, expect

from assets.conventions import group_digits
from assets.release.stage_names import AUTHORIZED_BY_COMMAND
from orchestration.following import Step, follow
from orchestration.queue import Queue
from tests.browser.deployment import IN_A_BROWSER, PATIENCE, Site, copied_project, cut, deployed, group
from tests.depth import deep_cases

SWAPPING, S_DHC, TOPDOWN = "ma1940/tenure_by_county", "two_states/s_dhc", "two_states/redistricting"
WIDTH, HEIGHT = 1440, 900
prove = pytest.mark.prove
LAUNCHED: set[str] = set()
"""The releases that a test of this module launched and that were not refused."""

pytestmark = [*IN_A_BROWSER, pytest.mark.deep]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *values: object) -> None:
        """Log no requests."""


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    datasets = {"ma1940"}
    if any(item.get_closest_marker("prove") for item in request.session.items):
        datasets.add("two_states")
    project = copied_project(tmp_path_factory.mktemp("project"), datasets)
    home = tmp_path_factory.mktemp("deployment")
    with (project / "orchestration" / "defs" / "ma1940" / "dataset" / "defs.yaml").open("a") as declaration:
        declaration.write("  charging: ask\n")
    (home / "published").mkdir()
    files = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=home / "published"))
    threading.Thread(target=files.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIRRED_PUBLISHED_URL", f"http://127.0.0.1:{files.server_port}")
        patch.setenv("PYTHONPATH", str(project))
        with deployed(project, home) as site:
            site.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
            yield site
    files.shutdown()


def publish(site: Site, release: str) -> None:
    """Wait until a release is published, and launch it first unless an earlier test of this module did."""
    if release not in LAUNCHED:
        if release == SWAPPING:
            authorize(site, refused_draw(refusal(site)))
        else:
            site.launch(release)
        LAUNCHED.add(release)
    if not site.certificate(release).exists():
        # An open page asks for news all the time.
        site.page.goto("about:blank")
        site.await_publication(release, refused=release == SWAPPING)


def refusal(site: Site) -> str:
    """Launch the unauthorized release by `orchestration.queue`, and open the message that refuses it.

    Fails for: a job that is queued twice if its answer is lost, and a refusal with different words in the queue
    and on the page.
    """
    page, queue, steps = site.page, Queue(site.address), list[Step]()
    for _ in range(2):
        queue.launch(SWAPPING, name="refused")
    assert [run.status for run in follow(queue, "refused", steps.append)] == ["FAILURE"]
    (refused,) = (step for step in steps if step.kind == "refused")
    assert AUTHORIZED_BY_COMMAND in (refused.metadata or {})
    assert "Nobody has authorized it." in refused.words
    page.goto(f"{site.job(SWAPPING)}/runs")
    page.locator("a[href^='/runs/']").first.click()
    expect(page.get_by_text("Failure", exact=True).first).to_be_visible()
    expect(page.get_by_text("Nobody has authorized it.", exact=False).first).to_be_visible()
    page.get_by_role("button", name=re.compile("View full message")).last.click()
    expect(page.get_by_role("dialog").get_by_text("authorized_draw", exact=False).first).to_be_visible()
    return page.get_by_role("dialog").inner_text()


def refused_draw(message: str) -> str:
    draw = re.search(r'authorized_draw: "([0-9a-f]{12})"', message)
    assert draw
    return draw[1]


def authorize(site: Site, draw: str) -> None:
    """Launch the release with the values that its refusal asks for."""
    page = site.page
    page.goto(site.job(SWAPPING))
    page.get_by_role("button", name="Materialize all").click(modifiers=["Shift"])
    editor = page.get_by_role("dialog").locator(".CodeMirror").first
    expect(editor).to_contain_text("authorized_loss")
    given = {"authorized_loss": "ε = 12.4850", "authorized_draw": draw, "authorized_by": "Ada Ruiz"}
    lines = [f'      {name}: "{value}"' for name, value in given.items()]
    config = "\n".join(["ops:", f"  {group(SWAPPING)}__charge:", "    config:", *lines])
    editor.evaluate("(editor, text) => editor.CodeMirror.setValue(text)", config)
    expect(editor).to_contain_text("Ada Ruiz")
    page.get_by_role("dialog").get_by_role("button", name="Materialize").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def open_until_shown(page: Page, address: str, text: str) -> None:
    """Open a page that follows a charge by itself, some seconds later, until it shows a text."""
    deadline = time.monotonic() + PATIENCE / 1000
    while page.get_by_text(text, exact=True).count() == 0 and time.monotonic() < deadline:
        page.goto(address)
        with contextlib.suppress(TimeoutError):
            page.get_by_text(text, exact=True).first.wait_for(timeout=10_000)
    expect(page.get_by_text(text, exact=True).first).to_be_visible()


def test_a_refusal_is_authorized_and_the_pages_say_so(site: Site, tmp_path: Path) -> None:
    """An officer's first day, as one test, because each step builds on the previous one."""
    page = site.page

    message = refusal(site)
    page.screenshot(path=tmp_path / "refusal.png")
    assert "would charge ε = 12.4850" in message
    assert "Nothing was drawn, and nothing was charged." in message
    # Dagster adds where in its code the run ended, below everything an officer needs.
    assert "File " not in message.partition("stirred launch")[0]
    assert not site.certificate(SWAPPING).exists()

    page.goto(f"{site.address}/assets/ledger")
    expect(page.get_by_text("Never materialized")).to_be_visible()
    expect(page.get_by_text("Failed", exact=True)).to_have_count(0)

    draw = refused_draw(message)
    authorize(site, draw)
    LAUNCHED.add(SWAPPING)
    page.goto("about:blank")
    site.await_publication(SWAPPING, refused=1)

    open_until_shown(page, f"{site.address}/assets/ledger", "Ada Ruiz")
    seen = re.sub(r"\s+", " ", page.inner_text("body").replace("\N{NON-BREAKING HYPHEN}", "-"))
    for fact in (
        "ma1940 ε = 12.4850 27.5150 ███░░░░░░░ 31 % of 40.0000",
        "ma1940 / tenure_by_county, edition 1 ε = 12.4850 ε = 12.4850",
        f"{draw}…",
        "escrowed",
        "entry 2, 20",
        "same output",
    ):
        assert fact in seen, fact
    budget = page.get_by_text("27.5150", exact=True).bounding_box()
    assert budget
    assert budget["y"] < HEIGHT, "what is left is seen without scrolling"
    assert cut(page) <= 0
    page.screenshot(path=tmp_path / "ledger.png")

    page.goto(f"{site.address}/assets/{SWAPPING}/publication")
    assert cut(page) <= 0
    for fact in ("loss", "left of the cap", "draw", "commitment"):
        row = page.get_by_role("row").filter(has=page.get_by_text(fact, exact=True)).first.bounding_box()
        assert row, fact
        assert row["y"] + row["height"] <= HEIGHT, f"{fact} is seen without scrolling"
    page.get_by_role("link", name="certificate.html", exact=True).click()
    page.wait_for_url("**/certificate.html")
    expect(page.get_by_text("12.4850").first).to_be_visible()
    page.goto(page.url.partition("ma1940/")[0])
    page.get_by_role("link", name="Tenure of dwellings by county").click()
    expect(page.get_by_text("12.4850").first).to_be_visible()


@prove
@pytest.mark.parametrize("release", [S_DHC, TOPDOWN])
def test_a_release_is_launched_from_the_ui_and_published(site: Site, release: str) -> None:
    publish(site, release)
    site.page.goto(f"{site.job(release)}/runs")
    expect(site.page.get_by_text("Success", exact=True)).to_be_visible()


@pytest.mark.prove
@pytest.mark.parametrize(
    ("release", "stages"),
    [
        (SWAPPING, "invariants charge swapped tables utility experiment publication"),
        pytest.param(
            S_DHC, "plan truncated_join counts charge noisy_measurements postprocessed tables publication", marks=prove
        ),
        pytest.param(
            TOPDOWN,
            "spine histograms invariants charge noisy_measurements level_us level_state level_county "
            "level_tract level_block_group level_block microdata tables accuracy publication",
            marks=prove,
        ),
    ],
)
def test_the_graph_shows_every_stage(site: Site, release: str, stages: str) -> None:
    page = site.page
    page.goto(f"{site.address}/locations/stirred/asset-groups/{group(release)}")
    for stage in stages.split():
        expect(page.get_by_text(stage, exact=True).first).to_be_visible()
    for shared in ("cef", "ledger"):
        expect(page.get_by_text(shared, exact=True).first).to_be_visible()


def test_the_mechanisms_page_shows_draw_commitment_entry_and_loss(site: Site) -> None:
    page = site.page
    publish(site, SWAPPING)
    certificate = json.loads(site.certificate(SWAPPING).with_suffix(".json").read_text())
    page.goto(f"{site.address}/assets/{SWAPPING}/swapped")
    expect(page.get_by_text(group_digits(certificate["randomness"]["draw_id"]))).to_be_visible()
    expect(page.get_by_text(group_digits(certificate["randomness"]["commitment"]))).to_be_visible()
    expect(page.get_by_text("ledger entry", exact=True)).to_be_visible()
    expect(page.get_by_text("ε = 12.4850", exact=True)).to_be_visible()
    expect(page.get_by_text("One draw of the Permutation Swapping Algorithm", exact=False)).to_be_visible()
    page.goto(f"{site.address}/assets/{SWAPPING}/swapped?view=checks")
    for check in ("replay", "stratum_multisets_equal", "holding_margin_exact", "swap_margin_exact", "record_count"):
        expect(page.get_by_text(check, exact=True).first).to_be_visible()


@prove
def test_the_plans_page_states_what_is_charged(site: Site) -> None:
    page = site.page
    publish(site, S_DHC)
    page.goto(f"{site.address}/assets/{S_DHC}/plan")
    expect(page.get_by_text("ρ = 2.5146 (exactly 1257281/500000)", exact=True).first).to_be_visible()


@prove
def test_the_finished_tables_are_shown_as_they_are_published(site: Site) -> None:
    page = site.page
    publish(site, S_DHC)
    with (site.published / S_DHC / "ph1.csv").open(newline="") as file:
        shown = [row for row in csv.DictReader(file) if (row["region_type"], row["iteration_code"]) == ("USA", "*")]
    assert len(shown) == 3
    page.goto(f"{site.address}/assets/{S_DHC}/tables")
    for row in shown:
        cells = page.get_by_role("row").filter(has_text=f"{row['lower']} – {row['upper']}")
        expect(cells.get_by_text(row["estimate"], exact=True).first).to_be_visible()


@pytest.mark.prove
@pytest.mark.parametrize(
    ("releases", "asset", "chart"),
    [
        ([SWAPPING], f"{SWAPPING}/utility", "ε against swap rate"),
        ([SWAPPING], f"{SWAPPING}/experiment", "MAPE against swap rate"),
        pytest.param([S_DHC], f"{S_DHC}/plan", "Margin of error against budget", marks=prove),
        pytest.param([TOPDOWN], f"{TOPDOWN}/accuracy", "accuracy by level (synthetic data)", marks=prove),
        pytest.param([S_DHC, TOPDOWN], "two_states/composition", "releases side by side", marks=prove),
    ],
)
def test_charts_are_shown_as_pictures(site: Site, releases: list[str], asset: str, chart: str) -> None:
    page = site.page
    for release in releases:
        publish(site, release)
    open_until_shown(page, f"{site.address}/assets/{asset}", chart)
    row = page.get_by_role("row").filter(has_text=chart) if page.get_by_role("row").count() else page
    row.get_by_text("[Show Markdown]").first.click()
    picture = page.locator("img[src^='data:image/png']")
    expect(picture).to_be_visible()
    assert re.search(r"\w+ .*\d", picture.get_attribute("alt") or ""), "who does not see it reads its main figures"
    assert picture.evaluate("image => image.naturalWidth") >= 1000


@pytest.mark.prove
@deep_cases(1)
@pytest.mark.parametrize(
    "asset",
    [
        "ma1940/composition",
        *(f"{SWAPPING}/{stage}" for stage in ("invariants", "swapped", "utility")),
        *(
            pytest.param(asset, marks=prove)
            for asset in (
                "two_states/composition",
                *(f"{SWAPPING}/{stage}" for stage in ("charge", "tables")),
                *(f"{S_DHC}/{stage}" for stage in ("plan", "charge", "publication", "truncated_join", "tables")),
                *(
                    f"{TOPDOWN}/{stage}"
                    for stage in ("charge", "noisy_measurements", "tables", "accuracy", "publication")
                ),
            )
        ),
    ],
)
def test_nothing_on_a_page_is_cut(site: Site, asset: str) -> None:
    """The first test looks at the pages of the ledger and of a publication."""
    page = site.page
    publish(site, TOPDOWN if asset.startswith(TOPDOWN) else S_DHC if asset.startswith("two_states") else SWAPPING)
    page.goto(f"{site.address}/assets/{asset}")
    assert cut(page) <= 0


@deep_cases(1)
@pytest.mark.parametrize(
    ("release", "loss"),
    [
        (SWAPPING, ("ln(264332)", "12.4850")),
        pytest.param(S_DHC, ("1257281/500000", "2.5146", "PH8_denom state_*"), marks=prove),
        pytest.param(
            TOPDOWN,
            ("293764/114921", "2.7062", "persons Block_Group hispanic * cenrace", "17.1436", "2.9258"),
            marks=prove,
        ),
    ],
)
def test_the_certificate_is_a_page_that_needs_nothing_else(site: Site, release: str, loss: tuple[str, ...]) -> None:
    page = site.page
    publish(site, release)
    # The page before it asks for news all the time.
    page.goto("about:blank")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(site.certificate(release).as_uri())
    text = page.inner_text("body")
    for block in ("Domain", "Multiverse", "Input premetric", "Output premetric", "Protection-loss budget"):
        assert re.search(block, text, re.IGNORECASE), block
    assert [words for words in ("Synthetic data", *loss) if words not in text] == []
    assert [address for address in asked if not address.startswith("file:")] == []
    for width in (400, WIDTH):
        page.set_viewport_size({"width": width, "height": HEIGHT})
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0, "the page is wider than the window"
