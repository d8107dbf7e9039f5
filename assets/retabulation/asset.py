"""The assets `geography`, `tables` and `publication` of a retabulation, and their gates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pyarrow.compute as pc

from assets.confidentiality import find_leaks, list_deployed_nodes
from assets.conventions import StageKind, preview, shorten_digest
from assets.gates.shared import build_gates, count_problem, differing_table
from assets.publication.asset import link, publish
from assets.publication.package import DataFile
from assets.publication.record import Check
from assets.release.dataset import CEF
from assets.release.gate import Gate, ReleaseContext, read_claim
from assets.release.method import PUBLICATION
from assets.release.published import PublishedTable, require_placeable
from assets.release.stage import build_stage, create_tables, release_stage
from assets.release.statement import Parameter
from assets.retabulation.certificate import RetabulationCertificate
from assets.retabulation.counting import (
    GEOGRAPHY,
    SOURCE,
    find_source_problems,
    geography_recipe,
    read_source,
    require_one_place,
    stage_places,
    tables_recipes,
)
from assets.retabulation.declaration import TEXTS, Retabulation, RetabulationError
from assets.tabulation.asset import TABLES, recipes_gate
from resources.clock import TimeStamp
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Zone
from resources.warehouse import Session, Warehouse

_COLUMNS = {"level": "Geography", "geoid": "Code of the place", "block": "Code of the block"}


@dataclass(frozen=True)
class Recount:
    """The part of a method's interface that the publication uses, for a retabulation, which draws nothing."""

    release: Retabulation
    estimation = ()
    stages = (GEOGRAPHY, TABLES)
    keeps_verdicts = False

    def own_gates(self) -> list[Gate[Retabulation]]:
        return list_gates(self.release)

    def tables(self) -> Sequence[PublishedTable]:
        return tuple(self.release.products.values())

    def describe_declared(self) -> dict[str, Any]:
        return {}

    def models(self, session: Session, custody: Custody) -> Sequence[Parameter]:
        return ()


def build_retabulation(release: Retabulation) -> dg.Definitions:
    """The assets and checks. Raises DeclarationError if the publication's files could not be written."""
    recount: Any = Recount(release)
    require_placeable(release, recount.tables())
    assets = [_build_geography(release), _build_tables(release), _build_publication(recount)]
    return dg.Definitions(assets=assets, asset_checks=build_gates(recount))


def _build_geography(release: Retabulation) -> dg.AssetsDefinition:
    return build_stage(
        release,
        GEOGRAPHY,
        StageKind.INVARIANTS,
        TEXTS("geography", names=list(release.declaration.geographies)),
        [CEF],
        lambda session: {release.public(GEOGRAPHY): geography_recipe(session, release)},
        _COLUMNS,
        finish=lambda session, _: require_one_place(session, release),
    )


def _build_tables(release: Retabulation) -> dg.AssetsDefinition:
    named = {"names": list(release.declaration.geographies), "tables": release.counted, "release": release.source}

    @release_stage(
        release,
        TABLES,
        StageKind.TABULATION,
        TEXTS("tables", **named),
        [GEOGRAPHY, release.source.key(PUBLICATION)],
        kinds={"duckdb", "parquet"},
    )
    def tables(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        source = read_source(release, custody, ledger)
        with release.adapt(warehouse).session(writes=Zone.PUBLIC) as session:
            made = tables_recipes(session, release, source)
            with session.transaction():
                create_tables(session, made)
            rows = [(table.name, f"{session.count(table):,}") for table in made]
            version = session.content_version(list(made))
        metadata: dict[str, Any] = {"tables": preview(["table", "rows"], rows), "made of": str(source.identity)}
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=metadata)

    return tables


def list_gates(release: Retabulation) -> list[Gate[Retabulation]]:
    """The gates in the order of the stages."""
    as_declared = "Each block lies in the place that the dataset or the declared file gives for each geography."
    return [
        recipes_gate(
            "geography_as_declared",
            GEOGRAPHY,
            as_declared,
            lambda session: {release.public(GEOGRAPHY): geography_recipe(session, release)},
            (Zone.CONFIDENTIAL, Zone.PUBLIC),
        ),
        *(Gate(check.__name__.removeprefix("_"), TABLES, read_claim(check), check) for check in _CHECKS),
    ]


def _source_as_published(context: ReleaseContext[Retabulation]) -> list[str]:
    """The records that were counted are published, signed, unaltered, and of a settled draw that was not withdrawn."""
    return find_source_problems(context.release, context.custody, context.ledger)


def _tables_as_made(context: ReleaseContext[Retabulation]) -> list[str]:
    """Every stored table is what counting the current edition's published records again gives."""
    source = read_source(context.release, context.custody, context.ledger)
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        recipes = tables_recipes(session, context.release, source)
        return [problem for table, recipe in recipes.items() for problem in differing_table(session, table, recipe)]


def _sums_of_blocks(context: ReleaseContext[Retabulation]) -> list[str]:
    """Every count is the sum over the place's blocks of the same cell in the release's own table, if the release
    publishes this table."""
    release, problems = context.release, list[str]()
    source = read_source(release, context.custody, context.ledger)
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        placed = stage_places(session, release, source)
        for name in release.counted:
            table = release.products[name]
            file = f"{table.name}.parquet"
            cells = [column.name for column in table.columns if column.has_figures and column.type == "integer"]
            if cells and file in source.files.digests:
                of_blocks = source.read(table.name, ["level", "geoid", *cells]).read_all()
                of_blocks = of_blocks.filter(pc.equal(of_blocks["level"], release.microdata.level))
                published = session.register("published_cells", of_blocks)
                names = {"table": table.table, "placed": placed, "published": published, "columns": cells}
                (differing,) = session.row("retabulation/differing_sums", **names)
                problems += count_problem(differing, f"{name}: places that are not the sums of their blocks")
    return problems


def _confidentiality(context: ReleaseContext[Retabulation]) -> list[str]:
    """Every path from confidential data to the publication passes through a charged draw or a declared invariant."""
    return find_leaks(context.nodes, context.release.key(PUBLICATION))


_CHECKS = (_source_as_published, _tables_as_made, _sums_of_blocks, _confidentiality)


def _build_publication(recount: Any) -> dg.AssetsDefinition:
    release: Retabulation = recount.release

    @release_stage(
        release,
        PUBLICATION,
        StageKind.PUBLICATION,
        TEXTS("publication", release=release),
        [TABLES],
        kinds={"csv", "parquet", "html"},
    )
    def publication(
        context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody, ledger: Ledger
    ) -> dg.MaterializeResult:
        nodes = list_deployed_nodes(context)
        of_run: ReleaseContext[Any] = ReleaseContext(recount, release.adapt(warehouse), custody, ledger, nodes)
        certificate, sums = publish(of_run, certify)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(sums),
            metadata={
                "charged": "nothing",
                "rests on": str(certificate.source.identity),
                "draw": shorten_digest(certificate.randomness.draw_id),
                "certificate": link(release, "certificate.html"),
                "folder": link(release),
                "files": preview(["file", "rows"], [(file.path, f"{file.rows:,}") for file in certificate.products]),
            },
        )

    return publication


def certify(
    context: ReleaseContext[Any],
    session: Session,
    passed: tuple[Check, ...],
    files: tuple[DataFile, ...],
    stamp: TimeStamp | None,
) -> RetabulationCertificate:
    """The certificate. Raises RetabulationError if the source edition was replaced or altered after the tables were
    made."""
    source = read_source(context.release, context.custody, context.ledger)
    if session.rows("warehouse/all", source=context.release.public(SOURCE)) != [(source.files.checksums,)]:
        raise RetabulationError(f"{context.release.schema}: another edition was published meanwhile")
    return RetabulationCertificate(context.release, source, passed, files)
