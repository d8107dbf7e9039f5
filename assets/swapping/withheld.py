"""A withheld swap: swapped records that stay in the confidential zone, for others to count tables with noise from.

Nothing is published of them and nothing is charged for them by themselves. A release that counts from them adds noise,
and is charged: `assets.swapping.offered` has its two specifications. It reads the table `WITHHELD`, which has one row
for each swapped record with the variables that take part and no key, and depends on the asset `swapped`.

The key of the draw is derived from the custody and from what the draw is made of: the records with the variables that
take part, and the parameters. So the same records and parameters give the same swapped records, in whatever hypercube
they are counted, whatever else the dataset contains.
"""

from collections.abc import Mapping

import dagster as dg

from assets.conventions import StageKind, named
from assets.gates.shared import count_differences, count_problem, count_unequal, differing_table
from assets.release.columns import describe_columns
from assets.release.contents import read_basis
from assets.release.dataset import CEF
from assets.release.gate import Gate, ReleaseContext
from assets.release.seal import require_sealed
from assets.release.stage import build_stage, release_stage
from assets.swapping.cells import stage_decoded
from assets.swapping.extended_words import further_steps, rate_in_words
from assets.swapping.records import (
    HOLDING,
    SWAPPING,
    cells_version,
    margin_statements,
    read_contingency,
    stage_records,
    swap_variables,
)
from assets.swapping.release import SwappingRelease
from assets.swapping.stirs import first_stir
from assets.swapping.unique import require_few_alone
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping import permutation
from mechanisms.swapping.permutation import stir
from mechanisms.swapping.rates import StirLoss, loss_of_stir
from resources.custody import Custody
from resources.statements import Fragment, Table, Zone
from resources.warehouse import Recipe, Session, Warehouse

STRATA, WITHHELD = "invariant_strata", "withheld_records"
_MECHANISM = "withheld permutation swapping"


def build_strata(release: SwappingRelease) -> dg.AssetsDefinition:
    table = release.public(STRATA)
    return build_stage(
        release,
        "invariants",
        StageKind.INVARIANTS,
        f"The number of {release.design.unit}s in each stratum. It is all that this release makes public: both "
        "specifications of tables that are counted from the swapped records hold it fixed.",
        [CEF],
        lambda session: {table: strata_recipe(session, release)},
        describe_columns(release.variables),
        metadata=lambda session, _: {"table": named(table), "strata": session.count(table)},
        finish=lambda session, _: require_few_alone(session, release, table),
        sealed=[table],
    )


def strata_recipe(session: Session, release: SwappingRelease) -> Recipe:
    names = {"records": stage_records(session, release), "match": list(release.design.match)}
    return "swapping/strata_of_match", {}, names


def build_withheld(release: SwappingRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "swapped"]` of a withheld swap, in the confidential zone."""
    design, table = release.design, release.confidential(WITHHELD)

    @release_stage(
        release,
        "swapped",
        StageKind.COUNTS,
        f"""One draw of the Permutation Swapping Algorithm, which stays in the confidential zone.

Among the {design.unit}s that agree on {", ".join(design.match) or "nothing"}, each is selected with
{rate_in_words(design)}, and the selected ones exchange {", ".join(design.swap)}.{further_steps(design)}

Nothing is charged here, because nothing leaves the zone. A release that counts tables from these records adds noise to
them and is charged.""",
        [CEF, "invariants"],
        kinds={"duckdb", "numba"},
    )
    def swapped(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        with warehouse.session(reads=[Zone.PUBLIC], writes=Zone.CONFIDENTIAL) as session:
            swap_loss(session, release, custody)
            with session.transaction():
                session.create(table, "warehouse/all", source=stage_withheld(session, release, custody))
            version = dg.DataVersion(withheld_version(session, release, custody))
        return dg.MaterializeResult(data_version=version, metadata={"table": named(table)})

    return swapped


def swap_loss(session: Session, release: SwappingRelease, custody: Custody) -> StirLoss:
    """The loss of the swap in its own universes, from the public sizes of strata alone.

    Args:
        session: a session that reads the public zone.
        release: a withheld release.

    Raises:
        SealError: if the stored sizes are not as the stage `invariants` wrote them, or follow from another CEF.
        UniqueRecordsError: if too many records are alone in their stratum.
        RatesError: if a stratum has no rate.
    """
    strata = release.public(STRATA)
    counted = read_basis(session, custody, release.dataset, release.counted_with)
    require_sealed(session, custody, release.schema, "invariants", [strata], counted)
    require_few_alone(session, release, strata)
    return _loss(session, release, strata)


def withheld_version(session: Session, release: SwappingRelease, custody: Custody) -> str:
    """The keyed version of the stored swapped records, to name draws of tables that are counted from them."""
    return session.content_version([release.confidential(WITHHELD)], custody.version_key())


def stage_withheld(session: Session, release: SwappingRelease, custody: Custody) -> Fragment:
    """Draw the swapped records again, as a temporary table with one row for each.

    Args:
        session: a session that reads the confidential zone.
        release: a withheld release.
    """
    design, records = release.design, stage_records(session, release)
    margins = {
        table: session.stage(f"margin_of_{table}", "swapping/margin", **names)
        for table, names in margin_statements(release, records).items()
    }
    books = {"holding": margins[HOLDING], "swapping": margins[SWAPPING]}
    table = read_contingency(session, release, records, books)
    source, values, names = strata_recipe(session, release)
    strata = session.stage("strata_of_match", source, values, **names)
    first, _ = first_stir(session, release, strata, "stratum")
    draw_id = custody.draw_id(
        {
            "dataset": release.dataset.name,
            "release": release.name,
            "mechanism": _MECHANISM,
            "version": permutation.VERSION,
            "parameters": design.as_record(),
            "recodes": release.dataset.recodes(release.columns_read),
            "records": cells_version(table, custody.version_key()),
            "codes": _codebook_versions(session, release, margins, custody.version_key()),
        }
    )
    stream = RandomStream(custody.derive(f"withheld swap {draw_id}"), _MECHANISM)
    cells = stir(table, [first.of_groups(table.stratum)], [stream])
    decoded = stage_decoded(session, release, cells, "decoded", books)
    return session.stage("expanded", "swapping/expanded", cells=decoded, columns=list(release.variables))


def _codebook_versions(
    session: Session, release: SwappingRelease, margins: Mapping[str, Fragment], key: bytes
) -> list[list[str]]:
    """The keyed versions of the margins, which define the codes of a contingency table: by margin, a multiset hash."""
    columns = {
        HOLDING: ["holding_code", *release.design.holding],
        SWAPPING: ["swap_code", *swap_variables(release)],
    }
    salt = {"salt": key.hex()}
    hashes = [
        session.row("warehouse/multiset_hash", salt, table=margins[name], columns=names)
        for name, names in columns.items()
    ]
    return [list(map(str, each)) for each in hashes]


def withheld_gates(release: SwappingRelease) -> list[Gate[SwappingRelease]]:
    return [
        Gate("strata_of_the_cef", "invariants", "The stored sizes of strata are those of the current CEF.", _sizes),
        Gate("margins_exact", "swapped", "The swapped records have the margins of the CEF.", _margins),
        Gate("drawn_again", "swapped", "The swapped records are those that the custody's key gives.", _again),
    ]


def _sizes(context: ReleaseContext[SwappingRelease]) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        made = strata_recipe(session, release)
        return differing_table(session, release.public(STRATA), made)


def _margins(context: ReleaseContext[SwappingRelease]) -> list[str]:
    release, problems = context.release, []
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        records = stage_records(session, release)
        for columns in (list(release.design.holding), swap_variables(release)):
            tables = (("before", records), ("after", release.confidential(WITHHELD)))
            before, after = (
                session.stage(name, "gates/counts", records=table, columns=columns) for name, table in tables
            )
            problems += count_problem(count_unequal(session, after, before, columns), "cells of a margin that differ")
    return problems


def _again(context: ReleaseContext[SwappingRelease]) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        rows = rows_not_as_drawn(session, release, context.custody)
        return count_problem(rows, "records that are not as drawn")


def rows_not_as_drawn(session: Session, release: SwappingRelease, custody: Custody) -> int:
    """The rows by which the stored records differ from those that the custody's key gives for the stored CEF."""
    again = stage_withheld(session, release, custody)
    return count_differences(session, release.confidential(WITHHELD), again, list(release.variables))


def _loss(session: Session, release: SwappingRelease, strata: Table | Fragment) -> StirLoss:
    # Which strata hold distinct records is not public, so that all of two records or more count.
    first, records = first_stir(session, release, strata, "stratum")
    return loss_of_stir(first, records, records > 0)
