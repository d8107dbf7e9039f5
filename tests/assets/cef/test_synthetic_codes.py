"""The detailed codes of a synthetic census agree with race, origin and household, and vary by place.

Seeds are fixed, so no test here can fail by chance. The lists of the 2020 Census say which codes belong to which race.
"""

from collections import defaultdict
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest

from assets.cef.census import (
    BLOCK_FILES,
    DETAILED_COLUMNS,
    PERSON_COLUMNS,
    CensusDeclaration,
    census_persons,
    census_units,
    detailed_files,
)
from assets.cef.ingestion import ingest
from assets.cef.sample import main
from assets.cef.synthetic import RACE_CODES_2020, SyntheticPopulation, synthetic_census, write
from assets.safetab.counting import counts_recipe, regions_recipe
from assets.safetab.lists import read_lists
from assets.safetab.release import Counted
from mechanisms.races import RACE_COMBINATIONS, SIX_RACES
from mechanisms.safetab.lists import RegionType
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.assets.cef.test_synthetic import VERSION_KEY, make_census
from tests.assets.safetab.examples import counting_release

LISTS = Path(__file__).parents[3] / "assets" / "safetab" / "lists"
CODES = [f"QRACE{place}" for place in range(1, 9)]
STATES = ("01", "02", "36", "48")


def made(
    folder: Path, households: int, *states: str, detailed_codes: bool = True, threads: int = 0
) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    """As `make_census`."""
    population = SyntheticPopulation(
        seed=7, households=households, states=list(states or STATES), detailed_codes=detailed_codes
    )
    return make_census(folder / str(detailed_codes), population, threads)


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Units and persons of twenty-eight thousand households in three states."""
    _, units, persons = made(tmp_path_factory.mktemp("census"), 28_000, "01", "02", "36")
    return units, persons


def lines(name: str) -> list[list[str]]:
    text = (LISTS / f"{name}.txt").read_text("utf-8")
    return [line.split("|") for line in text.splitlines()[1:] if line]


def major_races() -> tuple[dict[str, set[str]], set[str], set[str]]:
    """From the lists: the races that each code belongs to, the Hispanic codes, and all codes."""
    race_of = {
        code: name.removesuffix(" alone")
        for code, name, level, *_ in lines("race-characteristic-iterations")
        if level == "0" and name.removesuffix(" alone") in SIX_RACES
    }
    (hispanic,) = (
        code for code, name, *_ in lines("ethnicity-characteristic-iterations") if name.startswith("Hispanic or Latino")
    )
    races, origins = defaultdict(set), set()
    for iteration, code in lines("race-and-ethnicity-code-to-iteration"):
        if iteration in race_of:
            races[code].add(race_of[iteration])
        if iteration == hispanic:
            origins.add(code)
    assert sorted(set(race_of.values())) == sorted(SIX_RACES)
    return dict(races), origins, {code for code, *_ in lines("race-and-ethnicity-codes")}


def test_the_table_of_codes_says_of_every_code_what_the_lists_say() -> None:
    races, origins, codes = major_races()
    rows = [line.split(",") for line in RACE_CODES_2020.read_text().splitlines()]
    assert rows.pop(0) == ["race", "hispanic", "code"]
    assert len(rows) == 1754
    assert sorted(code for _, _, code in rows) == sorted(codes - {"9950"})
    assert {code: {SIX_RACES[int(race) - 1]} for race, _, code in rows} == races
    assert {code for _, hispanic, code in rows if hispanic == "1"} == origins


@pytest.mark.prove
def test_the_codes_of_a_person_are_of_exactly_the_persons_races(census: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    _, persons = census
    races, _, _ = major_races()
    distinct = persons[["CENRACE", *CODES]].drop_duplicates()
    for cenrace, *codes in distinct.itertuples(index=False):
        named = [code for code in codes if code != "Null"]
        assert codes == [*named, *["Null"] * (8 - len(named))]
        assert set().union(*(races[code] for code in named)) == set(RACE_COMBINATIONS[int(cenrace) - 1])
    assert set(persons["CENRACE"]) > {f"{number:02}" for number in range(1, 22)}, "all races, and all pairs of them"


def test_the_origin_is_hispanic_exactly_for_hispanic_persons(census: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    _, persons = census
    _, origins, _ = major_races()
    assert set(persons[persons["CENHISP"] == "1"]["QSPAN"]) == {"9950"}
    hispanic = persons[persons["CENHISP"] == "2"]
    assert set(hispanic["QSPAN"]) <= origins
    assert hispanic["QSPAN"].nunique() > 60
    some_other_race = hispanic[hispanic["CENRACE"] == "06"]
    assert 0.8 < (some_other_race["QRACE1"] == some_other_race["QSPAN"]).mean() < 0.9
    assert not set(persons[persons["CENHISP"] == "1"]["QRACE1"]) & origins


def test_couples_are_of_the_sexes_that_their_relationship_says(census: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    units, persons = census
    householder = persons[persons["RELSHIP"] == "20"].set_index("MAFID")["QSEX"]
    for codes, alike in ((("21", "22"), False), (("23", "24"), True)):
        partners = persons[persons["RELSHIP"].isin(codes)]
        assert len(partners) > 50
        assert set(partners["QSEX"] == partners["MAFID"].map(householder)) == {alike}
    sexes = persons["QSEX"].value_counts(normalize=True)
    assert 0.46 < sexes["1"] < 0.51
    quarters = persons[persons["PERSON_RTYPE"] == "5"]
    types = quarters["MAFID"].map(units.set_index("MAFID")["GQTYPE"])
    assert (quarters["QSEX"] == "1")[types == "1"].mean() > 0.8 > 0.5 > (quarters["QSEX"] == "1")[types == "3"].mean()


def test_some_persons_have_several_codes_of_one_race_and_every_number_up_to_six_occurs(
    census: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    _, persons = census
    number = (persons[CODES] != "Null").sum(axis=1)
    one_race = persons["CENRACE"] <= "06"
    assert 0.2 < (number[one_race] > 1).mean() < 0.35
    assert 0.05 < (number[one_race] > 2).mean() < 0.12
    assert number[one_race].max() == 3
    assert set(number) >= set(range(1, 7))
    assert (persons["QRACE1"] != persons["QRACE2"]).all()


def test_members_of_a_household_mostly_share_their_codes(census: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    _, persons = census
    householder = persons[persons["RELSHIP"] == "20"].set_index("MAFID")
    kin = persons[persons["RELSHIP"].between("21", "33")]
    theirs = householder.loc[kin["MAFID"]].reset_index(drop=True)
    kin = kin.reset_index(drop=True)
    comparable = (kin["CENRACE"] == theirs["CENRACE"]) & (kin["CENHISP"] == theirs["CENHISP"])
    shared = (kin[CODES] == theirs[CODES]).all(axis=1)[comparable].mean()
    assert 0.8 < shared < 0.95
    # Two persons of the same race and county, of different households.
    across = persons[persons["RELSHIP"] == "20"].sample(frac=1, random_state=1)
    across = across[across["CENRACE"] == "01"]["QRACE1"].to_numpy()
    assert (across[1:] == across[:-1]).mean() < 0.3


def test_detailed_groups_are_concentrated_by_county_and_by_state(census: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    """The chance that two householders have the same first code: highest within a county, lowest across states."""
    for race in ("01", "02"):
        county, state, nation = likeness(*census, race)
        assert county > 1.3 * state > 1.3 * 1.3 * nation, race


def likeness(units: pd.DataFrame, persons: pd.DataFrame, race: str) -> list[float]:
    """The chance that the first codes of two householders of a race agree: in one county, of two counties of one state,
    and of counties of two states; each the average over the counties, or pairs of them."""
    householders = persons[(persons["RELSHIP"] == "20") & (persons["CENRACE"] == race)]
    located = householders.merge(units[["MAFID", "TABBLKST", "TABBLKCOU"]], on="MAFID")
    shares = {
        place: codes.value_counts(normalize=True)
        for place, codes in located.groupby(["TABBLKST", "TABBLKCOU"])["QRACE1"]
        if len(codes) > 60
    }
    alike: dict[str, list[float]] = {"county": [], "state": [], "nation": []}
    for share in shares.values():
        alike["county"].append((share**2).sum())
    for (one, first), (other, second) in combinations(shares.items(), 2):
        alike["state" if one[0] == other[0] else "nation"].append(first.mul(second, fill_value=0).sum())
    return [sum(found) / len(found) for found in alike.values()]


@pytest.mark.deep
def test_areas_cross_states(census: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path) -> None:
    units, _ = census
    areas = units[units["AIANNHCE"] != "9999"]
    states = areas.groupby("AIANNHCE")["TABBLKST"].unique().map(sorted).map(tuple)
    assert set(states) == {("01", "02"), ("36",)}, "some areas lie in two states, others in one"
    assert 0.05 < len(areas) / len(units) < 0.3
    _, island, _ = made(tmp_path, 300, "06", "72")
    assert set(island[island["TABBLKST"] == "72"]["AIANNHCE"]) == {"9999"}
    assert set(island[island["TABBLKST"] == "06"]["AIANNHCE"]) != {"9999"}


@pytest.mark.prove
def test_all_else_is_as_without_detailed_codes(tmp_path: Path) -> None:
    """`test_a_census_never_changes` tests the bytes of a census without them."""
    with_codes, units, persons = made(tmp_path, 500, "01", "02")
    _, plain_units, plain_persons = made(tmp_path, 500, "01", "02", detailed_codes=False)
    assert list(persons.columns) == [*plain_persons.columns, *DETAILED_COLUMNS] == [*PERSON_COLUMNS, *DETAILED_COLUMNS]
    order = ["MAFID", "RELSHIP", "QAGE", "CENRACE", "CENHISP"]
    assert (
        persons.sort_values(order)[plain_persons.columns].to_numpy() == plain_persons.sort_values(order).to_numpy()
    ).all()
    without_areas = [column for column in units.columns if column != "AIANNHCE"]
    assert (
        units.sort_values("MAFID")[without_areas].to_numpy()
        == plain_units.sort_values("MAFID")[without_areas].to_numpy()
    ).all()
    # Figures of a run. If they change, increase `CODE_VERSION` of the CEF.
    assert with_codes == "e6672cf988aae5224dd3ad1559e7afbbac14488c0050b0b8a688f2bbddef6d3b"


@pytest.mark.prove
def test_the_same_parameters_give_the_same_codes_on_any_number_of_threads(tmp_path: Path) -> None:
    assert len({made(tmp_path, 4000, threads=threads)[0] for threads in (1, 4)}) == 1


@pytest.mark.prove
@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_a_sample_with_codes_read_back_is_the_same_census(tmp_path: Path, file_format: str) -> None:
    made_from, _, _ = made(tmp_path, 300, "01")
    main([str(tmp_path), "--households", "300", "--seed", "7", "--detailed-codes", "--format", file_format])
    declaration = CensusDeclaration.model_validate(
        {
            "name": "made_up",
            "title": "Read back",
            "reader": file_format,
            "cap": 1,
            "units": census_units(f"units.{file_format}", f"geo.{file_format}", group_quarters_types=True),
            "persons": census_persons(f"persons.{file_format}", detailed_codes=True),
        }
    )
    with Warehouse(folder=str(tmp_path / "other")).session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, declaration, tmp_path, VERSION_KEY)
        assert session.content_version(declaration.cef_tables()) == made_from


@pytest.mark.prove
def test_nearly_every_code_occurs_in_a_large_census(tmp_path: Path) -> None:
    _, units, persons = made(tmp_path, 200_000)
    races, origins, _ = major_races()
    named = set().union(*(set(persons[code]) for code in CODES)) - {"Null"}
    assert named <= set(races)
    assert len(named) > 0.9 * len(races)
    assert len(set(persons["QSPAN"]) - {"9950"}) > 0.9 * len(origins)
    assert (persons["QRACE8"] != "Null").any(), "eight codes"
    for race in ("01", "02", "04"):
        county, state, nation = likeness(units, persons, race)
        assert county > 1.3 * state > 1.3 * 1.3 * nation, race


@pytest.mark.prove
def test_safetab_counts_the_same_in_the_census_and_in_the_files_written_from_it(tmp_path: Path) -> None:
    """Every region type, level, group and cell, of persons and of households; and the same regions."""
    population = SyntheticPopulation(seed=7, households=30_000, states=["01", "02", "72"], detailed_codes=True)
    census = synthetic_census(population, name="made_up", cap=1)
    main([str(tmp_path), "--households", "30000", "--states", "01", "02", "72", "--seed", "7", "--format", "safetab"])
    paths = [BLOCK_FILES[table].name for table in ("units", "persons", "households")]
    files = detailed_files(*paths, name="files", title="Files", cap=1)
    lists = read_lists()
    measured = {(region_type, level) for region_type in RegionType for level in (1, 2)}
    found = {}
    with Warehouse(folder=str(tmp_path / "warehouse")).session(writes=Zone.CONFIDENTIAL) as session:
        write(session, census)
        ingest(session, files, tmp_path, VERSION_KEY)
        assert session.count(files.cef_tables()[1]) == session.count(census.cef_tables()[1])
        for dataset in (census, files):
            release = counting_release(dataset, Counted.PERSONS, lists, measured, population.states)
            regions, values, names = regions_recipe(session, release)
            found[dataset.name] = [session.rows(regions, values, **names)]
            for counted in Counted:
                release = counting_release(dataset, counted, lists, measured, population.states)
                counts, values, names = counts_recipe(session, release)
                found[dataset.name].append(sorted(session.rows(counts, values, **names)))
    assert found["files"] == found["made_up"]
    regions, persons, households = found["files"]
    assert {region_type for region_type, _, _ in regions} == {str(region_type) for region_type in RegionType}
    assert len(persons) > len(households) > 10_000
