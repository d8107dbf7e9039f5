"""A redistricting release of a third of a million persons, launched from the UI, shows its progress while it runs.

The deployment is a copy of the project's, with one dataset and one release more.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.deployment import IN_A_BROWSER, Site, copied_project, deployed

RELEASE = "rhode_island/redistricting"
DATASET = """
type: orchestration.components.SyntheticCensus
attributes:
  name: rhode_island
  households: 150000
  states: ["44"]
  cap: {rho: 5}
"""
DECLARED = """
type: orchestration.components.TopDown
attributes:
  name: redistricting
  dataset: rhode_island
  title: Redistricting data of a state
"""
MINUTES = 60_000

pytestmark = [*IN_A_BROWSER, pytest.mark.deep]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    project = copied_project(tmp_path_factory.mktemp("project"), ())
    for name, text in (("dataset", DATASET), ("redistricting", DECLARED)):
        folder = project / "orchestration" / "defs" / "rhode_island" / name
        folder.mkdir(parents=True)
        (folder / "defs.yaml").write_text(text)
    with deployed(project, tmp_path_factory.mktemp("deployment")) as site:
        yield site


@pytest.mark.prove
def test_a_person_sees_level_by_level_how_far_the_run_is(site: Site, tmp_path: Path) -> None:
    """During the run: the finished levels, and the number of finished parents of blocks. `test_ui` sees another run's
    end."""
    page = site.page
    site.launch(RELEASE)
    page.goto(f"{site.job(RELEASE)}/runs")
    page.get_by_role("link", name="View run").or_(page.locator("a[href^='/runs/']")).first.click()
    running = page.get_by_text("Started", exact=True).first
    expect(running).to_be_visible(timeout=2 * MINUTES)
    search = page.get_by_placeholder("Filter")
    search.fill("block groups")
    expect(page.get_by_text("block groups").first).to_be_visible(timeout=10 * MINUTES)
    page.screenshot(path=tmp_path / "progress.png")
    assert running.is_visible()
    assert not site.certificate(RELEASE).exists()
