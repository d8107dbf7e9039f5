"""The asset `microdata` of a TopDown release: the privacy-protected microdata file (PPMF).

This module expands the estimated histograms of the finest level to a record for each person and unit. With partitions,
the asset `records` makes them state by state, together with the state's rows of the redistricting tables, and
`microdata` joins all states. The records of a state are numbered after those of the states before it, whose number
follows from the estimates of the states. A sealed account names the inputs of a state's records, so that missing and
stale records are refused; the gates on `microdata` and `tables` compare records and tables with the estimates. `tables`
adds up the estimates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import dagster as dg

from assets.conventions import StageKind, list_some, preview, shorten_digest, table_schema
from assets.gates.shared import keep_part_verdicts
from assets.release.account import read_account, store_account
from assets.release.draw import StaleInputError
from assets.release.method import DRAW, Method
from assets.release.stage import COLUMN_SCHEMA, build_stage, create_tables, release_stage
from assets.stages import name_partition
from assets.topdown.estimation import Estimation, read_level_account
from assets.topdown.partitions import require_state, state_partitions
from assets.topdown.reading import Scope, find_scope, hash_facts
from assets.topdown.release import MICRODATA, RECORDS, SPINE, TABLES, TEXTS, TopDownRelease
from assets.topdown.spine import read_states
from assets.topdown.tables import INPUT_CODES, RECORD_COLUMNS, state_recipes
from mechanisms.topdown.design import SCHEMAS, level_of_states, words
from mechanisms.topdown.schema import Schema
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Table, Zone
from resources.warehouse import UNITED, Recipe, Session, Warehouse


@dataclass(frozen=True)
class _Recorded:
    """The account of a state's records: a digest of their inputs."""

    made_of: str


def build_microdata(method: Method[TopDownRelease, Any, Any]) -> list[dg.AssetsDefinition]:
    """The asset `microdata`; with partitions, preceded by the asset `records`."""
    release = method.release
    if release.partitioned:
        return [_build_records(method), _build_united(release)]
    return [
        build_stage(
            release,
            MICRODATA,
            StageKind.TABULATION,
            TEXTS("microdata", level=words(release.finest), records=()),
            [release.estimated],
            lambda session: microdata_recipes(release),
            RECORD_COLUMNS,
            metadata=_describe,
            version=lambda session, tables, _: _compute_version(session, release),
            code_version="2",
        )
    ]


def _build_records(method: Method[TopDownRelease, Any, Any]) -> dg.AssetsDefinition:
    release = method.release

    @release_stage(
        release,
        RECORDS,
        StageKind.TABULATION,
        TEXTS("records of a state", tables=[*release.recorded_by_state, *release.tabulated_by_state]),
        [release.estimates(release.finest)],
        **state_partitions(release).options,
    )
    def records(
        context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody, ledger: Ledger
    ) -> dg.MaterializeResult:
        state = name_partition(context)
        with release.adapt(warehouse).session(writes=Zone.PUBLIC) as session:
            draw_id, made_of = store_records(session, custody, release, state)
            tables = [release.public(release.of_state(name, state)) for name in release.made_by_state]
            shown = _describe(session, tables)
        keep_part_verdicts(method, release.adapt(warehouse), custody, ledger, state, [MICRODATA, method.closing_stage])
        metadata = {**shown, DRAW: shorten_digest(draw_id)}
        return dg.MaterializeResult(data_version=dg.DataVersion(made_of), metadata=metadata)

    return records


def _build_united(release: TopDownRelease) -> dg.AssetsDefinition:
    @release_stage(
        release,
        MICRODATA,
        StageKind.TABULATION,
        TEXTS("microdata", level=words(release.finest), records=release.recorded_by_state),
        [release.estimated, RECORDS],
        code_version="2",
    )
    def microdata(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        with release.adapt(warehouse).session(writes=Zone.PUBLIC) as session:
            with session.transaction():
                unite_records(session, custody, release)
            tables = [release.public(histogram) for histogram in SCHEMAS]
            columns = {COLUMN_SCHEMA: table_schema(session.columns(tables[0]), RECORD_COLUMNS)}
            shown, version = _describe(session, tables), _compute_version(session, release)
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata={**shown, **columns})

    return microdata


def _describe(session: Session, tables: Sequence[Table]) -> Mapping[str, Any]:
    rows = {table.name: session.count(table) for table in tables}
    return {
        "tables": preview(["table", "records"], [(name, f"{count:,}") for name, count in rows.items()]),
        "dagster/row_count": sum(rows.values()),
    }


def _compute_version(session: Session, release: TopDownRelease) -> str:
    # The records follow from these tables, which are smaller.
    return session.content_version([release.public(release.estimates(release.finest)), release.public(SPINE)])


def store_records(session: Session, custody: Custody, release: TopDownRelease, state: str) -> tuple[str, str]:
    """Make the records of one state and its rows of tables; return the id of their draw and a digest of their inputs.

    Raises PartitionError if there is no such state, and StaleInputError if its estimates are missing or were altered.
    """
    require_state(session, release, state)
    finest = find_finest(release, state)
    estimated = read_level_account(session, custody, release, finest)
    if estimated is None:
        raise StaleInputError(
            f"{release.schema}: the estimates of {finest} are missing or were altered; materialize "
            f"{release.estimates(release.finest)} first"
        )
    made_of = _made_of(release, estimated)
    recipes = _state_recipes(session, release, state) | state_recipes(session, release, state)
    unused = {*SCHEMAS, *map(str.lower, TABLES)}.difference(release.made_by_state)
    with session.transaction():
        create_tables(session, recipes)
        for name in unused:
            session.drop(release.public(release.of_state(name, state)))
        store_account(session, custody, _named(release, state), _Recorded(made_of))
    return estimated.draw_id, made_of


def unite_records(session: Session, custody: Custody, release: TopDownRelease) -> None:
    """Make the views `persons` and `units` over the tables of all states. If units were estimated after all persons,
    make all records of units instead of a view.

    Raises StaleInputError if records of a state are missing, or were not made from its stored estimates.
    """
    states = read_states(session, release)
    if stale := find_stale_states(session, custody, release):
        raise StaleInputError(
            f"{release.schema}: the records of {len(stale):,} states are missing, or not those of the stored estimates "
            f"({list_some(stale)}); materialize these partitions first"
        )
    by_state = release.recorded_by_state
    for histogram, schema in SCHEMAS.items():
        united = release.public(histogram)
        session.drop(united)
        if histogram in by_state:
            tables = [release.public(release.of_state(histogram, state)) for state in states]
            columns = list(session.columns(tables[0]))
            session.create_view(united, UNITED, tables=tables, columns=columns)
        else:
            create_tables(session, {united: _records_recipe(release, schema)})


def find_stale_states(session: Session, custody: Custody, release: TopDownRelease) -> list[str]:
    """The states whose records are missing, or were not made from their stored estimates."""
    return [state for state in read_states(session, release) if not _is_current(session, custody, release, state)]


def _is_current(session: Session, custody: Custody, release: TopDownRelease, state: str) -> bool:
    """Whether there are records of a state, made from its stored estimates. They may have been altered since."""
    tables = [release.public(release.of_state(name, state)) for name in release.made_by_state]
    recorded = read_account(session, custody, _named(release, state), _Recorded)
    if not all(map(session.columns, tables)) or recorded is None:
        return False
    estimated = read_level_account(session, custody, release, find_finest(release, state))
    return estimated is not None and recorded.made_of == _made_of(release, estimated)


def _named(release: TopDownRelease, state: str) -> Table:
    """The name of the account of a state's tables."""
    return release.public(release.of_state(RECORDS, state))


def _made_of(release: TopDownRelease, estimated: Estimation) -> str:
    return hash_facts([estimated.made_of, estimated.content, *release.dataset.place_names.items()])


def find_finest(release: TopDownRelease, state: str) -> Scope:
    """The estimates from which the records of a state are made."""
    return find_scope(release, release.finest, state)


def estimates_of_states(release: TopDownRelease) -> Table:
    """The table of the estimates of all states, which give the number of records of each state."""
    return find_scope(release, level_of_states(release.levels), "").table(release)


def microdata_recipes(release: TopDownRelease) -> dict[Table, Recipe]:
    """The recipes of the records of all places."""
    return {release.public(name): _records_recipe(release, schema) for name, schema in SCHEMAS.items()}


def _state_recipes(session: Session, release: TopDownRelease, state: str) -> dict[Table, Recipe]:
    estimates = find_finest(release, state).table(release)
    above = estimates_of_states(release)
    recipes: dict[Table, Recipe] = {}
    for histogram in release.recorded_by_state:
        source, values, names = _records_recipe(release, SCHEMAS[histogram])
        recipes[release.public(release.of_state(histogram, state))] = (
            source,
            {**values, "state": read_states(session, release).index(state)},
            {**names, "estimates": estimates, "states": above},
        )
    return recipes


def _records_recipe(release: TopDownRelease, schema: Schema) -> tuple[str, dict[str, Any], dict[str, Any]]:
    sizes = [attribute.size for attribute in schema.attributes]
    inner = [prod(sizes[position:]) for position in range(1, len(sizes) + 1)]
    names = [attribute.name for attribute in schema.attributes]
    return (
        "topdown/records",
        {"histogram": schema.name, "finest": release.finest, "codes": [list(INPUT_CODES[name]) for name in names]},
        {
            "estimates": release.public(release.estimates(release.finest)),
            "spine": release.public(SPINE),
            "states": None,
            "attributes": list(zip(names, inner, sizes, strict=True)),
        },
    )
