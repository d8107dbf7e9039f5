"""Replicates: the law of the release's own noise and estimation, resumed, discarded and checked.

`test_uncertainty` in the tests of mechanisms has the rule of the intervals.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.release.draw import StaleInputError
from assets.release.gate import ReleaseContext
from assets.release.release import DeclarationError
from assets.tabulation.asset import tables_gate
from assets.topdown import replicates, workers
from assets.topdown.estimation import estimate_level
from assets.topdown.histograms import read_counts
from assets.topdown.invariants import derive_all_limits
from assets.topdown.reading import Scope
from assets.topdown.release import REPLICATES, TopDownRelease
from assets.topdown.replicates import (
    Account,
    TopDownReplication,
    check_replicates,
    choose_replicate,
    derive_key,
    hash_counts,
    hash_replicate,
    make_replicates,
)
from assets.topdown.spine import read_tree
from assets.topdown.tables import INPUT_CODES
from assets.topdown.uncertainty import SIZES, uncertainty_recipes, uncertainty_table
from mechanisms.sampling.goodness import bin_draws, find_misfits
from mechanisms.sampling.noise import Noise
from mechanisms.topdown.design import MECHANISM, SCHEMAS
from mechanisms.topdown.redistricting import REDISTRICTING
from mechanisms.topdown.replicates import estimate_finest, replicate_noise
from mechanisms.topdown.schema import DETAILED, Counts
from resources.statements import Zone
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
    written,
)
from tests.deployments import SHOWN, Deployment
from tests.depth import deep_cases, quick_cases
from tests.topdown_deployments import LEVELS, TO_PUBLICATION, redeclared, topdown_deployment

REPEATED = 4


@dataclass(frozen=True)
class Repeated:
    """A village whose estimates are made."""

    country: Country
    release: TopDownRelease
    warehouse: Warehouse

    def make(self, release: TopDownRelease | None = None) -> tuple[Account, ...]:
        return make_replicates(
            self.warehouse, custody_of(self.warehouse), TopDownReplication(release or self.release), silent
        )

    def problems(self, release: TopDownRelease | None = None) -> list[str]:
        return check_replicates(TopDownReplication(release or self.release), self.context(release))

    def context(self, release: TopDownRelease | None = None) -> ReleaseContext[TopDownRelease]:
        return cast(ReleaseContext[TopDownRelease], Standing(self.warehouse, release or self.release))

    def contents(self) -> list[str]:
        """The hashes of the replicates as they are stored now, read a few counts at a time."""
        reading = self.warehouse.session(reads=[Zone.PUBLIC])
        with patch("assets.topdown.histograms.CELLS_AT_A_TIME", 10), reading as session:
            return [
                hash_replicate(session, TopDownReplication(self.release), number)
                for number in range(1, self.release.declaration.replicates + 1)
            ]

    def attacked(self, *statements: str) -> None:
        with duckdb.connect(str(self.warehouse.path(Zone.PUBLIC))) as connection:
            connection.execute(f"USE public.{self.release.schema}")
            for statement in statements:
                connection.execute(statement)


class Standing:
    """As much of a context as the gates on replicates look at."""

    def __init__(self, warehouse: Warehouse, release: TopDownRelease) -> None:
        self.warehouse, self.release, self.custody = warehouse, release, custody_of(warehouse)


def silent(done: int, declared: int) -> None:
    assert 0 < done <= declared


def estimate_all(warehouse: Warehouse, release: TopDownRelease) -> None:
    for level in release.levels:
        estimate_level(warehouse, custody_of(warehouse), release, Scope(level), silent)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repeated:
    """A village with all its replicates; no test may change it."""
    country = village()
    release = redeclared(release_of(country), replicates=REPEATED, products=("P1", "P5", "H1"))
    warehouse = written(tmp_path_factory.mktemp("replicates"), release, country)
    estimate_all(warehouse, release)
    found = Repeated(country, release, warehouse)
    assert [each.content for each in found.make()] == found.contents()
    assert found.problems() == []
    return found


@pytest.fixture
def copied(made: Repeated, tmp_path: Path) -> Repeated:
    """A copy of the village with its replicates, for a test to change."""
    folder = shutil.copytree(made.warehouse.folder, tmp_path / "copied")
    return replace(made, warehouse=Warehouse(folder=str(folder), threads=1))


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the replicates that are computed, in order, as they are."""
    found: list[int] = []

    def spied(task: workers.ReplicateTask) -> Any:
        found.append(task.replicate)
        return workers.make_replicate(task)

    monkeypatch.setattr(replicates, "make_replicate", spied)
    return found


def sparse(histograms: np.ndarray[Any, Any]) -> Counts:
    number, cell = np.nonzero(histograms)
    return Counts(number, cell, histograms[number, cell])


# The law


@pytest.mark.deep
def test_exact_counts_with_the_noise_of_a_draw_give_the_estimates_of_the_release(tmp_path: Path) -> None:
    """So a replicate differs from the release only in its initial counts and its key."""
    country, key = village(seed=3), bytes(range(32))
    release = release_of(country)
    distributions = {each.label: each.noise for each in release.design.measured}
    warehouse = Warehouse(folder=str(tmp_path), threads=1)
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        write_spine(session, release, country)
        write_invariants(session, release, country)
        write_measurements(session, release, country, drawn=Noise(MECHANISM, distributions, key))
    estimate_all(warehouse, release)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        limits = derive_all_limits(session, release)
    truth = {name: sparse(country.truth(name, release.finest)) for name in SCHEMAS}
    found = estimate_finest(release.design, country.parents, truth, limits, Noise(MECHANISM, distributions, key))
    stored = estimated(warehouse, release, release.finest)
    assert not np.array_equal(stored["persons"], country.truth("persons", release.finest)), "there is noise"
    for name, schema in SCHEMAS.items():
        assert np.array_equal(
            found[name].answer(schema.marginal(DETAILED), 0, country.places(release.finest)), stored[name]
        )


@pytest.mark.deep
def test_the_noise_of_replicates_has_the_declared_distributions(made: Repeated) -> None:
    """A chi-square test of all queries together, with a false-alarm rate of 10^-9."""
    design = made.release.design
    noise = replicate_noise(design, derive_key("a draw", 1))
    drawn = {each.label: bin_draws(noise.of_next(each.label, 20_000), each.noise) for each in design.measured}
    assert find_misfits(drawn) == []
    wider = {each.label: replace(each.noise, variance=2 * each.variance) for each in design.measured}
    again = replicate_noise(design, derive_key("a draw", 1))
    assert find_misfits({label: bin_draws(again.of_next(label, 20_000), noise) for label, noise in wider.items()})


def test_streams_differ_between_replicates_draws_and_from_those_of_a_draw(made: Repeated) -> None:
    design = made.release.design
    keys = [derive_key(draw, number) for draw in ("one", "two") for number in range(1, 201)]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 32 for key in keys)
    label, distributions = design.measured[-1].label, {each.label: each.noise for each in design.measured}
    streams = [replicate_noise(design, key) for key in keys[:3]]
    # The same key would not give a draw the noise of a replicate.
    streams.append(Noise(MECHANISM, distributions, keys[0]))
    drawn = [stream.of_next(label, 50).tolist() for stream in streams]
    assert len({tuple(numbers) for numbers in drawn}) == 4


def test_the_key_of_a_replicate_is_public(made: Repeated) -> None:
    """The documentation gives this key to readers who make a replicate again."""
    assert derive_key("ab12", 7) == sha256(b"stirred replicate 7 of draw ab12").digest()


def read_stored(session: Session, release: TopDownRelease, number: int) -> dict[str, Counts]:
    """The stored counts of a replicate."""
    table = release.public(REPLICATES)
    return {
        name: read_counts(session, table, schema.size, histogram=name, replicate=number)
        for name, schema in SCHEMAS.items()
    }


def test_replicates_satisfy_the_invariants(made: Repeated) -> None:
    with made.warehouse.session(reads=[Zone.PUBLIC]) as session:
        found = [read_stored(session, made.release, number) for number in range(1, REPEATED + 1)]
    states = np.repeat([0, 0, 1, 1, 1], [3, 1, 4, 2, 4])
    persons = [np.bincount(states[each["persons"].number], each["persons"].count, 2) for each in found]
    exact = made.country.held("population", "State")[:, 0]
    assert all(np.array_equal(each, exact) for each in persons)
    assert len({hash_counts(each) for each in found}) == REPEATED
    assert [hash_counts(each) for each in found] == made.contents()


# Storing, resuming, discarding


@pytest.mark.prove
def test_a_killed_run_continues_with_the_replicates_that_are_missing(
    copied: Repeated, numbers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = copied.contents()
    copied.attacked("DROP TABLE replicates", "DROP TABLE replicates_made", "DROP TABLE replicates_seal")
    read = workers.perform

    def killed(*arguments: Any) -> Iterator[Any]:
        for done, result in enumerate(read(*arguments)):
            if done == 2:
                raise KeyboardInterrupt
            yield result

    with monkeypatch.context() as patch:
        patch.setattr(replicates, "perform", killed)
        with pytest.raises(KeyboardInterrupt):
            copied.make()
    assert numbers[:2] == [1, 2]
    assert copied.problems() != []
    del numbers[:]
    copied.make()
    assert numbers == [3, 4]
    assert copied.contents() == whole
    assert copied.problems() == []
    del numbers[:]
    copied.make()
    assert numbers == []


@pytest.mark.prove
def test_the_order_of_the_replicates_makes_no_difference(copied: Repeated, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = copied.contents()
    tables = uncertainty(copied)
    copied.attacked("DROP TABLE replicates")

    def reversed_order(work: Any, tasks: Any, *rest: Any) -> Iterator[Any]:
        yield from map(work, reversed(list(tasks)))

    monkeypatch.setattr(replicates, "perform", reversed_order)
    assert [each.replicate for each in copied.make()] == [1, 2, 3, 4]
    assert copied.contents() == whole
    assert uncertainty(copied) == tables


@pytest.mark.prove
def test_the_number_of_processes_makes_no_difference(copied: Repeated) -> None:
    whole = copied.contents()
    copied.attacked("DROP TABLE replicates")
    together = redeclared(copied.release, processes=2)
    copied.make(together)
    assert copied.contents() == whole


@pytest.mark.prove
def test_replicates_of_another_draw_are_discarded(copied: Repeated, numbers: list[int]) -> None:
    before = copied.contents()
    with copied.warehouse.session(writes=Zone.PUBLIC) as session:
        write_measurements(session, copied.release, copied.country, seed=1, draw="two")
    with pytest.raises(StaleInputError, match="materialize level_nation first"):
        copied.make()
    estimate_all(copied.warehouse, copied.release)
    assert "replicate 1: altered, or made from other estimates" in copied.problems()
    del numbers[:]
    copied.make()
    assert numbers == [1, 2, 3, 4]
    assert set(copied.contents()).isdisjoint(before)
    assert copied.problems() == []


@pytest.mark.prove
def test_more_replicates_keep_the_earlier_ones_and_fewer_discard_the_others(
    copied: Repeated, numbers: list[int]
) -> None:
    fewer = redeclared(copied.release, replicates=2)
    copied.make(fewer)
    assert numbers == []
    assert copied.problems(fewer) == []
    assert copied.problems() == ["the stored replicates are not those from 1 to 4, or were altered"]
    before = copied.contents()[:2]
    del numbers[:]
    copied.make()
    assert numbers == [3, 4]
    assert copied.contents()[:2] == before


def test_replicates_of_estimates_that_were_removed_are_refused_in_one_sentence(copied: Repeated) -> None:
    """As after a withdrawal. Wrong program: shows DuckDB's words about a missing table."""
    copied.attacked("DROP TABLE spine")
    with (
        copied.warehouse.session(reads=[Zone.PUBLIC]) as session,
        pytest.raises(StaleInputError, match="the estimates of Block are missing or were altered; materialize"),
    ):
        TopDownReplication(copied.release).read_made_of(session, custody_of(copied.warehouse))


# Alterations


def deep(statement: str, problem: str) -> Any:
    return pytest.param(statement, problem, marks=pytest.mark.deep)


@pytest.mark.prove
@deep_cases(1)
@quick_cases(0)
@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE replicates SET count = count + 1 WHERE rowid = 0", "replicate 1: altered"),
        deep("UPDATE replicates SET number = 13 - number WHERE replicate = 3", "replicate 3: altered"),
        deep(
            "INSERT INTO replicates SELECT 9, histogram, number, cell, count FROM replicates",
            "rows of no replicate or place",
        ),
        ("INSERT INTO replicates VALUES (1, 'pets', 0, 0, 1)", "rows of no replicate or place: 1"),
        deep("INSERT INTO replicates VALUES (NULL, 'persons', 0, 0, 1)", "rows of no replicate or place: 1"),
        deep("INSERT INTO replicates VALUES (1, 'persons', NULL, 0, 1)", "rows of no replicate or place: 1"),
        deep("INSERT INTO replicates VALUES (1, 'persons', 1000000, 0, 1)", "rows of no replicate or place: 1"),
        deep("INSERT INTO replicates VALUES (1, 'persons', 0, 2016, 1)", "replicate 1: altered"),
        deep("DELETE FROM replicates_made WHERE replicate = 4", "not those from 1 to 4, or were altered"),
        ("UPDATE replicates_made SET content = 'x' WHERE replicate = 2", "not those from 1 to 4, or were altered"),
        deep("UPDATE replicates_made SET seconds = 0", "not those from 1 to 4, or were altered"),
        deep("ALTER TABLE replicates ALTER count TYPE DOUBLE", "not those from 1 to 4, or were altered"),
    ],
)
def test_altered_replicates_are_found_and_made_again(copied: Repeated, statement: str, problem: str) -> None:
    whole = copied.contents()
    copied.attacked(statement)
    assert any(problem in found for found in copied.problems()), copied.problems()
    copied.make()
    assert copied.problems() == []
    assert copied.contents() == whole


@pytest.mark.deep
def test_a_replicate_with_other_noise_is_found_although_it_is_sealed(
    copied: Repeated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong replicates that the stage itself stored: one of them is made again, which the draw id chooses."""
    copied.attacked("DROP TABLE replicates")
    with monkeypatch.context() as patch:
        patch.setattr(replicates, "derive_key", lambda draw_id, number: derive_key("another", number))
        copied.make()
        assert copied.problems() == []
    with copied.warehouse.session(reads=[Zone.PUBLIC]) as session:
        basis = TopDownReplication(copied.release).read_basis(session, custody_of(copied.warehouse))
    chosen = choose_replicate(basis.draw_id, REPEATED)
    assert copied.problems() == [f"replicate {chosen}: made again, it differs"]


def test_every_replicate_can_be_the_one_that_is_made_again() -> None:
    assert {choose_replicate(sha256(bytes([draw])).hexdigest(), 25) for draw in range(256)} == set(range(1, 26))


# The tables


def uncertainty(repeated: Repeated) -> dict[str, list[dict[str, Any]]]:
    """The rows of the tables of errors, by name."""
    with repeated.warehouse.session(reads=[Zone.PUBLIC]) as session:
        recipes = uncertainty_recipes(session, repeated.release)
        return {
            table.name: session.arrow(name, values, **names).to_pylist()
            for table, (name, values, names) in recipes.items()
        }


def test_the_tables_have_the_errors_of_every_cell_of_every_place(made: Repeated) -> None:
    """Counted again in plain Python, from whole histograms."""
    country, release = made.country, made.release
    with made.warehouse.session(reads=[Zone.PUBLIC]) as session:
        found = [read_stored(session, release, number) for number in range(1, REPEATED + 1)]
    finest = country.places(release.finest)
    rows = uncertainty(made)
    assert set(rows) == {"p1_uncertainty", "p5_uncertainty", "h1_uncertainty", "uncertainty_summary"}
    sums: dict[tuple[str, str, int], list[int]] = {}
    for name in ("P1", "P5", "H1"):
        table = REDISTRICTING[name]
        expected = []
        for level in release.levels:
            published = estimated(made.warehouse, release, level)[table.schema.name]
            repeated = [
                country.added_up(each[table.schema.name].answer(table.schema.marginal(DETAILED), 0, finest), level)
                for each in found
            ]
            for number in range(country.places(level)):
                for cell in table.cells:
                    count = int(published[number, cell.counted].sum())
                    deviations = [int(each[number, cell.counted].sum()) - count for each in repeated]
                    expected.append((level, f"{level[0]}{number:03}", cell.name, count, deviations))
                    size = max(least for least in SIZES if least <= count)
                    of = sums.setdefault((name, level, size), [0, 0, 0])
                    of[0] += 1
                    of[1] += sum(map(abs, deviations))
                    of[2] += sum(deviations)
        stored = rows[f"{name.lower()}_uncertainty"]
        assert [(row["level"], row["geoid"], row["cell"], row["estimate"]) for row in stored] == [
            row[:4] for row in expected
        ]
        for row, (*_, deviations) in zip(stored, expected, strict=True):
            bias = Fraction(sum(deviations), REPEATED)
            square = Fraction(sum(each**2 for each in deviations), REPEATED)
            assert abs(Fraction(row["bias"]) - bias) <= Fraction(1, 200)
            assert abs(float(row["standard_error"]) - float(square) ** 0.5) <= 0.005 + 1e-9
            assert row["lower"] <= row["upper"]
            if not any(deviations):
                assert (row["lower"], row["upper"]) == (row["estimate"], row["estimate"])
    summary = {(row["table_name"], row["level"], row["least"]): row for row in rows["uncertainty_summary"]}
    assert summary.keys() == sums.keys()
    for key, (cells, distances, deviations) in sums.items():
        assert summary[key]["cells"] == cells
        assert abs(Fraction(summary[key]["mean_absolute_error"]) - Fraction(distances, cells * REPEATED)) <= Fraction(
            1, 20_000
        )
        assert abs(Fraction(summary[key]["bias"]) - Fraction(deviations, cells * REPEATED)) <= Fraction(1, 20_000)


def test_what_an_invariant_decides_has_no_error(made: Repeated) -> None:
    rows = uncertainty(made)
    held = [row for row in rows["p1_uncertainty"] if row["cell"] == "P0010001" and row["level"] in ("Nation", "State")]
    held += [row for row in rows["h1_uncertainty"] if row["cell"] == "H0010001"]
    assert len(held) == 3 + 1 + 2 + 5 + 14
    assert all(row["lower"] == row["estimate"] == row["upper"] and row["standard_error"] == 0 for row in held)
    free = [row for row in rows["p1_uncertainty"] if row["cell"] == "P0010001" and row["level"] == "Block"]
    assert any(row["standard_error"] > 0 for row in free)


@pytest.mark.deep
def test_an_altered_table_of_errors_is_found(copied: Repeated) -> None:
    with copied.warehouse.session(writes=Zone.PUBLIC) as session:
        for table, (name, values, names) in uncertainty_recipes(session, copied.release).items():
            session.create(table, name, values, **names)
    gate = tables_gate(lambda session: uncertainty_recipes(session, copied.release), "uncertainty")
    assert (gate.name, gate.stage) == ("uncertainty_as_made", "uncertainty")
    assert gate.problems(copied.context()) == []
    table = uncertainty_table(copied.release, "P1").name
    copied.attacked(f"UPDATE {table} SET upper = upper - 1 WHERE upper > 3")
    assert gate.problems(copied.context()) != []


# The declaration


@pytest.mark.parametrize("replicates", [1, 201, -1])
def test_too_few_and_too_many_replicates_are_refused(made: Repeated, replicates: int) -> None:
    with pytest.raises(DeclarationError, match=f"replicates: {replicates}; there are from 2 to 200, or 0 for none"):
        redeclared(made.release, replicates=replicates)


def test_replicates_without_a_table_are_refused(made: Repeated) -> None:
    with pytest.raises(DeclarationError, match="replicates: they give the errors of P1, P2, P3, P4, P5, H1"):
        redeclared(made.release, products=("persons", "population"))


@pytest.mark.prove
def test_a_release_publishes_the_errors_and_its_draw_is_the_same(tmp_path: Path) -> None:
    """Production's spine and budgets, in two processes; the draw and everything else published stay as they were."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIRRED_TEST_MASTER_KEY", "5a" * 32)
        plain = topdown_deployment(tmp_path / "town")
        plain.run(*TO_PUBLICATION, *SHOWN)
        before, charged = plain.published(), plain.ledger
        errors = topdown_deployment(tmp_path / "town", replicates=3, processes=2)
        errors.run("replicates", "uncertainty", "publication")
        assert errors.failed_checks() == set()
    after = errors.published()
    tables = [f"{name}_uncertainty" for name in ("p1", "p2", "p3", "p4", "p5", "h1")]
    added = {f"{name}.{ending}" for name in (*tables, "uncertainty_summary") for ending in ("csv", "parquet")}
    assert after.keys() - before.keys() == added
    same = {name for name in before if name.endswith((".csv", ".parquet"))}
    assert all(before[name] == after[name] for name in same)
    assert errors.ledger == charged
    assert REPLICATES not in {path.split(".")[0] for path in after}
    rows = after["uncertainty_summary.csv"].decode().splitlines()[1:]
    assert {row.split(",")[1] for row in rows} == set(LEVELS)
    certificates = [json.loads(files["certificate.json"]) for files in (before, after)]
    assert certificates[0]["errors"] is None
    assert len(certificates[1]["errors"]["rows"]) == len(rows)
    _require_repeatable(errors, certificates[1]["randomness"]["draw_id"], tmp_path / "reader")


def _require_repeatable(deployment: Deployment[TopDownRelease], draw_id: str, folder: Path) -> None:
    """A reader makes a replicate again, from microdata, spine, exact statistics and draw id alone."""
    release = deployment.release
    with deployment.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        stored = read_stored(session, release, 2)
    spine = pq.read_table(release.folder / "spine.parquet")
    numbers = {(row["level"], row["geoid"]): row["number"] for row in spine.to_pylist()}
    places = {geoid: number for (level, geoid), number in numbers.items() if level == release.finest}
    held = [
        {"invariant": name, "category": 0, "number": numbers[row["level"], row["geoid"]], **row}
        for name in release.design.invariants
        for row in pq.read_table(release.folder / f"{name}.parquet").to_pylist()
    ]
    read = Warehouse(folder=str(folder), threads=1)
    with read.session(writes=Zone.PUBLIC) as session, session.transaction():
        for name, rows in (("spine", spine), ("invariants", pa.Table.from_pylist(held))):
            session.create(release.public(name), "warehouse/all", source=session.register(f"read_{name}", rows))
    with read.session(reads=[Zone.PUBLIC]) as session:
        limits, parents = derive_all_limits(session, release), read_tree(session, release).parents
    published = {}
    for name, schema in SCHEMAS.items():
        histograms = np.zeros((len(places), schema.size), dtype=np.int64)
        for row in pq.read_table(release.folder / f"{name}.parquet").to_pylist():
            cell = 0
            for attribute in schema.attributes:
                cell = cell * attribute.size + INPUT_CODES[attribute.name].index(row[attribute.name])
            histograms[places[row["geoid"]], cell] += 1
        published[name] = sparse(histograms)
    noise = replicate_noise(release.design, sha256(f"stirred replicate 2 of draw {draw_id}".encode()).digest())
    assert hash_counts(estimate_finest(release.design, parents, published, limits, noise)) == hash_counts(stored)
