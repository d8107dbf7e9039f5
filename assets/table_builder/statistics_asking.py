"""Questions to published quantiles and moments: quantiles, means, deviations, correlations and regressions of any cells
that add up, with the errors of the noise and of the sample.

Answers follow from the published files alone, so everyone gets the same answer and no budget is spent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assets.publication.tables import PublishedTables
from assets.release.published import ERRORS
from assets.table_builder.asking import PLACES, Part, Publication, Where, read_categories
from assets.table_builder.declaration import write_share
from assets.table_builder.release import BETWEEN, TABLES
from mechanisms.table_builder.asking import QuestionError
from mechanisms.table_builder.choosing import Chosen
from mechanisms.table_builder.fitted_trees import FittedTrees
from mechanisms.table_builder.grid_values import Grid
from mechanisms.table_builder.hypercube import Hypercube, Margins
from mechanisms.table_builder.hypercube import Table as Variables
from mechanisms.table_builder.moments import Derived, MeasuredMoments, Moments, Scale
from mechanisms.table_builder.quantiles import NORMAL_90, FittedCounts, FittedTree, Tree

SCALES, QUANTILES, NODES, STATISTICS, MOMENTS = TABLES_OF_STATISTICS = (
    "scales",
    "quantiles",
    "nodes",
    "statistics",
    "moments",
)
"""The tables that quantiles and moments publish besides those of hypercubes."""

SAMPLE_ERROR, SAMPLE_LOWER, SAMPLE_UPPER, AT_BOUND, RECORDS_OFF = (
    "sample_standard_error",
    "sample_lower",
    "sample_upper",
    "at_bound",
    "records_off",
)

MEAN, DEVIATION, CORRELATION = "mean", "standard deviation", "correlation"

_DIGITS = 8
"""The significant digits of figures derived from moments: few enough to be equal on all machines."""


@dataclass(frozen=True)
class PublishedStatistic:
    """Published quantiles or moments.

    Attributes:
        cells: the cells, as a hypercube's publication without numbers.
        measured: the measurements of every cell, with their noise; for trees of several tables, with the budget of all
            of them.
        scales: by variable, its bounds and steps.
        numbers: by part, the noisy numbers, shape (its table's, size), in steps; for a drawn quantile, 1 at its
            position.
        effect: the greatest ratio of the variance of a sample to the variance of a sample of as many records as there
            are steps.
        widest: the widest interval of an answer with figures, in multiples of the estimate; None for any width.
        step: the amount that a step of a count represents: 1 record, or the step of the weight's grid.
    """

    cells: Publication
    measured: Tree | Chosen | Moments
    scales: Mapping[str, Scale | Grid]
    numbers: Sequence[NDArray[np.int64]]
    effect: Fraction
    widest: Fraction | None = None
    step: Fraction = Fraction(1)

    @property
    def variables(self) -> list[str]:
        return list(self.scales)

    @property
    def bounds(self) -> str:
        """The declared bounds, for readers: a mean is that of the numbers within them, and may differ from the mean of
        the records by more than its errors."""
        ends = {name: (float(scale.lower), float(scale.upper)) for name, scale in self.scales.items()}
        listed = (f"{name} {lower:,.12g} to {upper:,.12g}" for name, (lower, upper) in ends.items())
        return f"Numbers outside the declared bounds are taken as the nearer bound: {', '.join(listed)}."

    @property
    def has_quantiles(self) -> bool:
        return not isinstance(self.measured, Moments)

    @property
    def drawn(self) -> tuple[Fraction, ...]:
        """The quantiles that were drawn directly, the only ones to ask for; empty otherwise."""
        return self.measured.quantiles if isinstance(self.measured, Chosen) else ()

    @cached_property
    def _fitted(self) -> FittedTrees | None:
        """The trees of several tables, if they are fitted together."""
        tree, design = self.measured, self.cells.design
        if not isinstance(tree, Tree) or design.margins is not Margins.FITTED:
            return None
        numbers, levels = iter(self.numbers), range(len(tree.sizes))
        by_table = {table: [next(numbers) for _ in levels] for table in design.tables}
        return FittedTrees(design, tree, [{table: by_table[table][level] for table in by_table} for level in levels])

    def variance(self, by: Sequence[str], where: Where) -> float:
        """The variance of the noise of the sizes in an answer, in squared steps. Not for quantiles drawn directly."""
        questions = [part.question for part in self.cells.questions(by, where)]
        assert not isinstance(self.measured, Chosen)
        if self._fitted:
            root = self._fitted.levels[0]
            return sum(question.cells.size * root.variance(question.weights) for question in questions)
        cells = sum(int(question.cells.sum()) for question in questions)
        if isinstance(self.measured, Moments):
            return cells * self.measured.deviation**2
        return cells * float(self.measured.noises[0].exact_variance)

    def quantiles(self, variable: str, quantiles: Sequence[Fraction], by: Sequence[str], where: Where) -> pa.Table:
        """Quantiles of the variable by some variables of the cells, in the variable's unit, with the column `quantile`.

        Raises QuestionError as `Publication.ask` does, and if these are not quantiles of the variable.
        """
        measured, grid = self._require((Tree, Chosen), [variable], "quantiles"), self.scales[variable]
        assert isinstance(grid, Grid)
        if not all(0 < quantile < 1 for quantile in quantiles):
            raise QuestionError("a quantile is above 0 and below 1")
        if isinstance(measured, Chosen):
            return self._ask_drawn(measured, grid, quantiles, by, where)

        def fit(part: Part) -> Iterator[FittedCounts]:
            if self._fitted:
                yield from self._fitted.answer(part.question)
                return
            for cells, numbers in self._add_up(part):
                yield FittedTree(measured, tuple(level.astype(np.float64) for level in numbers), cells)

        def find(part: Part) -> Iterator[dict[str, Any]]:
            for each in fit(part):
                yield from (self._describe_quantile(each, grid, quantile) for quantile in quantiles)

        return self._ask(by, where, find, len(quantiles))

    def _ask_drawn(
        self, chosen: Chosen, grid: Grid, quantiles: Sequence[Fraction], by: Sequence[str], where: Where
    ) -> pa.Table:
        # Questions may give a third as 0.333333 or as the nearest double, and names of quantiles differ in these
        # digits.
        drawn = [write_share(quantile) for quantile in chosen.quantiles]
        asked = [write_share(quantile) for quantile in quantiles]
        if unknown := [share for share in asked if share not in drawn]:
            raise QuestionError(f"the quantile {unknown[0]} is not published; only {', '.join(drawn)} of each cell")

        def find(part: Part) -> Iterator[dict[str, Any]]:
            if part.question.cells.max(initial=0) > 1:
                raise QuestionError(
                    "a quantile of several cells together does not follow from those of each; ask by all of "
                    f"{', '.join(self.cells.design.sizes)}, or for one category of the others"
                )
            for _, numbers in self._add_up(part):
                for place in map(drawn.index, asked):
                    yield self._describe_drawn(chosen, grid, place, numbers)

        return self._ask(by, where, find, len(quantiles))

    def _describe_drawn(
        self, chosen: Chosen, grid: Grid, place: int, numbers: Sequence[NDArray[np.int64]]
    ) -> dict[str, Any]:
        off = ceil(chosen.margin(place) * float(self.step) * 10**PLACES) / 10**PLACES
        estimate = float((grid.least + int(np.argmax(numbers[place]))) * grid.step)
        return {"quantile": write_share(chosen.quantiles[place]), "estimate": estimate, RECORDS_OFF: off}

    def _describe_quantile(self, fit: FittedCounts, grid: Grid, quantile: Fraction) -> dict[str, Any]:
        first, last = grid.least, grid.most - grid.least
        lower, upper = fit.interval(quantile)
        sample = fit.sample_interval(quantile, NORMAL_90, float(self.effect))
        some = fit.total > 0
        if not some:
            # The noisy size shows no record, so any number is possible.
            (lower, upper) = sample = (0, last)

        def value(number: int) -> float:
            return float((first + number) * grid.step)

        def error(low: int, high: int) -> float | None:
            return round(float((high - low) * grid.step) / (2 * NORMAL_90), PLACES) if some else None

        return {
            "quantile": write_share(quantile),
            "estimate": value(fit.quantile(quantile)) if some else None,
            "standard_error": error(lower, upper),
            "lower": value(lower),
            "upper": value(upper),
            SAMPLE_ERROR: error(*sample),
            SAMPLE_LOWER: value(sample[0]),
            SAMPLE_UPPER: value(sample[1]),
            AT_BOUND: " and ".join(
                word for word, ends_it in (("lower", lower == 0), ("upper", upper == last)) if ends_it
            ),
        }

    def summary(self, by: Sequence[str], where: Where) -> pa.Table:
        """Means and standard deviations of all variables and correlations of all pairs, with the columns `statistic`
        and `of`. Raises QuestionError as `Publication.ask` does."""
        self._require(Moments, [], MOMENTS)
        pairs = list(combinations(range(len(self.variables)), 2))

        def find(moments: MeasuredMoments) -> list[dict[str, Any]]:
            rows = []
            for place, name in enumerate(self.variables):
                rows += self._describe({"statistic": MEAN, "of": name}, moments.mean(place))
                rows += self._describe({"statistic": DEVIATION, "of": name}, moments.deviation(place))
            for one, other in pairs:
                names = f"{self.variables[one]}, {self.variables[other]}"
                rows += self._describe({"statistic": CORRELATION, "of": names}, moments.correlation(one, other))
            return rows

        return self._ask_moments(by, where, find, 2 * len(self.variables) + len(pairs))

    def correlation(self, one: str, other: str, by: Sequence[str], where: Where) -> pa.Table:
        """The correlations of two variables. Raises QuestionError as `Publication.ask` does, and for unknown
        variables."""
        self._require(Moments, [one, other], "correlations")
        places = [self.variables.index(name) for name in (one, other)]
        if one == other:
            raise QuestionError(f"{one}: a correlation is of two variables")
        return self._ask_moments(by, where, lambda moments: self._describe({}, moments.correlation(*places)), 1)

    def regression(self, of: str, on: Sequence[str], by: Sequence[str], where: Where) -> pa.Table:
        """The least-squares coefficients of a variable on others, with the column `coefficient`: the intercept, and the
        others by name. Raises QuestionError as `Publication.ask` does, and for unknown variables."""
        self._require(Moments, [of, *on], "regressions")
        if not on or len({of, *on}) <= len(on):
            raise QuestionError("a regression is of one variable on others, each named once")
        places, names = [self.variables.index(name) for name in on], ["intercept", *on]

        def find(moments: MeasuredMoments) -> list[dict[str, Any]]:
            found = moments.regression(self.variables.index(of), places)
            return [
                row
                for place, name in enumerate(names)
                for row in self._describe(
                    {"coefficient": name}, Derived(*(part[place] for part in vars(found).values()))
                )
            ]

        return self._ask_moments(by, where, find, len(names))

    def _describe(self, row: Mapping[str, Any], found: Derived) -> list[dict[str, Any]]:
        named = ("estimate", "standard_error", "lower", "upper", SAMPLE_ERROR)
        figures: dict[str, float | None] = {
            name: float(f"{figure:.{_DIGITS}g}") if np.isfinite(figure) else None
            for name, figure in zip(named, vars(found).values(), strict=True)
        }
        wide = None not in figures.values() and self.widest is not None
        if wide and figures["upper"] - figures["lower"] > self.widest * abs(figures["estimate"]):  # type: ignore[operator, arg-type]
            figures = dict.fromkeys(named)
        return [{**row, **figures}]

    def _require(self, kind: type[Any] | tuple[type[Any], ...], variables: Sequence[str], words: str) -> Any:
        if not isinstance(self.measured, kind):
            raise QuestionError(f"the publication answers no questions for {words}")
        if unknown := [name for name in variables if name not in self.scales]:
            raise QuestionError(f"{unknown[0]}: the publication is of {', '.join(self.variables)}")
        return self.measured

    def _ask_moments(
        self, by: Sequence[str], where: Where, find: Callable[[MeasuredMoments], list[dict[str, Any]]], lines: int
    ) -> pa.Table:
        moments, scales = self.measured, [scale for scale in self.scales.values() if isinstance(scale, Scale)]
        assert isinstance(moments, Moments)

        def find_of(part: Part) -> Iterator[dict[str, Any]]:
            for cells, numbers in self._add_up(part):
                yield from find(MeasuredMoments(moments, numbers[0], scales, cells, float(self.effect)))

        return self._ask(by, where, find_of, lines)

    def _ask(
        self,
        by: Sequence[str],
        where: Where,
        find: Callable[[Part], Iterator[dict[str, Any]]],
        lines: int,
    ) -> pa.Table:
        """The answer; `find` makes `lines` lines for every row of a part."""
        parts, figures = [], []
        for part in self.cells.questions(by, where):
            if rows := list(find(part)):
                parts.append(part)
                figures.append({name: pa.array([row[name] for row in rows], _kind(name)) for name in rows[0]})
        if not parts:
            raise QuestionError("no cell counts that is not declared impossible")
        return self.cells.tabulate(by, parts, figures, lines)

    def _add_up(self, part: Part) -> Iterator[tuple[int, list[NDArray[np.int64]]]]:
        """By row, the number of inner cells added up, and the sums of their numbers."""
        question = part.question
        summed = [question.add_up(self.cells.design.inner, numbers) for numbers in self.numbers]
        cells, flat = question.cells.ravel(), [numbers.reshape(-1, numbers.shape[-1]) for numbers in summed]
        for place in part.rows:
            yield int(cells[place]), [numbers[place] for numbers in flat]


def _kind(name: str) -> pa.DataType:
    return pa.float64() if name in (*ERRORS, SAMPLE_ERROR, SAMPLE_LOWER, SAMPLE_UPPER, RECORDS_OFF) else pa.string()


def read_statistic(files: PublishedTables) -> PublishedStatistic:
    """A publication from its tables. Raises QuestionError if they are not tables of quantiles or moments, and
    VerificationError."""
    try:
        return _read(files)
    except (OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, pa.ArrowException):
        raise QuestionError(f"{files.folder}: this is no publication of quantiles or moments") from None


def _read(files: PublishedTables) -> PublishedStatistic:
    tables = files.read(TABLES).to_pylist()
    # Files are sorted by name, which puts level 10 before level 2.
    tables.sort(key=lambda row: (len(row["table_name"]), row["table_name"]))
    scales = files.read(SCALES).to_pylist()
    texts, larger, places = read_categories(files)
    by_table: dict[Variables, list[dict[str, Any]]] = {}
    for row in tables:
        by_table.setdefault(tuple(row["table_name"].rpartition(",")[0].split(BETWEEN)), []).append(row)
    inner = max(by_table, key=len)
    design = Hypercube({name: len(texts[name]) for name in inner}, Fraction(1))
    budgets = {table: [Fraction(row["budget"]) for row in rows] for table, rows in by_table.items()}
    total = [sum(levels, Fraction(0)) for levels in zip(*budgets.values(), strict=True)]
    if tables[0]["margins"] == Margins.FITTED:
        shares = {table: levels[0] / total[0] for table, levels in budgets.items()}
        design = replace(design, margins=Margins.FITTED, shares=shares)
    gaussian, weight = "Gaussian" in tables[0]["noise"], tables[0]["most"]
    measured: Tree | Chosen | Moments
    of_quantiles = NODES in files
    if not of_quantiles:
        measured = Moments(len(scales), scales[0]["steps"], total[0], gaussian, weight)
        shapes: Sequence[int] = [measured.components]
    elif scales[0]["branching"] is None:
        quantiles = tuple(Fraction(row["table_name"].rpartition(" ")[2]) for row in tables)
        measured = Chosen(scales[0]["numbers"], quantiles, tuple(total), weight)
        shapes = measured.sizes
    else:
        measured = Tree(scales[0]["numbers"], scales[0]["branching"], tuple(total), gaussian, weight)
        shapes = measured.sizes
    rows = files.read(NODES if of_quantiles else MOMENTS)
    possible = np.zeros(design.cells(inner), dtype=np.bool_)
    numbers = []
    for table in design.tables:
        for row, size in zip(by_table[table], shapes, strict=True):
            part = rows.filter(pc.equal(rows["table_name"], row["table_name"]))
            whole = np.zeros((design.cells(table), size), dtype=np.int64)
            whole[part["cell"].to_numpy(), part["place"].to_numpy()] = part["measured"].to_numpy()
            if table == inner:
                possible[part["cell"].to_numpy()] = True
            numbers.append(whole.reshape(*design.shape(table), size))
    typed = {name: pa.array(values, pa.string()).cast(rows.schema.field(name).type) for name, values in texts.items()}
    shaped = None if possible.all() else possible.reshape(design.shape(design.inner))
    cells = Publication(design, typed | places, Fraction(1), tables[0]["counted"], {}, shaped, {}, larger)
    known: dict[str, Scale | Grid] = {}
    for row in scales:
        lower, upper = Fraction(row["least"]), Fraction(row["most"])
        known[row["variable"]] = (
            Grid(Fraction(row["grid"]), lower, upper) if of_quantiles else Scale(lower, upper, row["steps"])
        )
    widest = scales[0]["widest"]
    effect = Fraction(scales[0]["effect"])
    step = Fraction(tables[0]["grid"])
    return PublishedStatistic(cells, measured, known, numbers, effect, Fraction(widest) if widest else None, step)


def answer(
    published: Mapping[str, PublishedTables], question: str, arguments: Sequence[Any], by: Sequence[str], where: Where
) -> tuple[list[str], pa.Table]:
    """The name of the published release of quantiles or moments that answers a question with the least noise, and its
    answer. Quantiles drawn directly take precedence. A question is a method of `PublishedStatistic`, with its arguments
    before `by` and `where`.

    Raises QuestionError if no release can answer, or if the releases that can answer have different quantities.
    """
    kind, table = (QUANTILES, NODES) if question == QUANTILES else (MOMENTS, MOMENTS)
    answers, refusal = {}, QuestionError(f"no {kind} are published; declare {kind} in a hypercube of the release")
    for name, files in sorted(published.items()):
        if table not in files:
            continue
        statistic = read_statistic(files)
        try:
            answers[name] = statistic, getattr(statistic, question)(*arguments, by, where)
        except QuestionError as error:
            refusal = error
    if not answers:
        raise refusal
    if len(counted := {statistic.cells.quantity.partition(",")[0] for statistic, _ in answers.values()}) > 1:
        raise QuestionError(f"name the release: {', '.join(answers)} are of {' and '.join(sorted(counted))}")

    def rank(name: str) -> tuple[bool, float]:
        statistic, rows = answers[name]
        if statistic.drawn:
            return False, max(rows[RECORDS_OFF].to_pylist())
        return True, statistic.variance(by, where)

    name = min(answers, key=rank)
    return [name], answers[name][1]
