"""The asset `publication`: the release's files, placed whole, once every promise holds.

Here belongs the stage. It asks every promise again, on the tables as they are now: a check that passed in
another run, or before somebody touched a table, vouches for nothing.
"""

from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb

from assets.cef.declaration import Column
from assets.charge.draw import Draw, describe_draw
from assets.confidentiality import deployed_graph, leaks, nodes_of
from assets.conventions import attributes, preview
from assets.gates.promises import House, Promise, promises
from assets.publication import swapping
from assets.publication.certificate import (
    Certificate,
    Check,
    DataVersion,
    LedgerReference,
    Randomness,
    to_html,
    to_json,
)
from assets.publication.package import (
    CHECKSUMS,
    DataFile,
    PublishedColumn,
    PublishedTable,
    checksums,
    data_package,
    file_sha256,
    write_data_files,
)
from assets.publication.placement import placed
from assets.release import SwappingRelease
from assets.tabulation.declaration import Product
from assets.tabulation.tables import HOUSEHOLD_TYPES, SATURATED
from mechanisms.swapping import permutation
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Zone
from resources.warehouse import Session, Warehouse

CODE_VERSION = "1"
CONFIDENTIALITY = Promise(
    "confidentiality",
    "tables",
    "Every path from confidential data to the publication passes through a charged draw or a declared invariant.",
    lambda house: [],
)


def build_publication(release: SwappingRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "publication"]`."""

    @dg.asset(
        key=release.key("publication"),
        deps=[release.key("tables"), release.dataset_key("composition")],
        group_name=release.schema,
        description=_description(release),
        code_version=CODE_VERSION,
        **attributes("publication", Zone.PUBLIC, {"csv", "parquet", "html"}),
    )
    def publication(
        context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody, ledger: Ledger
    ) -> dg.MaterializeResult:
        house = House(release, warehouse, custody, ledger)
        passed = require_promises(house, leaks(nodes_of(deployed_graph(context)), release.key("publication")))
        certificate, sums = publish(house, passed)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(sums),
            metadata={
                "folder": dg.MetadataValue.path(str(release.folder)),
                "certificate": dg.MetadataValue.path(str(release.folder / "certificate.html")),
                "ε": float(certificate.specification.loss.rounded_up(4)),
                "draw id": certificate.randomness.draw_id,
                "randomness commitment": certificate.randomness.commitment,
                "ledger entry": certificate.ledger.sequence,
                "files": preview(
                    ["file", "rows", "SHA-256"],
                    [(file.path, f"{file.rows:,}", file.sha256) for file in certificate.products],
                ),
                "checks passed": preview(["check", "promise"], [(check.name, check.description) for check in passed]),
            },
        )

    return publication


def require_promises(house: House, graph_problems: list[str]) -> tuple[Check, ...]:
    """All promises as passed checks.

    Raises:
        dagster.Failure: if any is broken, naming every one; then nothing is published.
    """
    kept, broken = [], []
    for promise in (*promises(house.release), CONFIDENTIALITY):
        problems = graph_problems if promise is CONFIDENTIALITY else promise.broken(house)
        broken += [f"{promise.stage}: {promise.name}: {problem}" for problem in problems]
        kept.append(Check(promise.name, promise.words))
    if broken:
        raise dg.Failure(
            description=f"{house.release.schema} is not published, because promises are broken:\n" + "\n".join(broken),
            allow_retries=False,
        )
    return tuple(kept)


def publish(house: House, passed: tuple[Check, ...]) -> tuple[Certificate, str]:
    """Write the release's files and place them; returns the certificate and the SHA-256 of `SHA256SUMS`."""
    release = house.release
    tables = published(release)
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session, placed(release.folder) as folder:
        files = write_data_files(session, folder, tables)
        certificate = certify(house, session, passed, files)
        package = data_package(
            f"{release.dataset.name}-{release.name}".replace("_", "-"),
            release.title,
            release.description,
            tables,
            files,
        )
        for name, text in (
            ("datapackage.json", package),
            ("certificate.json", to_json(certificate)),
            ("certificate.html", to_html(certificate)),
        ):
            (folder / name).write_bytes(text)
        (folder / CHECKSUMS).write_bytes(checksums(folder))
    return certificate, file_sha256(release.folder / CHECKSUMS)


def certify(house: House, session: Session, passed: tuple[Check, ...], files: tuple[DataFile, ...]) -> Certificate:
    """The certificate of a release as it is now."""
    release, dataset = house.release, house.release.dataset
    draw = describe_draw(session, release, house.custody)
    entry, settled = house.ledger.reservation(draw.draw_id), house.ledger.settlement(draw.draw_id)
    if entry is None or settled is None:
        raise dg.Failure(f"{release.schema}: the charge disappeared from the ledger")
    return Certificate(
        dataset=dataset.name,
        dataset_title=dataset.title,
        dataset_description=dataset.description,
        synthetic=dataset.synthetic,
        release=release.name,
        release_title=release.title,
        release_description=release.description,
        mechanism=swapping.MECHANISM,
        mechanism_version=str(permutation.VERSION),
        parameters=swapping.parameters(release.design, draw.largest_stratum, draw.strata),
        specification=entry.declared(),
        loss_source=swapping.LOSS_SOURCE,
        evaluated=swapping.evaluated(release.design, draw.largest_stratum),
        randomness=Randomness(release.custody, draw.draw_id, entry.commitment),
        ledger=LedgerReference(
            entry.sequence,
            entry.hash,
            datetime.fromisoformat(entry.recorded_at),
            house.ledger.charged(dataset.name, through=entry.sequence),
            dataset.cap,
        ),
        data_versions=_data_versions(draw, settled.output_version or ""),
        code_versions={"stirred": version("stirred"), "duckdb": duckdb.__version__},
        checks=passed,
        products=files,
    )


def _data_versions(draw: Draw, swapped: str) -> tuple[DataVersion, ...]:
    return (
        DataVersion("confidential records", draw.records_version, keyed=True),
        DataVersion("margin of the holding variables", draw.holding_version, keyed=False),
        DataVersion("margin of match and swap variables", draw.swap_version, keyed=False),
        DataVersion("swapped data", swapped, keyed=False),
    )


def published(release: SwappingRelease) -> list[PublishedTable]:
    """What is published of a release: its products, and the saturated contingency table."""
    unit = release.design.unit
    tables = [_published_product(release, product) for product in release.products]
    household_type = PublishedColumn(
        "household_type", "integer", f"Number of the {unit}'s kind: its persons are listed"
    )
    types = (household_type,) if release.has_persons_following else ()
    tables.append(
        PublishedTable(
            SATURATED,
            "Saturated contingency table",
            f"How many swapped {unit}s there are with each combination of values that occurs.",
            release.public(SATURATED),
            (*types, *(_column(name, column) for name, column in release.variables.items()), _count(f"{unit}s")),
            (*(column.name for column in types), *release.variables),
        )
    )
    if types:
        variables = release.person_variables
        tables.append(
            PublishedTable(
                HOUSEHOLD_TYPES,
                f"Persons by kind of {unit}",
                f"The persons in each {unit} of a kind; how many {unit}s there are of it, {SATURATED} says.",
                release.public(HOUSEHOLD_TYPES),
                (
                    household_type,
                    *(_column(name, column) for name, column in variables.items()),
                    PublishedColumn("persons", "integer", f"Number of such persons in each {unit} of the kind"),
                ),
                ("household_type", *variables),
            )
        )
    return tables


def _published_product(release: SwappingRelease, product: Product) -> PublishedTable:
    variables = release.variables_of(product)
    counted = "persons" if product.of == "persons" else f"{release.design.unit}s"
    columns = [
        _column(name, variables[name], product.total_label if name in product.totals else "")
        for name in product.columns
    ]
    return PublishedTable(
        product.name,
        product.title or product.name,
        product.description,
        release.public(product.table),
        (*columns, _count(counted)),
        product.columns,
    )


def _column(name: str, column: Column, total: str = "") -> PublishedColumn:
    values: Mapping[Any, str] = {code: column.labels.get(code, "") for code in column.codes}
    if total and values:
        values = {str(code): label for code, label in values.items()} | {total: "All values together"}
    return PublishedColumn(name, column.type.value, column.description, values, not column.nullable, total)


def _count(counted: str) -> PublishedColumn:
    return PublishedColumn("count", "integer", f"Number of {counted} after swapping")


def broken_checksums(folder: Path) -> list[str]:
    """Files of a publication that are missing or not as they were published."""
    lines = (folder / CHECKSUMS).read_text().splitlines() if (folder / CHECKSUMS).exists() else []
    broken = [] if lines else [f"{CHECKSUMS} is missing"]
    for line in lines:
        digest, name = line.split("  ", 1)
        path = folder / name
        if not path.is_file():
            broken.append(f"{name} is missing")
        elif file_sha256(path) != digest:
            broken.append(f"{name} was altered")
    return broken


def _description(release: SwappingRelease) -> str:
    return f"""{release.description}

Written to `{release.dataset.name}/{release.name}` under the folder of publications, whole or not at all: each
product as CSV and Parquet, a data dictionary (`datapackage.json`), the certificate as JSON and as a page, and
`SHA256SUMS`. Before a file is written every promise is checked again; if one is broken, nothing is published
and what was published before stays. Materializing again with nothing changed gives the same bytes."""
