"""The fields of a release by the table builder, and the hypercubes that follow from them."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    StrictBool,
    Tag,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from assets.release.columns import Column, ColumnType, means_no_value, name_error
from assets.release.dataset import DatasetDeclaration
from assets.release.declaration import Part
from assets.release.names import ProductName, ReleaseName, SourcePath, find_repeated
from assets.release.numbers import (
    FRACTION,
    LARGEST_NUMBER,
    Delta,
    Epsilon,
    NotNegative,
    Positive,
    Rho,
    Share,
    ShareBetween,
    exact_fraction,
)
from assets.release.release import ReleaseDeclaration
from assets.release.withheld import WithheldRecords
from mechanisms.accounting.specification import DELTA
from mechanisms.refusal import RefusedError
from mechanisms.table_builder.choosing import Chosen
from mechanisms.table_builder.entropy import MOST, ImpossibleTableError, Parameters, make
from mechanisms.table_builder.grid_values import PLACES, Grid
from mechanisms.table_builder.hypercube import Consistency, Hypercube, HypercubeError, Margins, NoiseFamily, Table
from mechanisms.table_builder.moments import LARGEST_SCALE, Moments, Scale
from mechanisms.table_builder.p_table import PTable
from mechanisms.table_builder.quantiles import Tree
from mechanisms.table_builder.reading import PTableError, read_ons, read_sdctools
from resources.project import PROJECT
from resources.regular import read_regular

Number = Annotated[
    Fraction,
    BeforeValidator(exact_fraction),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER},
                {"type": "string", "pattern": FRACTION},
            ]
        }
    ),
]

FORMS: Mapping[str, Callable[[str], PTable]] = {"sdctools": read_sdctools, "ons": read_ons}
"""The export of sdcTools' `ptable`, and the CSV of the Office for National Statistics."""

LARGEST_FILE = 1 << 28
"""The greatest size of a file in bytes: a hundred times the size of the p-table that ONS publishes."""

UNITS, PERSONS = "units", "persons"


class PTableFileError(RefusedError):
    """The file of a p-table is missing, cannot be read, or contains no p-table."""


@dataclass(frozen=True)
class Amount:
    """A weight or a magnitude that a hypercube sums instead of counting records: a column and its grid with bounds."""

    column: str
    grid: Grid


Categories = dict[str, Annotated[list[int | str | bool | None], Field(min_length=1)]]
"""By variable, some of its categories as YAML gives them; null represents records without a value."""


class AmountDeclaration(Part):
    """The amount to add up: a weight or a magnitude, rounded to multiples of a grid, within bounds."""

    column: str = Field(description="The column of the records; an empty value counts as 0.")
    grid: Positive = Field(
        description="The step to whose multiples every amount is rounded, such as 10 or 0.5. It does not depend on the "
        "records."
    )
    least: Number = Field(
        Fraction(0), description="The value that replaces a smaller amount. It must be a multiple of the grid."
    )
    most: Number = Field(description="The value that replaces a greater amount. It must be a multiple of the grid.")

    def amount(self, columns: Mapping[str, Column]) -> Amount:
        """The amount. Raises ValueError if it does not fit the columns of the records or the grid."""
        with name_error("column"):
            # A code for no value does not change the sum if it is 0.
            require_amounts(self.column, columns, besides=0)
        grid = Grid(self.grid, self.least, self.most)
        if columns[self.column].nullable and not grid.least <= 0 <= grid.most:
            raise ValueError(f"least: {self.column} may be empty, which counts as 0, so the bounds must include 0")
        if (self.grid * 10**PLACES).denominator != 1:
            raise ValueError(f"grid: {self.grid} is not a number with at most {PLACES} decimals")
        return Amount(self.column, grid)


def require_amounts(name: str, columns: Mapping[str, Column], besides: object = None) -> None:
    """Raise ValueError unless a column has numbers, without a number whose label marks it as a code for no value."""
    if name not in columns:
        raise ValueError(f"there is no column {name}; there are {', '.join(columns)}")
    if columns[name].type not in (ColumnType.INTEGER, ColumnType.DECIMAL):
        raise ValueError(f"{name} is no number")
    for code, label in columns[name].labels.items():
        if means_no_value(label) and code != besides:
            raise ValueError(
                f"{name} has the code {code}, {label!r}, which is no amount; declare it under the column's null or zero"
            )


class ShareDeclaration(Part):
    """The share of a table in the budget of its hypercube."""

    by: list[str] = Field(min_length=1, description="The variables of the table.")
    share: Share = Field(description="The table's share.")


class SubTableDeclaration(Part):
    """A table to publish that is built from the hypercube."""

    name: ProductName
    title: str = Field("", description="The table's name in words.")
    by: list[str] = Field(min_length=1, description="The variables by which the table is tabulated.")
    where: Categories = Field(
        default_factory=dict, description="For further variables of the hypercube, the categories that are counted."
    )


class MadePTable(Part):
    """A p-table of greatest entropy."""

    largest_change: int = Field(ge=1, le=MOST, strict=True, description="D: the greatest change of a count.")
    variance: Positive = Field(description="V: the greatest variance of a count's change.")
    threshold: int = Field(0, ge=0, strict=True, description="js: no published count is from 1 to this number.")
    probability_to_stay: Share = Field(
        Fraction(0), description="The least probability that a count stays unchanged, if the threshold allows it."
    )
    monotone: bool | tuple[StrictBool, ...] = Field(
        True,
        description="Whether a greater change is never more probable than a smaller one in the same direction; or a "
        "list with true or false for each count from 1 to D + js + 1.",
    )

    @property
    def table(self) -> PTable:
        """The p-table. Raises ValueError if none satisfies the constraints."""
        try:
            return make(Parameters(**dict(self))).table
        except ImpossibleTableError as error:
            raise ValueError(f"p_table: {error}") from None


class GivenPTable(Part):
    """The file of a p-table that another tool has written."""

    path: SourcePath = Field(description="The file: absolute, or relative to the project's root.")
    form: Literal["ons", "sdctools"] = Field(
        description="ons: CSV with the columns pcv, ckey and pvalue, as the Office for National Statistics writes "
        "it; sdctools: the export of ptable."
    )

    @property
    def table(self) -> PTable:
        return load_p_table(PROJECT / self.path, self.form)


def load_p_table(path: Path, form: str) -> PTable:
    """The p-table in a file of one of the `FORMS`. Raises PTableFileError, which names file, line, field and rule."""
    try:
        return FORMS[form](read_regular(path, LARGEST_FILE).decode("utf-8-sig"))
    except OSError as error:
        raise PTableFileError(f"{path}: the p-table cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise PTableFileError(f"{path}: the p-table is not UTF-8 text") from None
    except PTableError as error:
        raise PTableFileError(f"{path}: {error}") from None


def _form(value: object) -> str:
    return "given" if isinstance(value, GivenPTable) or (isinstance(value, Mapping) and "path" in value) else "made"


PTableDeclaration = Annotated[
    Annotated[MadePTable, Tag("made")] | Annotated[GivenPTable, Tag("given")], Discriminator(_form)
]


Bounds = Annotated[
    tuple[Number, Number],
    Field(
        description="The least and the greatest number. A number outside these bounds is replaced by the nearer bound."
    ),
]


class StatisticAttributes(Part):
    """The common fields of quantiles and moments of a hypercube's cells, which are drawn with a budget of their own."""

    epsilon: Epsilon | SkipJsonSchema[None] = Field(
        None,
        description="ε for one record added or removed, with discrete Laplace noise. By default, the hypercube's ε.",
    )
    rho: Rho | SkipJsonSchema[None] = Field(
        None, description="Instead of epsilon: ρ for one record added or removed, with discrete Gaussian noise."
    )
    design_effect: Positive = Field(
        Fraction(1),
        description="The sampling variance of an estimate under the survey's design, divided by the sampling "
        "variance if as many records were drawn independently. It enters the sampling errors that are stated with the "
        "answers.",
    )
    products: list[SubTableDeclaration] = Field(
        default_factory=list,
        description="Tables to publish at no cost, by some of the hypercube's variables. Each row takes several "
        "cells together, and has their quantiles, or their means, deviations and correlations.",
    )

    @model_validator(mode="after")
    def _check_budget(self) -> Self:
        if self.epsilon is not None and self.rho is not None:
            raise ValueError("epsilon: declare either epsilon or rho")
        return self


class QuantilesAttributes(StatisticAttributes):
    """Quantiles of a variable, from noisy counts of a tree of intervals. Records without a value are left out."""

    bounds: Bounds
    grid: Positive = Field(
        description="The step to whose multiples numbers are rounded. Bounds must be multiples of this step."
    )
    branching: int = Field(
        16,
        ge=2,
        strict=True,
        description="The number of intervals into which each interval of the level above is divided.",
    )
    shares: list[Share] = Field(
        default_factory=list,
        description="The shares of the budget for the levels, from the root on, or for the quantiles in `at`. They "
        "must add up to 1, and are equal by default.",
    )
    margins: Margins = Field(
        Margins.SUMMED,
        description="summed: only the trees of the cells by all variables are measured; fitted: the trees "
        "of the margins are measured too, with the hypercube's shares, and all are fitted together; independent is "
        "refused.",
    )
    at: list[ShareBetween] = Field(
        default_factory=list,
        description="Quantiles that are drawn by themselves, without a tree; they need an epsilon, not a rho. One "
        "or two quantiles are more accurate this way, but have no intervals. Readers cannot ask for other quantiles, "
        "or for quantiles of several cells together.",
    )
    published: list[ShareBetween] = Field(
        default=[Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)],
        min_length=1,
        description="The quantiles of every cell that are published. Readers can ask for others.",
    )

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        if self.shares and sum(self.shares) != 1:
            raise ValueError(f"shares: they add up to {sum(self.shares)}, not to 1")
        for field, quantiles in (("published", self.published), ("at", self.at)):
            if repeated := find_repeated([write_share(quantile) for quantile in quantiles]):
                raise ValueError(f"{field}: {repeated[0]} is named twice, to six digits")
        if self.margins is Margins.INDEPENDENT:
            raise ValueError("margins: trees are summed or fitted")
        if self.at and (unused := self.model_fields_set & {"published", "branching", "margins", "products"}):
            raise ValueError(f"at: the quantiles that are drawn are published, without a tree; drop {min(unused)}")
        return self

    @property
    def values(self) -> Grid:
        """The grid of the numbers. Raises ValueError if the bounds do not lie on it."""
        if (self.grid * 10**PLACES).denominator != 1:
            raise ValueError(f"grid: {self.grid} is not a number with at most {PLACES} decimals")
        return Grid(self.grid, *self.bounds)

    def measured(self, weight: int) -> Tree | Chosen:
        """The levels or quantiles with their budgets. Raises ValueError."""
        size = self.values.most - self.values.least + 1
        budget = self.epsilon or self.rho or Fraction(0)
        if self.at:
            if self.rho is not None:
                raise ValueError("at: quantiles that are drawn by themselves have an epsilon; declare one, and no rho")
            return Chosen.shared(size, self.at, budget, self.shares, weight)
        return Tree.shared(size, self.branching, budget, self.shares, gaussian=self.rho is not None, weight=weight)


def write_share(quantile: Fraction) -> str:
    """A quantile as it is written in tables."""
    return f"{float(quantile):g}"


def _name_variables(given: object) -> object:
    return {"variables": given} if isinstance(given, list) else given


def _name_once(variables: list[str]) -> list[str]:
    if repeated := find_repeated(variables):
        raise ValueError(f"{repeated[0]} is named twice")
    return variables


class MomentsAttributes(StatisticAttributes):
    """Means, deviations, correlations and regressions of variables, from records with a value of every variable."""

    variables: list[str] = Field(min_length=1, max_length=8, description="The variables: numeric columns.")
    bounds: dict[str, Bounds] = Field(
        default_factory=dict,
        description="The bounds of each variable. By default, the bounds of its quantiles, or else of its column.",
    )
    steps: int = Field(
        1000,
        ge=1,
        le=LARGEST_SCALE,
        strict=True,
        description="M: each value of a variable is rounded to the nearest of 2M + 1 numbers between its bounds.",
    )
    widest: Positive | SkipJsonSchema[None] = Field(
        None,
        description="If the interval of an answer is wider than this multiple of the estimate, the answer is "
        "reported as too uncertain, without figures. By default, all answers have figures.",
    )

    _check_variables = field_validator("variables")(_name_once)

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if unknown := [name for name in self.bounds if name not in self.variables]:
            raise ValueError(f"bounds: {unknown[0]} is not among the variables")
        return self

    def measured(self, weight: int) -> Moments:
        """The sums with their budget. Raises ValueError."""
        budget = self.epsilon or self.rho or Fraction(0)
        return Moments(len(self.variables), self.steps, budget, self.rho is not None, weight)

    def scales(self, columns: Mapping[str, Column]) -> dict[str, Scale]:
        """By variable, its bounds. Raises ValueError if a variable has none."""
        scales = {}
        for name in sorted(self.variables):
            bounds = self.bounds.get(name, columns[name].bounds)
            if None in bounds:
                raise ValueError(f"bounds: {name} has none; declare them here")
            lower, upper = (Fraction(bound) for bound in bounds)  # type: ignore[arg-type]
            with name_error(name):
                scales[name] = Scale(lower, upper, self.steps)
        return scales


class HypercubeAttributes(Part):
    """One hypercube, with its own draw, charge and publication."""

    name: ReleaseName = Field(description="The name; the hypercube's release is called <release>_<name>.")
    title: str = Field("", description="The hypercube's name in words.")
    description: str = Field("", description="The content of the tables, for readers.")
    of: Literal["units", "persons"] = Field(
        "units", description="The records to count: units or persons. Persons have their unit's variables too."
    )
    swapped: str | SkipJsonSchema[None] = Field(
        None,
        description="The name of a swapping release of the same dataset, with withheld: true. The hypercube is counted "
        "from its swapped records instead of the dataset's own.",
    )
    variables: list[str] = Field(min_length=1, description="The variables, each with a domain that lists its values.")
    epsilon: Epsilon | SkipJsonSchema[None] = Field(
        None,
        description="ε for one record added or removed, with discrete Laplace noise or a p-table. A change of one "
        "record costs twice as much. A p-table without an epsilon has no finite loss.",
    )
    rho: Rho | SkipJsonSchema[None] = Field(
        None, description="Instead of epsilon: ρ for one record added or removed, with discrete Gaussian noise."
    )
    delta: Delta = Field(DELTA, description="δ at which a loss in ρ is stated as (ε, δ).")
    cap: Annotated[int, Field(gt=0, strict=True)] | SkipJsonSchema[None] = Field(
        None,
        description="The greatest change by discrete Laplace noise, in records or in steps of the grid. The loss "
        "then also has a δ.",
    )
    p_table: PTableDeclaration | SkipJsonSchema[None] = Field(
        None,
        description="A p-table that perturbs the counts in place of added noise. It is computed from parameters or "
        "read from a file. With an epsilon, the loss also has the δ of the p-table at this epsilon.",
    )
    consistency: Consistency = Field(
        Consistency.QUERY,
        description="query: different cells have independent noise; cell, for p-tables only: the same set of "
        "records has the same noise in every table of the hypercube. With cell, no finite ε holds, so declare no "
        "epsilon.",
    )
    record_keys: str | SkipJsonSchema[None] = Field(
        None,
        description="Only with consistency: cell: the column with the record keys, if the data have them. By "
        "default, record keys follow from the draw's key.",
    )
    margins: Margins = Field(
        Margins.SUMMED,
        description="summed: only the table by all variables is measured, and margins are its sums; independent: every "
        "margin is measured too, so the tables do not agree with each other; fitted: every margin is measured too, and "
        "the published tables agree with each other and fit all measurements best.",
    )
    shares: list[ShareDeclaration] = Field(
        default_factory=list,
        description="The tables that are measured and their shares of the budget, which must add up to 1. By "
        "default, all tables with equal shares.",
    )
    weight: AmountDeclaration | SkipJsonSchema[None] = Field(
        None, description="Weights that are added up, instead of counting records."
    )
    value: AmountDeclaration | SkipJsonSchema[None] = Field(
        None, description="A magnitude that is added up, instead of counting records."
    )
    structural_zeros: list[Categories] = Field(
        default_factory=list,
        description="Categories that never occur together in a record. Their cells are neither measured nor published.",
    )
    suppress_below: NotNegative = Field(
        Fraction(0),
        description="Estimates below this number are not published. With 0, the default, no estimate is suppressed.",
    )
    products: list[SubTableDeclaration] = Field(
        default_factory=list, description="Tables to publish from the hypercube, at no further cost."
    )
    quantiles: dict[str, QuantilesAttributes] = Field(
        default_factory=dict,
        description="The variables whose quantiles are published for every cell. The quantiles of each variable are "
        "a release of their own, which is charged separately.",
    )
    moments: Annotated[MomentsAttributes, BeforeValidator(_name_variables)] | SkipJsonSchema[None] = Field(
        None,
        description="Variables for which readers can ask for means, correlations and regressions: a list, or a "
        "mapping with further fields. These moments are a release of their own, which is charged separately.",
    )

    _check_variables = field_validator("variables")(_name_once)

    @model_validator(mode="after")
    def _check(self) -> Self:
        budgets = (self.epsilon is not None) + (self.rho is not None)
        if self.consistency is Consistency.CELL and budgets:
            raise ValueError("epsilon: no finite loss holds with consistency: cell; declare neither epsilon nor rho")
        if self.consistency is Consistency.QUERY and budgets != 1 and not (self.p_table and not budgets):
            raise ValueError("epsilon: declare either epsilon or rho")
        if self.p_table and self.rho is not None:
            raise ValueError("rho: the loss of a p-table is an ε with a δ; declare epsilon")
        with_rho = [self, *self.statistics.values()]
        if "delta" in self.model_fields_set and all(each.rho is None for each in with_rho):
            raise ValueError("delta: a loss in ε is not stated at another δ; remove delta, or declare a rho")
        if self.weight and self.value:
            raise ValueError(
                "value: a hypercube adds up weights or a magnitude, not both; write their products into a column of "
                "the file, or declare weighted moments"
            )
        for name, statistic in self.statistics.items():
            if self.suppress_below:
                raise ValueError(
                    f"{name}: the counts of a tree add up to those that suppress_below hides; remove one of the two"
                )
            if self.weight and self.weight.least < 0:
                raise ValueError(f"{name}: weights are not negative; declare a least of 0 or more")
            if (statistic.epsilon or statistic.rho) is None and (self.p_table or budgets != 1):
                raise ValueError(
                    f"{name}: declare an epsilon or a rho of its own, as the hypercube has no noise to share"
                )
        return self

    @property
    def statistics(self) -> dict[str, QuantilesAttributes | MomentsAttributes]:
        """The declared quantiles and moments, by their names in errors."""
        found: dict[str, QuantilesAttributes | MomentsAttributes] = {
            f"quantiles: {name}": quantiles for name, quantiles in self.quantiles.items()
        }
        return found | ({"moments": self.moments} if self.moments else {})

    def release_name(self, statistic: str) -> str:
        """The name of the release of one of `statistics`, to append to the name of the release that declares all."""
        kind, _, variable = statistic.partition(": ")
        named = re.sub("[^a-z0-9]+", "_", variable.lower()).strip("_")
        return "_".join(filter(None, (self.name, named, kind)))

    def only(self, name: str) -> "HypercubeAttributes":
        """The fields with which one of `statistics` is drawn: its budget, without the fields of the cells' own
        noise."""
        statistic = self.statistics[name]
        if statistic.epsilon is None and statistic.rho is None:
            statistic = statistic.model_copy(update={"epsilon": self.epsilon, "rho": self.rho})
        quantiles: dict[str, QuantilesAttributes] = {}
        moments: MomentsAttributes | None = None
        if isinstance(statistic, MomentsAttributes):
            bounds = {variable: other.bounds for variable, other in self.quantiles.items()} | statistic.bounds
            moments = statistic.model_copy(update={"bounds": bounds})
        else:
            quantiles = {name.removeprefix("quantiles: "): statistic}
        cells: dict[str, Any] = {"value": None, "margins": Margins.SUMMED, "shares": [], "cap": None}
        cells["products"] = statistic.products
        if isinstance(statistic, QuantilesAttributes) and statistic.margins is Margins.FITTED:
            cells |= {"margins": Margins.FITTED, "shares": self.shares}
        noise = {"p_table": None, "consistency": Consistency.QUERY, "record_keys": None}
        own = {"epsilon": statistic.epsilon, "rho": statistic.rho, "quantiles": quantiles, "moments": moments}
        return self.model_copy(update=cells | noise | own)

    @property
    def noise(self) -> NoiseFamily:
        if self.p_table:
            return NoiseFamily.P_TABLE
        return NoiseFamily.LAPLACE if self.rho is None else NoiseFamily.GAUSSIAN

    def amount(self, columns: Mapping[str, Column]) -> Amount | None:
        """The amount to add up instead of counting records. Raises ValueError if it does not fit the columns."""
        declared = self.weight or self.value
        try:
            return declared.amount(columns) if declared else None
        except ValueError as error:
            raise ValueError(f"{'weight' if self.weight else 'value'}: {error}") from None

    @property
    def shares_by_table(self) -> dict[Table, Fraction]:
        """The declared shares by table, whose variables are in alphabetical order."""
        shares: dict[Table, Fraction] = {}
        for declared in self.shares:
            table = tuple(sorted(declared.by))
            if table in shares:
                raise HypercubeError(f"shares: the table by {', '.join(table)} has two shares")
            shares[table] = declared.share
        return shares


class HypercubeDeclaration(ReleaseDeclaration):
    """A hypercube with the fields that all hypercubes of its release have in common."""

    hypercube: HypercubeAttributes

    def design(self, dataset: DatasetDeclaration, *, withheld: WithheldRecords | None = None, **_: Any) -> Hypercube:
        """The measured tables with their noise; `withheld` has the records that `swapped` names."""
        cube = self.hypercube
        if cube.of == PERSONS and dataset.persons is None:
            raise ValueError(f"of: {dataset.name} has no persons")
        if cube.swapped is not None:
            if withheld is None:
                raise ValueError(f"swapped: {dataset.name} has no release {cube.swapped} that is withheld")
            if (withheld.unit == dataset.record_name) != (cube.of == UNITS):
                raise ValueError(f"of: the withheld records of {withheld.name} are {withheld.unit}s")
        columns = columns_to_count(cube, dataset, withheld)
        for name in cube.variables:
            if name not in columns:
                raise ValueError(f"variables: there is no column {name} of {cube.of}; there are {', '.join(columns)}")
        amount = cube.amount(columns)
        sizes = {}
        for name in sorted(cube.variables):
            try:
                sizes[name] = columns[name].domain_size
            except ValueError as error:
                raise ValueError(f"variables: {name}: {error}") from None
        design = Hypercube(
            sizes,
            cube.epsilon or cube.rho or Fraction(0),
            cube.noise,
            cube.margins,
            cube.shares_by_table,
            cube.cap,
            *((amount.grid.least, amount.grid.most) if amount else (0, 1)),
            cube.p_table.table if cube.p_table else None,
            cube.consistency,
        )
        if cube.record_keys is not None and cube.record_keys not in columns:
            raise ValueError(f"record_keys: there is no column {cube.record_keys} of {cube.of}")
        return design


class StatisticDeclaration(HypercubeDeclaration):
    """One of the statistics of a hypercube's cells, as a separate release; `hypercube` has its budget."""

    statistic: str

    @property
    def attributes(self) -> QuantilesAttributes | MomentsAttributes:
        return self.hypercube.statistics[self.statistic]

    @property
    def variables(self) -> list[str]:
        """The variables that the statistic describes, in alphabetical order."""
        return sorted(self.hypercube.quantiles or self.attributes.variables)  # type: ignore[union-attr]

    def measured(self, weight: int) -> Tree | Chosen | Moments:
        """The measurements in every cell, for records with at most this weight in steps."""
        return self.attributes.measured(weight)

    def design(self, dataset: DatasetDeclaration, **sources: Any) -> Hypercube:
        """The hypercube with the budget and cells of the statistic."""
        design = super().design(dataset, **sources)
        columns = columns_to_count(self.hypercube, dataset, sources.get("withheld"))
        with name_error(self.statistic):
            for name in self.variables:
                require_amounts(name, columns)
            if isinstance(self.attributes, MomentsAttributes):
                self.attributes.scales(columns)
            self.measured(design.most)
        return design


def columns_to_count(
    cube: HypercubeAttributes, dataset: DatasetDeclaration, withheld: WithheldRecords | None
) -> Mapping[str, Column]:
    """The columns by which records can be tabulated: their own and, for persons, the columns of their unit."""
    if withheld:
        return withheld.columns
    own = dataset.persons.variables if cube.of == PERSONS and dataset.persons else {}
    return {**dataset.units.variables, **own}


class TableBuilderDeclaration(ReleaseDeclaration):
    """The YAML declaration of a release by the table builder."""

    hypercubes: list[HypercubeAttributes] = Field(
        min_length=1, description="The hypercubes. Each is drawn, charged and published by itself."
    )

    @field_validator("hypercubes")
    @classmethod
    def _check_names(cls, hypercubes: list[HypercubeAttributes]) -> list[HypercubeAttributes]:
        names = [name for cube in hypercubes for name in (cube.name, *map(cube.release_name, cube.statistics))]
        for name, times in Counter(names).items():
            if times > 1:
                raise ValueError(f"{name} is declared {times} times")
        return hypercubes

    def by_hypercube(self) -> list[HypercubeDeclaration]:
        """The declarations of the hypercubes and of their statistics, each of which is a separate release."""
        return [
            declared
            for cube in self.hypercubes
            for declared in (
                HypercubeDeclaration(**self._fields(cube, cube.name), hypercube=cube),
                *(
                    StatisticDeclaration(
                        **self._fields(cube, cube.release_name(name), name), hypercube=cube.only(name), statistic=name
                    )
                    for name in cube.statistics
                ),
            )
        ]

    def _fields(self, cube: HypercubeAttributes, name: str, statistic: str = "") -> dict[str, Any]:
        title = cube.title or f"{self.title}: {cube.name.replace('_', ' ')}"
        shared = ("dataset", "custody", "schedule", "watch_source", "formats")
        return {field: getattr(self, field) for field in shared} | {
            "name": f"{self.name}_{name}",
            "title": f"{title}: {statistic.replace('_', ' ')}" if statistic else title,
            "description": cube.description or self.description,
        }
