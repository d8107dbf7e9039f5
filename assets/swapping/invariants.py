"""The asset `invariants`: counts of records by the holding variables, and by match and swap variables.

Swapping preserves these counts (Proposition 4 of Bailie, Gong and Meng), and the release declares them as invariants. A
record that is alone in a cell of a table is published with all its values of that table's variables, unchanged, and no
loss covers this disclosure. The two tables determine the number of such records. A check limits this number before the
tables are written, and again before the charge.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.conventions import StageKind, named, table_schema
from assets.release.columns import ARROW, Column, describe_columns
from assets.release.stage import COLUMN_SCHEMA, build_stage, create_tables
from assets.swapping.records import (
    COMPOSITIONS,
    COUNTED,
    HOLDING,
    HOLDING_VALUES,
    RECORDS,
    SWAPPING,
    cells_version,
    codebooks,
    holding_table,
    read_contingency,
    stage_margins,
    stage_of_records,
    stage_records,
    swap_variables,
)
from assets.swapping.release import MOST_HOLDING_VALUES, SwappingRelease
from mechanisms.refusal import RefusedError
from resources.custody import Custody
from resources.statements import Fragment, Table
from resources.warehouse import Recipe, Session

MANY_VALUES, FEW_RECORDS = 100, 10
"""A column without a list of values looks continuous if it takes more than `MANY_VALUES` values, or more than one for
every `FEW_RECORDS` records."""

Source = Table | Fragment

_OWN_COLUMNS = {
    "holding_code": "Number of the combination of holding values",
    "swap_code": "Number of the combination of match and swap values",
    "stratum": "Number of the combination of match values",
    "composition": "The persons of the unit, as one text",
    "count": "Number of records",
}


class TooManyHoldingValuesError(RefusedError):
    """Noise would choose from too many combinations of holding values in all strata together."""


class UniqueRecordsError(RefusedError):
    """The invariants would publish more unique records than the release declares."""


def build_invariants(release: SwappingRelease, description: str) -> dg.AssetsDefinition:
    tables, holding, swapping = invariant_tables(release), holding_table(release), release.public(SWAPPING)

    def describe(session: Session, _: object) -> dict[str, Any]:
        return {
            "holding margin": named(holding),
            "holding combinations": f"{session.count(holding):,}",
            "swap margin": named(swapping),
            "swap combinations": f"{session.count(swapping):,}",
            COLUMN_SCHEMA: table_schema(
                session.columns(holding) | session.columns(swapping), describe_columns(release.variables) | _OWN_COLUMNS
            ),
        }

    return build_stage(
        release,
        "invariants",
        StageKind.INVARIANTS,
        description,
        [stage_of_records(release)],
        lambda session: {},
        metadata=describe,
        prepare=lambda session, custody: _require_current_counts(session, release, custody),
        finish=lambda session, custody: write_invariants(session, release, release.version_key(custody)),
        version=lambda session, _, custody: session.content_version(tables),
        sealed=tables,
    )


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


def _require_current_counts(session: Session, release: SwappingRelease, custody: Custody) -> None:
    """If records are counted in partitions, raise SealError unless their counts are those of the current records."""
    if release.is_counted_in_parts:
        release.require_sealed(session, custody, COUNTED, [release.confidential(COUNTED)])


def write_invariants(session: Session, release: SwappingRelease, key: bytes) -> None:
    """Write the tables of the stage, in a transaction of the caller.

    Raises UniqueRecordsError if they would publish more unique records than the release declares, and
    TooManyHoldingValuesError if noise would choose from too many combinations.
    """
    records = stage_records(session, release)
    margins = stage_margins(session, release, records)
    require_few_unique(session, release, margins.get(HOLDING), margins[SWAPPING], release.dataset.cef_tables()[-1])
    recipes = invariant_recipes(session, release, records, margins)
    create_tables(session, {release.public(table): recipe for table, recipe in recipes.items()})
    # An earlier declaration may have had these tables.
    for table in {HOLDING, HOLDING_VALUES, COMPOSITIONS} - recipes.keys():
        session.drop(release.public(table))
    version = cells_version(read_contingency(session, release, records), key)
    session.create(release.public(RECORDS), "warehouse/label", {"text": version}, column="version")


@dataclass(frozen=True)
class UniqueRecords:
    """The numbers of records that the invariants publish exactly because no other record has the same values.

    Attributes:
        holding, swap: records alone with their values of the holding variables, persons included; of match and swap
            variables.
        whole: records whose values of all variables follow from the two tables, because their stratum has no differing
            values to exchange.
        persons: the persons of the units counted in `holding`; 0 if persons do not follow units.
    """

    records: int
    holding: int
    swap: int
    whole: int
    persons: int = 0

    def share(self, unique: int) -> Fraction:
        """A number of records as a share of all records; 0 if there are none."""
        return Fraction(unique, self.records or 1)


def count_unique(session: Session, release: SwappingRelease, holding: Source | None, swapping: Source) -> UniqueRecords:
    """The numbers of unique records, from the two margins. With noise, no record is unique by the holding variables."""
    match = list(release.design.fixed)
    row = session.row("swapping/margins", holding=holding or swapping, swapping=swapping, match=match)
    unique = UniqueRecords(*row[2:])
    return replace(unique, holding=0, whole=0) if holding is None else unique


def count_strata(session: Session, release: SwappingRelease) -> tuple[int, int]:
    """The number of strata, and b, the size of the largest with two distinct records, from the stored margins."""
    holding, swapping = release.public(HOLDING), release.public(SWAPPING)
    row = session.row("swapping/margins", holding=holding, swapping=swapping, match=list(release.design.fixed))
    return row[0], row[1]


def stored_unique(session: Session, release: SwappingRelease) -> UniqueRecords:
    holding = None if release.design.noise else release.public(HOLDING)
    unique = count_unique(session, release, holding, release.public(SWAPPING))
    if holding is None or not release.has_persons_following:
        return unique
    (persons,) = session.row("swapping/unique_persons", persons=release.public(COMPOSITIONS), holding=holding)
    return replace(unique, persons=persons)


def require_few_unique(
    session: Session, release: SwappingRelease, holding: Source | None, swapping: Source, persons: Source
) -> None:
    """Raise UniqueRecordsError if the invariants, stored or staged, publish more unique records than declared.

    The message states shares in whole percent only: until the tables are published, their exact figures are
    confidential. The table of persons is read only if persons follow their unit.
    """
    allowed, design = release.declaration.publishes_unique_records, release.design
    if allowed is None:
        return
    unique = count_unique(session, release, holding, swapping)
    sentences, continuous = [], []
    if holding is not None and (share := unique.share(unique.holding)) > allowed:
        columns = [*design.holding, *([f"its persons ({', '.join(design.persons)})"] if design.persons else [])]
        sentences.append(_describe_share(share, allowed, design.unit, columns))
        continuous += _find_continuous(session, holding, release.variables, design.holding, unique.records)
        continuous += _find_continuous(session, persons, release.person_variables, design.persons, unique.records)
    if (share := unique.share(unique.swap)) > allowed:
        columns = swap_variables(release)
        sentences.append(_describe_share(share, allowed, design.unit, columns))
        continuous += _find_continuous(session, swapping, release.variables, columns, unique.records)
    if sentences:
        names = list(dict.fromkeys(continuous))
        verb = "looks" if len(names) == 1 else "look"
        consequence = (
            "Swapping leaves the counts by these variables exact, so all these values of each such "
            f"{design.unit} would be published together, unchanged, whatever ε is."
            + (f" With so many values, {' and '.join(names)} {verb} continuous." if names else "")
        )
        raise _refusal(release, allowed, " ".join(sentences), consequence, "Leave variables out (variables)")


def require_few_stored(session: Session, release: SwappingRelease) -> None:
    swapping, persons = release.public(SWAPPING), release.public(COMPOSITIONS)
    require_few_unique(session, release, None if release.design.noise else release.public(HOLDING), swapping, persons)


def require_few_alone(session: Session, release: SwappingRelease, strata: Source) -> None:
    """Raise UniqueRecordsError if a larger share of a withheld swap's records than declared is alone in its stratum."""
    allowed, design = release.declaration.publishes_unique_records, release.design
    if allowed is None:
        return
    sizes = session.arrow("swapping/counts_by_code", margin=strata, code="stratum")["count"].to_numpy()
    share = Fraction(int((sizes == 1).sum()), int(sizes.sum()) or 1)
    if share > allowed:
        consequence = (
            f"The sizes of strata are held fixed and treated as known, so all these values of each such {design.unit} "
            "lie outside the protection of tables that are counted from the swapped records."
        )
        sentence = _describe_share(share, allowed, design.unit, design.match)
        raise _refusal(release, allowed, sentence, consequence, "Match on fewer variables")


def _describe_share(share: Fraction, allowed: Fraction, unit: str, columns: Collection[str]) -> str:
    below = Fraction(math.ceil(share * 100) - 1, 100)
    return (
        f"More than {percent(max(below, allowed))} of the {unit}s are the only {unit} with their values of "
        f"{', '.join(columns)}."
    )


def _refusal(
    release: SwappingRelease, allowed: Fraction, sentence: str, consequence: str, remedy: str
) -> UniqueRecordsError:
    return UniqueRecordsError(
        f"{release.schema}: {sentence} {consequence} The release allows {percent(allowed)} of such "
        f"{release.design.unit}s (publishes_unique_records). {remedy}, recode single values into classes (bands, "
        "merge, top_coded), or accept it (publishes_unique_records: accepted). This run charged and published nothing."
    )


def _find_continuous(
    session: Session, table: Source, declared: Mapping[str, Column], names: Collection[str], records: int
) -> list[str]:
    """The columns that take many values and have no list of values."""
    columns = [name for name in names if not declared[name].codes]
    if not columns:
        return []
    values = session.row("swapping/combinations", table=table, columns=columns)
    most = min(MANY_VALUES, records // FEW_RECORDS)
    return [name for name, number in zip(columns, values, strict=True) if number > most]


def percent(share: Fraction) -> str:
    """A share in percent, to four digits; "more than 99.99%" instead of a rounded 100%."""
    text = f"{float(share * 100):.4g}%"
    return "more than 99.99%" if text == "100%" and share < 1 else text
