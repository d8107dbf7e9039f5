"""Full estimation from stored measurements: information up the tree, persons down it, then units that agree."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from assets.release.draw import StaleInputError
from assets.topdown import measurements, reading, sums
from assets.topdown.estimation import estimate_level, find_wrong_levels, keep_states, read_spreads, unite_states
from assets.topdown.information import Account, hash_regions, make_information
from assets.topdown.intervals import COLUMNS, are_intervals_as_made, interval_tables, make_intervals, make_linear
from assets.topdown.invariants import derive_all_limits
from assets.topdown.measurements import Digests, Part, group_parts, read_part, read_streams
from assets.topdown.reading import Scope, information_table, list_scopes
from assets.topdown.records import store_records
from assets.topdown.release import TopDownRelease
from assets.topdown.spine import read_states, read_tree
from assets.topdown.sums import (
    SCHEMA,
    Adding,
    Summed,
    SumsAccount,
    find_summed,
    read_sums_account,
    store_sums,
    sums_tables,
)
from mechanisms.sampling.noise import Noise
from mechanisms.topdown.decomposition import Decomposition
from mechanisms.topdown.design import LEAST_SPREAD, MECHANISM, SCHEMAS
from mechanisms.topdown.information import Kinds, descend, finish_root, inform_finest, prepare_sums, sum_cells
from mechanisms.topdown.redistricting import REDISTRICTING
from mechanisms.topdown.replicates import Census, estimate_finest, roll_up
from mechanisms.topdown.schema import DETAILED, HOUSEHOLDS, OCCUPIED, PERSONS, Counts, Sums
from resources.parts import open_part
from resources.statements import SQL, Fragment, Table, Zone, quote
from resources.warehouse import Session, Warehouse
from tests.assets.topdown.table_oracle import (
    Country,
    custody_of,
    estimated,
    release_of,
    village,
    write_invariants,
    write_measurements,
    write_spine,
)
from tests.assets.topdown.test_estimation import broken, require_constraints
from tests.depth import deep_cases
from tests.packing import with_packing
from tests.topdown_deployments import redeclared

KEY = bytes(range(32))


def quiet(*_: Any) -> None:
    pass


def lived_in(country: Country) -> Country:
    """The country without occupied units that have no persons, and with a place that has persons and a single unit."""
    units = country.histograms["units"].copy()
    persons = PERSONS.groups.answer(country.histograms["persons"])[:, HOUSEHOLDS]
    units[:, OCCUPIED] = np.minimum(units[:, OCCUPIED], persons)
    return replace(country, histograms=country.histograms | {"units": units})


def measured(folder: Path, release: TopDownRelease, country: Country) -> Warehouse:
    noise = Noise(MECHANISM, {each.label: each.noise for each in release.design.measured}, KEY)
    warehouse = Warehouse(folder=str(folder), threads=1)
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        write_spine(session, release, country)
        write_invariants(session, release, country)
        write_measurements(session, release, country, drawn=noise)
    return warehouse


def estimate_all(warehouse: Warehouse, release: TopDownRelease) -> None:
    inform(warehouse, release)
    estimate_informed(warehouse, release)


def inform(
    warehouse: Warehouse, release: TopDownRelease, report: Callable[[str], None] = lambda line: None
) -> list[Account]:
    """Make all information; with partitions, the last state first."""
    accounts = list[Account]()
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        states = read_states(session, release) if release.informs_by_state else []
    for state in [*reversed(states), ""]:
        accounts += make_information(warehouse, custody_of(warehouse), release, report, state).values()
    return accounts


def rows_of_intervals(warehouse: Warehouse, release: TopDownRelease) -> list[list[dict[str, Any]]]:
    """The rows of all tables of intervals, which are made; with partitions, the last state first."""
    custody, states = custody_of(warehouse), list[str]()
    if release.has_intervals_by_state:
        make_linear(warehouse, custody, release)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            states = read_states(session, release)
    for state in [*reversed(states), ""]:
        make_intervals(warehouse, custody, release, state)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert are_intervals_as_made(session, custody, release)
        return [session.arrow("warehouse/all", source=table).to_pylist() for table in interval_tables(release)]


def estimate_informed(warehouse: Warehouse, release: TopDownRelease) -> None:
    custody = custody_of(warehouse)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        scopes = list_scopes(release, read_states(session, release))
    for scope in scopes:
        estimate_level(warehouse, custody, release, scope, quiet)
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        unite_states(session, custody, release)


def found(warehouse: Warehouse, release: TopDownRelease) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    return {level: estimated(warehouse, release, level) for level in release.levels}


def sparse(histograms: np.ndarray[Any, Any]) -> Counts:
    number, cell = np.nonzero(histograms)
    return Counts(number, cell, histograms[number, cell])


@dataclass(frozen=True)
class Full:
    country: Country
    release: TopDownRelease
    warehouse: Warehouse

    def problems(self) -> tuple[str, ...]:
        with self.warehouse.session(reads=[Zone.PUBLIC]) as session:
            return tuple(map(str, find_wrong_levels(session, custody_of(self.warehouse), self.release)[0]))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Full:
    """A village, estimated in full in one process; no test may change it."""
    country = lived_in(village(seed=3))
    release = release_of(country, types_first="State")
    warehouse = measured(tmp_path_factory.mktemp("full"), release, country)
    estimate_all(warehouse, release)
    return Full(country, release, warehouse)


@pytest.mark.deep
def test_constraints_are_exact_and_units_agree_with_persons(full: Full) -> None:
    """Wrong programs: units estimated apart, or within bounds of the finest level alone."""
    require_constraints(full.warehouse, full.country, full.release)
    assert broken(full.warehouse, full.release) == {}
    assert full.problems() == ()
    blocks = estimated(full.warehouse, full.release, "Block")
    persons, units = PERSONS.groups.answer(blocks["persons"])[:, HOUSEHOLDS], blocks["units"][:, OCCUPIED]
    assert np.all((units > 0) == (persons > 0))
    assert np.all(units <= persons)


@pytest.mark.deep
def test_intervals_are_those_of_the_measurements(full: Full) -> None:
    """As computed in memory from all levels at once. Wrong programs: parents of another state, cells of another table,
    structural zeros left out."""
    make_intervals(full.warehouse, custody_of(full.warehouse), full.release)
    design, country = full.release.design, full.country
    with full.warehouse.session(reads=[Zone.PUBLIC]) as session:
        limits = derive_all_limits(session, full.release)["persons"]
        assert are_intervals_as_made(session, custody_of(full.warehouse), full.release)
        rows = session.arrow("warehouse/all", source=interval_tables(full.release)[0]).to_pandas()
    noise = Noise(MECHANISM, {each.label: each.noise for each in design.measured}, KEY)
    exact = roll_up(sparse(country.truth("persons", "Block")), country.parents, PERSONS.size)
    census = Census(design, PERSONS, country.parents, exact, limits)
    informed = [own for own in census.inform(noise.from_the_beginning()) if own is not None]
    families = [
        census.take(depth, 0, len(informed[max(depth - 1, 0)].present), noise, own)
        for depth, own in enumerate([*informed, None])
    ]
    informed.append(inform_finest(families[-1]))
    linear, cells = finish_root(informed[0], families[0]), REDISTRICTING["P1"].cells
    counted, covered = np.array([cell.counted for cell in cells]), []
    for depth, level in enumerate(full.release.levels):
        linear = descend(linear, families[depth], informed[depth]) if depth else linear
        estimate, _ = sum_cells(prepare_sums(Decomposition(PERSONS), counted), linear)
        own, sums = rows[rows.level == level], Sums(counted)
        assert len(own) == country.places(level)
        stored, lower, upper = (np.array(own[name].tolist(), dtype=float) for name in COLUMNS)
        assert np.abs(stored - estimate).max() <= 0.005 + 1e-9
        truth = sums.of(exact[depth], 0, len(estimate))
        covered += list(((lower <= truth) & (truth <= upper)).ravel())
    assert np.mean(covered) > 0.85


def test_exact_counts_with_the_noise_of_the_draw_give_the_estimates_of_the_release(full: Full) -> None:
    """Wrong program: a replicate whose levels are estimated from other noise than their information."""
    with full.warehouse.session(reads=[Zone.PUBLIC]) as session:
        limits = derive_all_limits(session, full.release)
    design, country = full.release.design, full.country
    noise = Noise(MECHANISM, {each.label: each.noise for each in design.measured}, KEY)
    truth = {name: sparse(country.truth(name, full.release.finest)) for name in SCHEMAS}
    again = estimate_finest(design, country.parents, truth, limits, noise)
    for name, stored in estimated(full.warehouse, full.release, full.release.finest).items():
        counts = again[name].answer(SCHEMAS[name].marginal(DETAILED), 0, len(stored))
        assert np.array_equal(counts, stored), name


@pytest.mark.prove
def test_blocks_lean_on_their_housing_units(full: Full, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State by state, in tasks of one family, as a replicate does in memory; everything above the blocks stays. Wrong
    programs: one τ² for the nation, none for a replicate, or τ² from the first task alone; the option is missing from
    the recorded inputs of estimates, so that they stay when it is declared."""
    monkeypatch.setattr(reading, "PLACES_OF_A_TASK", 1)
    without = redeclared(release_of(full.country, types_first="State", rho=Fraction(1, 4)), partitions="state")
    release = replace(without, design=replace(without.design, lean_on_housing_units=True))
    warehouse = measured(tmp_path, release, full.country)
    estimate_all(warehouse, without)
    before = found(warehouse, without)
    leaning, custody = replace(full, release=release, warehouse=warehouse), custody_of(warehouse)
    assert leaning.problems() == ("persons of Block in S000", "persons of Block in S001")
    estimate_all(warehouse, release)
    assert leaning.problems() == ()
    assert broken(warehouse, release) == {}
    again = found(warehouse, release)
    assert all(np.array_equal(again[level]["persons"], before[level]["persons"]) for level in release.levels[:-1])
    assert not np.array_equal(again["Block"]["persons"], before["Block"]["persons"])
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        limits, spreads = derive_all_limits(session, release), read_spreads(session, custody, release)
    assert list(spreads) == ["S000", "S001"]
    assert LEAST_SPREAD < spreads["S000"] != spreads["S001"] > LEAST_SPREAD
    noise = Noise(MECHANISM, {each.label: each.noise for each in release.design.measured}, KEY)
    truth = {name: sparse(full.country.truth(name, release.finest)) for name in SCHEMAS}
    replicate = estimate_finest(release.design, full.country.parents, truth, limits, noise)
    for name, stored in again["Block"].items():
        counts = replicate[name].answer(SCHEMAS[name].marginal(DETAILED), 0, len(stored))
        assert np.array_equal(counts, stored), name


@pytest.mark.prove
def test_states_and_processes_make_no_difference(full: Full, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State by state in four processes, or all in one. Wrong programs: information or units that depend on how places
    are divided into tasks, parts or runs, or on which task ends first."""
    monkeypatch.setattr(reading, "PLACES_AT_A_TIME", 3)
    monkeypatch.setattr(reading, "PLACES_OF_A_TASK", 1)
    release = redeclared(full.release, partitions="state", processes=4)
    warehouse = measured(tmp_path, release, full.country)
    estimate_all(warehouse, release)
    for level, own in found(full.warehouse, full.release).items():
        for histogram, counts in estimated(warehouse, release, level).items():
            assert np.array_equal(counts, own[histogram]), (level, histogram)
    assert rows_of_intervals(warehouse, release) == rows_of_intervals(full.warehouse, full.release)
    contents = []
    for each in (full, replace(full, release=release, warehouse=warehouse)):
        assert each.problems() == ()
        contents.append(sorted(account.content for account in inform(each.warehouse, each.release)))
    assert contents[0] == contents[1]


@pytest.fixture
def copied(full: Full, tmp_path: Path) -> Full:
    folder = shutil.copytree(full.warehouse.folder, tmp_path / "copied")
    return replace(full, warehouse=Warehouse(folder=str(folder), threads=1))


def alter(full: Full, number: int, more: int) -> None:
    """Change one answer of a block, in a query of persons."""
    table = measurements.measurements_table(full.release, "S000" if full.release.informs_by_state else "")
    with with_packing(duckdb.connect(str(full.warehouse.path(Zone.PUBLIC)))) as connection:
        connection.execute(
            f'UPDATE "{table.schema}"."{table.name}" SET answers = packed(list_prepend(unpacked(answers)[1] + $more, '
            "unpacked(answers)[2:])) WHERE histogram = 'persons' AND level = 'Block' AND query = 'hhgq' "
            "AND number = $number",
            {"more": more, "number": number},
        )


@deep_cases(1)
@pytest.mark.prove
@pytest.mark.parametrize("partitions", [None, "state"])
def test_an_answer_of_a_block_that_was_altered_is_noticed_above_it(
    full: Full, tmp_path: Path, partitions: str | None
) -> None:
    """The answer was altered only while `information` read it. Wrong programs: do not compare the answers behind the
    information with those behind the blocks' estimates; refuse only the blocks, which were made of the right answer,
    and not the information made of the altered one; or keep refused information when it is made again, because it is of
    the same draw."""
    release = redeclared(full.release, partitions=partitions)
    warehouse = measured(tmp_path, release, full.country)
    other, remade = replace(full, release=release, warehouse=warehouse), list[str]()
    alter(other, 0, 40)
    inform(warehouse, release)
    alter(other, 0, -40)
    estimate_informed(warehouse, release)
    refused = [f"information of {places}" for places in ("County in S000", "State", "Nation")]
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        levels = [str(scope) for scope in list_scopes(release, read_states(session, release))]
    assert other.problems() == (*refused, *levels)
    assert not np.array_equal(
        estimated(warehouse, release, "County")["persons"],
        estimated(full.warehouse, full.release, "County")["persons"],
    )
    inform(warehouse, release, remade.append)
    assert [places for places, _ in (each.split(": ") for each in remade)] == refused
    estimate_informed(warehouse, release)
    assert other.problems() == ()
    for level, own in found(full.warehouse, full.release).items():
        for histogram, counts in estimated(warehouse, release, level).items():
            assert np.array_equal(counts, own[histogram]), (level, histogram)


@pytest.mark.prove
def test_information_above_states_needs_that_of_every_state_and_this_draw(full: Full, tmp_path: Path) -> None:
    """Wrong programs: information of the states that are there, of an earlier draw, or of altered accounts."""
    release = redeclared(full.release, partitions="state")
    warehouse = measured(tmp_path, release, full.country)
    custody = custody_of(warehouse)
    make_information(warehouse, custody, release, quiet, "S000")
    with pytest.raises(StaleInputError, match=r"below 1 states is missing, or not that .* \(S001\); materialize"):
        make_information(warehouse, custody, release, quiet)
    made = inform(warehouse, release)
    assert [account.places for account in inform(warehouse, release)] == [account.places for account in made]
    with warehouse.session(writes=Zone.PUBLIC) as session:
        account = release.public("information__S000")
        session.run(SQL("test/alter", "UPDATE {{ account }} SET places = places + 1"), account=account)
    with pytest.raises(StaleInputError, match=r"\(S000\)"):
        make_information(warehouse, custody, release, quiet)
    make_information(warehouse, custody, release, quiet, "S000")
    with warehouse.session(writes=Zone.PUBLIC) as session:
        write_measurements(session, release, full.country, seed=1, draw="two")
    with pytest.raises(StaleInputError, match=r"below 2 states .* \(S000, S001\)"):
        make_information(warehouse, custody, release, quiet)


@pytest.mark.prove
def test_intervals_of_missing_exchanged_and_altered_states_are_refused(full: Full, tmp_path: Path) -> None:
    """Wrong programs: a view over some states, a seal that two states share, a table in place of the view, and linear
    estimates that were altered."""
    release = redeclared(full.release, partitions="state")
    warehouse = measured(tmp_path, release, full.country)
    inform(warehouse, release)
    custody, linear = custody_of(warehouse), release.public("linear_estimates")
    with pytest.raises(StaleInputError, match="materialize linear_estimates first"):
        make_intervals(warehouse, custody, release, "S000")
    make_linear(warehouse, custody, release)
    make_intervals(warehouse, custody, release, "S000")
    with pytest.raises(StaleInputError, match=r"tables of intervals are missing \(p1_intervals__S001\); materialize"):
        make_intervals(warehouse, custody, release)
    rows_of_intervals(warehouse, release)

    def is_as_made(*statements: str) -> bool:
        with duckdb.connect(str(warehouse.path(Zone.PUBLIC))) as connection:
            connection.execute(f"USE public.{release.schema}")
            for statement in statements:
                connection.execute(statement)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            return are_intervals_as_made(session, custody, release)

    def exchange(one: str, other: str) -> list[str]:
        pairs = (one, "aside"), (other, one), ("aside", other)
        return [f'ALTER TABLE "{old}" RENAME TO "{now}"' for old, now in pairs]

    exchanged = exchange("p1_intervals__S000", "p1_intervals__S001")
    assert not is_as_made(*exchanged)
    assert is_as_made(*exchanged)
    assert not is_as_made("UPDATE \"p1_intervals__S001\" SET geoid = geoid || 'x' WHERE level = 'Block'")
    make_intervals(warehouse, custody, release, "S001")
    assert is_as_made()
    assert not is_as_made("DROP VIEW p1_intervals", "CREATE TABLE p1_intervals AS FROM p1_intervals__S000")
    make_intervals(warehouse, custody, release)
    assert is_as_made()
    with warehouse.session(writes=Zone.PUBLIC) as session:
        session.run(SQL("test/alter", "UPDATE {{ table }} SET most = list_reverse(most)"), table=linear)
    with pytest.raises(StaleInputError, match="materialize linear_estimates first"):
        make_intervals(warehouse, custody, release, "S000")


@pytest.mark.prove
def test_the_run_of_a_state_needs_no_table_of_another_one(full: Full, tmp_path: Path) -> None:
    """The work of a state does not grow with the number of states. Only the join of the states needs all of them. Wrong
    programs: the run of one state reads accounts of all states, or a view over the measurements of all states; or the
    join believes that view."""
    release = redeclared(full.release, partitions="state")
    warehouse = measured(tmp_path, release, full.country)
    custody, other = custody_of(warehouse), replace(full, release=release, warehouse=warehouse)
    estimate_all(warehouse, release)
    rows_of_intervals(warehouse, release)
    scopes = [scope for scope in list_scopes(release, ["S000"]) if scope.state]
    own = [*(scope.table(release) for scope in scopes), release.public("p1_intervals__S000")]

    def list_contents() -> list[str]:
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            return [session.content_version([table]) for table in own]

    contents = list_contents()
    with warehouse.session(writes=Zone.PUBLIC) as session:
        drop_parts(session, release, "S001", "1")
        drop_parts(session, release, "S000", "0", kept=measurements.MEASUREMENTS)
        session.drop(release.public(measurements.MEASUREMENTS))
    make_information(warehouse, custody, release, quiet, "S000")
    for scope in scopes:
        estimate_level(warehouse, custody, release, scope, quiet)
    make_intervals(warehouse, custody, release, "S000")
    with warehouse.session(writes=Zone.PUBLIC) as session:
        store_records(session, custody, release, "S000")
    assert list_contents() == contents
    with warehouse.session(writes=Zone.PUBLIC) as session, pytest.raises(StaleInputError):
        unite_states(session, custody, release)
    with pytest.raises(StaleInputError, match=r"below 1 states .* \(S001\)"):
        make_information(warehouse, custody, release, quiet)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert not are_intervals_as_made(session, custody, release)
    with pytest.raises(StaleInputError, match="information is not that of the stored measurements"):
        make_intervals(warehouse, custody, release, "S001")
    write_again(other)
    assert "information of State" in other.problems()


def drop_parts(session: Session, release: TopDownRelease, *endings: str, kept: str = "-") -> None:
    """Drop the tables of a state, whose names end with its code or its number, and their accounts and seals."""
    for name, is_view in session.tables(Zone.PUBLIC, release.schema).items():
        of = name.removesuffix("_seal").removesuffix("_made").rpartition("__")
        if not is_view and of[2] in endings and of[0] != kept:
            session.drop(release.public(name))


def write_again(full: Full) -> None:
    """Write the measurements of the draw again."""
    noise = Noise(MECHANISM, {each.label: each.noise for each in full.release.design.measured}, KEY)
    with full.warehouse.session(writes=Zone.PUBLIC) as session:
        write_measurements(session, full.release, full.country, drawn=noise)


def put(warehouse: Warehouse, tables: Sequence[Table], contents: Sequence[pa.Table]) -> list[pa.Table]:
    """Put other contents in the place of tables; return theirs."""
    with warehouse.session(writes=Zone.PUBLIC) as session:
        before = [session.arrow("warehouse/all", source=table) for table in tables]
        for table, content in zip(tables, contents, strict=False):
            session.create(table, "warehouse/all", source=session.register("put", content))
    return before


@pytest.mark.prove
def test_what_a_state_is_made_of_is_not_exchanged_for_what_was_sealed_before(full: Full, tmp_path: Path) -> None:
    """Tables with their own seals, put back while intervals are made. Wrong programs: take the information of the
    states and above whatever its draw; leave a state's own account out of the seal of its intervals, because the levels
    above follow from it."""
    release = redeclared(full.release, partitions="state")
    warehouse = measured(tmp_path, release, full.country)
    custody, other = custody_of(warehouse), replace(full, release=release, warehouse=warehouse)
    below = [
        information_table(release, "County", 0),
        *map(release.public, ("information__S000", "information__S000_seal")),
    ]
    alter(other, 0, 40)
    make_information(warehouse, custody, release, quiet, "S000")
    altered = put(warehouse, below, [])
    alter(other, 0, -40)
    inform(warehouse, release)
    rows_of_intervals(warehouse, release)
    kept = put(warehouse, below, altered)
    alter(other, 0, 40)
    make_intervals(warehouse, custody, release, "S000")
    alter(other, 0, -40)
    put(warehouse, below, kept)

    def is_as_made() -> bool:
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            return are_intervals_as_made(session, custody, release)

    assert not is_as_made()
    make_intervals(warehouse, custody, release, "S000")
    assert is_as_made()
    above = [release.public(f"{name}{seal}") for name in ("information", "linear_estimates") for seal in ("", "_seal")]
    before = put(warehouse, above, [])
    with warehouse.session(writes=Zone.PUBLIC) as session:
        write_measurements(session, release, full.country, seed=1, draw="two")
    inform(warehouse, release)
    make_linear(warehouse, custody, release)
    put(warehouse, above, before)
    with pytest.raises(StaleInputError, match="information is not that of the stored measurements"):
        make_intervals(warehouse, custody, release, "S000")


def test_intervals_are_not_made_from_altered_answers(copied: Full) -> None:
    """Wrong program: compares the blocks' answers with the draw's only where estimates read them, so that intervals of
    other answers stay once they are restored."""
    alter(copied, 0, 40)
    with pytest.raises(StaleInputError, match="altered while intervals were made"):
        make_intervals(copied.warehouse, custody_of(copied.warehouse), copied.release)


def add_up(full: Full, draw: str = "one") -> None:
    """Store the sums of the stored answers, as a draw does, for the draw of a name."""
    release = full.release
    with full.warehouse.private_folder() as folder:
        account, files = SumsAccount(draw, {}, {}, {}), list[Path]()
        with full.warehouse.session(reads=[Zone.PUBLIC]) as session:
            for part in group_parts(read_streams(session, release)):
                if summed := find_summed(session, release, part):
                    adding, digests = Adding(part, summed), Digests(part.streams)
                    files.append(folder / str(len(files)))
                    with open_part(files[-1], SCHEMA) as writer:
                        for first, last, answers in read_part(session, release, part, lambda: False):
                            digests.add(answers)
                            writer.write_table(adding.add(first, last, answers))
                    account = replace(
                        account,
                        regions=account.regions | {str(part.state): summed.region},
                        answers=account.answers | digests.by_label(),
                        sums=account.sums | {part.label: adding.hexdigest()},
                    )
        with full.warehouse.session(writes=Zone.PUBLIC, folder=folder) as session, session.transaction():
            store_sums(session, custody_of(full.warehouse), release, account, files)


def inform_again(full: Full) -> tuple[list[Account], set[str]]:
    """The accounts of all information, made again, and the levels whose answers are read for it."""
    levels, right = set[str](), reading.read_answers

    def read(session: Any, release: Any, queries: Any, first: int, last: int, **options: Any) -> Any:
        levels.add(queries[0].level)
        return right(session, release, queries, first, last, **options)

    with full.warehouse.session(writes=Zone.PUBLIC) as session:
        session.drop(full.release.public("information"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "read_answers", read)
        made = make_information(full.warehouse, custody_of(full.warehouse), full.release, quiet)
    return [replace(account, seconds=0.0) for account in made.values()], levels


@pytest.mark.prove
def test_information_is_made_of_the_sums_of_the_draw_or_else_of_the_answers(
    copied: Full, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parents have children in several batches, and each has a task. Wrong programs: lose a parent's sums of an earlier
    batch, or count them twice; add up children of all kinds together; do not compare sums with their own hash, their
    draw, or the places and invariants that determine the kinds."""
    monkeypatch.setattr(measurements, "BATCH", 2)
    monkeypatch.setattr(reading, "PLACES_OF_A_TASK", 1)
    due, levels = inform_again(copied)
    assert "Block" in levels
    add_up(copied)
    assert inform_again(copied) == (due, levels - {"Block"})
    (table, made), changes = (
        sums_tables(copied.release),
        [
            "UPDATE {{ table }} SET sums = list_transform(sums, x -> x + (kind = 1)::INTEGER)",
            "UPDATE {{ table }} SET parent = 0",
            "ALTER TABLE {{ table }} ALTER sums TYPE BIGINT[]",
            "UPDATE {{ made }} SET account = replace(account, 'S000', 'S001')",
            "DROP TABLE {{ made }}",
        ],
    )
    for change in changes:
        add_up(copied)
        with copied.warehouse.session(writes=Zone.PUBLIC) as session:
            session.run(SQL("test/alter", change), table=table, made=made)
        assert inform_again(copied) == (due, levels), change
        with copied.warehouse.session(reads=[Zone.PUBLIC]) as session:
            left = {table.name, made.name} & session.tables(Zone.PUBLIC, copied.release.schema).keys()
        assert not left, "which nothing reads any more, and no gate looks at"
    add_up(copied, draw="another")
    assert inform_again(copied) == (due, levels)
    add_up(copied)
    with copied.warehouse.session(reads=[Zone.PUBLIC]) as session:
        regions = hash_regions(session, copied.release, read_tree(session, copied.release))[1:]
        custody, states = custody_of(copied.warehouse), read_states(session, copied.release)
        for of_states in (states, states[:1]):
            due = dict(zip(of_states, regions, strict=False))
            assert read_sums_account(session, custody, copied.release, "one", due)
            exchanged = dict(zip(of_states, regions[::-1], strict=False))
            assert not read_sums_account(session, custody, copied.release, "one", exchanged)
        monkeypatch.setattr(sums, "RULE", sums.RULE + 1)
        assert not read_sums_account(session, custody, copied.release, "one", due), "made by an earlier rule"


def test_sums_beyond_32_bits_are_not_kept() -> None:
    """Wrong programs: a sum wraps around, or only the answers of one batch are looked at."""
    stream: Any = Mock(measured=Mock(marginal=Mock(size=1)))
    one = np.zeros(1, dtype=np.int64)
    for last, kept in ((2**30 - 1, True), (2**30, False)):
        adding = Adding(Part(("persons", "Block"), 0, 2, (stream,)), Summed("", 0, Kinds(np.repeat(one, 2), one, one)))
        for number, answer in enumerate((2**30, last)):
            adding.add(number, number + 1, {stream: np.array([[answer]], dtype=np.int32)})
        assert bool(adding.hexdigest()) is kept


@pytest.mark.prove
def test_estimates_of_other_answers_than_were_added_up_are_refused(copied: Full) -> None:
    """Wrong program: estimates of altered blocks pass together with the information about the right ones."""
    add_up(copied)
    alter(copied, 0, 40)
    _, levels = inform_again(copied)
    assert "Block" not in levels
    estimate_informed(copied.warehouse, copied.release)
    assert {"information of State", "persons of Nation", "persons of Block"} <= set(copied.problems())
    alter(copied, 0, -40)
    estimate_informed(copied.warehouse, copied.release)
    assert copied.problems() == ()


@pytest.mark.deep
def test_an_altered_interval_is_noticed(full: Full, tmp_path: Path) -> None:
    """One end of one cell, and all estimates divided by ten. Wrong programs: the seal covers only the inputs of the
    tables, or digits without the position of the point; a missing table or column is an error instead of a finding."""
    warehouse = Warehouse(folder=str(shutil.copytree(full.warehouse.folder, tmp_path / "copied")), threads=1)
    custody, table = custody_of(warehouse), interval_tables(full.release)[-1]
    make_intervals(warehouse, custody, full.release)

    def are_as_made() -> bool:
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            return are_intervals_as_made(session, custody, full.release)

    column = quote(list(COLUMNS)[-1])
    added = f"if(level = 'State', {column}[:-2] || [{column}[-1] + {{{{ more }}}}], {column}) AS {column}"
    change = f"CREATE OR REPLACE TABLE {{{{ table }}}} AS SELECT * REPLACE ({added}) FROM {{{{ table }}}}"
    for more, as_made in ((1, False), (-1, True)):
        with warehouse.session(writes=Zone.PUBLIC) as session:
            session.run(SQL("test/alter", change), table=table, more=more)
        assert are_as_made() == as_made
    scaled = "list_transform(linear_estimate, x -> (x * {{ factor }})::DECIMAL(18,{{ digits }})) AS linear_estimate"
    change = f"CREATE OR REPLACE TABLE {{{{ table }}}} AS SELECT * REPLACE ({scaled}) FROM {{{{ table }}}}"
    for factor, digits, as_made in (("0.1", 3, False), ("10", 2, True)):
        with warehouse.session(writes=Zone.PUBLIC) as session:
            session.run(SQL("test/scale", change), table=table, factor=Fragment(factor), digits=Fragment(str(digits)))
        assert are_as_made() == as_made
    for statement in ("ALTER TABLE {{ table }} DROP COLUMN {{ column }}", "DROP TABLE {{ table }}"):
        with warehouse.session(writes=Zone.PUBLIC) as session:
            session.run(SQL("test/alter", statement), table=table, column=column)
        assert not are_as_made()


@pytest.mark.deep
def test_information_that_was_altered_is_refused_and_made_again(copied: Full) -> None:
    custody, release = custody_of(copied.warehouse), copied.release
    table = reading.information_table(release, "County", 0)
    with copied.warehouse.session(writes=Zone.PUBLIC) as session:
        session.run(
            SQL("test/shift", "UPDATE {{ table }} SET estimate = list_transform(estimate, x -> x + 1)"), table=table
        )
    assert copied.problems()[0] == "information of County in S000"
    made = []
    make_information(copied.warehouse, custody, release, made.append)
    assert made == ["information of County in S000: 2 places"]
    assert copied.problems() == ()


def test_a_level_waits_for_information_and_units_for_persons(full: Full, tmp_path: Path) -> None:
    warehouse = measured(tmp_path, full.release, full.country)
    custody = custody_of(warehouse)
    with pytest.raises(StaleInputError, match="materialize information first"):
        estimate_level(warehouse, custody, full.release, Scope("Nation", "", "persons"), quiet)
    make_information(warehouse, custody, full.release, quiet)
    with pytest.raises(StaleInputError, match=r"the estimates of persons of Nation .* materialize level_nation first"):
        estimate_level(warehouse, custody, full.release, Scope("Nation", "", "units"), quiet)


@pytest.mark.prove
@pytest.mark.parametrize("invariants", [{}, {"group_quarters": "Block"}])
def test_units_that_are_not_held_agree_with_persons(tmp_path: Path, invariants: dict[str, str]) -> None:
    country = lived_in(village(seed=1))
    release = release_of(country, invariants, types_first="Nation")
    warehouse = measured(tmp_path, release, country)
    estimate_all(warehouse, release)
    require_constraints(warehouse, country, release)
    assert broken(warehouse, release) == {}


@pytest.mark.prove
def test_the_estimation_of_a_draw_can_be_changed_and_changed_back(copied: Full) -> None:
    """Tables of the one estimation do not stay with the other. Wrong program: `level_…` of the earlier estimation."""
    own = replace(copied.release, design=replace(copied.release.design, types_first=None))
    before, custody = found(copied.warehouse, copied.release), custody_of(copied.warehouse)
    for level in own.levels:
        estimate_level(copied.warehouse, custody, own, Scope(level), quiet)
    with copied.warehouse.session(writes=Zone.PUBLIC) as session:
        keep_states(session, own)
        assert not [
            name
            for name in session.tables(Zone.PUBLIC, own.schema)
            if name.startswith(("persons_", "units_", "information_"))
        ]
    assert replace(copied, release=own).problems() == ()
    assert not np.array_equal(found(copied.warehouse, own)["Nation"]["persons"], before["Nation"]["persons"])
    estimate_all(copied.warehouse, copied.release)
    assert copied.problems() == ()
    for level, of_level in found(copied.warehouse, copied.release).items():
        assert all(np.array_equal(counts, before[level][name]) for name, counts in of_level.items())
