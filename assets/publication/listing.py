"""The catalog of all publications: a page, a package of data packages and a DCAT catalog, beside their folders.

All its content is read from the publications' own files, so that the folder suffices to make it again. Links name files
and are relative: they work in a folder, on a web server and in object storage, which has no pages for folders. The
catalog is not signed, but each publication is. A folder whose certificate cannot be read is listed by its name alone.
`placement` puts publications into place.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from assets.publication.catalog import CONTEXT, describe_dataset
from assets.publication.package import README
from assets.publication.placement import place_files, publications
from assets.publication.record import format_recorded
from assets.release.prose import load_template
from assets.release.signature import EDITIONS, PACKAGE, earlier_editions, name_edition
from assets.texts import describe_public, show_line
from resources.regular import read_regular

LISTING, DCAT = "index.html", "dcat.jsonld"
_CERTIFICATE = "certificate.html"

_OURS = re.compile(r"[a-z0-9_]+/[a-z0-9_]+")
"""The characters of the names of a dataset and a release."""

_UNSIGNED = "This catalog is not signed. Each publication is, in its own folder."


@dataclass(frozen=True)
class Listed:
    """A publication, in the words of its certificate; if the certificate cannot be read, only its path.

    Attributes:
        path: `dataset/release`.
        editions: (number, date, loss, link or "", fate) of all editions, the last one first.
        exact: the statistics that are published exactly.
        tables: by title, the data files of a table.
        links: by words, the other files.
        dcat: the publication as a dataset of DCAT.
        package: the SHA-256 of its `datapackage.json`.
        estimated: whether it is estimated from published measurements without a charge to a population.
        population: (name, last charge, total, cap, rest, exclusions from the total) at publication; for public data,
            which have no cap, the source instead of the rest.
    """

    path: str
    title: str = ""
    description: str = ""
    dataset: str = ""
    synthetic: bool = False
    publisher: str = ""
    date: str = ""
    edition: str = ""
    loss: str = ""
    mechanism: str = ""
    editions: tuple[tuple[str, str, str, str, str], ...] = ()
    exact: tuple[str, ...] = ()
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    dcat: Mapping[str, Any] = field(default_factory=dict)
    package: str = ""
    population: tuple[str, int, str, str, str, str] = ("", 0, "", "", "", "")
    estimated: bool = False

    @property
    def public(self) -> str:
        """A sentence that the data are public and were not charged; "" otherwise."""
        *_, cap, source, _ = self.population
        return "" if cap or self.estimated else f"{describe_public(source)}."


def write_listing(published: Path) -> None:
    """Write the catalog of the present publications, each file atomically.

    No other process writes it between the reading of the folders and the writing, so that it misses no publication.

    Raises:
        OSError: if the catalog cannot be written.
    """
    place_files(published, lambda: make_listing(published))


def make_listing(published: Path) -> dict[str, bytes]:
    """The files of the catalog, by name."""
    # A folder from elsewhere may have a name that is not valid text.
    paths = [path for path in map("/".join, publications(published)) if _OURS.fullmatch(path)]
    listed = [_read_publication(published, path) for path in paths]
    populations: dict[tuple[str, bool], list[Listed]] = {}
    for each in listed:
        populations.setdefault((each.population[0], each.estimated), []).append(each)
    page = load_template(Path(__file__).with_name("listing.html"), escape=True).render(
        populations=[
            (max((each.population for each in group), key=lambda population: population[1]), group)
            for _, group in sorted(populations.items())
        ],
        publishers=sorted({each.publisher for each in listed if each.publisher}),
    )
    return {LISTING: page.encode(), PACKAGE: _package_catalog(listed), DCAT: _dcat_catalog(listed)}


def _package_catalog(listed: Sequence[Listed]) -> bytes:
    """The data packages of all publications as the resources of one package, each with its hash.

    Source: the Data Package standard, version 2.
    """
    resources = [
        {
            "name": each.path.replace("/", "-").replace("_", "-"),
            "title": each.title or each.path,
            "description": f"{each.description} {each.public}".strip(),
            "path": f"{each.path}/{PACKAGE}",
            "format": "json",
            "mediatype": "application/json",
            "hash": f"sha256:{each.package}",
        }
        for each in listed
        if each.title
    ]
    catalog = {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": "publications",
        "title": "Publications",
        "description": _UNSIGNED,
        "resources": resources,
    }
    return _as_json(catalog)


def _dcat_catalog(listed: Sequence[Listed]) -> bytes:
    """All publications as a catalog of DCAT-AP 3, with relative addresses."""
    datasets = [each.dcat for each in listed if each.title]
    catalog = {
        "@context": CONTEXT,
        "@id": DCAT,
        "@type": "dcat:Catalog",
        "dct:title": "Publications",
        "dct:description": f"All publications of a deployment of Stirred, with their files. {_UNSIGNED}",
        "dct:publisher": [node["dct:publisher"] for node in datasets if "dct:publisher" in node][:1],
        "dcat:dataset": datasets,
    }
    return _as_json(catalog)


def _as_json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2) + "\n").encode()


def _read_publication(published: Path, path: str) -> Listed:
    folder = published / path
    try:
        listed = _describe(folder, path, json.loads(read_regular(folder / "certificate.json", through_links=False)))
        _as_json([listed.dcat, *listed.tables.values()])
        return listed
    except Exception:
        # A planted folder, whatever its content, must not prevent other publications.
        return Listed(path)


def _describe(folder: Path, path: str, record: Mapping[str, Any]) -> Listed:
    package, estimate = read_regular(folder / PACKAGE, through_links=False), record.get("estimate")
    ledger, publisher, edition = record["ledger"], record["publisher"], record["edition"]
    current = name_edition(int(edition["number"]), int(edition.get("revision", 0)))
    tables: dict[str, tuple[str, ...]] = {}
    for file in record["products"]:
        title = show_line(file["title"])
        if (name := str(file["path"])) == Path(name).name:
            tables[title] = (*tables.get(title, ()), name)
    population = ("", 0, "", "", "", "")
    if not estimate:
        population = (
            show_line(ledger["population"]),
            int(ledger["last_charge_at_publication"]),
            format_recorded(ledger["total_at_publication"]),
            *(
                (format_recorded(ledger["cap"]), f"{ledger['cap']['symbol']} = {ledger['left_at_publication']:,.4f}")
                if ledger["cap"]
                else ("", show_line(record["dataset"]["source"]))
            ),
            show_line(ledger.get("note", "")),
        )
    exact = () if estimate else (*record["invariants"]["held_fixed"], *record["invariants"]["also_exact"])
    date = show_line(publisher["date"])
    return Listed(
        path,
        title=show_line(record["release"]["title"]) or path,
        description=show_line(record["release"]["description"]),
        dataset=show_line(estimate["source"]["title"] if estimate else record["dataset"]["title"]),
        synthetic=bool(record["dataset"]["synthetic"]),
        publisher=show_line(publisher["authority"] or ""),
        date=date,
        edition=current,
        loss="nothing charged" if estimate else f"{format_recorded(record['loss'])}{_describe_source(record)}",
        mechanism="estimated anew from noisy measurements" if estimate else show_line(record["mechanism"]["name"]),
        editions=((current, date, "", _CERTIFICATE, "current"),)
        if estimate
        else tuple(_list_editions(folder, current, edition["all"])),
        # Some of them are whole sentences.
        exact=tuple(show_line(words).removesuffix(".") for words in exact),
        estimated=bool(estimate),
        tables=tables,
        links={"Certificate": _CERTIFICATE, "How to read the files": README, "Data dictionary": PACKAGE},
        dcat=describe_dataset(json.loads(package), f"{path}/"),
        package=sha256(package).hexdigest(),
        population=population,
    )


def _describe_source(record: Mapping[str, Any]) -> str:
    """The release whose loss is shown, if the publication has no charge of its own."""
    source = record.get("retabulation")
    return f" of {show_line(source['release'])}, and nothing more" if source else ""


def _list_editions(
    folder: Path, current: str, editions: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str, str, str, str]]:
    kept = [path.name for path in earlier_editions(folder) if path.name != current]
    for edition in reversed(editions):
        number = str(int(edition["number"]))
        for name in [own for own in (current, *kept[::-1]) if own.split(".")[0] == number] or [number]:
            place = "" if name == current else f"{EDITIONS}/{name}/"
            there = (folder / place / _CERTIFICATE).is_file()
            fate = "current" if name == current else "" if there else "not published"
            if edition["withdrawn"]:
                fate = f"withdrawn in ledger entry {int(edition['withdrawn'])}"
            yield (
                show_line(name),
                show_line(edition["recorded_at"])[:10],
                format_recorded(edition["charged"]),
                f"{place}{_CERTIFICATE}" if there else "",
                fate,
            )
