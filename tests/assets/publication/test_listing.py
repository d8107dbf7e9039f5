"""Links to published files, and the page that lists all publications."""

import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import dagster as dg
import pytest

from assets.publication.asset import link
from assets.publication.certificate import to_json
from assets.publication.listing import write_listing
from assets.release.release import DeclarationError
from orchestration.environment import read_published_address
from tests.assets.publication.test_certificate import massachusetts
from tests.deployments import TO_PUBLICATION, small_deployment


class Links(HTMLParser):
    found: list[str]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attributes if name == "href"]


def test_every_publication_is_listed_with_a_link_that_leads_to_its_certificate(tmp_path: Path) -> None:
    for name in ("town/counts", "town/blocks", ".hidden/release"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "certificate.html").touch()
    (tmp_path / os.fsdecode(b"town/no text: \xff")).mkdir()
    write_listing(tmp_path)
    page = Links()
    page.found = []
    page.feed((tmp_path / "index.html").read_text())
    beside = ["public_key.pem", "datapackage.json", "dcat.jsonld"]
    assert page.found == [*beside, "town/blocks/certificate.html", "town/counts/certificate.html"]
    (tmp_path / "public_key.pem").touch()
    assert all((tmp_path / each).exists() for each in page.found)


def test_nothing_that_somebody_plants_is_followed_or_waited_for(tmp_path: Path) -> None:
    """A link could lead to a key, and a pipe never ends; neither holds up the list of the others."""
    (tmp_path / "key").write_text('{"release": {"title": "a key"}}')
    for name in ("link", "pipe", "text"):
        (tmp_path / "town" / name).mkdir(parents=True)
    (tmp_path / "town" / "link" / "certificate.json").symlink_to(tmp_path / "key")
    os.mkfifo(tmp_path / "town" / "pipe" / "certificate.json")
    (tmp_path / "town" / "text" / "certificate.json").write_text('{"release": []}')
    write_listing(tmp_path)
    page = (tmp_path / "index.html").read_text()
    assert "a key" not in page
    assert all(f"<h3>town/{name}</h3>" in page for name in ("link", "pipe", "text"))
    assert json.loads((tmp_path / "datapackage.json").read_text())["resources"] == []


def test_a_total_is_listed_with_the_charge_that_it_leaves_out(tmp_path: Path) -> None:
    """It fails for a list in which a population about which anything may be disclosed looks protected by a small ε."""
    certificate, folder = massachusetts(), tmp_path / "ma1940" / "tenure_by_county"
    folder.mkdir(parents=True)
    package = {"name": "a", "title": "a", "description": "", "version": "1", "created": "2026-03-01T09:30:00Z"}
    (folder / "datapackage.json").write_text(json.dumps(package | {"resources": []}))
    for charges, listed in (0, False), (1, True):
        ledger = replace(certificate.ledger, infinite_charges=charges)
        (folder / "certificate.json").write_bytes(to_json(replace(certificate, ledger=ledger)))
        write_listing(tmp_path)
        page = (tmp_path / "index.html").read_text()
        assert "was charged to this population" in page
        assert ("one charge has no finite loss" in page) is listed


@pytest.mark.deep
def test_nothing_that_somebody_plants_keeps_the_list_from_being_written(tmp_path: Path) -> None:
    """It fails if a certificate or package of another content ends the publication or withdrawal of all others."""
    deployment = small_deployment(tmp_path / "release")
    deployment.reach(*TO_PUBLICATION)
    folder, published = deployment.release.folder, deployment.release.published
    for file, there, planted in (
        ("certificate.json", r"^.*$", "[" * 100_000),
        ("certificate.json", r'"number": \d+', '"number": Infinity'),
        ("certificate.json", r'"rounded_up": [\d.]+', f'"rounded_up": 1{"0" * 400}'),
        ("certificate.json", r'"path": "', r'"path": "\ud800'),
        ("datapackage.json", r'"title": "', r'"title": "\ud800'),
        ("datapackage.json", r'"version": "[\d.]+"', '"version": NaN'),
    ):
        intact = (folder / file).read_text()
        altered = re.sub(there, lambda _, planted=planted: planted, intact, flags=re.DOTALL)
        assert altered != intact
        (folder / file).write_text(altered)
        write_listing(published)
        assert f"<h3>{folder.relative_to(published)}</h3>" in (published / "index.html").read_text(), planted[:30]
        assert json.loads((published / "dcat.jsonld").read_text())["dcat:dataset"] == []
        (folder / file).write_text(intact)
    write_listing(published)
    assert len(json.loads((published / "dcat.jsonld").read_text())["dcat:dataset"]) == 1


def test_a_file_is_a_link_where_publications_are_served_and_a_path_elsewhere(tmp_path: Path) -> None:
    release = small_deployment(tmp_path).release
    name = f"{release.dataset.name}/{release.name}"
    assert link(release, "certificate.html") == dg.MetadataValue.path(f"{name}/certificate.html")
    served = replace(release, address="http://localhost:3001/")
    address = f"http://localhost:3001/{name}"
    assert link(served, "certificate.html") == dg.MetadataValue.md(f"[certificate.html](<{address}/certificate.html>)")
    assert link(served) == dg.MetadataValue.md(f"[{release.name}](<{address}/>)")


def test_an_address_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("javascript:alert(1)", "http://a.example/> ![p](b"):
        monkeypatch.setenv("STIRRED_PUBLISHED_URL", address)
        with pytest.raises(DeclarationError, match=r"^STIRRED_PUBLISHED_URL is not an address"):
            read_published_address()
