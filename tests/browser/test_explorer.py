"""The explorer on a deployment with the release of 1940: each page used as a person would, and its limits.

The explorer runs as `stirred explore` starts it, and Chromium records every request.
"""

import contextlib
import csv
import http.client
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest
from playwright.sync_api import Browser, Locator, Page, Request, TimeoutError, expect, sync_playwright

from resources.confinement import find_landlock_version
from tests.browser.deployment import CHROMIUM, FLAGS, IN_A_BROWSER, PATIENCE, ROOT
from tests.depth import deep_cases

RELEASE = "ma1940/tenure_by_county"
SECRET = "00112233445566778899aabbccddeeff" * 2
ATTEMPTS = ROOT / "tests" / "orchestration" / "explorer" / "attempts.py"

pytestmark = [*IN_A_BROWSER, pytest.mark.deep]


@dataclass
class Explored:
    """A running explorer, a browser, and every address that the browser asked for."""

    address: str
    home: Path
    browser: Browser
    environment: Mapping[str, str]
    requested: list[str] = field(default_factory=list)

    @property
    def published(self) -> Path:
        return self.home / "published"

    def page(self, path: str = "", width: int = 1300, height: int = 900) -> Page:
        """A new page of the explorer, once it is drawn."""
        page = self.browser.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(PATIENCE)
        page.on("request", self._note)
        page.goto(f"{self.address}/{path}")
        drawn(page)
        return page

    def _note(self, request: Request) -> None:
        self.requested.append(request.url)


def drawn(page: Page) -> None:
    """Wait until a page has its heading and its script has ended."""
    expect(page.locator("h1").first).to_be_visible()
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    page.wait_for_timeout(300)


def choose(page: Page, words: str, option: str) -> None:
    """Choose an option of a box by typing its beginning, as a person does."""
    box = page.get_by_role("combobox", name=re.compile(re.escape(words))).first
    deadline = time.monotonic() + PATIENCE / 1000
    while True:
        box.click()
        box.fill(option)
        try:
            # A page redrawn at the same time closes the list.
            page.get_by_role("option", name=re.compile(re.escape(option))).first.click(timeout=15_000)
            break
        except TimeoutError:
            if time.monotonic() > deadline:
                raise
    drawn(page)


def opened(page: Page, words: str) -> Locator:
    """The content of an expandable part, expanded."""
    part = page.get_by_test_id("stExpander").filter(has_text=words).first
    if part.locator("details").get_attribute("open") is None:
        part.locator("summary").click()
    return part


@contextlib.contextmanager
def started(command: list[str], environment: Mapping[str, str]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A running explorer and its address."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout
        for line in process.stdout:
            if found := re.search(r"The explorer is at (\S+);", line):
                yield found[1], process
                return
        pytest.fail("the explorer did not start")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explored]:
    home = tmp_path_factory.mktemp("explored")
    (home / "dagster").mkdir()
    shutil.copy(ROOT / "dagster.yaml", home / "dagster")
    environment = os.environ | {
        "DAGSTER_HOME": str(home / "dagster"),
        "STIRRED_HOME": str(home / "var"),
        "STIRRED_PUBLISHED": str(home / "published"),
        "STIRRED_MASTER_KEY": SECRET,
        "PYTHONPATH": str(ROOT),
    }
    stirred = [sys.executable, "-W", "ignore", "-m", "orchestration.cli"]
    subprocess.run([*stirred, "launch", RELEASE], env=environment, check=True, capture_output=True)
    (home / "maps").mkdir()
    (home / "maps" / "counties.geojson").write_text(json.dumps(squares(home / "published" / RELEASE)))
    command = [*stirred, "explore", "--port", "0", "--no-browser", "--boundaries", str(home / "maps")]
    with started(command, environment) as (address, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        found = Explored(address, home, browser, environment)
        yield found
        assert {url.split("/")[2] for url in found.requested if url.startswith("http")} == {address.split("/")[2]}
        assert {url.split(":")[0] for url in found.requested} <= {"http", "data", "blob"}
        browser.close()


def squares(folder: Path) -> dict[str, object]:
    """A map on which every county is a square."""
    with (folder / "tenure_by_county.csv").open(newline="") as file:
        counties = sorted({row["county"] for row in csv.DictReader(file)})
    corners = [(0, 0), (0, 1), (1, 1), (1, 0), (0, 0)]
    features = [
        {
            "type": "Feature",
            "properties": {"number": position, "county": county},
            "geometry": {
                "type": "Polygon",
                "coordinates": [[[-73 + position % 5 + x * 0.9, 41 + position // 5 + y * 0.9] for x, y in corners]],
            },
        }
        for position, county in enumerate(counties)
    ]
    return {"type": "FeatureCollection", "features": features}


def test_budgets_show_what_is_left_and_refuse_what_does_not_fit(explored: Explored) -> None:
    """Wrong program: Streamlit's, which finds no page under the name of the first one."""
    page = explored.page("budgets?population=ma1940")
    expect(page.get_by_text("Page not found")).to_have_count(0)
    main = page.get_by_test_id("stMain")
    expect(main.get_by_text("ε = 12.4850").first).to_be_visible()
    expect(main.get_by_text("ε = 27.5150").first).to_be_visible()
    rows = opened(page, "The table behind the chart").locator("table")
    expect(rows.get_by_text("ma1940 / tenure_by_county, edition")).to_be_visible()
    expect(main.get_by_text("27.5150 remains before this charge and 26.5150 after it")).to_be_visible()
    loss = page.get_by_label("The loss, such as")
    loss.fill("27.5151")
    loss.press("Enter")
    expect(main.get_by_text("A launch would be refused")).to_be_visible()
    loss.fill("half")
    loss.press("Enter")
    expect(main.get_by_text("The loss half cannot be read")).to_be_visible()
    expect(main.get_by_text(re.compile("the number of (households|units) by"))).not_to_have_count(0)
    page.close()


def test_a_plan_answers_at_once_and_ends_in_a_declaration(explored: Explored) -> None:
    page = explored.page(f"plan?release={RELEASE}")
    main = page.get_by_test_id("stMain")
    metric = main.get_by_test_id("stMetricValue")
    expect(metric).to_have_text("ε = 12.4850")
    # A published release is already charged: to subtract its loss again would be wrong.
    expect(main.get_by_text("It is charged already, in entry 1 of the ledger")).to_be_visible()
    slider = page.get_by_role("slider")
    slider.focus()
    slider.press("ArrowLeft")
    expect(metric).not_to_have_text("ε = 12.4850")
    expect(main.get_by_text("27.5150 remains before this charge")).to_be_visible()
    expect(main.get_by_test_id("stCode").last).to_contain_text("swap_rate: 0.475")
    expect(main.get_by_role("button", name=re.compile("Copy")).last).to_be_attached()
    # A guess of b instead of the published one: the loss of Theorem 1 at p = 1/2 is ln(b + 1).
    slider.press("ArrowRight")
    expect(metric).to_have_text("ε = 12.4850")
    page.get_by_label(re.compile("^b, the number")).fill("1000")
    page.get_by_label(re.compile("^b, the number")).press("Enter")
    expect(metric).to_have_text("ε = 6.9088")
    assert (
        main.locator("[data-testid=stVegaLiteChart]").count() == main.get_by_text("The table behind the chart").count()
    )
    choose(page, "Release", "Supplemental Demographic")
    # Both may be there while the page changes.
    expect(metric.filter(has_text=re.compile("^ρ = "))).to_be_visible()
    expect(metric).to_have_count(1)
    main.get_by_text("Another total", exact=True).first.click()
    total = page.get_by_label("The total, or another one")
    total.fill("1")
    total.press("Enter")
    expect(metric).to_have_text("ρ = 1.0000")
    page.close()


@pytest.mark.prove
def test_tables_compare_places_and_a_link_leads_back(explored: Explored, tmp_path: Path) -> None:
    page = explored.page(f"tables?release={RELEASE}&table=tenure_by_county&tenure=rented", width=1440)
    main = page.get_by_test_id("stMain")
    rows = opened(page, "The table behind the chart").locator("table")
    last_control = page.get_by_label("How many places, from the greatest number")
    for part in (last_control, main.locator("[data-testid=stVegaLiteChart]"), rows.locator("tbody tr").nth(3)):
        box = part.bounding_box()
        assert box
        assert box["y"] + box["height"] <= 900, "choice, chart and first rows are seen together"
    certificate = page.get_by_role("link", name=f"Certificate of {RELEASE}").get_attribute("href")
    with (explored.published / RELEASE / "tenure_by_county.csv").open(newline="") as file:
        rented = [row for row in csv.DictReader(file) if row["tenure"] == "rented"]
    rented.sort(key=lambda row: -float(row["estimate"]))
    greatest, *_ = rented = rented[:10]
    expect(rows.locator("tbody tr").first).to_contain_text(greatest["county"])
    expect(rows.locator("tbody tr").first).to_contain_text(f"{float(greatest['estimate']):,.2f}")
    expect(rows.locator("tbody tr")).to_have_count(len(rented))
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download the shown table").click()
    downloaded = list(csv.DictReader(io.StringIO(downloading.value.path().read_text())))
    assert {row["County"]: float(row["estimate"]) for row in downloaded} == {
        row["county"]: float(row["estimate"]) for row in rented
    }
    page.get_by_test_id("stMain").get_by_text("Two places", exact=True).click()
    drawn(page)
    choose(page, "Second place", "Dukes")
    expect(main.get_by_text(re.compile("intervals of the two places (overlap|do not overlap)"))).to_be_visible()
    expect(page).to_have_url(re.compile("other=Dukes"))
    link = page.url
    again = explored.page(link.partition(f"{explored.address}/")[2])
    expect(again.get_by_test_id("stMain").get_by_role("combobox", name=re.compile("Second place"))).to_have_value(
        "Dukes"
    )
    page.screenshot(path=tmp_path / "two.png")
    part = opened(again, "The published files")
    with again.expect_download() as downloading:
        part.get_by_role("button", name="Download tenure_by_county.parquet").click()
    published = (explored.published / RELEASE / "tenure_by_county.parquet").read_bytes()
    assert downloading.value.path().read_bytes() == published
    again.close()
    answer = page.goto(f"{explored.address}{certificate}")
    expect(page.get_by_text("12.4850").first).to_be_visible()
    assert answer
    assert answer.headers["content-security-policy"].startswith("sandbox "), "a page of a publication runs no script"
    answer = page.goto(f"{explored.address}/documentation/how-to/explore.md")
    assert answer
    assert answer.headers["content-type"].startswith("text/html")
    assert page.locator("img").first.evaluate("image => image.naturalWidth") > 0, "a picture beside the page"
    page.close()


@pytest.mark.prove
def test_a_map_shows_supplied_boundaries(explored: Explored, tmp_path: Path) -> None:
    page = explored.page(f"tables?release={RELEASE}&table=tenure_by_county&view=Map")
    expect(page.get_by_role("combobox", name=re.compile("Property with"))).to_have_value(re.compile("county .14 of 14"))
    expect(
        page.locator("[data-testid=stVegaLiteChart] canvas, [data-testid=stVegaLiteChart] svg").first
    ).to_be_visible()
    expect(opened(page, "The table behind the map").locator("tbody tr")).to_have_count(14)
    page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(
        {"name": "broken.geojson", "mimeType": "application/json", "buffer": b"{}"}
    )
    expect(page.get_by_text("is not a GeoJSON file with features")).to_be_visible()
    page.screenshot(path=tmp_path / "map.png")
    page.close()


@pytest.mark.prove
def test_the_audit_finds_an_altered_file(explored: Explored) -> None:
    page = explored.page("audit")
    main = page.get_by_test_id("stMain")
    expect(main.get_by_text("The hashes of all 2 entries were computed again")).to_be_visible()
    expect(main.get_by_text("All publications (1) are signed with this key")).to_be_visible()
    expect(main.get_by_role("cell", name="same output")).to_be_visible()
    altered = explored.published / RELEASE / "tenure_by_county.csv"
    before = altered.read_bytes()
    try:
        altered.write_bytes(before.replace(b"owned", b"Owned", 1))
        page.reload()
        drawn(page)
        expect(main.get_by_text("Problems found: 1.")).to_be_visible()
        expect(main.get_by_text("tenure_by_county.csv was altered").first).to_be_visible()
    finally:
        altered.write_bytes(before)
    page.close()


@deep_cases(1)
@pytest.mark.parametrize(
    "path", ["?population=ma1940", f"plan?release={RELEASE}", f"tables?release={RELEASE}", "audit"]
)
def test_every_page_fits_a_phone(explored: Explored, tmp_path: Path, path: str) -> None:
    page = explored.page(path, width=390, height=844)
    page.wait_for_timeout(1000)
    page.screenshot(path=tmp_path / "phone.png")
    wide = page.evaluate("document.documentElement.scrollWidth")
    main = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth")
    assert (wide, main) == (390, 390), "nothing is beyond the right edge"
    levels = page.locator("h1, h2, h3").evaluate_all("headings => headings.map(each => Number(each.tagName[1]))")
    assert all(level <= before + 1 for before, level in pairwise(levels)), "no level of headings is left out"
    # Streamlit colors words of code too faintly for a light page.
    expect(page.locator("[data-testid=stCode] .token")).to_have_count(0)
    page.set_viewport_size({"width": 650, "height": 500})
    columns = page.get_by_test_id("stColumn").evaluate_all("columns => columns.map(each => each.clientWidth)")
    assert min(columns, default=650) > 500, "enlarged twice, a window has one column: two would cut every choice"
    page.close()


@pytest.mark.prove
def test_the_keyboard_alone_is_enough(explored: Explored) -> None:
    page = explored.page()

    def tab_to(found: Callable[[], bool]) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if found():
                return
        pytest.fail("not reached by the key Tab")

    def focused() -> str:
        return str(
            page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.innerText || ''")
        ).strip()

    tab_to(lambda: focused() == "Tables")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tables*")
    drawn(page)
    tab_to(lambda: focused() == "Table")
    page.keyboard.type("Dwellings by county and persons")
    expect(page.get_by_role("option").filter(has_text="Dwellings by county and persons")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("table=persons_per_household_by_county"))
    page.close()


def test_no_address_of_the_server_leads_to_another_file(explored: Explored) -> None:
    key = explored.home / "var" / "warehouse" / "confidential.duckdb"
    up = "/".join([".."] * 12)
    encoded = "%2f".join([".."] * 12)
    served = ("published", "documentation", "static", "app/static", "media", "component/x", "_stcore/component/x")
    for start in (*served, "vendor", "_stcore", ""):
        for way in (f"{up}{key}", f"{encoded}{str(key).replace('/', '%2f')}", f"{key}", f"..%5c{key}"):
            address = f"{explored.address}/{start}/{way}"
            with (
                contextlib.suppress(urllib.error.HTTPError, urllib.error.URLError),
                urllib.request.urlopen(address, timeout=10) as answer,
            ):
                assert b"DUCK" not in answer.read()[:64], address


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("elsewhere.example", "http://elsewhere.example"),
        ("[::1]", "http://[::1]"),
        ("", "http://elsewhere.example"),
        ("", "http://127.0.0.1:1"),
    ],
)
def test_pages_of_other_sites_get_no_connection(explored: Explored, host: str, origin: str) -> None:
    """A page's whole content comes over one connection. Another site's name could resolve to this address, or its page
    could ask for the connection. Fails for: Streamlit's own check, which accepts pages of every port of this machine.
    """
    machine, port = explored.address.removeprefix("http://").split(":")
    assert connected(machine, port, f"{machine}:{port}", explored.address) == 101
    assert connected(machine, port, host or f"{machine}:{port}", origin) == (400 if host else 403)


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/tables", "/_stcore/health", "/_stcore/host-config", "/media/a.png", "/static/a", "/published/"),
        "/documentation/index.md",
    ],
)
def test_nothing_is_answered_under_the_name_of_another_site(explored: Explored, path: str) -> None:
    """Fails for: a check by Streamlit alone, which covers only the connection of a page; and a check of only the first
    of several names."""
    machine, port = explored.address.removeprefix("http://").split(":")
    foreign = (
        "elsewhere.example",
        f"elsewhere.example:{port}",
        "",
        "[::1]",
        f"[::1]:{port}",
        "localhost.elsewhere.example",
    )
    own = (machine, f"localhost:{port}", "LocalHost", f"{machine}:1")
    refused = [(), *((host,) for host in foreign), ("localhost", "elsewhere.example"), ("localhost", "localhost")]
    for hosts in (*refused, *((host,) for host in own)):
        connection = http.client.HTTPConnection(machine, int(port), timeout=10)
        connection.putrequest("GET", path, skip_host=True)
        for host in hosts:
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status == 400) == (hosts in refused), hosts
        assert hosts not in refused or answer.read() == b"Invalid host header"
        connection.close()


def connected(machine: str, port: str, host: str, origin: str) -> int:
    """The status of the server's answer to a request for a page's connection; 101 if it accepts."""
    connection = http.client.HTTPConnection(machine, int(port), timeout=10)
    connection.putrequest("GET", "/_stcore/stream", skip_host=True)
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    key = {"Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==", "Sec-WebSocket-Protocol": "streamlit"}
    for name, value in ({"Host": host, "Origin": origin} | upgrade | key).items():
        connection.putheader(name, value)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


PROBE = """
import json, os
from pathlib import Path
import streamlit as st
from orchestration.explorer.settings import read_settings
given = json.loads(Path(PROBE).read_text())
exec(given["attempts"])
st.title("Probe")
st.text(json.dumps(attempts(given["secrets"], given["allowed"], read_settings().temporary)))
"""


@pytest.mark.skipif(not find_landlock_version(), reason="this kernel has no Landlock")
def test_a_page_itself_cannot_open_what_is_not_public(explored: Explored, tmp_path: Path) -> None:
    """Our own page in the explorer's process, in Streamlit's threads for pages."""
    warehouse = explored.home / "var" / "warehouse"
    key = explored.home / "var" / "custody" / "ledger.anchor"
    assert key.exists()
    probe = tmp_path / "probe.py"
    given = {
        "attempts": ATTEMPTS.read_text(),
        "secrets": {"anchor": str(key), "confidential": str(warehouse / "confidential.duckdb")},
        "allowed": {
            "public": str(warehouse / "public.duckdb"),
            "ledger": str(warehouse / "ledger.duckdb"),
            "published": str(explored.published / RELEASE / "certificate.json"),
            "port": explored.address.rpartition(":")[2],
        },
    }
    (tmp_path / "probe.json").write_text(json.dumps(given))
    probe.write_text(PROBE.replace("PROBE)", f"{str(tmp_path / 'probe.json')!r})"))
    # The probe's folder is readable like the one for boundaries; the process is otherwise as it is shipped.
    process = (
        "from pathlib import Path; from orchestration.explorer import process; "
        f"process.APP = Path({str(probe)!r}); process.main()"
    )
    launch = (
        "from orchestration.explorer import launcher\n"
        f"launcher.COMMAND = ('-c', {process!r})\n"
        "from orchestration.cli import main\n"
        f"main(['explore', '--port', '0', '--no-browser', '--boundaries', {str(tmp_path)!r}])"
    )
    with started([sys.executable, "-W", "ignore", "-c", launch], explored.environment) as (address, _):
        page = explored.browser.new_page()
        page.goto(address)
        drawn(page)
        found = json.loads(page.get_by_test_id("stText").inner_text())
        page.close()
    got = {name for name, answer in found.items() if answer.startswith("got")}
    signals = {"signal the launcher"} if find_landlock_version() < 6 else set()
    files = {"allowed public", "allowed ledger", "allowed published"}
    assert got == files | signals | {"allowed for Streamlit", "allowed for asyncio"}


def test_the_explorer_holds_no_database_and_waits_for_a_run_that_does(explored: Explored) -> None:
    page = explored.page("audit")
    intact = page.get_by_text("The hashes of all 2 entries were computed again")
    expect(intact).to_be_visible()
    # Opening a database for writing fails if another process has it open, even for reading.
    with duckdb.connect(str(explored.home / "var" / "warehouse" / "ledger.duckdb")):
        page.reload()
        drawn(page)
        expect(page.get_by_text("A run is writing the database. Try again when it has ended")).to_be_visible()
        expect(page.get_by_text("All publications (1) are signed with this key")).to_be_visible()
        page.goto(f"{explored.address}/tables?release={RELEASE}")
        drawn(page)
        expect(page.get_by_text("The table behind the chart")).to_be_visible()
    page.goto(f"{explored.address}/audit")
    drawn(page)
    expect(intact).to_be_visible()
    page.close()


@pytest.mark.prove
def test_a_database_that_is_made_later_is_found(explored: Explored, tmp_path: Path) -> None:
    """The launcher restarts the process, because a confined process cannot open a file that did not exist before."""
    home = tmp_path / "var"
    (home / "warehouse").mkdir(parents=True, mode=0o700)
    environment = {**explored.environment, "STIRRED_HOME": str(home)}
    command = [sys.executable, "-W", "ignore", "-m", "orchestration.cli", "explore", "--port", "0", "--no-browser"]
    with started(command, environment) as (address, _):
        page = explored.browser.new_page()
        page.goto(f"{address}/audit")
        drawn(page)
        expect(page.get_by_text("The ledger has no entries yet.")).to_be_visible()
        for name in ("public.duckdb", "ledger.duckdb"):
            shutil.copy(explored.home / "var" / "warehouse" / name, home / "warehouse")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and page.get_by_text("The hashes of all 2 entries").count() == 0:
            with contextlib.suppress(Exception):
                page.goto(f"{address}/audit", timeout=10_000)
                page.locator("h1").first.wait_for(timeout=5_000)
            page.wait_for_timeout(1500)
        expect(page.get_by_text("The hashes of all 2 entries were computed again")).to_be_visible()
        page.close()
