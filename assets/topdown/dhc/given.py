"""The stages `facilities` and `redistricting`: the counts known in every place before any measurement.

The facilities of group quarters are an invariant. The redistricting data are read from their publication, like any
public file, after verifying its signature, so they cost no budget.
"""

from collections.abc import Iterator, Sequence

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from assets.conventions import StageKind, preview, public_table_metadata, table_schema
from assets.gates.shared import count_problem
from assets.publication.asset import open_current_publication
from assets.publication.tables import PublishedTables
from assets.release.contents import read_basis
from assets.release.dataset import CEF
from assets.release.method import PUBLICATION
from assets.release.seal import seal_stage
from assets.release.signature import SignedFolder, VerificationError
from assets.release.stage import COLUMN_SCHEMA, Recipes, build_stage, create_tables, release_stage, store_rows
from assets.topdown.asking import Measured, inform_levels, list_all_families, read_measured
from assets.topdown.dhc.release import FACILITIES, LINEAR, REDISTRICTING, TEXTS, DHCRelease
from assets.topdown.histograms import cut_places, read_counts
from assets.topdown.method import TopDownMethod
from assets.topdown.release import SPINE
from assets.topdown.spine import placement, read_codes, read_tree, require_current_spine
from assets.topdown.tables import register_codes
from mechanisms.refusal import RefusedError
from mechanisms.topdown.design import SCHEMAS, words
from mechanisms.topdown.dhc.householders import count_unpeopled, require_persons
from mechanisms.topdown.dhc.linear import (
    Shared,
    Told,
    find_models,
    fit_redistricting,
    fit_unions,
    share,
)
from mechanisms.topdown.dhc.persons import PERSONS, QUARTERS
from mechanisms.topdown.dhc.persons import REDISTRICTING as GROUPS
from mechanisms.topdown.dhc.quarters import count_homeless, require_facilities
from mechanisms.topdown.dhc.tree import Held
from mechanisms.topdown.schema import UNITS, Counts
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import SQL, Fragment, Zone
from resources.warehouse import UNITED, Recipe, Session, Warehouse

FACILITY_COLUMNS = {
    "number": "Number of the place within its level, as in the spine",
    "geoid": "Code of the place",
    "type": "Type of group quarters",
    "count": "Number of occupied group quarters; places and types without any are left out",
}

REDISTRICTING_COLUMNS = {
    "histogram": "Histogram of the redistricting release: persons or units",
    "number": "Number of the place within the finest level, as in the spine",
    "cell": "Number of the cell in the histogram",
    "count": "Published count",
}

_TOTALS = SQL(
    "dhc/totals", "SELECT histogram, sum(count)::BIGINT FROM {{ counts }} GROUP BY histogram ORDER BY histogram"
)


class RedistrictingError(RefusedError, ValueError):
    """The publication of redistricting data is missing, does not come from the current records, or cannot be
    completed."""


def build_facilities(release: DHCRelease) -> dg.AssetsDefinition:
    return build_stage(
        release,
        FACILITIES,
        StageKind.INVARIANTS,
        TEXTS("facilities", finest=words(release.finest)),
        [CEF, SPINE],
        lambda session: {release.public(FACILITIES): facilities_recipe(session, release)},
        FACILITY_COLUMNS,
        finish=lambda session, _: require_current_spine(session, release),
        sealed=[release.public(SPINE), release.public(FACILITIES)],
    )


def facilities_recipe(session: Session, release: DHCRelease) -> Recipe:
    values, names = placement(session, release)
    return "dhc/facilities", values, names


def build_redistricting(release: DHCRelease) -> dg.AssetsDefinition:
    @release_stage(
        release,
        REDISTRICTING,
        StageKind.POSTPROCESSING,
        TEXTS("redistricting", name=release.redistricting.name, finest=words(release.finest)),
        [release.redistricting.key(PUBLICATION), SPINE],
        kinds={"duckdb", "parquet"},
    )
    def redistricting(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        with release.adapt(warehouse).session(writes=Zone.PUBLIC) as session:
            recipes = redistricting_recipes(session, release, custody, ledger)
            table, *_ = recipes
            session.keep([table])
            with session.transaction():
                create_tables(session, recipes)
                counted = read_basis(session, custody, release.dataset, release.counted_with)
                seal_stage(session, custody, release.schema, REDISTRICTING, [table], counted)
            totals = [(name, f"{total:,}") for name, total in session.rows(_TOTALS, counts=table)]
            metadata = {
                **public_table_metadata(session, table),
                "records": preview(["histogram", "records"], totals),
                COLUMN_SCHEMA: table_schema(session.columns(table), REDISTRICTING_COLUMNS),
            }
            version = dg.DataVersion(session.content_version(list(recipes)))
        return dg.MaterializeResult(data_version=version, metadata=metadata)

    return redistricting


def redistricting_recipes(session: Session, release: DHCRelease, custody: Custody, ledger: Ledger) -> Recipes:
    """The recipes of the published counts, in a session of the public zone, and with intervals, of the linear estimates
    of counts that the DHC also measures.

    Raises RedistrictingError if the publication is missing or was altered, or comes from different records, places or
    another declaration.
    """
    before = release.redistricting
    name = f"{before.dataset.name}/{before.name}"
    try:
        signed = open_current_publication(TopDownMethod(before), session, custody, ledger)
        files = {name: pq.ParquetFile(pa.BufferReader(signed.read(f"{name}.parquet"))) for name in SCHEMAS}
    except VerificationError as error:
        raise RedistrictingError(f"{release.schema}: {error}") from None
    parts, records, due = list[Fragment](), 0, 0
    for histogram, schema in SCHEMAS.items():
        file = files[histogram]
        rows = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        counted = session.stage(
            f"redistricting_{histogram}",
            "dhc/redistricting",
            {"histogram": histogram, "finest": release.finest},
            records=session.register(f"records_of_{histogram}", rows),
            codes=register_codes(session, schema),
            attributes=[attribute.name for attribute in schema.attributes],
            spine=release.public(SPINE),
        )
        parts.append(counted)
        records += sum(total for _, total in session.rows(_TOTALS, counts=counted))
        due += file.metadata.num_rows
    if records != due:
        raise RedistrictingError(f"{release.schema}: {name} has records in places or cells that there are not here")
    counts: Recipe = UNITED, {}, {"tables": parts, "columns": list(REDISTRICTING_COLUMNS)}
    recipes = {release.public(REDISTRICTING): counts}
    if release.design.complete:
        try:
            linear = fit_published(session, release, signed)
        except VerificationError as error:
            raise RedistrictingError(f"{release.schema}: {error}") from None
        recipes[release.public(LINEAR)] = store_rows(session, LINEAR, linear)
    return recipes


def fit_published(session: Session, release: DHCRelease, signed: SignedFolder) -> pa.Table:
    """The linear estimates, in the places of all levels, of counts that both releases measure and of other counts, from
    the measurements of the redistricting data, with their covariances."""
    codes = [read_codes(session, release, level).to_pylist() for level in release.levels]
    starts = [read_tree(session, release).starts_within(release.finest, level) for level in release.levels]
    measured = read_measured(PublishedTables.of(signed))
    rows = list[pa.Table]()
    for histogram, model in find_models(release.design).items():
        fitted = _fit_levels(release, measured[histogram], share(model), codes, starts)
        for level, told in zip(release.levels, fitted, strict=True):
            places = len(told.estimate)
            lists = {name: list(own.reshape(places, -1)) for name, own in vars(told).items()}
            columns = {"histogram": pa.repeat(histogram, places), "level": pa.repeat(level, places)}
            rows.append(pa.table(columns | {"number": np.arange(places)} | lists))
    return pa.concat_tables(rows)


def _fit_levels(
    release: DHCRelease,
    measured: Measured,
    shared: Shared,
    codes: Sequence[Sequence[str]],
    starts: Sequence[NDArray[np.int64]],
) -> Iterator[Told]:
    """By level, the linear estimates of the counts from the measurements, given the codes of the places and the first
    finest place of each."""
    before, families = release.redistricting, list_all_families(measured)
    informed = inform_levels(families)
    wanted = families, informed, shared.counted, len(shared.sums)
    fitted = dict(zip(before.levels, fit_redistricting(*wanted), strict=True))
    position = {level: {code: number for number, code in enumerate(own)} for level, own in measured.codes.items()}
    finest = np.array([position[before.finest][code] for code in codes[-1]])
    same = {code: level for level, code in before.spine.items()}

    for level, own, begins in zip(release.levels, codes, starts, strict=True):
        if other := same.get(release.spine[level]):
            # The root's code is the name of its level.
            chosen = [position[other][code] for code in (own if other != before.levels[0] else [other])]
            yield fitted[other].take(np.array(chosen))
        else:
            yield fit_unions(*wanted, np.split(finest, begins[1:-1]))


def read_redistricting(session: Session, release: DHCRelease, histogram: str, first: int, last: int) -> Counts:
    """The published counts of a histogram of the redistricting release in the finest places from `first` up to `last`,
    renumbered from 0."""
    table, size = release.public(REDISTRICTING), SCHEMAS[histogram].size
    return read_counts(session, table, size, first, last, histogram=histogram).shift(-first)


def read_persons(session: Session, release: DHCRelease, first: int, last: int) -> Held:
    """Published persons by finest place and group, in the places as in `read_redistricting`."""
    return Held(read_redistricting(session, release, "persons", first, last), PERSONS.marginal(GROUPS).size)


def read_facilities(session: Session, release: DHCRelease, places: int, first: int = 0) -> NDArray[np.int64]:
    """The facilities of the `places` finest places from `first`, shape (places, 24). Raises GridError, in which a cell
    is the position of a type."""
    positions = pa.table({"type": list(map(str, QUARTERS)), "cell": np.arange(len(QUARTERS))})
    names = {"facilities": release.public(FACILITIES), "types": session.register("types_of_quarters", positions)}
    values = {"first": first, "last": first + places}
    facilities = session.stage(FACILITIES, "dhc/facilities_by_cell", values, **names)
    counts = read_counts(session, facilities, len(QUARTERS), **values)
    found = np.zeros((places, len(QUARTERS)), dtype=np.int64)
    found[counts.number - first, counts.cell] = counts.count
    return found


def read_units(session: Session, release: DHCRelease, places: int, first: int = 0) -> NDArray[np.int64]:
    """The known units of the `places` finest places from `first`: published occupied and vacant units, and facilities
    by type, shape (places, 26)."""
    counts = read_redistricting(session, release, UNITS.name, first, first + places)
    occupancy = np.zeros((places, 2), dtype=np.int64)
    occupancy[counts.number, counts.cell] = counts.count
    return np.concatenate([occupancy, read_facilities(session, release, places, first)], axis=1)


def read_given(
    session: Session, release: DHCRelease, first: int, last: int
) -> Iterator[tuple[tuple[int, int], Held, NDArray[np.int64]]]:
    """The finest places from `first` up to `last` in batches: the first place and the place after the last, with the
    results of `read_persons` and `read_units`."""
    for own in cut_places(session, release.public(REDISTRICTING), first, last, histogram="persons"):
        yield own, read_persons(session, release, *own), read_units(session, release, own[1] - own[0], own[0])


def require_feasible(session: Session, release: DHCRelease, places: int) -> None:
    """Refuse counts that cannot be completed, before the charge. Raises QuartersError, HouseholdersError and
    RedistrictingError with the number of blocks."""
    group = PERSONS.marginal(GROUPS)
    possible = np.bincount(group.find(np.flatnonzero(PERSONS.possible)), minlength=group.size) > 0
    impossible, homeless, unpeopled = 0, 0, 0
    for _, persons, units in read_given(session, release, 0, places):
        impossible += len(np.unique(persons.counts.number[~possible[persons.counts.cell]]))
        homeless += count_homeless(persons, units[:, 2:])
        unpeopled += count_unpeopled(persons, units[:, 0])
    if wrong := count_problem(impossible, "places with impossible persons"):
        raise RedistrictingError(f"{release.schema}: {release.redistricting.name}: {wrong[0]}")
    require_facilities(homeless)
    if release.design.householders_among_persons:
        require_persons(unpeopled)
