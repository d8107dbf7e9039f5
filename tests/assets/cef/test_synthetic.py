"""A synthetic census is reproducible, follows every rule of the layout, and resembles a real census.

Shares are tested with fixed seeds, so no test here can fail by chance.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
from pydantic import ValidationError

from assets.cef.asset import build_cef, describe
from assets.cef.census import CensusDeclaration, census_persons, census_units
from assets.cef.generated import STATES_2020
from assets.cef.ingestion import ingest
from assets.cef.sample import main, write_sample
from assets.cef.synthetic import SyntheticPopulation, synthetic_census, write
from assets.cef.validation import cef_problems, structure_findings, structure_offenders
from assets.release.dataset import DatasetDeclaration
from mechanisms.states import STATES
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.deployments import resources_of
from tests.depth import deep_cases, quick_cases

VERSION_KEY = bytes(range(32))


def population(households: int = 3000, *states: str, seed: int = 7) -> SyntheticPopulation:
    return SyntheticPopulation(seed=seed, households=households, states=list(states or ("01", "02")))


def make_census(folder: Path, of: SyntheticPopulation, threads: int = 0) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    """Data version, units and persons of a synthetic census, written directly and checked against the rules."""
    declaration = synthetic_census(of, name="made_up", cap=1)
    warehouse = Warehouse(folder=str(folder / f"warehouse{threads}"), threads=threads)
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        write(session, declaration)
        assert cef_problems(session, declaration) == []
        assert structure_findings(structure_offenders(session, declaration)) == []
        tables = [
            session.arrow("cef/records", columns=list(records.stored), table=table).to_pandas()
            for table, records in zip(declaration.cef_tables(), declaration.tables.values(), strict=True)
        ]
        return session.content_version(declaration.cef_tables()), tables[0], tables[1]


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Units and persons of sixty thousand households in four states."""
    _, units, persons = make_census(tmp_path_factory.mktemp("census"), population(60_000, "01", "02", "36", "48"))
    return units, persons


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize(
    ("households", "states"),
    [(1, ["11"]), (1, ["72"]), (2, ["01", "02"]), (3, ["02", "56", "72"]), (700, ["06"]), (1500, list(STATES))],
)
def test_a_census_of_any_size_follows_every_rule(tmp_path: Path, households: int, states: list[str]) -> None:
    _, units, persons = make_census(tmp_path, population(households, *states))
    occupied = units[units["HHT"] != "0"]
    assert len(occupied) == households
    assert set(occupied["TABBLKST"]) == set(states), "every state has a household"
    assert units["MAFID"].is_unique
    assert len(persons) == units["FINAL_POP"].sum()


@pytest.mark.prove
def test_the_same_parameters_give_the_same_census_on_any_number_of_threads(tmp_path: Path) -> None:
    versions = {make_census(tmp_path, population(20_000), threads=threads)[0] for threads in (1, 2, 4)}
    assert len(versions) == 1


def test_a_census_never_changes(tmp_path: Path) -> None:
    """Figures of a run. If they change, increase `CODE_VERSION` of the CEF, as the same YAML gives other records."""
    assert (
        make_census(tmp_path, population(500))[0] == "ed085676fbee5d83f1243ff995c39bbe46ff0fd88dae63f238105fff86e9aac7"
    )


@pytest.mark.prove
def test_blocks_vary_as_much_as_is_declared_and_nothing_else_changes(tmp_path: Path) -> None:
    """Wrong programs: blocks that vary together with their tract or block group; all or no blocks that vary, regardless
    of the declaration; and further draws that change the households."""
    between, households = [], []
    for percent in (0, 50, 100):
        of = population(3000, "01").model_copy(update={"varied_blocks": percent})
        _, units, _ = make_census(tmp_path / str(percent), of)
        occupied = units[units["HHT"] != "0"]
        group, block = (occupied[column] for column in ("TABBLKGRPCE", "TABBLK"))
        place = occupied["TABBLKCOU"] + occupied["TABTRACTCE"] + group
        white = (occupied["HHRACE"] == "01").astype(float)
        large = white.groupby([place, block]).transform("size") >= 30
        means = white[large].groupby([place[large], block[large]]).mean()
        between.append((means - means.groupby(level=0).transform("mean")).std())
        households.append(set(units[["MAFID", "TABBLK", "HHT", "FINAL_POP"]].itertuples(index=False, name=None)))
    assert households[0] == households[1] == households[2]
    assert between[0] < 0.07 < 0.13 < between[1] < 0.19 < between[2]


@pytest.mark.prove
def test_another_seed_gives_another_census_of_the_same_size(tmp_path: Path) -> None:
    one, units, _ = make_census(tmp_path, population(2000))
    other, other_units, _ = make_census(tmp_path, population(2000, seed=8))
    assert one != other
    assert len(units) == len(other_units)
    assert (units["FINAL_POP"].to_numpy() != other_units["FINAL_POP"].to_numpy()).mean() > 0.5


@pytest.mark.prove
def test_households_are_divided_among_states_by_population(census: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    units, _ = census
    states = units[units["HHT"] != "0"]["TABBLKST"].value_counts(normalize=True)
    # Resident population of the four states in 2020: 5,024,279, 733,391, 20,201,249 and 29,145,505.
    expected = pd.Series({"01": 5_024_279, "02": 733_391, "36": 20_201_249, "48": 29_145_505}) / 55_104_424
    assert (states - expected).abs().max() < 1e-4
    assert dict(zip(units["TABBLKST"], units["REGIONCE"] + units["DIVISIONCE"], strict=True)) == {
        "01": "36",
        "02": "49",
        "36": "12",
        "48": "37",
    }


@pytest.mark.prove
def test_the_shares_of_a_census_are_plausible(census: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    units, persons = census
    housing = units[units["RTYPE"] == "2"]
    occupied = housing[housing["FINAL_POP"] > 0]
    shares = {
        "vacant": (housing["FINAL_POP"] == 0).mean(),
        "persons in group quarters": (persons["PERSON_RTYPE"] == "5").mean(),
        "married couples": (occupied["HHT"] == "1").mean(),
        "cohabiting couples": occupied["HHT2"].isin(["03", "04"]).mean(),
        "same-sex couples": occupied["CPLT"].isin(["2", "4"]).mean(),
        "alone": occupied["HHT"].isin(["4", "6"]).mean(),
        "more than 10 persons": (occupied["FINAL_POP"] > 10).mean(),
        "owners": occupied["TEN"].isin(["1", "2"]).mean(),
        "Hispanic": (persons["CENHISP"] == "2").mean(),
        "two or more races": (persons["CENRACE"] >= "07").mean(),
        "under 18": (persons["QAGE"] < 18).mean(),
        "65 and over": (persons["QAGE"] >= 65).mean(),
    }
    plausible = {
        "vacant": (0.099, 0.101),
        "persons in group quarters": (0.015, 0.035),
        "married couples": (0.42, 0.50),
        "cohabiting couples": (0.05, 0.09),
        "same-sex couples": (0.005, 0.02),
        "alone": (0.25, 0.31),
        "more than 10 persons": (0.001, 0.01),
        "owners": (0.55, 0.72),
        "Hispanic": (0.10, 0.35),
        "two or more races": (0.05, 0.16),
        "under 18": (0.17, 0.25),
        "65 and over": (0.13, 0.22),
    }
    assert {name: share for name, share in shares.items() if not plausible[name][0] < share < plausible[name][1]} == {}
    assert 2.3 < occupied["FINAL_POP"].mean() < 2.7
    assert 36 < persons["QAGE"].mean() < 42


def test_every_code_and_every_kind_of_household_occurs(census: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    units, persons = census
    declared = synthetic_census(population(), name="made_up", cap=1)
    assert declared.persons is not None
    for table, columns in ((units, declared.units.columns), (persons, declared.persons.columns)):
        codes = ("RTYPE", "PERSON_RTYPE", "TEN", "HHT", "HHT2", "CPLT", "GQTYPE", "HHSPAN", "CENHISP", "CENRACE")
        for name in (*codes, "RELSHIP"):
            if name in table:
                assert set(table[name]) == set(columns[name].codes), name
    children = persons[persons["RELSHIP"].between("25", "27")].groupby("MAFID").size()
    assert (children > 6).sum() > 20, "more children than any threshold keeps"


def test_the_ages_of_a_household_fit_together(census: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    _, persons = census
    housed = persons[persons["PERSON_RTYPE"] == "3"]
    householders = housed[housed["RELSHIP"] == "20"].set_index("MAFID")["QAGE"]
    assert householders.min() >= 18
    younger = housed["MAFID"].map(householders) - housed["QAGE"]
    relationship = housed["RELSHIP"]
    assert younger[relationship.between("25", "27")].min() >= 15
    assert younger[relationship.between("21", "24")].abs().max() <= 20
    assert younger[relationship == "30"].min() >= 30
    assert younger[relationship.isin(["29", "31"])].max() <= -15
    assert housed[relationship == "35"]["QAGE"].max() < 18


def test_residents_of_group_quarters_match_its_type(census: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    units, persons = census
    quarters = units[units["RTYPE"] == "4"].set_index("MAFID")
    assert quarters["FINAL_POP"].min() >= 1, "nobody's group quarters are no group quarters"
    residents = persons[persons["PERSON_RTYPE"] == "5"]
    ages = residents["QAGE"].groupby(residents["MAFID"].map(quarters["GQTYPE"]))
    youngest, eldest = ages.min(), ages.max()
    expected = {
        "1": (18, 67),
        "2": (8, 17),
        "3": (55, 101),
        "4": (18, 97),
        "5": (18, 23),
        "6": (18, 40),
        "7": (0, 89),
    }
    for code, (low, high) in expected.items():
        assert low <= youngest[code] < eldest[code] <= high, code
    assert youngest["7"] < 18 < eldest["7"]


def test_race_and_ethnicity_vary_by_place_and_cluster_in_households(census: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    units, persons = census
    occupied = units[units["HHT"] != "0"]
    tract = occupied["TABBLKST"] + occupied["TABBLKCOU"] + occupied["TABTRACTCE"]
    for trait in (occupied["HHSPAN"] == "2", occupied["HHRACE"] == "02"):
        share = trait.groupby(tract).mean()[tract.value_counts() > 300]
        independent = (trait.mean() * (1 - trait.mean()) / 300) ** 0.5
        assert share.std() > 3 * independent, "tracts differ by more than chance"
    housed = persons[persons["RELSHIP"].between("21", "33")].merge(units[["MAFID", "HHRACE", "HHSPAN"]], on="MAFID")
    assert 0.8 < (housed["CENRACE"] == housed["HHRACE"]).mean() < 0.97
    assert 0.85 < (housed["CENHISP"] == housed["HHSPAN"]).mean() < 0.99


def test_geography_is_nested_down_to_blocks(census: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    units, _ = census
    block_group = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE"]
    blocks = units.groupby([*block_group, "TABBLK"]).size()
    assert 18 < len(units) / len(blocks) < 26
    assert blocks.max() > 60 > 5 > blocks.min()
    assert (units["TABBLK"].str[0] == units["TABBLKGRPCE"]).all()
    groups = units.groupby(block_group).size()
    assert 350 < groups.mean() < 600
    tracts = units.groupby(["TABBLKST", "TABTRACTCE"])["TABBLKCOU"].nunique()
    assert tracts.max() == 1, "tracts do not cross counties"
    counties = units[units["TABBLKST"] == "48"].groupby("TABBLKCOU").size()
    assert len(counties) > 1
    places = units["PLACEFP"] != "99999"
    assert 0.5 < places.mean() < 0.95


# The usual path: through the reader's validation into the asset


@pytest.mark.prove
def test_the_asset_gives_the_same_census_as_writing_it_directly(tmp_path: Path) -> None:
    declaration = synthetic_census(population(), name="made_up", cap=1)
    straight, _, _ = make_census(tmp_path, population())
    with Warehouse(folder=str(tmp_path / "other")).session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, declaration, tmp_path, VERSION_KEY)
        assert session.content_version(declaration.cef_tables()) == straight


@pytest.mark.deep
def test_a_synthetic_census_is_labelled_synthetic(tmp_path: Path) -> None:
    declaration = synthetic_census(population(300), name="made_up", cap=1, description="For a try.")
    assert declaration.synthetic
    assert declaration.title == "Synthetic census of Alabama and Alaska"
    assert synthetic_census(population(3, "01", "02", "04"), name="m", cap=1).title == "Synthetic census of 3 states"
    shown = describe(declaration)
    assert "**Synthetic**" in shown
    assert "For a try." in shown
    assert "A synthetic census of 300 households in 2 states (seed 7)" in shown
    resources = resources_of(Warehouse(folder=str(tmp_path)), Custody(folder=str(tmp_path / "custody")))
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(build_cef(declaration, tmp_path), resources=resources, instance=instance)
        assert {found.check_name: found.passed for found in result.get_asset_check_evaluations()} == {
            "schema_and_keys": True,
            "as_read": True,
            "structure": True,
        }
        (materialization,) = result.asset_materializations_for_node("made_up__cef")
    assert materialization.metadata["source"].value == "built-in synthetic_census"
    assert materialization.metadata["persons"].value


def test_a_synthetic_census_cannot_be_declared_otherwise() -> None:
    declaration = synthetic_census(population(), name="made_up", cap=1)
    told: dict[str, Any] = {name: getattr(declaration, name) for name in type(declaration).model_fields}
    with pytest.raises(ValidationError, match="a synthetic census must be declared synthetic"):
        type(declaration).model_validate(told | {"synthetic": False})
    with pytest.raises(ValidationError, match="the reader of a synthetic census is"):
        type(declaration).model_validate(told | {"reader": "csv"})
    plain = {name: told[name] for name in DatasetDeclaration.model_fields}
    with pytest.raises(ValidationError, match="declared by the component SyntheticCensus"):
        DatasetDeclaration.model_validate(plain)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"households": 0}, "greater than or equal to 1"),
        ({"households": 1}, "2 states need at least one household each"),
        ({"states": []}, "at least one state"),
        ({"states": ["01", "03"]}, "03: not a FIPS code"),
        ({"states": ["01", "01"]}, "named twice"),
        ({"seed": -1}, "greater than or equal to 0"),
        ({"counties": 3}, "Extra inputs"),
    ],
)
def test_impossible_parameters_are_refused(parameters: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        SyntheticPopulation.model_validate({"households": 100, "states": ["01", "02"]} | parameters)


# Files in the production layout


@pytest.mark.prove
@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_a_sample_read_back_from_its_files_is_the_same_census(tmp_path: Path, file_format: str) -> None:
    made_from, _, _ = make_census(tmp_path, population())
    arguments = ["--households", "3000", "--states", "01", "02", "--seed", "7", "--format", file_format]
    main([str(tmp_path / "sample"), *arguments])
    declaration = CensusDeclaration.model_validate(
        {
            "name": "made_up",
            "title": "Read back",
            "reader": file_format,
            "cap": 1,
            "units": census_units(
                f"sample/units.{file_format}", f"sample/geo.{file_format}", group_quarters_types=True
            ),
            "persons": census_persons(f"sample/persons.{file_format}"),
        }
    )
    with Warehouse(folder=str(tmp_path / "other")).session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, declaration, tmp_path, VERSION_KEY)
        assert session.content_version(declaration.cef_tables()) == made_from


def test_the_same_sample_gives_the_same_files(tmp_path: Path) -> None:
    first, second = (write_sample(tmp_path / name, population(200, "44")) for name in ("first", "second"))
    assert [path.name for path in first] == ["persons.csv", "units.csv", "geo.csv"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].read_text().startswith("RTYPE,MAFID,QAGE,CENHISP,CENRACE,RELSHIP\n")
    assert first[1].read_text().startswith("RTYPE,MAFID,FINAL_POP,NPF,HHSPAN,HHRACE,TEN,HHT,HHT2,CPLT,GQTYPE\n")


@pytest.mark.prove
def test_the_command_line_says_what_is_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "assets.cef.sample", str(tmp_path), "--states", "99"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert refused.returncode == 2
    assert "states: Value error, 99: not a FIPS code" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_populations_of_the_states_are_those_of_2020() -> None:
    lines = STATES_2020.read_text().splitlines()[1:]
    populations = {line.split(",")[0]: int(line.split(",")[3]) for line in lines}
    assert set(populations) == set(STATES)
    # The resident population of the fifty states and the District of Columbia, as published.
    assert sum(number for state, number in populations.items() if state != "72") == 331_449_281
    assert Counter(line.split(",")[1] for line in lines) == {"1": 9, "2": 12, "3": 17, "4": 13, "9": 1}


@pytest.mark.prove
def test_ten_million_persons_are_made_within_the_memory_limit(tmp_path: Path) -> None:
    declaration = synthetic_census(population(4_000_000, "01", "06", "36"), name="made_up", cap=1)
    with Warehouse(folder=str(tmp_path), memory_limit="2GiB").session(writes=Zone.CONFIDENTIAL) as session:
        write(session, declaration)
        assert session.count(declaration.cef_tables()[1]) > 10_000_000
        assert structure_findings(structure_offenders(session, declaration)) == []
