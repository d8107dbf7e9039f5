"""The asset `population_groups` of a SafeTab-H release, and its gate: the groups that SafeTab-P published.

A group has tables of households if it has a published total of persons, and the total says in what detail. The totals
are read from the publication, as everyone reads them, after its signature was verified. Nothing is spent on them.
"""

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq

from assets.conventions import StageKind, preview, public_table_metadata, table_schema
from assets.gates.shared import differing_table
from assets.publication.asset import publication_problems
from assets.publication.signature import identity
from assets.release.contents import read_basis
from assets.release.gate import Gate, ReleaseContext
from assets.release.method import PUBLICATION
from assets.release.seal import SealError, seal_stage
from assets.release.stage import COLUMN_SCHEMA, create_tables, release_stage
from assets.safetab.method import SafeTabPMethod
from assets.safetab.release import GROUPS, SafeTabHRelease
from assets.safetab.tables import T1
from mechanisms.refusal import RefusedError
from mechanisms.safetab.details import HOUSEHOLD_TABLES
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Zone
from resources.warehouse import Recipe, Session, Warehouse

GROUP_COLUMNS = {
    "number": "Number of the group in the order of the draw",
    "region_type": "Type of the region",
    "level": "Level of the iteration: 1 regional, 2 detailed",
    "region_id": "Code of the region",
    "iteration_code": "Characteristic iteration",
    "total": "Published total of persons",
    "t3": "Detail of household types: 0 to 3",
    "t4": "Detail of tenure: 0 or 1",
}


class DetailError(RefusedError, ValueError):
    """The publication that says which groups there are is missing, or is not of the current records."""


def build_groups(release: SafeTabHRelease) -> dg.AssetsDefinition:
    @release_stage(
        release,
        GROUPS,
        StageKind.POSTPROCESSING,
        f"The groups with a published total in {release.dataset.name}/{release.detail.name}, and the detail that this "
        "total allows. Read from the signed publication, so nothing is spent on them.",
        [release.detail.key(PUBLICATION)],
        kinds={"duckdb", "parquet"},
    )
    def population_groups(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        table = release.public(GROUPS)
        with warehouse.session(writes=Zone.PUBLIC) as session:
            totals = read_published_totals(session, release, custody, ledger)
            recipe = groups_recipe(session, release, totals)
            with session.transaction():
                create_tables(session, {table: recipe})
                counted = read_basis(session, custody, release.dataset, release.counted_with)
                seal_stage(session, custody, release.schema, GROUPS, [table], counted)
            rows = [
                (kind, level, f"T3: {t3}, T4: {t4}", f"{groups:,}")
                for kind, level, t3, t4, groups in session.rows("safetab/groups_by_detail", table=table)
            ]
            metadata = {
                **public_table_metadata(session, table),
                "groups": preview(["region type", "level", "detail", "groups"], rows),
                COLUMN_SCHEMA: table_schema(session.columns(table), GROUP_COLUMNS),
            }
            version = dg.DataVersion(session.content_version([table]))
        return dg.MaterializeResult(data_version=version, metadata=metadata)

    return population_groups


def read_published_totals(session: Session, release: SafeTabHRelease, custody: Custody, ledger: Ledger) -> pa.Table:
    """T1 as the release by SafeTab-P published it, from the current records.

    Raises:
        DetailError: if the publication is missing or was altered, or is of other records or of another declaration.
    """
    persons = release.detail
    name, job = f"{persons.dataset.name}/{persons.name}", persons.schema
    launch = f"launch the job {job}, and then this one again"
    if not persons.folder.exists():
        raise DetailError(f"{release.schema}: {name} is not published yet; {launch}")
    if problems := publication_problems(persons.published, persons.dataset.name, persons.name, custody, ledger):
        raise DetailError(f"{release.schema}: the publication of {name} cannot be believed: {'; '.join(problems)}")
    try:
        current = SafeTabPMethod(persons).describe(session, custody).draw_id
    except SealError:
        # Its counts are of other records, or were made with other parameters.
        current = None
    if identity(persons.folder).draw_id != current:
        raise DetailError(f"{release.schema}: {name} is published from other records or another declaration; {launch}")
    return pq.read_table(persons.folder / f"{T1}.parquet")


_UNIVERSES = pa.schema(
    [
        ("place", pa.int64()),
        ("region_type", pa.string()),
        ("level", pa.int64()),
        ("iteration_code", pa.string()),
        *((family.lower(), pa.list_(pa.int64())) for family in HOUSEHOLD_TABLES),
    ]
)


def groups_recipe(session: Session, release: SafeTabHRelease, totals: pa.Table) -> Recipe:
    """The recipe of the measured groups, in the order of the draw, from T1 in the production layout."""
    thresholds = {line.key: list(line.thresholds) for line in release.design.measured}
    universes = [
        {
            "place": place,
            "region_type": region_type.value,
            "level": level,
            "iteration_code": iteration.code,
            # A family that is not measured has no thresholds, whatever is declared: the groups would be others.
            **{family.lower(): thresholds.get((region_type, level, family), []) for family in HOUSEHOLD_TABLES},
        }
        for place, (region_type, level) in enumerate(release.pairs)
        for iteration in release.lists.universe(region_type, level)
    ]
    names = {
        "totals": session.register("published_totals", totals),
        "universes": session.register("universes", pa.Table.from_pylist(universes, _UNIVERSES)),
    }
    return "safetab/groups", {}, names


def groups_gate() -> Gate[SafeTabHRelease]:
    return Gate(
        "groups_as_published",
        GROUPS,
        "The groups are exactly the published totals of measured iterations, in the detail that they allow.",
        _groups,
    )


def _groups(context: ReleaseContext[SafeTabHRelease]) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        try:
            totals = read_published_totals(session, release, context.custody, context.ledger)
        except DetailError as error:
            return [str(error)]
        return differing_table(session, release.public(GROUPS), groups_recipe(session, release, totals))
