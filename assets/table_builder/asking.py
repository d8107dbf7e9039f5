"""Questions to a hypercube: any table that can be built from its published numbers, with errors and intervals.

The release's own tables, the command `stirred table` and the function `sub_table` all use the same published numbers,
so everyone gets the same answer to the same question. Answers read no confidential data and are not charged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assets.publication.tables import PublishedTables
from assets.table_builder.release import BETWEEN, CATEGORIES, HYPERCUBE, LARGER_PLACES, NUMBER, P_TABLE, TABLES
from mechanisms.table_builder.asking import Answer, Question, QuestionError, means, require_lists
from mechanisms.table_builder.fitting import Fit
from mechanisms.table_builder.hypercube import Hypercube, Margins, NoiseFamily, Table
from mechanisms.table_builder.p_table import PTable

PLACES = 4

PARTS_OF_ONE = 10**PLACES

ESTIMATED = pa.decimal128(24, PLACES)
_WHOLE = pa.decimal128(24, 0)
_MOST_STEPS = 2**50
_LISTED = 12
"""The most categories listed in a message."""

Where = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Publication:
    """The published numbers of a hypercube, in steps of a grid.

    Attributes:
        quantity: the content of the cells, in words.
        numbers: by table, the addends of sub-tables, in ten-thousandths, int64: the noisy cells; if the tables are
            fitted, only the fitted inner table.
        possible: a mask of the inner table's cells that are not structural zeros; None if all are possible.
        missing: by table with unpublished cells, a mask of these cells.
        larger_places: by larger place that questions may name, the variable that lies in it, and the number of the
            larger place of each category of the variable.
    """

    design: Hypercube
    categories: Mapping[str, pa.Array]
    grid: Fraction
    quantity: str
    numbers: Mapping[Table, NDArray[Any]]
    possible: NDArray[np.bool_] | None
    missing: Mapping[Table, NDArray[np.bool_]]
    larger_places: Mapping[str, tuple[str, Sequence[int]]] = field(default_factory=dict)

    def questions(self, by: Sequence[str], where: Where) -> "list[Part]":
        """The questions for a table by some variables that counts only some categories: one question, or one for each
        larger place, or combination of larger places, in `by`."""
        require_lists(by, where)
        if unknown := [name for name in by if name not in self.categories]:
            raise QuestionError(f"{unknown[0]}: the hypercube is by {', '.join(self.categories)}")
        counted = {name: [self._place(name, value) for value in values] for name, values in where.items()}
        larger = [name for name in by if name in self.larger_places]
        if len(set(larger)) < len(larger):
            raise QuestionError("a sub-table names each variable once")
        variables = tuple(name for name in by if name not in larger)
        listed = [counted.get(name, range(len(self.categories[name]))) for name in larger]
        parts = []
        for places in product(*listed):
            within = {name: numbers for name, numbers in counted.items() if name in self.larger_places}
            within |= {name: [place] for name, place in zip(larger, places, strict=True)}
            chosen = {name: numbers for name, numbers in counted.items() if name not in within}
            for name, numbers in within.items():
                variable, lies_in = self.larger_places[name]
                before = chosen.get(variable, range(len(lies_in)))
                chosen[variable] = [place for place in before if lies_in[place] in numbers]
            if all(chosen[self.larger_places[name][0]] for name in larger):
                question = Question(self.design, variables, chosen, self.possible)
                parts.append(Part(dict(zip(larger, places, strict=True)), question))
        if not parts:
            raise QuestionError(f"{', '.join(larger)}: none of the given categories is in one of these places")
        return parts

    def ask(self, by: Sequence[str], where: Where) -> pa.Table:
        """The table by some variables, or a single number by none, with the columns `estimate`, `standard_error`,
        `lower` and `upper`. `where` has, by variable, the categories that count; of other variables, all do.

        Raises QuestionError as `questions` does, and if the answer needs an unpublished cell.
        """
        parts = self.questions(by, where)
        return self.tabulate(by, parts, [self.figures(self.answer(part.question), part.rows) for part in parts])

    def means(self, per: "Publication", by: Sequence[str], where: Where) -> pa.Table:
        """The means by some variables: sums of this hypercube divided by the counts or weights of another one.

        Raises QuestionError as `ask` does; if both hypercubes have the same noise, count different records, or differ
        in categories or structural zeros; if the bounds of a record do not bound the mean; if a p-table changes a mean.
        """
        fewest = 1 if per.quantity.startswith(NUMBER) else per.design.least
        if fewest < 1:
            raise QuestionError(
                "means are taken per counts, or per weights that are declared to be at least one step of their grid: a "
                "mean per weights that may be 0 has no bounds"
            )
        if self._has_numbers_of(per):
            raise QuestionError("means need two hypercubes with noise of their own")
        if self.records != per.records:
            raise QuestionError(f"means are taken of one kind of records, not of {self.records} per {per.records}")
        if any(p_table and p_table.greatest_bias for p_table in (self.design.p_table, per.design.p_table)):
            raise QuestionError("no means are taken of counts whose p-table changes their mean")
        parts, others = self.questions(by, where), per.questions(by, where)
        for name in (*by, *where):
            if (name in self.larger_places) != (name in per.larger_places):
                raise QuestionError(
                    f"{name}: it is a variable of one of the two hypercubes, and a larger place in the other"
                )
            if not self.categories[name].equals(per.categories[name]) or self.larger_places.get(
                name
            ) != per.larger_places.get(name):
                raise QuestionError(f"{name}: the two hypercubes have other categories")
        if [(part.places, *part.rows) for part in parts] != [(part.places, *part.rows) for part in others]:
            raise QuestionError("the two hypercubes have other structural zeros")
        step = float(self.grid / per.grid)
        least = self.design.least / (fewest if self.design.least < 0 else per.design.most)
        most = self.design.most / (fewest if self.design.most > 0 else per.design.most)
        figures = []
        for above, below in zip(parts, others, strict=True):
            quotients = means(self.answer(above.question), per.answer(below.question), least, most)
            figures.append(
                {
                    name: round_to_decimals(getattr(quotients, name).ravel()[above.rows] * step)
                    for name in ("estimate", "lower", "upper")
                }
            )
        return self.tabulate(by, parts, figures)

    def tabulate(
        self, by: Sequence[str], parts: "Sequence[Part]", figures: Sequence[Mapping[str, pa.Array]], lines: int = 1
    ) -> pa.Table:
        """The table with the figures of each part, with `lines` lines for each of its rows."""
        numbers = {name: np.repeat(np.concatenate([part.numbers(name) for part in parts]), lines) for name in by}
        categories = {name: self.categories[name].take(pa.array(places)) for name, places in numbers.items()}
        answered = pa.concat_tables([pa.table(dict(columns)) for columns in figures])
        rows = pa.table(categories | dict(zip(answered.column_names, answered.columns, strict=True)))
        # Parts are in the order of larger places, which may come after other variables in `by`.
        return rows.take(np.lexsort([numbers[name] for name in reversed(by)])) if len(parts) > 1 else rows

    def answer(self, question: Question) -> Answer:
        """The answer to a question. Raises QuestionError if it needs an unpublished cell."""
        if (missing := self.missing.get(question.source)) is not None:
            needed = question.sums({question.source: missing.astype(np.int64)})
            if cells := int(np.count_nonzero(needed)):
                raise QuestionError(f"{cells:,} of {needed.size:,} numbers would need cells that are not published")
        return question.answer({question.source: self.numbers[question.source] / parts_of_step(self.grid)})

    def figures(self, answer: Answer, rows: NDArray[np.int64]) -> dict[str, pa.Array]:
        """The estimates of some cells of an answer with their errors, in records or in the unit of the amount.

        A negative estimate of a nonnegative quantity becomes 0, unless the tables are fitted: fitted tables add up,
        because their estimates are sums of whole ten-thousandths.
        """
        estimates = answer.question.sums(self.numbers)
        if self.design.least >= 0 and self.design.margins is not Margins.FITTED:
            estimates = np.maximum(estimates, 0)
        return {"estimate": as_decimals(estimates.ravel()[rows])} | {
            name: round_to_decimals(getattr(answer, name).ravel()[rows] * float(self.grid))
            for name in ("standard_error", "lower", "upper")
        }

    @property
    def records(self) -> str:
        return self.quantity.rpartition(" of ")[2]

    def _has_numbers_of(self, other: "Publication") -> bool:
        """Whether both are the same draw: two draws with separate noise do not have all numbers in common."""
        return self.quantity == other.quantity and all(
            table in other.numbers and np.array_equal(numbers, other.numbers[table])
            for table, numbers in self.numbers.items()
        )

    def _place(self, name: str, value: Any) -> int:
        if name not in self.categories:
            raise QuestionError(f"{name}: the hypercube is by {', '.join(self.categories)}")
        known, text = self._texts[name], None if value is None else str(value)
        if text not in known:
            first = ", ".join(map(write_category, known[:_LISTED])) + ", …" * (len(known) > _LISTED)
            raise QuestionError(f"{name}: there is no category {write_category(text)}; there are {first}")
        return known.index(text)

    @cached_property
    def _texts(self) -> dict[str, list[str | None]]:
        return {
            name: [None if value is None else str(value) for value in values.to_pylist()]
            for name, values in self.categories.items()
        }


@dataclass(frozen=True)
class Part:
    """A question whose answer is a part of a table. `places` has the number of each larger place in `by`."""

    places: Mapping[str, int]
    question: Question

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The cells of the answer that are not structural zeros."""
        return np.flatnonzero(self.question.cells.ravel())

    def numbers(self, name: str) -> NDArray[np.int64]:
        """By row, the number of the category of a variable or larger place."""
        if name in self.places:
            return np.full(len(self.rows), self.places[name])
        by, chosen = self.question.by, self.question.chosen
        return np.array(chosen[name])[np.unravel_index(self.rows, [len(chosen[other]) for other in by])[by.index(name)]]


NO_VALUE = "null"
"""The word for records without a value in lists of categories."""


def write_category(category: Any) -> str:
    """A category as an argument of `stirred table`: in quotes if it could be read as another category, or as
    several."""
    if category is None:
        return NO_VALUE
    text = str(category)
    plain = text not in ("", NO_VALUE) and text == text.strip(" ()") and not set(text) & set(",'\"")
    return text if plain else '"' + text.replace('"', '""') + '"'


def round_to_decimals(values: NDArray[Any]) -> pa.Array:
    return as_decimals(np.rint(np.asarray(values, dtype=np.float64) * PARTS_OF_ONE).astype(np.int64))


def as_decimals(parts: NDArray[np.int64]) -> pa.Array:
    """Ten-thousandths as decimals with four places."""
    whole = pa.array(parts).cast(_WHOLE)
    # Moving the decimal point is exact; a cast from floats would round again.
    return pa.Array.from_buffers(ESTIMATED, len(whole), whole.buffers())


def as_parts(numbers: pa.ChunkedArray, step: int | None = None) -> NDArray[np.int64]:
    """Whole numbers or decimals with four places as ten-thousandths; 0 for null.

    A double represents the nearest multiple of a step, in ten-thousandths, which is unambiguous up to `_MOST_STEPS`.
    Without a step, it represents the nearest ten-thousandth.

    Raises QuestionError if a double is beyond this limit.
    """
    if pa.types.is_floating(numbers.type):
        steps = np.rint(numbers.fill_null(0).to_numpy() * PARTS_OF_ONE / (step or 1))
        if step and np.abs(steps).max(initial=0) > _MOST_STEPS:
            raise QuestionError(
                f"{HYPERCUBE}.parquet has doubles, and a number of more than 2^50 steps of {step / PARTS_OF_ONE:g} is "
                f"not exact in them; add up the column measured of {HYPERCUBE}.csv instead"
            )
        return steps.astype(np.int64) * (step or 1)
    decimals = pa.concat_arrays(numbers.cast(ESTIMATED).chunks)
    whole = pa.Array.from_buffers(_WHOLE, len(decimals), decimals.buffers(), offset=decimals.offset)
    return whole.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)


def parts_of_step(grid: Fraction) -> int:
    """The ten-thousandths of a step of a grid, which has at most four decimals."""
    return int(grid * PARTS_OF_ONE)


def fitted_numbers(
    design: Hypercube, measured: Mapping[Table, NDArray[np.int64]], possible: NDArray[np.bool_] | None, grid: Fraction
) -> dict[Table, NDArray[Any]]:
    """The addends of sub-tables, in ten-thousandths: the noisy cells, or the fitted inner table."""
    if design.margins is not Margins.FITTED:
        return {table: cells * parts_of_step(grid) for table, cells in measured.items()}
    inner = Fit(design, possible).inner(measured)
    return {design.inner: np.rint(inner * float(grid) * PARTS_OF_ONE).astype(np.int64)}


def read_labels(files: PublishedTables) -> dict[str, dict[str, str]]:
    """By variable of a published hypercube, its labeled categories as text, with their labels."""
    labels: dict[str, dict[str, str]] = {}
    for row in files.read(CATEGORIES).to_pylist():
        if row["label"] and row["category"] is not None:
            labels.setdefault(row["variable"], {})[row["category"]] = row["label"]
    for row in _read_larger_places(files):
        if row["label"]:
            labels.setdefault(row["larger"], {})[row["place"]] = row["label"]
    return labels


def _read_larger_places(files: PublishedTables) -> list[dict[str, Any]]:
    """The rows of the table of larger places, in the order of their numbers; empty if there is no such table."""
    rows = files.read(LARGER_PLACES).to_pylist() if LARGER_PLACES in files else []
    return sorted(rows, key=lambda row: (row["place_number"], row["number"]))


def read_publication(files: PublishedTables) -> Publication:
    """A publication from its tables. Raises QuestionError if they are not the tables of a hypercube, or as `as_parts`
    does, and VerificationError."""
    other = QuestionError(
        f"{files.folder}: this is not a publication of a hypercube: its tables are its files; for sums of places of "
        "redistricting data, use --places"
    )
    if TABLES not in files:
        raise other
    try:
        return _read(files)
    except QuestionError:
        raise
    except (OSError, KeyError, IndexError, TypeError, ValueError, pa.ArrowException):
        raise other from None


def _p_table(changes: pa.Table) -> PTable:
    rows: dict[int, dict[int, Fraction]] = {}
    for row in changes.to_pylist():
        rows.setdefault(row["count"], {})[row["count"] + row["change"]] = Fraction(row["probability"])
    return PTable.of([rows[count] for count in sorted(rows)])


def _design(tables: list[dict[str, Any]], categories: Mapping[str, Sequence[str]], p_table: PTable | None) -> Hypercube:
    first, budgets = tables[0], {tuple(row["table_name"].split(BETWEEN)): Fraction(row["budget"]) for row in tables}
    total, margins = sum(budgets.values(), Fraction(0)), Margins(first["margins"])
    noise = NoiseFamily.GAUSSIAN if "Gaussian" in first["noise"] else NoiseFamily.LAPLACE
    shares = {table: budget / total if total else Fraction(1, len(budgets)) for table, budget in budgets.items()}
    return Hypercube(
        {name: len(values) for name, values in categories.items()},
        total,
        NoiseFamily.P_TABLE if p_table else noise,
        margins,
        {} if margins is Margins.SUMMED else shares,
        first["cap"],
        first["least"],
        first["most"],
        p_table,
    )


def read_categories(
    files: PublishedTables,
) -> tuple[dict[str, list[str]], dict[str, tuple[str, list[int]]], dict[str, pa.Array]]:
    """By variable its categories, in order and as text; by larger place the variable that lies in it and the larger
    place's number for each category; and by larger place its categories."""
    texts: dict[str, list[str]] = {}
    categories = files.read(CATEGORIES)
    for row in categories.sort_by([("variable", "ascending"), ("number", "ascending")]).to_pylist():
        texts.setdefault(row["variable"], []).append(row["category"])
    larger: dict[str, tuple[str, list[int]]] = {}
    places: dict[str, dict[int, str]] = {}
    for row in _read_larger_places(files):
        _, lies_in = larger.setdefault(row["larger"], (row["variable"], [0] * len(texts[row["variable"]])))
        lies_in[row["number"]] = row["place_number"]
        places.setdefault(row["larger"], {})[row["place_number"]] = row["place"]
    return texts, larger, {name: pa.array([*by_number.values()], pa.string()) for name, by_number in places.items()}


def _read(files: PublishedTables) -> Publication:
    tables = files.read(TABLES).to_pylist()
    texts, larger, places = read_categories(files)
    design = _design(tables, texts, _p_table(files.read(P_TABLE)) if P_TABLE in files else None)
    rows = files.read(HYPERCUBE)
    fitted = design.margins is Margins.FITTED
    grid = Fraction(str(tables[0]["grid"]))
    step = None if fitted else parts_of_step(grid)
    numbers: dict[Table, NDArray[Any]] = {}
    missing: dict[Table, NDArray[np.bool_]] = {}
    possible = np.zeros(design.cells(design.inner), dtype=np.bool_)
    # From text, because categories whose cells are all structural zeros have no row in the hypercube.
    typed = {name: pa.array(values, pa.string()).cast(rows.schema.field(name).type) for name, values in texts.items()}
    for table in (design.inner,) if fitted else design.tables:
        part = rows.filter(pc.equal(rows["table_name"], BETWEEN.join(table)))
        cells, figures = part["cell"].to_numpy(), part["estimate" if fitted else "measured"]
        flat, empty = np.zeros(design.cells(table), dtype=np.int64), np.zeros(design.cells(table), dtype=np.bool_)
        flat[cells], empty[cells] = as_parts(figures, step), figures.is_null().to_numpy()
        numbers[table] = flat.reshape(design.shape(table))
        if empty.any():
            missing[table] = empty.reshape(design.shape(table))
        if table == design.inner:
            possible[cells] = True
    shaped = None if possible.all() else possible.reshape(design.shape(design.inner))
    typed |= places
    return Publication(design, typed, grid, tables[0]["counted"], numbers, shaped, missing, larger)


def least_variance(published: Mapping[str, Publication], by: Sequence[str], where: Where) -> str:
    """The name of the hypercube that answers with the least variance; among equals, the first by name.

    Raises QuestionError as `Publication.ask` does for the last hypercube if none can answer, and if hypercubes with
    different quantities can answer.
    """
    variances: dict[str, float] = {}
    refusal = QuestionError("there is no hypercube")
    for name, publication in sorted(published.items()):
        try:
            answers = [publication.answer(part.question) for part in publication.questions(by, where)]
            variances[name] = sum(float(answer.variance.sum()) for answer in answers)
        except QuestionError as error:
            refusal = error
    if not variances:
        raise refusal
    if len(quantities := {published[name].quantity for name in variances}) > 1:
        several = "; ".join(f"{name}: {published[name].quantity}" for name in variances)
        raise QuestionError(f"name the hypercube: {len(quantities)} different quantities are published ({several})")
    return min(variances, key=lambda name: variances[name])


def answer(
    published: Sequence[Mapping[str, PublishedTables]], by: Sequence[str], where: Mapping[str, Sequence[str | None]]
) -> tuple[list[str], pa.Table]:
    """The names of the hypercubes that answer, and their answer: sums, or means of one per the other.

    `published` has the tables of the hypercubes that may answer, by name; for means, a second mapping has the divisors.
    `Publication.ask` explains `by` and `where`. Raises QuestionError if none can answer.
    """
    answering = []
    for by_name in published:
        # Releases of quantiles and moments have no cells to add up.
        of_cells = {name: files for name, files in by_name.items() if HYPERCUBE in files}
        read = {name: read_publication(files) for name, files in (of_cells or by_name).items()}
        name = least_variance(read, by, where)
        answering.append((name, read[name]))
    names, (first, *rest) = [name for name, _ in answering], [publication for _, publication in answering]
    if len({name.partition("/")[0] for name in names}) > 1:
        raise QuestionError(f"means are taken of hypercubes of one dataset, not of {' and '.join(names)}")
    return names, first.means(rest[0], by, where) if rest else first.ask(by, where)
