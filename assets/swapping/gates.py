"""The gates that permutation swapping adds to the shared gates."""

from collections import Counter
from collections.abc import Sequence

from assets.cef.validation import row_findings
from assets.gates.shared import count_differences, count_problem, count_unequal, differing_table
from assets.release.columns import RecordTable
from assets.release.draw import read_published_version
from assets.release.gate import Gate, ReleaseContext, session_gate
from assets.swapping.draw import CELLS, SWAPPED, decoding_names
from assets.swapping.invariants import UniqueRecordsError, invariant_recipes, require_few_stored
from assets.swapping.records import (
    COMPOSITIONS,
    HOLDING,
    RECORDS,
    SWAPPING,
    bind_cases,
    cells_version,
    derive_stirring,
    holding_table,
    number_of,
    read_contingency,
    stage_margins,
    stage_records,
    stored_stirring,
    swap_variables,
)
from assets.swapping.release import SwappingRelease
from assets.swapping.tables import stage_counted, table_recipes
from assets.tabulation.asset import tables_gate
from mechanisms.swapping.design import Case
from mechanisms.swapping.loss import EXEMPT
from resources.statements import SQL, Fragment, Table, Zone
from resources.warehouse import Session

_RECORDS = SQL("gates/records", "SELECT sum(count)::BIGINT FROM {{ table }}")
_UNKNOWN = SQL("gates/unknown", "SELECT count(*) FROM {{ cells }} ANTI JOIN {{ known }} USING (holding_code)")

Context = ReleaseContext[SwappingRelease]


def swapping_gates(release: SwappingRelease) -> list[Gate[SwappingRelease]]:
    design, both = release.design, (Zone.CONFIDENTIAL, Zone.PUBLIC)
    return [
        session_gate("margins_of_the_cef", "invariants", _check_margins, both),
        session_gate("values_in_domain", "invariants", _check_domains),
        session_gate("unique_records", "invariants", _check_unique),
        session_gate("noise_in_domain", "swapped", _check_noise)
        if design.noise
        else session_gate("holding_margin_exact", "swapped", _check_holding),
        *([] if design.plain_rate else [session_gate("loss_of_the_rates", "swapped", _check_losses, both)]),
        *([session_gate("exempt_unchanged", "swapped", _check_exempt, both)] if design.exempt else []),
        session_gate("swap_margin_exact", "swapped", _check_swapping),
        session_gate("stratum_multisets_equal", "swapped", _check_multisets, both),
        session_gate("record_count", "swapped", _check_count),
        session_gate("values_as_drawn", "swapped", _check_values),
        tables_gate(lambda session: table_recipes(session, release)),
        session_gate("products_agree_with_swapped_data", "tables", _check_products),
        session_gate("products_agree_with_invariants", "tables", _check_products_by_invariants),
    ]


def _check_margins(session: Session, context: Context) -> list[str]:
    """The stored invariants are the margins of the current CEF."""
    release, problems = context.release, []
    records = stage_records(session, release)
    margins = stage_margins(session, release, records)
    for table, recipe in invariant_recipes(session, release, records, margins).items():
        problems += differing_table(session, release.public(table), recipe)
    if not problems:
        version = cells_version(read_contingency(session, release, records), release.version_key(context.custody))
        if read_published_version(session, release.public(RECORDS)) != version:
            problems.append(f"{release.public(RECORDS)} is not the version of the records in the CEF")
    return problems


def _check_unique(session: Session, context: Context) -> list[str]:
    """The invariants publish no more unique records than the release allows."""
    try:
        require_few_stored(session, context.release)
    except UniqueRecordsError as error:
        return [str(error)]
    return []


def _check_domains(session: Session, context: Context) -> list[str]:
    """Every value that occurs is in its declared domain."""
    release = context.release
    columns_of = {
        holding_table(release).name: {name: release.variables[name] for name in release.design.holding},
        SWAPPING: {name: release.variables[name] for name in swap_variables(release)},
    }
    if release.has_persons_following:
        columns_of[COMPOSITIONS] = dict(release.person_variables)
    problems = []
    for name, columns in columns_of.items():
        # Not validated again: a column may lie `within` one that does not take part in the swap.
        table, declared = release.public(name), RecordTable.model_construct(columns=columns)
        problems += [str(finding) for finding in row_findings(session, table, declared, str(table), Counter())]
    return problems


def _check_holding(session: Session, context: Context) -> list[str]:
    """Counts by the holding variables are exact."""
    # The code also identifies the persons of a unit, who have no column here.
    return _compare_margin(session, context.release, HOLDING, ["holding_code", *context.release.design.holding])


def _check_swapping(session: Session, context: Context) -> list[str]:
    """Counts by match and swap variables are exact."""
    return _compare_margin(session, context.release, SWAPPING, swap_variables(context.release))


def _compare_margin(session: Session, release: SwappingRelease, margin: str, columns: list[str]) -> list[str]:
    cells = count_unequal(session, release.public(SWAPPED), release.public(margin), columns)
    return count_problem(cells, f"cells of {release.public(margin)} with another count in the swapped data")


def _check_multisets(session: Session, context: Context) -> list[str]:
    """Every stratum of the swapped data has the same multiset of swap values as in the CEF."""
    release = context.release
    columns = swap_variables(release)
    original = _stage_original(session, release, columns)
    return count_problem(count_unequal(session, release.public(SWAPPED), original, columns), "differing cells")


def _stage_original(session: Session, release: SwappingRelease, columns: Sequence[str]) -> Fragment:
    """Count the records before the swap by some columns."""
    names = {"records": stage_records(session, release), "number": number_of(release), "columns": columns}
    return session.stage("original", "gates/counts", **names)


def _check_count(session: Session, context: Context) -> list[str]:
    """The swapped data have as many records as the CEF."""
    # The other margin counts the same records, and does not exist if noise is added before the swap.
    swapped, exact = (session.row(_RECORDS, table=context.release.public(name))[0] for name in (SWAPPED, SWAPPING))
    return [] if swapped == exact else [f"{swapped:,} swapped records, but {exact:,} records"]


def _check_noise(session: Session, context: Context) -> list[str]:
    """Every record of the swapped data has a stratum of the CEF and values of the declared domains."""
    (unknown,) = session.row(_UNKNOWN, cells=context.release.public(CELLS), known=holding_table(context.release))
    return count_problem(unknown, "cells of the swapped data with holding values beyond strata and domains")


def _check_losses(session: Session, context: Context) -> list[str]:
    """The charged loss follows from the declared rates and the strata of the current CEF."""
    release = context.release
    margins = stage_margins(session, release, stage_records(session, release))
    # With noise, there is no holding margin, and the function does not read it.
    current = derive_stirring(session, release, margins.get(HOLDING, margins[SWAPPING]), margins[SWAPPING])
    if stored_stirring(session, release).losses == current.losses:
        return []
    return ["another loss follows from the records of the CEF"]


def _check_exempt(session: Session, context: Context) -> list[str]:
    """All values of exempt records are those of the CEF."""
    release = context.release
    (case,), values = bind_cases([Case(release.design.exempt, None, EXEMPT)])
    columns, conditions = [*release.design.holding, *release.design.swap], case["conditions"]
    original = _stage_original(session, release, columns)
    before, after = (
        session.stage(name, "swapping/fitting", values, table=table, conditions=conditions)
        for name, table in (("before", original), ("after", release.public(SWAPPED)))
    )
    return count_problem(count_unequal(session, after, before, columns), "cells of exempt records with another count")


def _check_values(session: Session, context: Context) -> list[str]:
    """Every value in the swapped data is the one that its code in the draw stands for."""
    # Products are made from the values, but the settlement covers the codes, so values and codes must agree.
    release = context.release
    again = session.stage("again", "swapping/decoded", **decoding_names(release, release.public(CELLS)))
    columns = list(session.columns(release.public(SWAPPED)))
    rows = count_differences(session, release.public(SWAPPED), again, columns)
    return count_problem(rows, "records whose values are not those of their codes")


def _check_products(session: Session, context: Context) -> list[str]:
    """Every product, apart from its totals, agrees with the swapped data."""
    release, problems = context.release, []
    for product in release.declaration.products:
        stored, columns = release.public(product.table), list(product.columns)
        records = stage_counted(session, release, product, release.public(SWAPPED))
        cells = count_unequal(session, stored, records, columns, list(product.flags.values()))
        problems += count_problem(cells, f"{product.name}: differing cells")
    return problems


def _check_products_by_invariants(session: Session, context: Context) -> list[str]:
    """Every product agrees with the invariants on the columns that it shares with them."""
    release, problems = context.release, []
    for product in release.declaration.products:
        margins: list[tuple[Table | Fragment, Sequence[str]]] = []
        if not release.design.noise:
            counted = stage_counted(session, release, product, release.public(HOLDING))
            margins.append((counted, release.design.holding))
        if product.of == "units":
            margins.append((release.public(SWAPPING), swap_variables(release)))
        for margin, variables in margins:
            shared = [name for name in product.columns if name in (*variables, *release.person_variables)]
            cells = count_unequal(session, release.public(product.table), margin, shared, list(product.flags.values()))
            problems += count_problem(cells, f"{product.name}: cells that differ from {margin}")
    return problems
