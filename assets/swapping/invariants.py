"""The asset `invariants`: counts of records by the holding variables, and by match and swap variables.

Swapping preserves these counts (Proposition 4 of Bailie, Gong and Meng), and the release declares them as invariants.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.conventions import StageKind, named, table_schema
from assets.release.columns import ARROW, describe_columns
from assets.release.contents import compute_basis
from assets.release.dataset import CEF
from assets.release.seal import seal_stage
from assets.release.stage import COLUMN_SCHEMA, release_stage
from assets.swapping.records import (
    COMPOSITIONS,
    HOLDING,
    HOLDING_VALUES,
    RECORDS,
    SWAPPING,
    cells_version,
    codebooks,
    holding_table,
    read_contingency,
    stage_margins,
    stage_records,
)
from assets.swapping.release import MOST_HOLDING_VALUES, SwappingRelease
from assets.swapping.unique import percent, require_few_unique
from mechanisms.refusal import RefusedError
from resources.custody import Custody
from resources.statements import Fragment, Table, Zone
from resources.warehouse import Recipe, Session, Warehouse


class TooManyHoldingValuesError(RefusedError):
    """Noise would choose from too many combinations of holding values in all strata together."""


_OWN_COLUMNS = {
    "holding_code": "Number of the combination of holding values",
    "swap_code": "Number of the combination of match and swap values",
    "stratum": "Number of the combination of match values",
    "composition": "The persons of the unit, as one text",
    "count": "Number of records",
}


def build_invariants(release: SwappingRelease) -> dg.AssetsDefinition:
    @release_stage(release, "invariants", StageKind.INVARIANTS, _description(release), [CEF])
    def invariants(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
            with session.transaction():
                write_invariants(session, release, release.version_key(custody))
                counted = compute_basis(session, custody, release.dataset, release.counted_with)
                seal_stage(session, custody, release.schema, "invariants", invariant_tables(release), counted)
            holding, swapping = holding_table(release), release.public(SWAPPING)
            metadata: dict[str, Any] = {
                "holding margin": named(holding),
                "holding combinations": session.count(holding),
                "swap margin": named(swapping),
                "swap combinations": session.count(swapping),
                COLUMN_SCHEMA: table_schema(
                    session.columns(holding) | session.columns(swapping),
                    describe_columns(release.variables) | _OWN_COLUMNS,
                ),
            }
            version = dg.DataVersion(session.content_version(invariant_tables(release)))
        return dg.MaterializeResult(data_version=version, metadata=metadata)

    return invariants


def invariant_tables(release: SwappingRelease) -> list[Table]:
    """All tables of the stage, in the order in which they are hashed."""
    names = [SWAPPING, *([COMPOSITIONS] if release.has_persons_following else []), RECORDS]
    return [holding_table(release), *(release.public(name) for name in names)]


def invariant_recipes(
    session: Session, release: SwappingRelease, records: Fragment | Table, margins: Mapping[str, Fragment]
) -> dict[str, Recipe]:
    """By table, the recipes of the margins, of holding values that noise may give, and of persons by kind of unit."""
    recipes: dict[str, Recipe] = {table: ("warehouse/all", {}, {"source": margin}) for table, margin in margins.items()}
    if release.design.noise:
        recipes[HOLDING_VALUES] = _holding_values_recipe(session, release, margins[SWAPPING])
    if release.dataset.persons and release.has_persons_following:
        names = codebooks(release) | {
            "records": records,
            "persons": release.dataset.cef_tables()[1],
            "unit": release.dataset.persons.unit,
            "person_variables": list(release.person_variables),
        }
        recipes[COMPOSITIONS] = ("swapping/compositions", {}, names)
    return recipes


def _holding_values_recipe(session: Session, release: SwappingRelease, swapping: Fragment) -> Recipe:
    design = release.design
    (strata,) = session.row("swapping/combinations", table=swapping, columns=["stratum"])
    if strata * design.combinations > MOST_HOLDING_VALUES:
        raise TooManyHoldingValuesError(
            f"{release.schema}: noise_before: a record could get {design.combinations:,} combinations of holding "
            f"values in each stratum, which are more than {MOST_HOLDING_VALUES:,} in all strata; match on fewer "
            "variables, or recode single values into classes (bands, merge). Nothing was written or charged."
        )
    variables = {response.variable: release.variables[response.variable] for response in design.noise}
    combinations = zip(*product(*(column.domain() for column in variables.values())), strict=True)
    columns = {"holding_code": pa.array(range(design.combinations), pa.int32())} | {
        name: pa.array(values, ARROW[column.type])
        for (name, column), values in zip(variables.items(), combinations, strict=True)
    }
    names = {
        "swapping": swapping,
        "domain": session.register("holding_domain", pa.table(columns)),
        "match": list(design.match),
        "held": list(variables),
    }
    return "swapping/holding_values", {"combinations": design.combinations}, names


def write_invariants(session: Session, release: SwappingRelease, key: bytes) -> None:
    """Write the tables of the stage, in a transaction of the caller.

    Raises:
        UniqueRecordsError: if they would publish more unique records than the release declares.
        TooManyHoldingValuesError: if noise would choose from too many combinations.
    """
    records = stage_records(session, release)
    margins = stage_margins(session, release, records)
    require_few_unique(session, release, margins.get(HOLDING), margins[SWAPPING], release.dataset.cef_tables()[-1])
    recipes = invariant_recipes(session, release, records, margins)
    for table, (name, values, names) in recipes.items():
        session.create(release.public(table), name, values, **names)
    # Those that an earlier declaration may have had.
    for table in {HOLDING, HOLDING_VALUES, COMPOSITIONS} - recipes.keys():
        session.run("warehouse/drop_table", table=release.public(table))
    version = cells_version(read_contingency(session, release, records), key)
    session.create(release.public(RECORDS), "warehouse/label", {"text": version}, column="version")


def _description(release: SwappingRelease) -> str:
    unit, allowed = release.design.unit, release.declaration.publishes_unique_records
    limit = (
        f"The release accepts this for any number of {unit}s."
        if allowed is None
        else f"If that concerns more than {percent(allowed)} of the {unit}s, this asset fails and writes nothing."
    )
    if release.design.noise:
        (swapping,) = release.design.invariants
        return f"""The counts that the release publishes exactly, because neither noise nor swapping changes them:

- n_m·s: {swapping}.

Here m is a combination of values of the match variables, and s of the swap variables. The margin induces the universe:
protection is relative to all data sets that share it. `{HOLDING_VALUES}` numbers all combinations of holding values
that records may get; it follows from the strata and the declared domains. `{RECORDS}` contains the version of the
confidential records, keyed so that it cannot be tested against guessed records.

A {unit} that is alone in a cell is published exactly, with all values that define the cell. {limit}"""
    holding, swapping, *exempt = release.design.invariants
    coarse = " (of the second stir, in n_m·s)" if release.design.second_stir else ""
    also = f"\n\nThe swapped data also contain {exempt[0]}." if exempt else ""
    return f"""The counts that the release publishes exactly, because swapping does not change them (Proposition 4):

- n_mh·: {holding};
- n_m·s: {swapping}.

Here m is a combination of values of the match variables{coarse}, h of the other holding variables, and s of the swap
variables. The two margins induce the universe: protection is relative to all data sets that share them. Their rows
also number the combinations for the mechanism. `{RECORDS}` contains the version of the confidential records, keyed so
that it cannot be tested against guessed records.{also}

A {unit} that is alone in a cell is published exactly, with all values that define the cell. {limit}"""
