"""The fields of a release by the table builder, and the hypercubes that follow from them."""

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

from assets.release.columns import Column, ColumnType
from assets.release.dataset import DatasetDeclaration
from assets.release.declaration import Part
from assets.release.names import ProductName, ReleaseName, SourcePath, find_repeated
from assets.release.numbers import FRACTION, LARGEST_NUMBER, Delta, Epsilon, Rho, Share, exact_fraction
from assets.release.release import ReleaseDeclaration
from assets.release.withheld import WithheldRecords
from mechanisms.accounting.specification import DELTA
from mechanisms.refusal import RefusedError
from mechanisms.table_builder.entropy import MOST, ImpossibleTableError, Parameters, make
from mechanisms.table_builder.grid_values import PLACES, Grid
from mechanisms.table_builder.hypercube import Consistency, Hypercube, HypercubeError, Margins, NoiseFamily, Table
from mechanisms.table_builder.p_table import PTable
from mechanisms.table_builder.reading import PTableError, read_ons, read_sdctools
from resources.project import PROJECT

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
"""The greatest size of a file in bytes: a hundred times as much as the p-table that ONS publishes."""

UNITS, PERSONS = "units", "persons"


class PTableFileError(RefusedError):
    """The file of a p-table is missing, cannot be read, or holds none."""


@dataclass(frozen=True)
class Amount:
    """A weight or a magnitude, of which a hypercube has sums instead of counts: a column and its grid with bounds."""

    column: str
    grid: Grid


Categories = dict[str, Annotated[list[int | str | bool | None], Field(min_length=1)]]
"""By variable, some of its categories as YAML gives them; null stands for records without a value."""


class AmountDeclaration(Part):
    """What is added up: a weight or a magnitude, rounded to multiples of a grid, within bounds."""

    column: str = Field(description="The column of the records; an empty value counts as 0.")
    grid: Number = Field(
        description="The step to whose multiples every amount is rounded, such as 10 or 0.5. It does not depend on the "
        "records."
    )
    least: Number = Field(Fraction(0), description="The value that replaces a smaller amount; a multiple of the grid.")
    most: Number = Field(description="The value that replaces a greater amount; a multiple of the grid.")

    def amount(self, columns: Mapping[str, Column]) -> Amount:
        """The amount. Raises ValueError if it does not fit the columns of the records or the grid."""
        if self.column not in columns:
            raise ValueError(f"column: there is no column {self.column}; there are {', '.join(columns)}")
        if columns[self.column].type not in (ColumnType.INTEGER, ColumnType.DECIMAL):
            raise ValueError(f"column: {self.column} is no number")
        grid = Grid(self.grid, self.least, self.most)
        if columns[self.column].nullable and not grid.least <= 0 <= grid.most:
            raise ValueError(f"least: {self.column} may be empty, which counts as 0, so 0 lies within the bounds")
        if (self.grid * 10**PLACES).denominator != 1:
            raise ValueError(f"grid: {self.grid} is not a number with at most {PLACES} decimals")
        return Amount(self.column, grid)


class ShareDeclaration(Part):
    """The share of a table in the budget of its hypercube."""

    by: list[str] = Field(min_length=1, description="The variables of the table.")
    share: Share


class SubTableDeclaration(Part):
    """A table to publish that is built from the hypercube."""

    name: ProductName
    title: str = Field("", description="The table's name in words.")
    by: list[str] = Field(min_length=1, description="The variables that it is tabulated by.")
    where: Categories = Field(default_factory=dict, description="By further variable, the categories that are counted.")


class MadePTable(Part):
    """A p-table of greatest entropy."""

    largest_change: int = Field(ge=1, le=MOST, strict=True, description="The greatest change of a count, D.")
    variance: Number = Field(description="The greatest variance of a count's change, V.")
    threshold: int = Field(0, ge=0, strict=True, description="Results from 1 to this number do not occur, js.")
    probability_to_stay: Share = Field(
        Fraction(0), description="The least probability that a count stays unchanged, if the threshold allows it."
    )
    monotone: bool | tuple[StrictBool, ...] = Field(
        True,
        description="Whether a greater change to one side is never more probable; or a list with one for each count "
        "from 1 to D + js + 1.",
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
        description="ons: CSV with pcv, ckey, pvalue of the Office for National Statistics; sdctools: the export of "
        "ptable."
    )

    @property
    def table(self) -> PTable:
        return load_p_table(PROJECT / self.path, self.form)


def load_p_table(path: Path, form: str) -> PTable:
    """The p-table in a file of one of the `FORMS`. Raises PTableFileError, which names file, line, field and rule."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise PTableFileError(f"{path}: the file of a p-table has at most {LARGEST_FILE:,} bytes")
        return FORMS[form](path.read_text("utf-8-sig"))
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


class HypercubeAttributes(Part):
    """One hypercube: a draw, a charge and a publication of its own."""

    name: ReleaseName = Field(description="The name; the hypercube's release is called <release>_<name>.")
    title: str = Field("", description="The hypercube's name in words.")
    description: str = Field("", description="The content of the tables, for readers.")
    of: Literal["units", "persons"] = Field(
        "units", description="The records to count: units or persons. Persons have their unit's variables too."
    )
    swapped: str | SkipJsonSchema[None] = Field(
        None,
        description="The name of a release by swapping of the same dataset that is withheld: the hypercube is counted "
        "from its swapped records instead of the dataset's own.",
    )
    variables: list[str] = Field(min_length=1, description="The variables, each with a domain that lists its values.")
    epsilon: Epsilon | SkipJsonSchema[None] = Field(
        None,
        description="ε for one record added or removed, with discrete Laplace noise or a p-table. A change of one "
        "record costs twice it. A p-table without it has no finite loss.",
    )
    rho: Rho | SkipJsonSchema[None] = Field(
        None, description="ρ for one record added or removed, with discrete Gaussian noise; instead of epsilon."
    )
    delta: Delta = Field(DELTA, description="δ at which a loss in ρ is stated as (ε, δ).")
    cap: Annotated[int, Field(gt=0, strict=True)] | SkipJsonSchema[None] = Field(
        None, description="The greatest discrete Laplace noise, in records or in steps of the grid. It costs a δ."
    )
    p_table: PTableDeclaration | SkipJsonSchema[None] = Field(
        None,
        description="Counts are perturbed by a p-table instead, made or from a file. It costs the δ that it has at "
        "epsilon.",
    )
    consistency: Consistency = Field(
        Consistency.QUERY,
        description="query: the noises of different cells are independent; cell, for p-tables only: the same set of "
        "records has the same noise in every table of the hypercube, and no finite ε holds, so none is declared.",
    )
    record_keys: str | SkipJsonSchema[None] = Field(
        None,
        description="With consistency cell: the column with keys of records that the data bring along; by default keys "
        "follow from the draw's key.",
    )
    margins: Margins = Field(
        Margins.SUMMED,
        description="summed: only the table by all variables is measured, and margins are its sums; independent: every "
        "margin is measured too, and they do not add up; fitted: the tables that agree and fit all measurements best.",
    )
    shares: list[ShareDeclaration] = Field(
        default_factory=list,
        description="The tables that are measured and their shares of the budget, which add up to 1; by default all, "
        "with equal shares.",
    )
    weight: AmountDeclaration | SkipJsonSchema[None] = Field(None, description="Weights to add up instead of records.")
    value: AmountDeclaration | SkipJsonSchema[None] = Field(
        None, description="A magnitude to add up instead of records."
    )
    structural_zeros: list[Categories] = Field(
        default_factory=list,
        description="Categories that occur together in no record: their cells are neither measured nor published.",
    )
    suppress_below: Number = Field(
        Fraction(0), description="Estimates below this number are not published; 0 publishes all."
    )
    products: list[SubTableDeclaration] = Field(
        default_factory=list, description="Tables to publish from the hypercube, at no cost."
    )

    @field_validator("variables")
    @classmethod
    def _check_variables(cls, variables: list[str]) -> list[str]:
        if repeated := find_repeated(variables):
            raise ValueError(f"{repeated[0]} is named twice")
        return variables

    @model_validator(mode="after")
    def _check(self) -> Self:
        budgets = (self.epsilon is not None) + (self.rho is not None)
        if self.consistency is Consistency.CELL and budgets:
            raise ValueError("epsilon: no finite loss holds with consistency: cell; declare neither epsilon nor rho")
        if self.consistency is Consistency.QUERY and budgets != 1 and not (self.p_table and not budgets):
            raise ValueError("epsilon: declare either epsilon or rho")
        if self.p_table and self.rho is not None:
            raise ValueError("rho: the loss of a p-table is an ε with a δ; declare epsilon")
        if self.weight and self.value:
            raise ValueError("value: a hypercube adds up weights or a magnitude, not both; declare two hypercubes")
        return self

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
        """The measured tables with their noise; withheld are the records that `swapped` names."""
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


def columns_to_count(
    cube: HypercubeAttributes, dataset: DatasetDeclaration, withheld: WithheldRecords | None
) -> Mapping[str, Column]:
    """The columns that records can be tabulated by: their own and, for persons, those of their unit."""
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
        for name, times in Counter(cube.name for cube in hypercubes).items():
            if times > 1:
                raise ValueError(f"{name} is declared {times} times")
        return hypercubes

    def by_hypercube(self) -> list[HypercubeDeclaration]:
        """The declarations of the hypercubes, which are releases by themselves."""
        return [
            HypercubeDeclaration(
                name=f"{self.name}_{cube.name}",
                dataset=self.dataset,
                title=cube.title or f"{self.title}: {cube.name.replace('_', ' ')}",
                description=cube.description or self.description,
                custody=self.custody,
                schedule=self.schedule,
                watch_source=self.watch_source,
                formats=self.formats,
                hypercube=cube,
            )
            for cube in self.hypercubes
        ]
