"""A synthetic survey: persons in sampled households over several waves, with weights from a declared design.

This module defines the parameters, computes from the design the weights of each stratum's households and how many of
them answer and stay, and declares the columns. `sql/cef/survey_plan.sql`, and the two statements that include it,
compose the households and persons. All values follow from the parameters by MD5 and exact arithmetic, so that the same
parameters give the same records on any machine.

A person is one record with a column for each answer of each wave. A change of one person therefore changes one record,
for any number of waves. The figures are only plausible, not fitted to a survey.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any, Self

import dagster as dg
from pydantic import ConfigDict, Field, model_validator

from assets.cef.census import CODES
from assets.cef.generated import SEED, GeneratedDeclaration, Parameters, States, count, divide, find_stride, read_states
from assets.release.columns import Column
from assets.release.dataset import Reader, Size
from assets.release.numbers import DesignRate
from mechanisms.states import STATES
from resources.statements import Fragment, quote_literal

MOST_WAVES = 12
LARGEST_INCOME = 50_000
"""The greatest monthly income in dollars; greater incomes are recorded as this one."""

LARGEST_WEIGHT = 10**14
"""Weights are less than this, so that a decimal column holds them."""

_PERSONS_PER_HOUSEHOLD = 2.3

_FRAME_SHARES = {"low_income": Fraction(3, 10), "other": Fraction(7, 10)}
"""The shares of the strata among the households of each state."""


class Stratum(dg.Model):
    """The shares of a stratum's households that are sampled, answer in the first wave, and stay."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sampling_rate: DesignRate = Field(description="The share of the stratum's households that are sampled.")
    response_rate: DesignRate = Field(description="The share of the sampled households that answer in the first wave.")
    retention_rate: DesignRate = Field(
        description="Of the households that answer in one wave, the share that answers in the next."
    )


_LOW_INCOME = Stratum(sampling_rate=Fraction(1, 1500), response_rate=Fraction(7, 10), retention_rate=Fraction(23, 25))
_OTHER = Stratum(sampling_rate=Fraction(1, 3000), response_rate=Fraction(4, 5), retention_rate=Fraction(19, 20))


class SurveyDesign(dg.Model):
    """The strata of each state: households in areas of low income, and all others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    low_income: Stratum = Field(
        _LOW_INCOME,
        description="Households in areas of low income, which are sampled at a higher rate by default.",
    )
    other: Stratum = Field(_OTHER, description="All other households.")


class SurveyParameters(Parameters):
    """The parameters of a synthetic survey."""

    statements = "survey"
    record_name = "household"

    seed: int = Field(
        SEED,
        ge=0,
        lt=2**63,
        strict=True,
        description="The seed of the random numbers. Another seed gives another survey of the same design.",
    )
    households: int = Field(
        ge=1,
        le=200_000_000,
        strict=True,
        description="The number of households that answer in the first wave, with 2.3 persons on average.",
    )
    states: States = Field(
        description="FIPS codes of the states. Their populations in 2020 and the rates of the design determine how the "
        "households are divided among them."
    )
    waves: int = Field(4, ge=1, le=MOST_WAVES, strict=True, description="The number of waves.")
    design: SurveyDesign = Field(
        SurveyDesign(low_income=_LOW_INCOME, other=_OTHER),
        description="The rates of sampling, response and retention in each stratum, which determine the weights.",
    )
    weight_places: int = Field(2, ge=0, le=4, strict=True, description="The decimal places of the rounded weights.")

    @model_validator(mode="after")
    def _check_cells(self) -> Self:
        strata = len(_FRAME_SHARES)
        if self.households < strata * len(self.states):
            raise ValueError(
                f"households: {len(self.states)} states of {strata} strata need at least one household in each stratum"
            )
        if max(max(cell.person_weight, cell.panel_weight) for cell in survey_cells(self)) >= LARGEST_WEIGHT:
            raise ValueError("design: a weight would have more than 14 digits before the point")
        return self

    @property
    def size(self) -> Size:
        """The size of the survey: households exactly, persons on average."""
        return Size(self.households, round(_PERSONS_PER_HOUSEHOLD * self.households))

    @property
    def origin(self) -> str:
        frame = floor(sum(cell.frame for cell in survey_cells(self)))
        return (
            f"A synthetic survey of {self.households:,} households in {count(len(self.states), 'state')} over "
            f"{count(self.waves, 'wave')} (seed {self.seed}): no record is about a real person. They stand for the "
            f"{frame:,} households that the design samples from. Each person is one record with the answers of all "
            "waves."
        )

    def columns(self) -> tuple[dict[str, Column], dict[str, Column]]:
        return household_columns(self), person_columns(self)

    def placeholders(self) -> dict[str, Any]:
        cells = survey_cells(self)
        of_state = {state: sum(cell.households for cell in cells if cell.state == state) for state in self.states}
        rows: list[dict[str, Any]] = []
        first = first_of_state = 0
        for cell in cells:
            if not rows or rows[-1]["fips"] != int(cell.state):
                first_of_state = first
            rows.append(
                {
                    "fips": int(cell.state),
                    "low_income": Fragment("true" if cell.stratum == "low_income" else "false"),
                    "first": first,
                    "first_of_state": first_of_state,
                    "households_of_state": of_state[cell.state],
                    "stride": find_stride(of_state[cell.state]),
                    "households": cell.households,
                    "stayers": cell.stayers,
                    "design_weight": quote_literal(cell.design_weight),
                    "person_weight": quote_literal(cell.person_weight),
                    "panel_weight": quote_literal(cell.panel_weight),
                }
            )
            first += cell.households
        return {
            "cells": rows,
            "households": self.households,
            "waves": self.waves,
            "largest_income": LARGEST_INCOME,
        }


@dataclass(frozen=True)
class Cell:
    """A stratum of a state, with the numbers of its households and their weights.

    Attributes:
        frame: the number of the cell's households in the frame: sampled households divided by the sampling rate.
        sampled: the number of sampled households.
        stayers: by wave, the number of households that answered in it and in all earlier waves.
        design_weight: the reciprocal of the sampling rate.
        person_weight: the design weight, adjusted for nonresponse: times sampled households / answering households.
        panel_weight: the person weight, adjusted for attrition: times the households of the first wave / the households
            of the last wave. It is for persons who answered in all waves.
    """

    state: str
    stratum: str
    frame: Fraction
    sampled: int
    stayers: tuple[int, ...]
    design_weight: Decimal
    person_weight: Decimal
    panel_weight: Decimal

    @property
    def households(self) -> int:
        """The households that answered in the first wave. The file has only these."""
        return self.stayers[0]


def survey_cells(parameters: SurveyParameters) -> list[Cell]:
    """The cells of a survey, by state and stratum.

    The numbers of households that answer and stay are fixed, rounded from the rates; only the choice of households is
    drawn. The weights therefore follow from the parameters alone.
    """
    population = {state: read_states()[state]["population"] for state in parameters.states}
    strata = [(state, code, stratum) for state in population for code, stratum in parameters.design]
    answering = divide(
        parameters.households,
        [
            population[state] * _FRAME_SHARES[code] * stratum.sampling_rate * stratum.response_rate
            for state, code, stratum in strata
        ],
    )
    cells = []
    for (state, code, stratum), households in zip(strata, answering, strict=True):
        sampled = max(households, round(households / stratum.response_rate))
        stayers = tuple(max(1, round(households * stratum.retention_rate**wave)) for wave in range(parameters.waves))
        of_persons = sampled / (households * stratum.sampling_rate)
        weights = (1 / stratum.sampling_rate, of_persons, of_persons * stayers[0] / stayers[-1])
        cells.append(
            Cell(
                state,
                code,
                sampled / stratum.sampling_rate,
                sampled,
                stayers,
                *(_round(weight, parameters.weight_places) for weight in weights),
            )
        )
    return cells


def _round(weight: Fraction, places: int) -> Decimal:
    return Decimal(floor(weight * 10**places + Fraction(1, 2))).scaleb(-places)


class SyntheticSurveyDeclaration(GeneratedDeclaration):
    """A dataset whose records are a synthetic survey."""

    generator = Reader.SYNTHETIC_SURVEY

    generated: SurveyParameters


synthetic_survey = SyntheticSurveyDeclaration.from_parameters


def household_columns(parameters: SurveyParameters) -> dict[str, Column]:
    """The columns of the households. Only their size follows from the persons."""
    weights = [cell.design_weight for cell in survey_cells(parameters)]
    states = {code: STATES[code] for code in parameters.states}
    strata = {"low_income": "Area of low income", "other": "Any other area"}
    return {
        "household": _column("integer", "The household.", role="key"),
        "state": _column("string", "State (FIPS code).", role="geography", values=states),
        "sampling_stratum": _column(
            "string", "Stratum of the design, to which an area belongs.", values=strata, depends_on_persons=False
        ),
        "tenure": _column(
            "string", "Whether the home is owned or rented.", values=CODES["tenure"], depends_on_persons=False
        ),
        "household_size": _column("integer", "The number of persons in the household.", minimum=1, maximum=8),
        "design_weight": _weight(
            "Reciprocal of the rate at which the stratum is sampled.", weights, depends_on_persons=False
        ),
    }


def person_columns(parameters: SurveyParameters) -> dict[str, Column]:
    """The columns of the persons: constant attributes, then the answers of each wave."""
    cells = survey_cells(parameters)
    columns = {
        "person": _column("integer", "The person.", role="key"),
        "household": _column("integer", "The household of the person.", role="unit"),
        "sex": _column("string", "Sex.", values={"female": "Female", "male": "Male"}),
        "age": _column("integer", "Age in years at the first wave.", minimum=0, maximum=100),
        "age_band": _column("integer", "Age at the first wave.", source="age", bands=_AGE_BANDS),
        "race_hispanic": _column(
            "string", "Hispanic origin, and race of those not Hispanic.", values=CODES["race_hispanic"]
        ),
        "education": _column("string", "Highest degree at the first wave.", values=CODES["education"]),
        "person_weight": _weight(
            "Weight of the person: the design weight, adjusted for households that did not answer.",
            [cell.person_weight for cell in cells],
        ),
        "panel_weight": _column(
            "decimal",
            "Weight of a person who answered in all waves: the person weight, adjusted for households that left. 0 for "
            "all others.",
            minimum=0,
            maximum=str(max(cell.panel_weight for cell in cells)),
        ),
    }
    for wave in range(1, parameters.waves + 1):
        missing = {} if wave == 1 else _NOT_INTERVIEWED
        columns |= {
            f"employment_{wave}": _column(
                "string", f"Employment in wave {wave}.", values=CODES["employment"] | missing
            ),
            f"health_insurance_{wave}": _column(
                "string", f"Health insurance in wave {wave}.", values=CODES["health_insurance"] | missing
            ),
            f"income_{wave}": _column(
                "integer",
                f"Monthly income in dollars in wave {wave}; 0 for persons without income, under 15, or not "
                f"interviewed. {LARGEST_INCOME:,} stands for this or more.",
                minimum=0,
                maximum=LARGEST_INCOME,
            ),
        }
    return columns


_AGE_BANDS = {
    "00-14": {"below": 15},
    "15-24": {"at_least": 15, "below": 25},
    "25-34": {"at_least": 25, "below": 35},
    "35-44": {"at_least": 35, "below": 45},
    "45-54": {"at_least": 45, "below": 55},
    "55-64": {"at_least": 55, "below": 65},
    "65-74": {"at_least": 65, "below": 75},
    "75+": {"at_least": 75},
}
_NOT_INTERVIEWED = {"not_interviewed": "Not interviewed in this wave"}
"""The code of a later wave without an interview; all households in the file answered in the first wave."""


def _column(kind: str, description: str, **fields: Any) -> Column:
    return Column.model_validate({"type": kind, "description": description, **fields})


def _weight(description: str, weights: Sequence[Decimal], **fields: Any) -> Column:
    return _column("decimal", description, minimum=str(min(weights)), maximum=str(max(weights)), **fields)
