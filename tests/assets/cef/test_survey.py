"""A synthetic survey is reproducible, follows its declared design exactly, and its persons are plausible.

Seeds are fixed, so no test here can fail by chance. Tolerances of shares are stated where they are used.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from assets.cef.asset import describe
from assets.cef.ingestion import ingest
from assets.cef.survey import (
    LARGEST_INCOME,
    Cell,
    Stratum,
    SurveyDesign,
    SurveyParameters,
    SyntheticSurveyDeclaration,
    survey_cells,
    synthetic_survey,
)
from assets.cef.validation import cef_problems
from assets.release.dataset import DatasetDeclaration
from mechanisms.states import STATES
from resources.statements import SQL_FOLDER, Zone
from resources.warehouse import Warehouse
from tests.depth import deep_cases

VERSION_KEY = bytes(range(32))
WAVES = 4


def parameters(households: int = 300, waves: int = WAVES, seed: int = 7, **fields: Any) -> SurveyParameters:
    return SurveyParameters.model_validate(
        {"seed": seed, "households": households, "states": ["10", "44"], "waves": waves} | fields
    )


def made(folder: Path, of: SurveyParameters, threads: int = 0) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    """Data version, households and persons of a synthetic survey, from its source through validation into the CEF."""
    declaration = synthetic_survey(of, name="panel", cap=1)
    warehouse = Warehouse(folder=str(folder / f"warehouse{threads}"), threads=threads)
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        version = ingest(session, declaration, folder, VERSION_KEY).content
        assert cef_problems(session, declaration) == []
        tables = [
            session.arrow("cef/records", columns=list(records.stored), table=table).to_pandas()
            for table, records in zip(declaration.cef_tables(), declaration.tables.values(), strict=True)
        ]
    return version, tables[0].sort_values("household"), tables[1].sort_values("person")


Survey = tuple[pd.DataFrame, pd.DataFrame]


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Households and persons of a survey of 5,000 households in two states over four waves."""
    _, households, persons = made(tmp_path_factory.mktemp("survey"), parameters(5000))
    return households, persons


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    """Data version, households and persons of a survey of 300 households."""
    return made(tmp_path_factory.mktemp("small"), parameters())


def with_household(survey: Survey) -> pd.DataFrame:
    """The persons with the columns of their households."""
    households, persons = survey
    return persons.merge(households, on="household", validate="many_to_one")


# The same parameters, the same records


def test_a_survey_never_changes(small: tuple[str, pd.DataFrame, pd.DataFrame]) -> None:
    """A figure of a run. If it changes, increase `CODE_VERSION` of the CEF, as the same YAML gives other records."""
    assert small[0] == "2cd7639c41eaeed0f0076373a96896dc1fe143db7de605b935d023cc347a7e0e"


@pytest.mark.prove
def test_a_survey_is_the_same_on_any_number_of_threads(tmp_path: Path) -> None:
    """So many households that DuckDB divides them among threads."""
    versions = {made(tmp_path, parameters(150_000, 1), threads=threads)[0] for threads in (1, 4)}
    assert len(versions) == 1


@pytest.mark.deep
def test_another_seed_gives_other_persons_under_the_same_design(
    tmp_path: Path, small: tuple[str, pd.DataFrame, pd.DataFrame]
) -> None:
    version, households, persons = small
    other_version, others, of_others = made(tmp_path, parameters(seed=8))
    assert version != other_version
    columns = ["household", "state", "sampling_stratum", "design_weight"]
    pd.testing.assert_frame_equal(households[columns], others[columns])
    assert (households["household_size"].to_numpy() != others["household_size"].to_numpy()).mean() > 0.5
    both = persons.merge(of_others, on="person", suffixes=("", "_other"))
    for column in ("age", "income_1", "race_hispanic", "sex"):
        assert (both[column] != both[f"{column}_other"]).mean() > 0.4, column


def test_every_digest_depends_on_the_seed_and_has_a_purpose_of_its_own() -> None:
    """Otherwise draws of two purposes would be the same numbers, and draws without the seed the same in every
    survey."""
    text = "".join(path.read_text("utf-8") for path in sorted((SQL_FOLDER / "cef").glob("survey_*.sql")))
    purposes = re.findall(r"md5_number\(\$seed::VARCHAR \|\| ':(\w+):'", text)
    assert len(purposes) == text.count("md5") == len(set(purposes)) == 3


@pytest.mark.deep
def test_one_person_is_one_record_whatever_the_number_of_waves(
    tmp_path: Path, small: tuple[str, pd.DataFrame, pd.DataFrame]
) -> None:
    """A file with a record for each person and wave would have another unit of protection."""
    _, households, persons = small
    _, same_households, longer = made(tmp_path, parameters(waves=12))
    pd.testing.assert_frame_equal(households, same_households)
    assert len(persons) == len(longer)
    assert longer["person"].is_unique
    assert list(longer)[: len(persons.columns)] == list(persons), "the columns of further waves come last"
    shared = [column for column in persons if column != "panel_weight"]
    pd.testing.assert_frame_equal(persons[shared], longer[shared])
    assert sum(column.startswith("income_") for column in longer) == 12


# Persons and households


def test_every_person_is_in_a_household_and_every_household_has_its_number_of_persons(survey: Survey) -> None:
    households, persons = survey
    assert len(households) == 5000
    assert households["household"].is_unique
    assert persons["person"].is_unique
    assert (persons["person"] // 100 == persons["household"]).all()
    sizes = persons.groupby("household").size()
    pd.testing.assert_series_equal(
        households.set_index("household")["household_size"], sizes, check_names=False, check_dtype=False
    )


def test_every_code_and_both_ends_of_the_bounds_occur(survey: Survey) -> None:
    """A domain that is too wide would put empty cells into every table."""
    declared = synthetic_survey(parameters(5000), name="panel", cap=1)
    for frame, records in zip(survey, declared.tables.values(), strict=True):
        assert list(frame) == list(records.stored)
        for name, column in records.variables.items():
            if column.values is not None:
                assert set(frame[name]) == set(column.codes), name
    households, persons = survey
    assert set(households["household_size"]) == set(range(1, 9))
    assert 0 == persons["age"].min() < 95 < persons["age"].max() <= 100


def test_age_bands_contain_the_ages(survey: Survey) -> None:
    _, persons = survey
    ages = persons.groupby("age_band")["age"].agg(["min", "max"])
    assert ages.loc["00-14"].tolist() == [0, 14]
    assert ages.loc["15-24"].tolist() == [15, 24]
    assert ages.loc["65-74"].tolist() == [65, 74]
    assert ages.loc["75+", "min"] == 75


# The design


def exact_weights(cell: Cell, stratum: Stratum) -> tuple[Fraction, Fraction, Fraction]:
    """The weights of a cell as the page of the survey states them, before they are rounded."""
    design = 1 / stratum.sampling_rate
    answered = Fraction(cell.sampled, cell.stayers[0])
    return design, design * answered, design * answered * Fraction(cell.stayers[0], cell.stayers[-1])


RATE = st.fractions(min_value=Fraction(1, 10), max_value=1, max_denominator=1000)


@given(
    st.integers(min_value=8, max_value=100_000),
    st.integers(min_value=1, max_value=12),
    st.lists(st.builds(lambda *rates: rates, RATE, RATE, RATE), min_size=2, max_size=2),
    st.integers(min_value=0, max_value=4),
)
def test_weights_are_the_reciprocals_of_the_rates_times_the_adjustments(
    households: int, waves: int, rates: list[tuple[Fraction, Fraction, Fraction]], places: int
) -> None:
    names = ("sampling_rate", "response_rate", "retention_rate")
    low_income, other = (Stratum.model_validate(dict(zip(names, each, strict=True))) for each in rates)
    design = SurveyDesign(low_income=low_income, other=other)
    of = parameters(households, waves, states=["10", "44", "48", "56"], design=design, weight_places=places)
    cells = survey_cells(of)
    assert [(cell.state, cell.stratum) for cell in cells] == [
        (state, stratum) for state in ("10", "44", "48", "56") for stratum in ("low_income", "other")
    ]
    assert sum(cell.households for cell in cells) == households
    for cell in cells:
        stratum = getattr(design, cell.stratum)
        assert cell.sampled >= cell.households >= 1
        # Rounded from the declared rates, and at least one household stays.
        assert abs(cell.households - cell.sampled * stratum.response_rate) <= stratum.response_rate
        assert len(cell.stayers) == waves
        for wave, stayers in enumerate(cell.stayers):
            expected = cell.households * stratum.retention_rate**wave
            assert abs(stayers - expected) <= Fraction(1, 2) or (stayers == 1 and expected < 1)
        exact = exact_weights(cell, stratum)
        rounding = Fraction(1, 2 * 10**places)
        for weight, of_cell in zip((cell.design_weight, cell.person_weight, cell.panel_weight), exact, strict=True):
            assert abs(Fraction(weight) - of_cell) <= rounding
            assert -weight.as_tuple().exponent == places  # type: ignore[operator]
        # The weights of the answering households, and of those that stayed, add up to the frame.
        assert cell.frame == exact[1] * cell.households == exact[2] * cell.stayers[-1]
        assert exact[0] <= exact[1] <= exact[2]


def test_the_stored_weights_are_those_of_the_design_and_add_up_to_the_frame(survey: Survey) -> None:
    persons = with_household(survey)
    last = persons[f"employment_{WAVES}"] != "not_interviewed"
    for cell in survey_cells(parameters(5000)):
        here = (persons["state"] == cell.state) & (persons["sampling_stratum"] == cell.stratum)
        assert set(persons[here]["design_weight"]) == {cell.design_weight}
        assert set(persons[here]["person_weight"]) == {cell.person_weight}
        assert set(persons[here & last]["panel_weight"]) == {cell.panel_weight}
        assert set(persons[here & ~last]["panel_weight"]) == {Decimal(0)}
        # One person of each household stands for the household.
        householders = persons[here].drop_duplicates("household")
        assert len(householders) == cell.households
        for weight, households in (("person_weight", cell.households), ("panel_weight", cell.stayers[-1])):
            total = Fraction(householders[weight].sum())
            assert abs(total - cell.frame) <= Fraction(households, 200), "each weight is rounded to a hundredth"


@pytest.mark.deep
def test_weights_undo_what_the_design_does_to_the_shares(tmp_path: Path, survey: Survey) -> None:
    """Under equal rates, the survey is its frame in small. The weighted shares of another design must be near those.

    Tolerance: 0.03, which no share exceeds with this seed; the unweighted share of a stratum is 0.1 too high.
    """
    equal = Stratum(sampling_rate=Fraction(1, 100), response_rate=Fraction(1), retention_rate=Fraction(1))
    design = SurveyDesign(low_income=equal, other=equal)
    _, households, persons = made(tmp_path, parameters(5000, design=design))
    frame = with_household((households, persons))
    assert set(frame["person_weight"]) == {Decimal(100)}
    sample = with_household(survey)
    for trait in ("sampling_stratum", "tenure", "education", "race_hispanic"):
        expected = frame[trait].value_counts(normalize=True)
        assert expected[expected > 0].size > 1
        for weight in ("person_weight", "panel_weight"):
            weights = sample[weight].astype(float)
            weighted = weights.groupby(sample[trait]).sum() / weights.sum()
            assert (weighted - expected).abs().max() < 0.03, (trait, weight)
    unweighted = sample["sampling_stratum"].value_counts(normalize=True)["low_income"]
    assert unweighted - frame["sampling_stratum"].value_counts(normalize=True)["low_income"] > 0.1


# Waves


def waves_of(persons: pd.DataFrame) -> Iterator[tuple[int, pd.Series, pd.Series, pd.Series]]:
    for wave in range(1, WAVES + 1):
        yield wave, *(persons[f"{name}_{wave}"] for name in ("employment", "health_insurance", "income"))


def test_households_leave_for_good_and_as_many_as_the_design_says(survey: Survey) -> None:
    persons = with_household(survey)
    away = pd.DataFrame({wave: employment == "not_interviewed" for wave, employment, _, _ in waves_of(persons)})
    assert not away[1].any()
    for wave in range(2, WAVES + 1):
        assert (away[wave] >= away[wave - 1]).all(), "who has left does not come back"
    assert (away.groupby(persons["household"]).nunique() == 1).all(axis=None), "households leave as a whole"
    households = away.groupby([persons["state"], persons["sampling_stratum"], persons["household"]]).first()
    stayed = (~households).groupby(level=[0, 1]).sum()
    assert {key: tuple(row) for key, row in stayed.iterrows()} == {
        (cell.state, cell.stratum): cell.stayers for cell in survey_cells(parameters(5000))
    }


def test_incomes_keep_their_bounds_and_are_zero_for_those_who_have_none(survey: Survey) -> None:
    _, persons = survey
    child = persons["age"] < 15
    for _, employment, insurance, income in waves_of(persons):
        assert 0 == income.min() < 40_000 < income.max() <= LARGEST_INCOME
        assert ((employment == "not_interviewed") == (insurance == "not_interviewed")).all()
        assert ((employment == "under_15") == (child & (employment != "not_interviewed"))).all()
        assert (income[child | (employment == "not_interviewed")] == 0).all()
        assert (income[employment == "employed"] > 0).all()
    assert (persons["income_1"] == LARGEST_INCOME).any(), "the bound is one that incomes reach"


def test_income_depends_on_education_age_and_employment(survey: Survey) -> None:
    persons = with_household(survey)
    grown = persons[persons["age"].between(25, 64)]
    employed = grown[grown["employment_1"] == "employed"]
    by_education = employed.groupby("education")["income_1"].median()
    order = ["less_than_high_school", "high_school", "some_college", "bachelor", "graduate"]
    assert by_education[order].is_monotonic_increasing
    assert by_education["graduate"] > 2 * by_education["less_than_high_school"]
    young = persons[(persons["employment_1"] == "employed") & (persons["age"] < 25)]["income_1"].median()
    assert young < 0.7 * employed["income_1"].median()
    assert grown[grown["employment_1"] != "employed"]["income_1"].median() < 0.3 * employed["income_1"].median()
    assert employed["income_1"].mean() > 1.15 * employed["income_1"].median(), "incomes are skewed"
    stayed = employed[employed["employment_4"] == "employed"]
    assert stayed["income_1"].corr(stayed["income_4"]) > 0.9
    assert (stayed["income_1"] != stayed["income_4"]).mean() > 0.9
    insured = employed.groupby(employed["income_1"] >= 3000)["health_insurance_1"].apply(
        lambda kinds: (kinds == "private").mean()
    )
    assert insured[True] > insured[False] + 0.1


def test_employment_is_a_stationary_markov_chain(survey: Survey) -> None:
    """Tolerances are four standard errors among about 5,000 adults of working age, or wider."""
    _, persons = survey
    adults = persons[persons["age"].between(25, 64) & (persons["panel_weight"] > 0)]
    shares = [employment[adults.index].value_counts(normalize=True) for _, employment, _, _ in waves_of(persons)]
    for share in shares[1:]:
        assert (share - shares[0]).abs().max() < 0.03, "the shares stay those of the first wave"
    assert 0.6 < shares[0]["employed"] < 0.8
    assert 0.03 < shares[0]["unemployed"] < 0.07
    stays = {code: (adults[adults["employment_1"] == code]["employment_2"] == code).mean() for code in shares[0].index}
    assert stays["employed"] > 0.95
    assert stays["not_in_labor_force"] > 0.9
    assert 0.5 < stays["unemployed"] < 0.75
    # Given the second wave, the third is independent of the first: half of the unemployed draw again.
    unemployed = adults[adults["employment_2"] == "unemployed"]
    left = (unemployed["employment_3"] != "unemployed").groupby(unemployed["employment_1"] == "unemployed").mean()
    assert abs(left[True] - left[False]) < 0.25


# The declaration


def test_a_survey_is_labelled_synthetic_and_cannot_be_declared_otherwise() -> None:
    declaration = synthetic_survey(parameters(), name="panel", cap=1, description="For a try.")
    assert declaration.title == "Synthetic survey of Delaware and Rhode Island"
    shown = describe(declaration)
    assert "**Synthetic**" in shown
    assert "For a try." in shown
    assert "A synthetic survey of 300 households in 2 states over 4 waves (seed 7)" in shown
    assert "Each person is one record" in shown
    told: dict[str, Any] = {name: getattr(declaration, name) for name in type(declaration).model_fields}
    with pytest.raises(ValidationError, match="a synthetic survey must be declared synthetic"):
        SyntheticSurveyDeclaration.model_validate(told | {"synthetic": False})
    with pytest.raises(ValidationError, match="the reader of a synthetic survey is"):
        SyntheticSurveyDeclaration.model_validate(told | {"reader": "csv"})
    plain = {name: told[name] for name in DatasetDeclaration.model_fields}
    with pytest.raises(ValidationError, match="declared by the component SyntheticSurvey"):
        DatasetDeclaration.model_validate(plain)


def test_the_bounds_of_the_weights_follow_from_the_design_and_not_from_the_records() -> None:
    """They are public, so they must be the same for every seed."""
    first, second = (synthetic_survey(parameters(seed=seed), name="panel", cap=1) for seed in (1, 2))
    assert first.units == second.units
    assert first.persons == second.persons
    assert first.persons is not None
    weights = [cell.person_weight for cell in survey_cells(parameters())]
    assert first.persons.columns["person_weight"].bounds == (min(weights), max(weights))


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"households": 3}, "2 states of 2 strata need at least one household in each stratum"),
        ({"waves": 13}, "less than or equal to 12"),
        ({"weight_places": 5}, "less than or equal to 4"),
        ({"states": ["03"]}, "03: not a FIPS code"),
        (
            {"households": 8, "design": {"low_income": dict.fromkeys(Stratum.model_fields, 0)}},
            "0 is not above 0 and at most 1",
        ),
        (
            {
                "households": 200_000_000,
                "waves": 12,
                "design": {
                    stratum: dict.fromkeys(Stratum.model_fields, "1/1000000") for stratum in ("low_income", "other")
                },
            },
            "a weight would have more than 14 digits",
        ),
    ],
)
def test_impossible_parameters_are_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        parameters(**fields)


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize(
    ("households", "states", "waves"), [(2, ["72"], 1), (4, ["02", "56"], 12), (120, list(STATES), 2)]
)
def test_a_survey_of_any_size_is_valid(tmp_path: Path, households: int, states: list[str], waves: int) -> None:
    _, units, persons = made(tmp_path, parameters(households, waves, states=states))
    assert len(units) == households
    assert set(units["state"]) == set(states)
    assert set(units.groupby("state")["sampling_stratum"].nunique()) == {2}
    assert units["household_size"].sum() == len(persons)
    if waves == 1:
        assert (persons["panel_weight"] == persons["person_weight"]).all(), "nobody leaves before the second wave"


@pytest.mark.prove
def test_nearly_a_million_persons_are_made_within_the_memory_limit(tmp_path: Path) -> None:
    declaration = synthetic_survey(parameters(400_000, 12, states=["06", "36", "48"]), name="panel", cap=1)
    with Warehouse(folder=str(tmp_path), memory_limit="512MiB").session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, declaration, tmp_path, VERSION_KEY)
        assert session.count(declaration.cef_tables()[1]) > 900_000
