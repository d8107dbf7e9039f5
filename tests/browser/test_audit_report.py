"""The report of an audit fits into the window of a phone and of a computer, however long names are."""

from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from assets.publication.audit import write_report
from tests.browser.deployment import CHROMIUM, FLAGS, IN_A_BROWSER

LONG = "survey_of_households_in_the_northern_provinces/expenditures_by_work_income_1_quantiles"

pytestmark = [*IN_A_BROWSER, pytest.mark.deep]


def test_long_names_make_no_page_wider_than_the_window(tmp_path: Path) -> None:
    finding = {"subject": "x" * 90, "name": "y" * 90, "claim": "A claim.", "verdict": "holds", "details": ["/" * 90]}
    draw = {
        **{"release": LONG, "population": "z" * 60, "authorized_by": f"{'a' * 60}@example.org"},
        **{
            "edition": 1,
            "entry": 1,
            "charged": "ε = 1.0000",
            "unit": "household",
            "recorded_at": "2026-01-01 00:00:00",
        },
        **{"unit": "household", "recorded_at": "2026-01-01 00:00:00", "state": "drawn", "replay": "not repeated"},
    }
    record = {
        **{"made_at": "2026-01-01T00:00:00Z", "verdict": "holds", "public_key": "0" * 64},
        **{"counts": {"holds": 1, "does not hold": 0, "could not be checked": 0}},
        **{"ledger": {"entries": 1, "head": "0" * 64}, "findings": [finding], "draws": [draw]},
    }
    _, report = write_report(record, tmp_path)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for width in (390, 1400):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.goto(report.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        browser.close()
