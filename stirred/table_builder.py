"""Hypercubes with noise, the sub-tables that follow from them with errors, and perturbation tables (p-tables)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from assets.release.numbers import positive_fraction
from mechanisms.accounting.specification import Flavor, Specification
from mechanisms.sampling.noise import Noise
from mechanisms.table_builder import asking, comparison
from mechanisms.table_builder.asking import Question, QuestionError
from mechanisms.table_builder.entropy import MadeTable, Parameters, make
from mechanisms.table_builder.fitting import Fit
from mechanisms.table_builder.grid_values import PLACES, Grid
from mechanisms.table_builder.hypercube import MECHANISM, Hypercube, Margins, NoiseFamily, Table
from mechanisms.table_builder.judging import Judgment, judge
from mechanisms.table_builder.keys import record_keys
from mechanisms.table_builder.p_table import PTable, Row
from mechanisms.table_builder.reading import read_ons, read_sdctools
from stirred.accounting import Number, pure
from stirred.noise import LARGEST_COUNT, read_counts
from stirred.random import Randomness
from stirred.results import Draw, Frame, frame_kind, is_missing, not_compared, read_column, read_frame, write_frame

__all__ = [
    "Grid",
    "Hypercube",
    "Judgment",
    "Margins",
    "Measured",
    "NoiseFamily",
    "PTable",
    "QuestionError",
    "Row",
    "judge_p_table",
    "make_p_table",
    "measure",
    "multiply_by_noise",
    "perturb",
    "perturb_coefficients",
    "read_ons",
    "read_sdctools",
    "sub_table",
]

COUNTED = Grid(Fraction(1), Fraction(0), Fraction(1))
"""The grid of counts: a record adds 1."""

_FIGURES = ("estimate", "standard_error", "lower", "upper")


@dataclass(frozen=True, repr=False, eq=False)
class Measured(Draw):
    """A measured hypercube.

    Attributes:
        design: its tables with their noise.
        categories: by variable, the categories that a cell may have, in the order of the arrays.
        grid: the step of the numbers, and the bounds of a record's amount.
        numbers: by table, the noisy or fitted numbers that answer questions, in steps of the grid.
    """

    design: Hypercube
    categories: Mapping[str, pa.Array]
    grid: Grid
    numbers: Mapping[Table, NDArray[Any]]
    kind: str

    @property
    def _title(self) -> str:
        shape = " × ".join(f"{name} ({size})" for name, size in self.design.sizes.items())
        return f"Hypercube of {shape}, {len(self.design.tables)} measured tables"

    def ask(self, by: Sequence[str] = (), where: Mapping[str, Sequence[Any]] | None = None) -> Any:
        """The sub-table by some variables, of the kind of the input data, with the columns `estimate`,
        `standard_error`, `lower` and `upper`, the ends of 90% intervals. It follows from the measurement, and costs
        nothing.

        `where` lists the categories to count, by variable; of variables that it does not name, all categories count. An
        estimate may be negative. Raises QuestionError for a variable or category that the hypercube does not have.
        """
        answer = self.answer(by, where)
        arrays = answer.values, answer.standard_error, answer.lower, answer.upper
        figures = {name: np.asarray(cells, float) for name, cells in zip(_FIGURES, arrays, strict=True)}
        return self._write(answer.question, figures)

    def answer(self, by: Sequence[str] = (), where: Mapping[str, Sequence[Any]] | None = None) -> asking.Answer:
        """As `ask`, as arrays with an axis for each variable, in steps of the grid."""
        asking.require_lists(by, where or {})
        places = {name: [self._place(name, value) for value in values] for name, values in (where or {}).items()}
        return Question(self.design, tuple(by), places).answer(self.numbers)

    def means(
        self, counts: "Measured", by: Sequence[str] = (), where: Mapping[str, Sequence[Any]] | None = None
    ) -> Any:
        """The means of the amount by some variables, with 90% intervals (Fieller): its sums, divided by the counts or
        weights of another hypercube that was measured independently. The columns are `estimate`, `lower` and `upper`.

        Raises QuestionError as `ask`, if categories differ, and if a record may have the weight 0, so that a mean has
        no bounds."""
        if differing := [name for name in by if self.categories.get(name) != counts.categories.get(name)]:
            raise QuestionError(f"{differing[0]}: the hypercubes have other categories, or in another order")
        fewest, most = counts.design.least, counts.design.most
        if fewest < 1 and counts.grid is not COUNTED:
            raise QuestionError("a mean per weights that may be 0 has no bounds")
        fewest, above, below = max(fewest, 1), self.answer(by, where), counts.answer(by, where)
        least = self.design.least / (fewest if self.design.least < 0 else most)
        greatest = self.design.most / (fewest if self.design.most > 0 else most)
        quotients = asking.means(above, below, least, greatest)
        per = float(counts.grid.step)
        figures = {figure: getattr(quotients, figure) / per for figure in ("estimate", "lower", "upper")}
        return self._write(above.question, figures)

    def _place(self, name: str, value: Any) -> int:
        known = self.categories[name].to_pylist() if name in self.categories else []
        wanted = None if is_missing(value) else value
        if wanted not in known:
            raise QuestionError(f"{name}: the hypercube has no category {value!r}")
        return known.index(wanted)

    def _write(self, question: Question, figures: Mapping[str, NDArray[np.float64]]) -> Any:
        chosen = [question.chosen[name] for name in question.by]
        places = np.unravel_index(np.arange(question.cells.size), [len(one) for one in chosen]) if chosen else []
        columns: dict[str, Any] = {
            name: self.categories[name].take(pa.array(np.array(one)[place]))
            for name, one, place in zip(question.by, chosen, places, strict=True)
        }
        step = float(self.grid.step)
        columns |= {name: cells.ravel() * step for name, cells in figures.items()}
        return write_frame(pa.table(columns), self.kind)


def measure(
    data: Frame,
    categories: Mapping[str, Sequence[Any]],
    *,
    randomness: Randomness,
    epsilon: Number | None = None,
    rho: Number | None = None,
    margins: str = "summed",
    cap: int | None = None,
    amount: str | None = None,
    grid: Grid | None = None,
    unit: str = "record",
    name: str = "the data",
) -> Measured:
    """Count records by some variables, or add up an amount, with discrete noise.

    Args:
        data: a row for each record.
        categories: by variable, all possible categories. Declare them; the categories that occur in the data would
            reveal facts about the records.
        epsilon, rho: the loss of the whole hypercube for a record added or removed: ε for discrete Laplace noise, or ρ
            for discrete Gaussian noise. Give exactly one. The specification has the loss for a record changed.
        margins: "summed" (only the table by all variables is measured), "independent" (every margin too, with separate
            noise) or "fitted" (measured as with "independent"; the result is the table that fits all measurements
            best).
        cap: D, the greatest discrete Laplace noise; the loss is then (ε, δ).
        amount: the column that is added up, such as a weight; without one, records are counted.
        grid: the step to which an amount is rounded, and the bounds to which it is cut, which determine the noise;
            given if and only if there is an amount.

    Raises ValueError if a record has a category that is not declared (the message has the number of records), an amount
    is missing or not finite, a category is declared twice, or not exactly one loss is given; TypeError for categories
    of another type than the data and amounts that are not numbers; and HypercubeError for a hypercube that cannot be
    measured.
    """
    if (epsilon is None) == (rho is None):
        raise ValueError("give epsilon or rho")
    if (amount is None) != (grid is None):
        raise ValueError("give an amount and its grid, or neither")
    if taken := [figure for figure in _FIGURES if figure in categories]:
        raise ValueError(f"{taken[0]}: answers have a column of this name, so no variable has it")
    frame, grid = read_frame(data), grid or COUNTED
    design = Hypercube(
        {variable: len(values) for variable, values in categories.items()},
        positive_fraction(rho if epsilon is None else epsilon),
        NoiseFamily.GAUSSIAN if epsilon is None else NoiseFamily.LAPLACE,
        Margins(margins),
        cap=cap,
        least=grid.least,
        most=grid.most,
    )
    columns = {variable: read_column(frame, variable) for variable in categories}
    typed = {variable: _type_categories(columns[variable], variable, values) for variable, values in categories.items()}
    inner = _add_up(frame, typed, design, _steps(frame, amount, grid))
    noise = Noise(MECHANISM, {str(table): design.distribution(table) for table in design.tables}, randomness.next_key())
    noisy = {
        table: design.margin(inner, table) + noise.of_next(str(table), design.cells(table)).reshape(design.shape(table))
        for table in design.tables
    }
    numbers = {design.inner: Fit(design).inner(noisy)} if design.margins is Margins.FITTED else noisy
    flavor = Flavor(
        f"all possible files of {unit}s with the variables of {name}: {' × '.join(categories)}",
        (),
        unit,
        None,
        design.bounded.output_premetric,
    )
    return Measured(Specification(flavor, design.bounded, design.lines), design, typed, grid, numbers, frame_kind(data))


def make_p_table(
    largest_change: int,
    variance: Number,
    *,
    threshold: int = 0,
    probability_to_stay: Number | None = None,
    monotone: bool | Sequence[bool] = True,
) -> MadeTable:
    """The p-table of greatest entropy: changes up to `largest_change`, at most the given variance, no result from 1 to
    the threshold, and monotone in all rows or in those given. Raises ImpossibleTableError if no such table exists."""
    stays = Fraction(0) if probability_to_stay is None else positive_fraction(probability_to_stay)
    return make(
        Parameters(
            largest_change,
            positive_fraction(variance),
            threshold,
            stays,
            monotone if isinstance(monotone, bool) else tuple(monotone),
        )
    )


def judge_p_table(table: PTable, epsilon: Number) -> Judgment:
    """The exact δ of a p-table at an ε, for one record added or removed."""
    return judge(table, pure(epsilon))


def perturb(counts: ArrayLike, table: PTable, *, randomness: Randomness) -> NDArray[np.int64]:
    """Counts, perturbed independently with the exact probabilities of a p-table. Raises TypeError if they are not
    integers, and ValueError if one is negative."""
    exact = read_counts(counts)
    return table.draw(exact.ravel(), randomness.next_stream()).reshape(exact.shape)


def multiply_by_noise(
    sums: ArrayLike,
    records: Sequence[ArrayLike],
    most: Number,
    *,
    average_weights: ArrayLike = 1.0,
    unbounded_releases: str = "",
    randomness: Randomness,
) -> NDArray[np.float64]:
    """Sums with multiplicative noise by keys, for comparison: Ŷ(1 + p·w̄) with p from −most to most. ε = ∞.

    `records` has, by sum, the whole numbers that identify its records: the same set of records has the same p in every
    call with the same key. Raises UnboundedError unless `unbounded_releases` is "allowed", as a dataset declares it.
    """
    comparison.require_allowed(unbounded_releases == "allowed")
    key, largest = randomness.next_key(), positive_fraction(most)
    cells = np.array([_add_keys(key, np.asarray(each, dtype=np.uint64)) for each in records], dtype=np.uint64)
    p = comparison.perturbations(key, cells.reshape(-1, 2), largest)
    return comparison.multiply(np.asarray(sums, dtype=np.float64), p, np.asarray(average_weights, dtype=np.float64))


def _add_keys(key: bytes, identifiers: NDArray[np.uint64]) -> tuple[int, int]:
    """The sum modulo 2^128 of the keys of records, its upper half first."""
    keys = record_keys(key, np.stack([np.zeros_like(identifiers), identifiers], axis=1))
    upper, lower = divmod(sum((int(high) << 64) + int(low) for high, low in keys) % 2**128, 2**64)
    return upper, lower


def perturb_coefficients(
    predictors: ArrayLike, outcome: ArrayLike, most: Number, *, unbounded_releases: str = "", randomness: Randomness
) -> NDArray[np.float64]:
    """Least-squares coefficients with noise on the score functions, for comparison: β + (X'X)⁻¹s, where s is the
    greatest residual times a p from −most to most for each coefficient. ε = ∞. X has a column for each coefficient.

    Raises UnboundedError unless `unbounded_releases` is "allowed", as a dataset declares it.
    """
    comparison.require_allowed(unbounded_releases == "allowed")
    x, key = np.asarray(predictors, dtype=np.float64), randomness.next_key()
    places = np.arange(2 * x.shape[1], dtype=np.uint64).reshape(-1, 2)
    p = comparison.perturbations(key, places, positive_fraction(most))
    return comparison.perturb_coefficients(x, np.asarray(outcome, dtype=np.float64), p)


def sub_table(folder: Path | str, by: Sequence[str] = (), where: Mapping[str, Sequence[Any]] | None = None) -> Any:
    """A sub-table of the published hypercube in a folder, as a pandas data frame with the columns of `Measured.ask`.
    Raises QuestionError as `ask` does, and if the folder has no publication of a hypercube."""
    from assets.publication.tables import PublishedTables
    from assets.table_builder.asking import read_publication

    asking.require_lists(by, where or {})
    wanted = {
        name: [None if is_missing(value) else value for value in values] for name, values in (where or {}).items()
    }
    answer = read_publication(PublishedTables(Path(folder))).ask(by, wanted)
    return write_frame(answer, "pandas").astype(dict.fromkeys(_FIGURES, float))


def _type_categories(column: pa.ChunkedArray, name: str, values: Sequence[Any]) -> pa.Array:
    """Declared categories, of the type of the column; of their own type if the column has no value."""
    if isinstance(values, str):
        raise TypeError(f"{name}: categories are given as a list")
    try:
        typed = pa.array(values, None if column.null_count == len(column) else column.type, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        raise TypeError(f"{name}: the categories are not all of the type of the data, {column.type}") from None
    try:
        distinct = typed.unique()
    except pa.ArrowNotImplementedError:
        raise not_compared(name, typed.type) from None
    if len(distinct) < len(typed):
        raise ValueError(f"{name}: a category is declared twice")
    return typed


def _add_up(
    frame: pa.Table, categories: Mapping[str, pa.Array], design: Hypercube, steps: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The exact inner table, in steps."""
    cell = np.zeros(frame.num_rows, dtype=np.int64)
    for name, values in categories.items():
        places = pc.index_in(frame[name].cast(values.type), values)
        if places.null_count:
            raise ValueError(f"{name}: {places.null_count:,} of {len(places):,} records have no declared category")
        cell = cell * len(values) + places.to_numpy()
    inner = np.zeros(design.cells(design.inner), dtype=np.int64)
    np.add.at(inner, cell, steps)
    return inner.reshape(design.shape(design.inner))


def _steps(frame: pa.Table, amount: str | None, grid: Grid) -> NDArray[np.int64]:
    """The amount of each record, in steps."""
    if amount is None:
        return np.ones(frame.num_rows, dtype=np.int64)
    column = read_column(frame, amount)
    kind = column.type
    if len(frame) and not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise TypeError(f"{amount}: amounts are numbers, not of the type {kind}")
    numbers = column.cast(pa.float64(), safe=False).to_numpy()
    if missing := np.count_nonzero(~np.isfinite(numbers)):
        raise ValueError(f"{amount}: {missing:,} of {len(numbers):,} records have no amount, or none that is finite")
    if max(abs(grid.lower), abs(grid.upper)) * 10**PLACES > LARGEST_COUNT:
        raise ValueError(f"grid: a bound is beyond {LARGEST_COUNT // 10**PLACES:,}")
    # Bounds first: amounts far beyond them would not fit.
    cut = np.clip(numbers, float(grid.lower), float(grid.upper))
    return grid.round(np.rint(cut * 10**PLACES).astype(np.int64))
