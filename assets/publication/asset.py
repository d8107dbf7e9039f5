"""The asset `publication`: the release's files, placed whole, once every promise holds.

Here belongs the stage. It asks every promise again, on the tables as they are now: a check that passed in
another run, or before somebody touched a table, vouches for nothing.
"""

from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb

from assets.cef.declaration import Column
from assets.charge.draw import Draw, describe_draw
from assets.confidentiality import deployed_graph, nodes_of
from assets.conventions import attributes, preview
from assets.gates.promises import House, promises
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
from assets.tabulation.tables import HOUSEHOLD_TYPES, SATURATED, published_tables
from mechanisms.swapping import permutation
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Zone
from resources.warehouse import Session, Warehouse

CODE_VERSION = "1"


def build_publication(release: SwappingRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "publication"]`."""

    @dg.asset(
        key=release.key("publication"),
        deps=[
            *(release.key(stage) for stage in ("invariants", "charge", "swapped", "tables")),
            release.dataset_key("composition"),
        ],
        group_name=release.schema,
        description=_description(release),
        code_version=CODE_VERSION,
        **attributes("publication", Zone.PUBLIC, {"csv", "parquet", "html"}),
    )
    def publication(
        context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody, ledger: Ledger
    ) -> dg.MaterializeResult:
        house = House(release, warehouse, custody, ledger, nodes_of(deployed_graph(context)))
        certificate, sums = publish(house)
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
                CHECKSUMS: sums,
                "checks passed": preview(
                    ["check", "promise"], [(check.name, check.description) for check in certificate.checks]
                ),
            },
        )

    return publication


def publish(house: House) -> tuple[Certificate, str]:
    """Ask every promise, then write the release's files and place them.

    Returns:
        The certificate, and the SHA-256 of `SHA256SUMS`.

    Raises:
        dagster.Failure: if a promise is broken, or a table was replaced after the promises were asked; then
            nothing is published and what was published before stays.
    """
    release = house.release
    tables = published(release)
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        asked = _state(house, session)
    passed = require_promises(house)
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session, placed(release.folder) as folder:
        # The session keeps every other process from writing, so what is compared here is what is written.
        if _state(house, session) != asked:
            raise _refusal(house, ["tables: another run replaced them meanwhile; materialize again"])
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


def require_promises(house: House) -> tuple[Check, ...]:
    """All promises as passed checks, asked stage by stage.

    Raises:
        dagster.Failure: naming every broken promise of the first stage that breaks one. Later stages rest on it
            and are not asked.
    """
    kept: list[Check] = []
    for _, group in groupby(promises(house.release), lambda promise: promise.stage):
        broken = []
        for promise in group:
            broken += [f"{promise.stage}: {promise.name}: {problem}" for problem in promise.broken(house)]
            kept.append(Check(promise.name, promise.words))
        if broken:
            raise _refusal(house, broken)
    return tuple(kept)


def _refusal(house: House, broken: list[str]) -> dg.Failure:
    words = f"{house.release.schema} is not published, because promises are broken:\n" + "\n".join(broken)
    return dg.Failure(description=words, allow_retries=False)


def _state(house: House, session: Session) -> tuple[Draw, str]:
    draw = describe_draw(session, house.release, house.custody)
    return draw, session.content_version(published_tables(house.release))


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
            house.ledger.charged(dataset.name, dataset.limit, through=entry.sequence),
            dataset.limit,
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


def altered_files(folder: Path, published_checksums: str | None) -> list[str]:
    """Files of a publication that are missing, not as they were published, or not of it.

    Args:
        folder: of the publication.
        published_checksums: the SHA-256 of `SHA256SUMS` when it was placed; None if no record of that is at hand.
    """
    sums = folder / CHECKSUMS
    if not sums.is_file():
        return [f"{CHECKSUMS} is missing"]
    if published_checksums and file_sha256(sums) != published_checksums:
        return [f"{CHECKSUMS} was altered"]
    listed = {name: digest for digest, name in (line.split("  ", 1) for line in sums.read_text().splitlines())}
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {CHECKSUMS}
    altered = [f"{name} is missing" for name in sorted(listed.keys() - found)]
    altered += [f"{name} is no file of the publication" for name in sorted(found - listed.keys())]
    return altered + [
        f"{name} was altered" for name in sorted(listed.keys() & found) if file_sha256(folder / name) != listed[name]
    ]


def _description(release: SwappingRelease) -> str:
    return f"""{release.description}

Written to `{release.dataset.name}/{release.name}` under the folder of publications, whole or not at all: each
product as CSV and Parquet, a data dictionary (`datapackage.json`), the certificate as JSON and as a page, and
`SHA256SUMS`. Before a file is written every promise is checked again; if one is broken, nothing is published
and what was published before stays. Materializing again with nothing changed gives the same bytes."""
