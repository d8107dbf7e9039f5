"""The gates that permutation swapping adds to those of all releases."""

from collections import Counter

from assets.cef.validation import row_findings
from assets.gates.shared import count_differences, count_problem, count_unequal, differing_table
from assets.release.columns import RecordTable
from assets.release.draw import read_published_version
from assets.release.gate import Gate, ReleaseContext
from assets.swapping.cells import CELLS, SWAPPED, stage_stored, stirring_of_records
from assets.swapping.invariants import composition_statement, holding_values
from assets.swapping.records import (
    COMPOSITIONS,
    HOLDING,
    HOLDING_VALUES,
    RECORDS,
    SWAPPING,
    cells_version,
    holding_table,
    margin_statements,
    read_contingency,
    stage_records,
    swap_variables,
)
from assets.swapping.release import SwappingRelease
from assets.swapping.stirs import cases_bound, stored_stirring
from assets.swapping.tables import counted, table_recipes
from assets.swapping.unique import UniqueRecordsError, require_few_stored
from assets.tabulation.asset import tables_gate
from mechanisms.swapping.rates import EXEMPT, Case
from resources.statements import SQL, Fragment, Table, Zone
from resources.warehouse import Recipe

_RECORDS = SQL("gates/records", "SELECT sum(count)::BIGINT FROM {{ table }}")


def swapping_gates(release: SwappingRelease) -> list[Gate[SwappingRelease]]:
    return [
        Gate("margins_of_the_cef", "invariants", "The stored invariants are the margins of the current CEF.", _margins),
        Gate("values_in_domain", "invariants", "Every value that occurs is in its declared domain.", _domains),
        Gate(
            "unique_records",
            "invariants",
            "The invariants publish no more unique records than the release allows.",
            _unique,
        ),
        *_extended_gates(release),
        Gate("swap_margin_exact", "swapped", "Counts by match and swap variables are exact.", _swapping),
        Gate(
            "stratum_multisets_equal",
            "swapped",
            "Every stratum of the swapped data has the same multiset of swap values as in the CEF.",
            _multisets,
        ),
        Gate("record_count", "swapped", "The swapped data have as many records as the CEF.", _count),
        Gate("values_as_drawn", "swapped", "The values shown are those of the drawn codes.", _shown),
        tables_gate(lambda session: table_recipes(session, release)),
        Gate(
            "products_agree_with_swapped_data",
            "tables",
            "Every product, apart from its totals, agrees with the swapped data.",
            _products,
        ),
        Gate(
            "products_agree_with_invariants",
            "tables",
            "Every product agrees with the invariants on the columns that it shares with them.",
            _products_and_invariants,
        ),
    ]


def _extended_gates(release: SwappingRelease) -> list[Gate[SwappingRelease]]:
    gates: list[Gate[SwappingRelease]] = []
    if release.design.noise:
        gates.append(
            Gate(
                "noise_in_domain",
                "swapped",
                "Every record of the swapped data has a stratum of the CEF and values of the declared domains.",
                _noise,
            )
        )
    else:
        gates.append(Gate("holding_margin_exact", "swapped", "Counts by the holding variables are exact.", _holding))
    if release.design.plain_rate is None:
        gates.append(
            Gate(
                "loss_of_the_rates",
                "swapped",
                "The charged loss follows from the declared rates and the strata of the current CEF.",
                _losses,
            )
        )
    if release.design.exempt:
        gates.append(Gate("exempt_unchanged", "swapped", "All values of exempt records are those of the CEF.", _exempt))
    return gates


def _margins(context: ReleaseContext[SwappingRelease]) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        records = stage_records(session, release)
        problems: list[str] = []
        made: Recipe
        for table, names in margin_statements(release, records).items():
            problems += differing_table(session, release.public(table), ("swapping/margin", {}, names))
        if release.design.noise:
            made = holding_values(session, release, release.public(SWAPPING))
            problems += differing_table(session, release.public(HOLDING_VALUES), made)
        if release.has_persons_following:
            made = ("swapping/compositions", {}, composition_statement(release, records))
            problems += differing_table(session, release.public(COMPOSITIONS), made)
        if not problems:
            version = cells_version(read_contingency(session, release, records), release.version_key(context.custody))
            if read_published_version(session, release.public(RECORDS)) != version:
                problems.append(f"{release.public(RECORDS)} is not the version of the records in the CEF")
        return problems


def _unique(context: ReleaseContext[SwappingRelease]) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        try:
            require_few_stored(session, context.release)
        except UniqueRecordsError as error:
            return [str(error)]
    return []


def _domains(context: ReleaseContext[SwappingRelease]) -> list[str]:
    release = context.release
    design, variables = release.design, release.variables
    tables = {holding_table(release).name: {name: variables[name] for name in design.holding}}
    tables[SWAPPING] = {name: variables[name] for name in swap_variables(release)}
    if release.has_persons_following:
        tables[COMPOSITIONS] = dict(release.person_variables)
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for name, columns in tables.items():
            table, declared = release.public(name), RecordTable.model_validate({"columns": columns})
            problems += [str(finding) for finding in row_findings(session, table, declared, str(table), Counter())]
    return problems


def _holding(context: ReleaseContext[SwappingRelease]) -> list[str]:
    # The code also identifies the persons of a unit, which have no column here.
    return _swapped_margin(context, HOLDING, ["holding_code", *context.release.design.holding])


def _swapping(context: ReleaseContext[SwappingRelease]) -> list[str]:
    return _swapped_margin(context, SWAPPING, swap_variables(context.release))


def _swapped_margin(context: ReleaseContext[SwappingRelease], margin: str, columns: list[str]) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        cells = count_unequal(session, release.public(SWAPPED), release.public(margin), columns)
        return count_problem(cells, f"cells of {release.public(margin)} with another count in the swapped data")


def _multisets(context: ReleaseContext[SwappingRelease]) -> list[str]:
    release = context.release
    columns = swap_variables(release)
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        records = stage_records(session, release)
        original = session.stage("original", "gates/counts", records=records, columns=columns)
        return count_problem(count_unequal(session, release.public(SWAPPED), original, columns), "differing cells")


def _count(context: ReleaseContext[SwappingRelease]) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        # The other margin counts the same records, and is not there if noise is added before the swap.
        swapped, exact = (session.row(_RECORDS, table=release.public(name))[0] for name in (SWAPPED, SWAPPING))
    return [] if swapped == exact else [f"{swapped:,} swapped records, but {exact:,} records"]


def _noise(context: ReleaseContext[SwappingRelease]) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        (lost,) = session.row(
            "swapping/unknown_codes", cells=release.public(CELLS), known=holding_table(release), code="holding_code"
        )
        return count_problem(lost, "cells of the swapped data with holding values beyond strata and domains")


def _losses(context: ReleaseContext[SwappingRelease]) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        records = stage_records(session, release)
        stored, current = stored_stirring(session, release), stirring_of_records(session, release, records)
        return [] if stored.losses == current.losses else ["another loss follows from the records of the CEF"]


def _exempt(context: ReleaseContext[SwappingRelease]) -> list[str]:
    release = context.release
    names, values = cases_bound([Case(release.design.exempt, None, EXEMPT)])
    columns = [*release.design.holding, *release.design.swap]
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        conditions = names[0]["conditions"]
        records = stage_records(session, release)
        original = session.stage("original", "gates/counts", records=records, columns=columns)
        before, after = (
            session.stage(name, "swapping/fitting", values, table=table, conditions=conditions)
            for name, table in (("before", original), ("after", release.public(SWAPPED)))
        )
        return count_problem(
            count_unequal(session, after, before, columns), "cells of exempt records with another count"
        )


def _shown(context: ReleaseContext[SwappingRelease]) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        # Products are made from the values, but the settlement is of the codes, so the two must agree.
        again = stage_stored(session, release, "again")
        columns = list(session.columns(release.public(SWAPPED)))
        return count_problem(
            count_differences(session, release.public(SWAPPED), again, columns),
            "records whose values are not those of their codes",
        )


def _products(context: ReleaseContext[SwappingRelease]) -> list[str]:
    release = context.release
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for product in release.declaration.products:
            stored, columns = release.public(product.table), list(product.columns)
            records = counted(session, release, product, release.public(SWAPPED))
            cells = count_unequal(session, stored, records, columns, list(product.flags.values()))
            problems += count_problem(cells, f"{product.name}: differing cells")
    return problems


def _products_and_invariants(context: ReleaseContext[SwappingRelease]) -> list[str]:
    release = context.release
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for product in release.declaration.products:
            margins: list[tuple[Table | Fragment, list[str]]] = []
            if not release.design.noise:
                held = counted(session, release, product, release.public(HOLDING))
                margins.append((held, [*release.design.holding]))
            if product.of == "units":
                margins.append((release.public(SWAPPING), swap_variables(release)))
            for margin, variables in margins:
                shared = [name for name in product.columns if name in (*variables, *release.person_variables)]
                cells = count_unequal(
                    session, release.public(product.table), margin, shared, list(product.flags.values())
                )
                problems += count_problem(cells, f"{product.name}: cells that differ from {margin}")
    return problems
