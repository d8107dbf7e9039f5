"""The whole of SafeTab-P and SafeTab-H without noise, from records to files, against the oracle of the tests.

Noise that is always 0 takes the place of the draw's. A chance of suppression of 1/2 gives the cut-off 0, as in the
specification of an algorithm without noise.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from assets.publication.package import write_data_files
from assets.release.dataset import DatasetDeclaration
from assets.release.release import Release
from assets.safetab import measurements
from assets.safetab.counting import regions_recipe
from assets.safetab.declaration import SafeTabHDeclaration, SafeTabPDeclaration
from assets.safetab.household_method import SafeTabHMethod, groups_recipe
from assets.safetab.method import SafeTabPMethod
from assets.safetab.release import COUNTS, GROUPS, REGIONS, SafeTabHRelease, SafeTabPRelease
from assets.safetab.tables import household_products, household_table_recipes, person_products, person_table_recipes
from mechanisms.noise import Noise
from mechanisms.safetab.design import SafeTabHDesign, SafeTabPDesign
from mechanisms.safetab.lists import CodeLists, RegionType
from mechanisms.sampling.quantiles import half_width
from resources.statements import Table, Zone
from resources.warehouse import Recipe, Session, Warehouse
from tests.assets.safetab import examples, oracle
from tests.assets.safetab.oracle import Block, Configuration, Household, Lists, Person
from tests.depth import deep_cases
from tests.depth import examples as examples_tried

Row = tuple[str | int, ...]


class NoNoise:
    """Noise that is always 0."""

    def of_next(self, query: str, count: int) -> NDArray[np.int64]:
        return np.zeros(count, dtype=np.int64)

    def of_group(self, query: str, region_id: str, iteration_code: str, count: int) -> NDArray[np.int64]:
        return np.zeros(count, dtype=np.int64)


def releases(
    dataset: DatasetDeclaration, configuration: Configuration, lists: CodeLists, negative_counts: bool
) -> tuple[SafeTabPRelease, SafeTabHRelease]:
    """Both releases as a configuration of the oracle declares them."""
    runs = {"PR" if state == "72" else "US" for state in configuration.states}
    pairs = [(RegionType(kind), level) for kind, level in oracle.PAIRS if RegionType(kind).run in runs]

    def budgets(measured: frozenset[tuple[str, int]]) -> dict[Any, Fraction]:
        return {pair: Fraction(1) for pair in pairs if (pair[0].value, pair[1]) in measured}

    def thresholds(given: Mapping[tuple[str, int], Any]) -> dict[Any, tuple[int, ...]]:
        return {
            (RegionType(kind), level): (each,) if isinstance(each, int) else tuple(each)
            for (kind, level), each in given.items()
        }

    def by_line(**families: Mapping[Any, Any]) -> dict[Any, Any]:
        return {(*pair, family): value for family, values in families.items() for pair, value in values.items()}

    shared: dict[str, Any] = {
        "states": tuple(sorted(configuration.states)),
        "noise": Noise.GAUSSIAN,
        "stabilities": {pair: lists.stability(*pair, configuration.max_race_codes) for pair in pairs},
        "negative_counts": negative_counts,
        "max_race_codes": configuration.max_race_codes,
    }
    named = {"dataset": dataset.name, "title": "Detailed groups"}
    fields: dict[str, Any] = {"dataset": dataset, "published": Path("published"), "lists": lists}
    persons = SafeTabPRelease(
        declaration=SafeTabPDeclaration(name="a", states=["01"], **named),
        design=SafeTabPDesign(
            budgets=budgets(configuration.p),
            thresholds=thresholds(configuration.p_thresholds),
            zero_suppression_chance=Fraction(1, 2) if configuration.suppression else Fraction(0),
            **shared,
        ),
        **fields,
    )
    of_households = SafeTabHDesign(
        budgets=by_line(T3=budgets(configuration.t3), T4=budgets(configuration.t4)),
        thresholds=by_line(T3=thresholds(configuration.t3_thresholds), T4=thresholds(configuration.t4_thresholds)),
        **shared,
    )
    declaration = SafeTabHDeclaration(name="b", detail="a", **named)
    return persons, SafeTabHRelease(declaration=declaration, design=of_households, detail=persons, **fields)


def measured_somewhere(configuration: Configuration, measured: frozenset[tuple[str, int]]) -> bool:
    """Whether a run of the configuration's states measures anything."""
    runs = {"PR" if state == "72" else "US" for state in configuration.states}
    return any(RegionType(kind).run in runs for kind, _ in measured)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return Warehouse(folder=str(tmp_path_factory.mktemp("warehouse")), threads=2)


def make(session: Session, recipes: Mapping[Table, Recipe]) -> None:
    """Make tables by their recipes."""
    for table, (name, values, names) in recipes.items():
        session.create(table, name, values, **names)


def files_of(session: Session, folder: Path, tables: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """The published files of tables in the production layout: name and text, with rows sorted."""
    production = [table for table in tables if table.delimiter == "|"]
    write_data_files(session, folder, production)
    for table in production:
        header, *rows = (folder / f"{table.name}.csv").read_text().splitlines()
        yield table.name, "".join(f"{line}\n" for line in (header, *sorted(rows)))


def check_whole(
    warehouse: Warehouse,
    folder: Path,
    dataset: DatasetDeclaration,
    lists: Lists,
    configuration: Configuration,
    blocks: Sequence[Block],
    persons: Sequence[Person],
    of_households: Sequence[Household],
) -> None:
    """Compare every file in the production layout with the oracle's, to the byte."""
    p, h = releases(dataset, configuration, examples.code_lists(lists), negative_counts=True)
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        examples.write_files(session, dataset, blocks, persons, of_households)
        make(session, {p.confidential(COUNTS): SafeTabPMethod(p).counts_recipe(session)})
    with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC, folder=folder) as session:
        make(session, {p.public(REGIONS): regions_recipe(session, p)})
        drawn = list(measurements.measure_batches(session, p, NoNoise()))
        measurements.write_measurements(session, p, iter(drawn))
        stored = list(measurements.read_stored_batches(session, p))
        assert joined(drawn, p) == joined(stored, p) == joined(measurements.read_exact_batches(session, p), p)
        make(session, person_table_recipes(session, p))
        expected = oracle.safetab_p(persons, blocks, lists, configuration)
        assert dict(files_of(session, folder, person_products(p))) == {
            name: oracle.text(name, rows) for name, rows in expected.items()
        }
        check_errors(session, p, lists)
        totals = session.arrow("warehouse/all", source=p.public("t1"))
        make(session, {h.public(GROUPS): groups_recipe(session, h, totals)})
    with warehouse.session(reads=[Zone.PUBLIC], writes=Zone.CONFIDENTIAL) as session:
        method = SafeTabHMethod(h)
        make(session, {h.confidential(COUNTS): method.counts_recipe(session)})
    with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC, folder=folder) as session:
        method.store(session, method.exact(session))
        exact = [batch.values.tolist() for batch in method.exact(session)]
        assert [batch.values.tolist() for batch in method.stored(session)] == exact
        make(session, household_table_recipes(session, h))
        found = dict(files_of(session, folder, household_products(h)))
        of_h = oracle.safetab_h(of_households, blocks, lists, configuration, expected["t1"])
        assert found == {name.lower(): oracle.text(name, rows) for name, rows in of_h.items() if name.lower() in found}
        assert all(name.lower() in found for name, rows in of_h.items() if rows)


REGION_NAMES = {("USA", "1"): "Nation", ("STATE", "01"): examples.PLACE_NAMES["01"], ("STATE", "02"): "Alaska"}


def check_errors(session: Session, release: SafeTabPRelease, lists: Lists) -> None:
    """Compare the tables in words with T1 and T2, their errors with the noise of the summed cells, and the names of
    regions with the declared ones.

    Wrong programs: one that calls a region of another country Alabama, or its nation the United States; one that takes
    a place's name `1` for the nation's, or repeats its rows.
    """
    rows = {name: session.rows("warehouse/all", source=release.public(name)) for name in ("t1", "t2")}
    sizes = Counter(row[:3] for row in rows["t2"] if row[3] != "*")
    measured = {(each.region_type.value, each.level): each for each in release.design.measured}
    total = {row[:3]: row[3] for row in rows["t1"]}
    for row in session.arrow("warehouse/all", source=release.public("total_population")).to_pylist():
        group = (row["region_id"], row["region_type"], row["iteration_code"])
        each, iteration = measured[row["region_type"], row["level"]], lists.iterations[row["iteration_code"]]
        only = iteration.detailed_only and each.region_type.detailed
        noise, added = (each.total_only, 1) if only else (each.stage_2, sizes[group] or 1)
        check_row(row, total.pop(group), noise, added)
        name = REGION_NAMES.get((row["region_type"], row["region_id"]))
        assert name in (row["region"], None)
    assert not total
    cells = {(*row[:3], f"{row[3]} to {row[4]}" if row[3] != row[4] else row[3], row[5]): row[6] for row in rows["t2"]}
    for row in session.arrow("warehouse/all", source=release.public("sex_by_age")).to_pylist():
        group = (row["region_id"], row["region_type"], row["iteration_code"])
        margin = row["age"] == "All ages"
        count = cells.pop((*group, "*" if margin else row["age"], row["sex"]))
        noise = measured[row["region_type"], row["level"]].stage_2
        check_row(row, count, noise, sizes[group] // 2 if margin else 1)
    assert not cells


def check_row(row: Mapping[str, Any], count: int, noise: Any, added: int) -> None:
    """The estimate is the count, its error that of a sum of noises, and its interval the least that covers 90%."""
    half = half_width(noise, added, Fraction(9, 10))
    assert row["estimate"] == count
    assert float(row["standard_error"]) == pytest.approx((added * float(noise.exact_variance)) ** 0.5, abs=1e-4)
    assert (row["lower"], row["upper"]) == (count - half, count + half)


def joined(batches: Iterator[Any] | Sequence[Any], release: Release) -> dict[str, list[list[int]]]:
    """The rows of all batches, by query."""
    rows: dict[str, list[list[int]]] = {}
    for batch in batches:
        rows.setdefault(batch.query, []).extend(batch.values.tolist())
    return {query: found for query, found in rows.items() if found}


@pytest.mark.deep
@deep_cases(1)
@pytest.mark.parametrize("suppression", [True, False])
def test_the_files_of_a_town_without_noise_are_the_oracles_to_the_byte(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suppression: bool
) -> None:
    """Both runs, every line, groups of every detail, areas that cross states, and many blocks of a line."""
    monkeypatch.setattr(measurements, "GROUPS_AT_A_TIME", 150)
    lists = examples.toy_lists()
    town = examples.town(4, 600, lists)
    thresholds: dict[tuple[str, int], tuple[int, int, int]] = dict.fromkeys(oracle.PAIRS, (8, 20, 60))
    configuration = Configuration(
        states=("01", "02", "44", "72"),
        p_thresholds=thresholds,
        t3_thresholds=thresholds,
        t4_thresholds=dict.fromkeys(oracle.PAIRS, 8),
        suppression=suppression,
    )
    check_whole(
        warehouse, tmp_path, examples.of_files(), lists, configuration, town.blocks, town.persons, town.households
    )


@pytest.mark.prove
@settings(
    max_examples=examples_tried(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(data=st.data())
def test_files_without_noise_are_the_oracles_to_the_byte(
    warehouse: Warehouse, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    configuration, lists = data.draw(examples.configurations()), data.draw(examples.lists())
    assume(measured_somewhere(configuration, configuration.p))
    assume(measured_somewhere(configuration, configuration.t3 | configuration.t4))
    blocks = data.draw(examples.BLOCKS)
    assume(any(block.TABBLKST in configuration.states for block in blocks))
    people, homes = data.draw(examples.persons(blocks)), data.draw(examples.households(blocks))
    folder = tmp_path_factory.mktemp("files")
    check_whole(warehouse, folder, examples.of_files(), lists, configuration, blocks, people, homes)
