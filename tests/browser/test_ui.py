"""What a person sees: releases of every kind launched from the Dagster UI, their pages, and their certificates.

A real `dg dev`, a real browser. `make test-deep` shows the smallest release and one of PHSafe, `make prove` one of
TopDown too. Without a Chromium on the machine these tests are left out, unless STIRRED_REQUIRE_BROWSER is set.
"""

import contextlib
import csv
import json
import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import TimeoutError, expect

from assets.conventions import group_digits
from tests.browser.deployment import IN_A_BROWSER, PATIENCE, ROOT, Site, cut, deployed, group

SWAPPING, S_DHC, TOPDOWN = "ma1940/tenure_by_county", "two_states/s_dhc", "two_states/redistricting"
prove = pytest.mark.prove
LAUNCHED: set[str] = set()
"""The releases that a test of this module launched."""

pytestmark = [*IN_A_BROWSER, pytest.mark.deep]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with deployed(ROOT, tmp_path_factory.mktemp("deployment")) as site:
        yield site


def publish(site: Site, release: str) -> None:
    """Wait until a release is published, and launch it first unless an earlier test of this module did."""
    if release not in LAUNCHED:
        LAUNCHED.add(release)
        site.launch(release)
    site.await_publication(release)


@pytest.mark.parametrize("release", [SWAPPING, S_DHC, pytest.param(TOPDOWN, marks=prove)])
def test_a_release_is_launched_from_the_ui_and_published(site: Site, release: str) -> None:
    publish(site, release)
    site.page.goto(f"{site.job(release)}/runs")
    expect(site.page.get_by_text("Success", exact=True)).to_be_visible()


@pytest.mark.parametrize(
    ("release", "stages"),
    [
        (SWAPPING, "invariants charge swapped tables utility experiment publication"),
        (S_DHC, "plan truncated_join counts charge noisy_measurements postprocessed tables publication"),
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


def test_the_plans_page_states_what_is_charged(site: Site) -> None:
    page = site.page
    publish(site, S_DHC)
    page.goto(f"{site.address}/assets/{S_DHC}/plan")
    expect(page.get_by_text("ρ = 2.5146 (exactly 1257281/500000)", exact=True)).to_be_visible()


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


@pytest.mark.parametrize(
    ("releases", "asset", "chart"),
    [
        ([SWAPPING], f"{SWAPPING}/utility", "ε against swap rate"),
        ([SWAPPING], f"{SWAPPING}/experiment", "MAPE against swap rate"),
        ([S_DHC], f"{S_DHC}/plan", "Margin of error against budget"),
        pytest.param([TOPDOWN], f"{TOPDOWN}/accuracy", "accuracy by level (synthetic data)", marks=prove),
        pytest.param([S_DHC, TOPDOWN], "two_states/composition", "releases side by side", marks=prove),
    ],
)
def test_charts_are_shown_as_pictures(site: Site, releases: list[str], asset: str, chart: str) -> None:
    page = site.page
    for release in releases:
        publish(site, release)
    page.goto(f"{site.address}/assets/{asset}")
    # A composition follows the charges by itself, some seconds later; the page must be opened again to show it.
    deadline = time.monotonic() + PATIENCE / 1000
    while page.get_by_text(chart, exact=True).count() == 0 and time.monotonic() < deadline:
        page.goto(f"{site.address}/assets/{asset}")
        with contextlib.suppress(TimeoutError):
            page.get_by_text(chart, exact=True).first.wait_for(timeout=10_000)
    row = page.get_by_role("row").filter(has_text=chart) if page.get_by_role("row").count() else page
    expect(page.get_by_text(chart, exact=True).first).to_be_visible()
    row.get_by_text("[Show Markdown]").first.click()
    picture = page.locator("img[src^='data:image/png']")
    expect(picture).to_be_visible()
    assert re.search(r"\w+ .*\d", picture.get_attribute("alt") or ""), "who does not see it reads its main figures"
    assert picture.evaluate("image => image.naturalWidth") >= 1000


@pytest.mark.parametrize(
    "asset",
    [
        "ledger",
        "ma1940/composition",
        "two_states/composition",
        *(f"{SWAPPING}/{stage}" for stage in ("invariants", "charge", "swapped", "tables", "utility", "publication")),
        *(f"{S_DHC}/{stage}" for stage in ("plan", "truncated_join", "charge", "tables", "publication")),
        *(
            pytest.param(f"{TOPDOWN}/{stage}", marks=prove)
            for stage in ("charge", "noisy_measurements", "tables", "accuracy", "publication")
        ),
    ],
)
def test_nothing_on_a_page_is_cut(site: Site, asset: str) -> None:
    page, before = site.page, site.page.viewport_size
    for release in (SWAPPING, S_DHC, *([TOPDOWN] if asset.startswith(TOPDOWN) else [])):
        publish(site, release)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{site.address}/assets/{asset}")
    assert cut(page) <= 0
    if asset.endswith("publication"):
        for fact in ("loss", "left of the cap", "draw", "commitment"):
            row = page.get_by_role("row").filter(has=page.get_by_text(fact, exact=True)).first.bounding_box()
            assert row, fact
            assert row["y"] + row["height"] <= 900, f"{fact} is seen without scrolling"
    assert before
    page.set_viewport_size(before)


@pytest.mark.parametrize(
    ("release", "loss"),
    [
        (SWAPPING, ("ln(264332)", "12.4850")),
        (S_DHC, ("1257281/500000", "2.5146", "PH8_denom state_*")),
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
    for width in (400, page.viewport_size["width"]):  # type: ignore[index]
        page.set_viewport_size({"width": width, "height": 900})
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0, "the page is wider than the window"
