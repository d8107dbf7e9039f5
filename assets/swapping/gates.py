"""The gates that permutation swapping adds to those of all releases."""

from collections import Counter

from assets.cef.validation import row_findings
from assets.gates.shared import count_problem, differing, differing_table, unequal
from assets.release.columns import RecordTable
from assets.release.draw import published_version
from assets.release.gate import Gate, ReleaseContext
from assets.swapping.draw import CELLS, SWAPPED, decoding_names
from assets.swapping.invariants import compositions_recipe, holding_values_recipe
from assets.swapping.records import (
    COMPOSITIONS,
    HOLDING,
    HOLDING_VALUES,
    RECORDS,
    SWAPPING,
    bind_cases,
    cells_version,
    derive_stirring,
    holding_table,
    read_contingency,
    stage_margins,
    stage_records,
    stored_stirring,
    swap_variables,
    version_key,
)
from assets.swapping.release import SwappingRelease
from assets.swapping.tables import stage_counted, table_recipes
from assets.swapping.unique import UniqueRecordsError, require_few_stored
from assets.tabulation.asset import tables_gate
from mechanisms.swapping.design import Case
from mechanisms.swapping.loss import EXEMPT
from resources.statements import SQL, Fragment, Table, Zone
from resources.warehouse import Recipe

_RECORDS = SQL("gates/records", "SELECT sum(count)::BIGINT FROM {{ table }}")

_UNKNOWN_CODES = SQL(
    "swapping/unknown_codes", "SELECT count(*) FROM {{ cells }} ANTI JOIN {{ known }} USING (holding_code)"
)

Context = ReleaseContext[SwappingRelease]
BOTH_ZONES = (Zone.CONFIDENTIAL, Zone.PUBLIC)


def swapping_gates(release: SwappingRelease) -> list[Gate[SwappingRelease]]:
    design = release.design
    extended: list[Gate[SwappingRelease]] = []
    if design.noise:
        words = "Every record of the swapped data has a stratum of the CEF and values of the declared domains."
        extended.append(Gate("noise_in_domain", "swapped", words, _check_noise))
    else:
        words = "Counts by the holding variables are exact."
        extended.append(Gate("holding_margin_exact", "swapped", words, _check_holding))
    if design.plain_rate is None:
        words = "The charged loss follows from the declared rates and the strata of the current CEF."
        extended.append(Gate("loss_of_the_rates", "swapped", words, _check_losses))
    if design.exempt:
        words = "All values of exempt records are those of the CEF."
        extended.append(Gate("exempt_unchanged", "swapped", words, _check_exempt))
    return [
        Gate(
            "margins_of_the_cef",
            "invariants",
            "The stored invariants are the margins of the current CEF.",
            _check_margins,
        ),
        Gate("values_in_domain", "invariants", "Every value that occurs is in its declared domain.", _check_domains),
        Gate(
            "unique_records",
            "invariants",
            "The invariants publish no more unique records than the release allows.",
            _check_unique,
        ),
        *extended,
        Gate("swap_margin_exact", "swapped", "Counts by match and swap variables are exact.", _check_swapping),
        Gate(
            "stratum_multisets_equal",
            "swapped",
            "Every stratum of the swapped data has the same multiset of swap values as in the CEF.",
            _check_multisets,
        ),
        Gate("record_count", "swapped", "The swapped data have as many records as the CEF.", _check_count),
        Gate("values_as_drawn", "swapped", "The values shown are those of the drawn codes.", _check_values),
        tables_gate(lambda session: table_recipes(session, release)),
        Gate(
            "products_agree_with_swapped_data",
            "tables",
            "Every product, apart from its totals, agrees with the swapped data.",
            _check_products,
        ),
        Gate(
            "products_agree_with_invariants",
            "tables",
            "Every product agrees with the invariants on the columns that it shares with them.",
            _check_products_by_invariants,
        ),
    ]


def _check_margins(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=BOTH_ZONES) as session:
        records = stage_records(session, release)
        margins = stage_margins(session, release, records)
        recipes: dict[str, Recipe] = {
            table: ("warehouse/all", {}, {"source": margin}) for table, margin in margins.items()
        }
        if release.design.noise:
            recipes[HOLDING_VALUES] = holding_values_recipe(session, release, release.public(SWAPPING))
        if release.has_persons_following:
            recipes[COMPOSITIONS] = compositions_recipe(release, records)
        problems = []
        for table, recipe in recipes.items():
            problems += differing_table(session, release.public(table), recipe)
        if not problems:
            version = cells_version(read_contingency(session, release, records), version_key(release, context.custody))
            if published_version(session, release.public(RECORDS)) != version:
                problems.append(f"{release.public(RECORDS)} is not the version of the records in the CEF")
        return problems


def _check_unique(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        try:
            require_few_stored(session, context.release)
        except UniqueRecordsError as error:
            return [str(error)]
    return []


def _check_domains(context: Context) -> list[str]:
    release = context.release
    columns_of = {
        holding_table(release).name: {name: release.variables[name] for name in release.design.holding},
        SWAPPING: {name: release.variables[name] for name in swap_variables(release)},
    }
    if release.has_persons_following:
        columns_of[COMPOSITIONS] = dict(release.person_variables)
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for name, columns in columns_of.items():
            table, declared = release.public(name), RecordTable.model_validate({"columns": columns})
            problems += [str(finding) for finding in row_findings(session, table, declared, str(table), Counter())]
    return problems


def _check_holding(context: Context) -> list[str]:
    # The code also identifies the persons of a unit, which have no column here.
    return _compare_margin(context, HOLDING, ["holding_code", *context.release.design.holding])


def _check_swapping(context: Context) -> list[str]:
    return _compare_margin(context, SWAPPING, swap_variables(context.release))


def _compare_margin(context: Context, margin: str, columns: list[str]) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        cells = unequal(session, release.public(SWAPPED), release.public(margin), columns)
        return count_problem(cells, f"cells of {release.public(margin)} with another count in the swapped data")


def _check_multisets(context: Context) -> list[str]:
    release = context.release
    columns = swap_variables(release)
    with context.warehouse.session(reads=BOTH_ZONES) as session:
        original = session.stage("original", "gates/counts", records=stage_records(session, release), columns=columns)
        return count_problem(unequal(session, release.public(SWAPPED), original, columns), "differing cells")


def _check_count(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        # The other margin counts the same records, and is not there if noise is added before the swap.
        swapped, exact = (session.row(_RECORDS, table=release.public(name))[0] for name in (SWAPPED, SWAPPING))
    return [] if swapped == exact else [f"{swapped:,} swapped records, but {exact:,} records"]


def _check_noise(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        (unknown,) = session.row(_UNKNOWN_CODES, cells=release.public(CELLS), known=holding_table(release))
        return count_problem(unknown, "cells of the swapped data with holding values beyond strata and domains")


def _check_losses(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=BOTH_ZONES) as session:
        margins = stage_margins(session, release, stage_records(session, release))
        # Noise leaves the holding margin out, and nothing of it is read.
        current = derive_stirring(session, release, margins.get(HOLDING, margins[SWAPPING]), margins[SWAPPING])
        if stored_stirring(session, release).losses == current.losses:
            return []
    return ["another loss follows from the records of the CEF"]


def _check_exempt(context: Context) -> list[str]:
    release = context.release
    (case,), values = bind_cases([Case(release.design.exempt, None, EXEMPT)])
    columns, conditions = [*release.design.holding, *release.design.swap], case["conditions"]
    with context.warehouse.session(reads=BOTH_ZONES) as session:
        original = session.stage("original", "gates/counts", records=stage_records(session, release), columns=columns)
        before, after = (
            session.stage(name, "swapping/fitting", values, table=table, conditions=conditions)
            for name, table in (("before", original), ("after", release.public(SWAPPED)))
        )
        return count_problem(unequal(session, after, before, columns), "cells of exempt records with another count")


def _check_values(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        # Products are made from the values, but the settlement is of the codes, so the two must agree.
        again = session.stage("again", "swapping/decoded", **decoding_names(release, release.public(CELLS)))
        columns = list(session.columns(release.public(SWAPPED)))
        rows = differing(session, release.public(SWAPPED), again, columns)
        return count_problem(rows, "records whose values are not those of their codes")


def _check_products(context: Context) -> list[str]:
    release = context.release
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for product in release.declaration.products:
            stored, columns = release.public(product.table), list(product.columns)
            records = stage_counted(session, release, product, release.public(SWAPPED))
            cells = unequal(session, stored, records, columns, list(product.flags.values()))
            problems += count_problem(cells, f"{product.name}: differing cells")
    return problems


def _check_products_by_invariants(context: Context) -> list[str]:
    release = context.release
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for product in release.declaration.products:
            margins: list[tuple[Table | Fragment, list[str]]] = []
            if not release.design.noise:
                counted = stage_counted(session, release, product, release.public(HOLDING))
                margins.append((counted, [*release.design.holding]))
            if product.of == "units":
                margins.append((release.public(SWAPPING), swap_variables(release)))
            for margin, variables in margins:
                shared = [name for name in product.columns if name in (*variables, *release.person_variables)]
                cells = unequal(session, release.public(product.table), margin, shared, list(product.flags.values()))
                problems += count_problem(cells, f"{product.name}: cells that differ from {margin}")
    return problems
