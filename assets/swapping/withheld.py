"""A withheld swap: swapped records that stay in the confidential zone, from which other releases count tables with
noise.

The records are neither published nor charged by themselves. A release that counts from them adds noise, and is charged:
`WithheldSwap` has its two specifications, derived in `docs/mechanisms/swapping-extensions.md`. The table `WITHHELD` has
a row for each swapped record, with the participating variables and no key.

The key of the draw is derived from the custody and the draw's inputs: the records with the participating variables, and
the parameters. So the same records and parameters give the same swapped records in every hypercube, independent of
other contents of the dataset.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import dagster as dg

from assets.conventions import StageKind, named
from assets.gates.shared import count_differences, count_problem, count_unequal
from assets.release.columns import describe_columns
from assets.release.dataset import CEF
from assets.release.draw import StaleInputError
from assets.release.gate import Gate, ReleaseContext, session_gate
from assets.release.stage import build_stage
from assets.release.withheld import WithheldRecords
from assets.swapping.draw import stage_decoded
from assets.swapping.invariants import require_few_alone
from assets.swapping.records import (
    HOLDING,
    SINGLE,
    SWAPPING,
    cells_version,
    read_contingency,
    read_groups,
    stage_margins,
    stage_records,
    swap_variables,
)
from assets.swapping.release import SwappingRelease
from assets.swapping.statement import describe_draw
from assets.tabulation.asset import recipes_gate
from mechanisms.accounting.losses import Loss
from mechanisms.accounting.specification import Specification
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.loss import StirLoss, loss_of_stir
from mechanisms.swapping.permutation import VERSION, stir
from resources.custody import Custody
from resources.statements import Fragment, Table, Zone
from resources.warehouse import Recipe, Session

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
        lambda session: strata_recipes(session, release),
        describe_columns(release.variables),
        metadata=lambda session, _: {"table": named(table), "strata": f"{session.count(table):,}"},
        finish=lambda session, _: require_few_alone(session, release, table),
        sealed=[table],
    )


def strata_recipes(session: Session, release: SwappingRelease) -> dict[Table, Recipe]:
    names = {"records": stage_records(session, release), "match": list(release.design.match)}
    return {release.public(STRATA): ("swapping/strata_of_match", {}, names)}


def build_withheld(release: SwappingRelease) -> dg.AssetsDefinition:
    table = release.confidential(WITHHELD)

    def write(session: Session, custody: Custody) -> None:
        swap_loss(session, release, custody)
        session.create(table, "warehouse/all", source=stage_withheld(session, release, custody))

    return build_stage(
        release,
        "swapped",
        StageKind.COUNTS,
        describe_draw(release, "withheld draw"),
        [CEF, "invariants"],
        lambda session: {},
        metadata=lambda session, _: {"table": named(table)},
        finish=write,
        version=lambda session, _, custody: withheld_version(session, release, custody),
        reads=[Zone.PUBLIC],
        kinds={"duckdb", "numba"},
    )


def swap_loss(session: Session, release: SwappingRelease, custody: Custody) -> StirLoss:
    """The loss of the swap in its own universes, from the public sizes of strata alone.

    Raises SealError if the stored sizes are not as the stage `invariants` wrote them, or follow from another CEF;
    UniqueRecordsError if too many records are alone in their stratum; RatesError if a stratum has no rate.
    """
    strata = release.public(STRATA)
    # In a lake, other sizes could replace the sealed ones and give a smaller loss.
    session.hold([strata])
    release.require_sealed(session, custody, "invariants", [strata])
    require_few_alone(session, release, strata)
    groups = read_groups(session, release, strata, "stratum")
    # The list of strata with distinct records is not public, so all strata of two or more records count.
    return loss_of_stir(groups.first, groups.records, groups.records > 0)


def withheld_version(session: Session, release: SwappingRelease, custody: Custody) -> str:
    """The keyed version of the stored swapped records, which names draws of tables counted from them."""
    return session.content_version([release.confidential(WITHHELD)], custody.version_key())


def stage_withheld(session: Session, release: SwappingRelease, custody: Custody) -> Fragment:
    """Draw the swapped records again, as a temporary table with one row for each record."""
    design, key = release.design, custody.version_key()
    records = stage_records(session, release)
    margins = stage_margins(session, release, records)
    books = {"holding": margins[HOLDING], "swapping": margins[SWAPPING]}
    table = read_contingency(session, release, records, books)
    ((name, _, names),) = strata_recipes(session, release).values()
    groups = read_groups(session, release, session.stage("strata_of_match", name, **names), "stratum")
    # Keyed multiset hashes of the margins, which define the codes of a contingency table.
    columns = {HOLDING: ["holding_code", *design.holding], SWAPPING: ["swap_code", *swap_variables(release)]}
    codes = [session.sum_digests(margins[name], columns[name], key.hex()) for name in columns]
    draw_id = custody.draw_id(
        {
            "dataset": release.dataset.name,
            "release": release.name,
            "mechanism": _MECHANISM,
            "version": VERSION,
            "parameters": design.as_record(),
            "recodes": release.dataset.recodes(release.columns_read),
            "records": cells_version(table, key),
            "codes": [list(map(str, numbers)) for numbers in codes],
        }
    )
    stream = RandomStream(custody.derive(f"withheld swap {draw_id}"), _MECHANISM)
    cells = stir(table, [groups.first.of_groups(table.stratum)], [stream])
    decoded = stage_decoded(session, release, cells, "decoded", books)
    return session.stage("expanded", "swapping/expanded", cells=decoded, columns=list(release.variables))


def count_not_as_drawn(session: Session, release: SwappingRelease, custody: Custody) -> int:
    """The number of rows by which the stored records differ from the records that the custody's key gives for the
    stored CEF."""
    again = stage_withheld(session, release, custody)
    return count_differences(session, release.confidential(WITHHELD), again, list(release.variables))


def withheld_gates(release: SwappingRelease) -> list[Gate[SwappingRelease]]:
    # The context may belong to another release of the deployment.
    def check_margins(session: Session, context: ReleaseContext[Any]) -> Iterator[str]:
        """The swapped records have the margins of the CEF."""
        records, withheld = stage_records(session, release), release.confidential(WITHHELD)
        for columns in (list(release.design.holding), swap_variables(release)):
            names = {"columns": columns, "number": SINGLE}
            before = session.stage("before", "gates/counts", records=records, **names)
            after = session.stage("after", "gates/counts", records=withheld, **names)
            yield from count_problem(count_unequal(session, after, before, columns), "cells of a margin that differ")

    def check_draw(session: Session, context: ReleaseContext[Any]) -> list[str]:
        """The swapped records are those that the custody's key gives."""
        return count_problem(count_not_as_drawn(session, release, context.custody), "records that are not as drawn")

    sizes, both = "The stored sizes of strata are those of the current CEF.", (Zone.CONFIDENTIAL, Zone.PUBLIC)
    return [
        recipes_gate("strata_of_the_cef", "invariants", sizes, lambda session: strata_recipes(session, release), both),
        session_gate("margins_exact", "swapped", check_margins, [Zone.CONFIDENTIAL]),
        session_gate("drawn_again", "swapped", check_draw, [Zone.CONFIDENTIAL]),
    ]


@dataclass(frozen=True)
class WithheldSwap(WithheldRecords):
    """The records of a withheld swap, as another release counts tables with noise from them."""

    release: SwappingRelease

    @classmethod
    def from_release(cls, release: SwappingRelease) -> Self:
        return cls(
            name=f"{release.dataset.name}/{release.name}",
            asset=release.key("swapped"),
            table=release.confidential(WITHHELD),
            columns=release.variables,
            parameters=release.design.as_record(),
            kept_together=(release.design.holding, tuple(swap_variables(release))),
            unit=release.design.unit,
            release=release,
        )

    def specification(self, tables: Loss) -> Specification:
        return self.release.design.specification_of_noise_after(self.release.dataset.title, tables)

    def own_loss(self, session: Session, custody: Custody) -> Specification:
        loss = swap_loss(session, self.release, custody).loss
        return self.release.design.specification(self.release.dataset.title, loss)

    def require_current(self, session: Session, custody: Custody) -> None:
        if count_not_as_drawn(session, self.release, custody):
            raise StaleInputError(
                f"{self.release.schema}: the withheld records are not those of the current CEF and declaration; "
                "materialize swapped again"
            )

    def problems(self, context: ReleaseContext) -> list[str]:
        return [problem for gate in withheld_gates(self.release) for problem in gate.evaluate(context)]
