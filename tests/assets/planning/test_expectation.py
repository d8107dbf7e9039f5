"""The expected time and memory of a release: they follow from declarations, grow with size, and warn before a
launch."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import orchestration
from assets.cef.synthetic import SyntheticPopulation, synthetic_census, write
from assets.planning.expectation import (
    LIMIT_OF_DUCKDB,
    SLOPES,
    Expectation,
    Machine,
    Slope,
    Slopes,
    UnknownError,
    expectation,
    expected_size,
    in_bytes,
    in_time,
    like_2020,
    measured_slopes,
    this_machine,
)
from assets.release.dataset import Size
from assets.release.method import Method
from assets.safetab.declaration import SafeTabPDeclaration
from assets.topdown.declaration import TopDownDeclaration
from benchmarks.jobs import RELEASES, Case
from benchmarks.slopes import MEASURED_NUMBERS, find_peaks, fit, fit_replicate, list_cases
from mechanisms.states import PUERTO_RICO, STATES
from orchestration.components import SafeTabP, TopDown
from orchestration.components.release import ReleaseComponent, dataset_of
from orchestration.declarations import load_declarations
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.deployments import small_dataset, small_release

NOWHERE = Path("/nowhere")
GIB = 2**30
NATION = like_2020(331_449_281)
MACHINE = Machine(2, 1000 * GIB, 0.2, 10**15, 10**15, one_disk=True)
KNOWN = Slopes(
    2,
    0.2,
    Slope(20, 1e-5, 1e-7),
    Slope(1e7, 30, 2),
    Slope(1e5, 1, 0.1),
    ((1_000, 1e9), (1_000_000, 2e9)),
    in_pieces=True,
)
SIZES = st.integers(0, 10**11)


def _method(component: ReleaseComponent, dataset: Any) -> Method[Any, Any, Any]:
    return component.method(component.release(dataset, NOWHERE))


@cache
def _declared() -> dict[str, Method[Any, Any, Any]]:
    """The method of each release of the demonstration."""
    datasets, releases = load_declarations(dg.ComponentTree.for_project(Path(orchestration.__file__).parent))
    known = {each.name: each for each in datasets}
    return {each.named: _method(each, dataset_of(each.declaration, known)) for each in releases}


def _redistricting(households: int, **fields: Any) -> Method[Any, Any, Any]:
    dataset = synthetic_census(SyntheticPopulation(households=households, states=["10"]), name="town", cap={"rho": 9})
    declared = {"name": "redistricting", "dataset": "town", "title": "A release"} | fields
    return _method(TopDown(TopDownDeclaration.model_validate(declared)), dataset)


@pytest.mark.deep
def test_every_release_of_the_demonstration_has_an_expectation_and_every_kind_is_measured() -> None:
    for name, method in _declared().items():
        found = expectation(method, None, MACHINE)
        assert 5 < found.seconds < 1800, name
        assert GIB / 8 < found.memory < 8 * GIB, name
        assert found.published > 0, name
        assert 2**20 < found.warehouse < 8 * GIB, name
        assert set(found.words) == {"expected size", "expected time", "expected memory", "expected disk"}
    assert {method.mechanism for method in _declared().values()} == set(measured_slopes())
    assert len(RELEASES) == len(measured_slopes())


def test_what_was_measured_is_expected_within_a_factor_of_one_and_a_half() -> None:
    for kind, given_slopes in json.loads(SLOPES.read_text("utf-8")).items():
        slopes = measured_slopes()[kind]
        for run in given_slopes["runs"]:
            for quantity in ("seconds", "warehouse", "published"):
                ratio = getattr(slopes, quantity).at(run["records"], run["numbers"]) / run[quantity]
                assert 2 / 3 < ratio < 3 / 2, (kind, quantity, run)
            assert slopes.memory_at(run["records"]) >= run["memory"]


@given(SIZES, SIZES, SIZES, SIZES)
def test_an_expectation_is_never_negative_and_grows_with_every_size(
    records: int, numbers: int, more_records: int, more_numbers: int
) -> None:
    for slopes in measured_slopes().values():
        for slope in (slopes.seconds, slopes.warehouse, slopes.published):
            less, more = slope.at(records, numbers), slope.at(records + more_records, numbers + more_numbers)
            assert 0 <= less <= more
        assert 0 < slopes.memory_at(records) <= slopes.memory_at(records + more_records)


@given(
    st.lists(st.tuples(st.integers(1, 10**9), st.floats(1, 1e12)), min_size=1, max_size=5), st.booleans(), SIZES, SIZES
)
def test_memory_never_falls_whatever_was_measured(
    runs: list[tuple[int, float]], in_pieces: bool, records: int, more: int
) -> None:
    points = find_peaks([{"records": number, "memory": peak} for number, peak in runs])
    slopes = replace(KNOWN, memory=tuple((number, float(peak)) for number, peak in points), in_pieces=in_pieces)
    assert 0 < slopes.memory_at(records) <= slopes.memory_at(records + more) * (1 + 1e-9)
    for number, peak in runs:
        assert slopes.memory_at(number) >= peak * (1 - 1e-9)


def test_two_jobs_of_about_one_size_give_no_steep_slope_of_memory() -> None:
    runs = [(1_000, 5), (100_000, 10), (100_007, 30), (300_000, 20)]
    assert find_peaks([{"records": records, "memory": memory} for records, memory in runs]) == [
        [1_000, 5], [100_000, 30], [300_000, 30],
    ]  # fmt: skip


def test_memory_grows_beyond_what_was_measured_by_no_more_than_duckdb_takes_unless_records_are_held() -> None:
    held = replace(KNOWN, in_pieces=False)
    assert KNOWN.memory_at(500_500) == held.memory_at(500_500) == 1.5e9
    assert KNOWN.memory_at(1_999_000) == held.memory_at(1_999_000) == 3e9
    assert KNOWN.memory_at(10**9) == 2e9 + LIMIT_OF_DUCKDB
    assert held.memory_at(10**9) == pytest.approx(1e12, rel=0.01)


def test_each_replicate_adds_its_time() -> None:
    """Fails for: the time of a release without replicates; and a slope that is fitted to whole jobs."""
    known = {"TopDown": replace(KNOWN, replicate=Slope(3, 1e-5, 0))}
    none, five = (expectation(_redistricting(1000, replicates=n), 10**6, MACHINE, known) for n in (0, 5))
    assert five.seconds - none.seconds == pytest.approx(5 * (3 + none.records / 10**5))
    assert _declared()["two_counties/dhc"].replicates == 4
    assert measured_slopes()["TopDown DHC"].replicate.at(10**6, 0) > 60
    runs = [{"records": records, "seconds": 50 + records} for records in (10, 100)]
    repeated = [{**each, "seconds": each["seconds"] + 4 * (2 + each["records"] / 10)} for each in runs]
    assert fit_replicate(runs, repeated, 4) == {"constant": 2, "record": pytest.approx(0.1), "number": 0}


def test_memory_that_no_job_has_shown_is_stated_as_the_least() -> None:
    """Fails for: the peak of the largest measured job, or somewhat more, as if a larger one had shown it."""
    known = _expected(MACHINE, 1_000_000).records
    level = replace(KNOWN, memory=((1_000, 1e9), (known, 1e9)))
    for records, says in ((1_000_000, "about 950 MiB"), (1_000_001, "at least 950 MiB"), (10**8, "at least 950 MiB")):
        found = expectation(_redistricting(1000), records, MACHINE, {"TopDown": level})
        assert found.words["expected memory"] == says
        assert found.record["memory_is_least"] == says.startswith("at least")


def test_jobs_are_measured_whose_numbers_do_not_grow_as_their_records_do() -> None:
    """Otherwise no fit could separate numbers from records. Fails for: the same levels at all sizes."""
    for kind in MEASURED_NUMBERS:
        per_record = []
        for case in list_cases(kind):
            size = expected_size(case.census)
            assert size
            per_record.append(_method(case.releases[-1], case.census).numbers(size) / size.records)
        assert max(per_record) > 10 * min(per_record), kind


def test_the_page_says_whether_numbers_count_in_what_was_measured() -> None:
    """The sentence disappears once jobs were measured that separate numbers from records."""
    counted = any(
        getattr(slopes, quantity).number
        for slopes in measured_slopes().values()
        for quantity in ("seconds", "warehouse")
    )
    page = (SLOPES.parents[2] / "docs" / "how-to" / "plan.md").read_text("utf-8")
    assert ("the amount for a number is 0 for every kind" in page) != counted


def test_the_nation_has_as_many_noisy_numbers_as_the_production_run() -> None:
    """About 22 billion answers of redistricting data, and 180 million groups of detailed races in tracts."""
    assert _redistricting(1000).numbers(NATION) == pytest.approx(22e9, rel=0.05)
    states = sorted(state for state in STATES if state != PUERTO_RICO)
    generated = SyntheticPopulation(households=1000, states=states, detailed_codes=True)
    dataset = synthetic_census(generated, name="nation", cap={"rho": 9})
    declared = {"name": "persons", "dataset": "nation", "title": "A release", "states": states}
    groups = _method(SafeTabP(SafeTabPDeclaration.model_validate(declared)), dataset).numbers(NATION)
    assert 180e6 < groups < 300e6


def test_fewer_levels_measure_fewer_numbers_and_a_prefix_has_at_most_the_finest_places() -> None:
    coarse = Case("topdown", 1000, coarse=True)
    fine = Case("topdown", 1000)
    numbers = [_method(case.releases[-1], case.census).numbers(NATION) for case in (coarse, fine)]
    assert numbers[0] < numbers[1] / 20
    block = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]
    two: dict[str, Any] = {
        "invariants": {"population": "US", "housing_units": "Block", "group_quarters": "Block"},
        "persons": {
            "rho": 1,
            "levels": {"US": "1/3", "Part": "1/3", "Block": "1/3"},
            "queries": {level: {"detailed": 1} for level in ("US", "Part", "Block")},
        },
    }
    two["units"] = two["persons"]
    method = _redistricting(1000, spine={"US": [], "Part": {"prefix": 5}, "Block": block}, **two)
    cells = {each.marginal.size for each in method.release.design.measured if each.level == "US"}
    assert method.numbers(NATION) == sum(cells) * (1 + 2 * 8_132_968)


def test_the_size_of_a_synthetic_census_is_that_of_its_records(tmp_path: Path) -> None:
    population = SyntheticPopulation(households=20_000, states=["04", "10"])
    dataset = synthetic_census(population, name="town", cap=1)
    with Warehouse(folder=str(tmp_path / "warehouse")).session(writes=Zone.CONFIDENTIAL) as session:
        write(session, dataset)
        units, persons = (session.arrow("warehouse/all", source=table).to_pandas() for table in dataset.cef_tables())
    size = population.size
    assert size.units == len(units)
    assert size.persons == pytest.approx(len(persons), rel=0.03)
    code: list[str] = []
    for column in ("TABBLKST", "TABBLKCOU", "TABTRACTCE"):
        code.append(column)
        assert size.places[column] == len(units[code].drop_duplicates())
    for column in ("TABBLKGRPCE", "TABBLK"):
        assert size.places[column] == len(units[[*code, column]].drop_duplicates())


def test_the_number_of_records_of_a_dataset_that_is_not_generated_is_asked_for_in_one_sentence(tmp_path: Path) -> None:
    dataset = small_dataset(tmp_path, cap=5)
    method = _method(small_release(dataset), dataset)
    with pytest.raises(UnknownError, match=r"is not public: enter the number that you expect \(on the") as said:
        expectation(method, None, MACHINE)
    assert str(said.value).count(". ") == 0
    few, many = (expectation(method, number, MACHINE) for number in (1_000, 1_000_000))
    assert (few.records, many.records) == (1_000, 1_000_000)
    assert few.seconds < many.seconds
    with pytest.raises(ValueError, match="records: 0 is not a number of records, 1 or more"):
        expected_size(dataset, 0)


def test_a_kind_that_was_not_measured_has_no_expectation() -> None:
    with pytest.raises(UnknownError, match=r"No job of this kind \(TopDown\) was measured"):
        expectation(_redistricting(1000), None, MACHINE, {})


def _expected(machine: Machine, records: int = 1_000_000) -> Expectation:
    return expectation(_redistricting(1000), records, machine, {"TopDown": KNOWN})


def test_a_slower_machine_takes_longer_and_only_time_depends_on_its_speed() -> None:
    usual, slow = _expected(MACHINE), _expected(replace(MACHINE, reference_seconds=0.5))
    assert slow.seconds == pytest.approx(2.5 * usual.seconds)
    assert replace(slow, seconds=usual.seconds) == usual
    assert _expected(replace(MACHINE, cores=64)) == usual, "more cores are not counted on"


def test_what_is_too_little_is_named_before_a_launch() -> None:
    usual = _expected(MACHINE)
    assert usual.warnings == ()
    disk = usual.warehouse + usual.published
    cases = {
        "of memory, which is less than": {"memory": int(usual.memory) - 1},
        "The disk of the warehouse and the publications has": {"free_home": int(disk) - 1},
        "The disk of the warehouse (STIRRED_HOME) has": {"free_home": int(usual.warehouse) - 1, "one_disk": False},
        "The disk of the publications (STIRRED_PUBLISHED) has": {
            "free_published": int(usual.published) - 1,
            "one_disk": False,
        },
        "measured on 2 cores, and this machine has 1": {"cores": 1},
    }
    for says, changed in cases.items():
        (warning,) = _expected(replace(MACHINE, **changed)).warnings  # type: ignore[arg-type]
        assert says in warning
    assert _expected(replace(MACHINE, free_home=int(usual.warehouse) + 1, one_disk=False)).warnings == ()
    (far,) = _expected(MACHINE, 300_000_000).warnings
    assert "the 1,000,000 records of the largest job that was measured" in far
    assert _expected(replace(MACHINE, memory=GIB)).words["warning"].startswith("This machine has 1 GiB of memory")


def test_an_expectation_is_stated_in_units_that_suit_it() -> None:
    assert [in_time(seconds) for seconds in (0.4, 42.4, 99, 101, 3000, 7200, 36_000)] == [
        "0.4 s", "42 s", "99 s", "1.7 min", "50 min", "2 hours", "10 hours",
    ]  # fmt: skip
    assert [in_bytes(number) for number in (0, 3 * 2**20, 1.5 * GIB, 2e13)] == ["0.1 MiB", "3 MiB", "1.5 GiB", "18 TiB"]


@given(
    st.tuples(st.floats(0, 100), st.floats(0, 1e-3), st.floats(0, 1e-6)),
    st.lists(st.tuples(st.integers(10**4, 10**7), st.integers(10**5, 10**9)), min_size=4, max_size=6, unique=True),
)
def test_slopes_are_those_that_jobs_were_made_with_and_never_negative(
    true: tuple[float, float, float], sizes: list[tuple[int, int]]
) -> None:
    slope = Slope(*true)
    runs = [{"records": r, "numbers": n, "seconds": slope.at(r, n) + 0.1} for r, n in sizes]
    found = fit(runs, "seconds", numbers=True)
    assert min(found.values()) >= 0
    for run in runs:
        assert Slope(**found).at(run["records"], run["numbers"]) == pytest.approx(run["seconds"], rel=0.01)  # type: ignore[arg-type]


def test_jobs_that_are_faster_the_larger_they_are_give_no_negative_slope() -> None:
    runs = [{"records": 1000 * n, "numbers": 0, "seconds": 10 - n} for n in (1, 2, 3)]
    found = fit(runs, "seconds", numbers=False)
    assert found["record"] == found["number"] == 0
    assert 7 <= found["constant"] <= 9


def test_this_machine_is_known_also_where_its_folders_are_not_made_yet(tmp_path: Path) -> None:
    found = this_machine(tmp_path / "home" / "warehouse", tmp_path / "published")
    assert found.one_disk
    assert found.cores >= 1
    assert 0.01 < found.reference_seconds < 60
    assert found.memory > GIB / 4
    assert found.free_home > 0
    assert not any(tmp_path.iterdir()), "looking makes no folder"


def test_no_disk_of_this_machine_is_too_small_for_databases_in_a_lake(tmp_path: Path) -> None:
    """Fails for: a warning about the disk of STIRRED_HOME, which holds no database of a lake."""
    of_databases = replace(KNOWN, warehouse=Slope(2.0**60, 0, 0))
    for in_lake in (False, True):
        found = replace(this_machine(tmp_path, tmp_path, in_lake=in_lake), memory=2**60, cores=2)
        told = expectation(_redistricting(1000), 1000, found, {"TopDown": of_databases}).warnings
        assert [warning.startswith("The disk of the warehouse") for warning in told] == [True] * (not in_lake)


def test_a_census_like_that_of_2020_has_its_places() -> None:
    assert NATION.places["TABBLK"] == 8_132_968
    assert NATION.records == 331_449_281 + 140_498_736
    one = like_2020(1)
    assert (one.units, one.persons, set(one.places.values())) == (1, 1, {1})
    assert Size(7, 0).places_of(["ANY"]) == 7
    assert Size(7, 0).places_of([]) == 1
