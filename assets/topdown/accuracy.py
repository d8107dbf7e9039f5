"""The asset `accuracy`: the errors of measurements and estimates of a TopDown release, level by level.

The errors are computed from the exact histograms and are therefore confidential. The UI shows them only for a synthetic
dataset. `charts` draws them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.conventions import StageKind, named, preview
from assets.pictures import picture
from assets.release.stage import Recipes, build_stage, store_rows
from assets.topdown.histograms import read_counts, roll_up
from assets.topdown.measurements import read_answers
from assets.topdown.release import ACCURACY, HISTOGRAMS, TEXTS, TopDownRelease, TreeRelease
from assets.topdown.spine import count_places
from mechanisms.topdown.design import words
from mechanisms.topdown.schema import DETAILED, PERSONS, TOTAL, UNITS, Counts, Marginal, Schema
from resources.processes import Stopped, in_threads
from resources.statements import SQL, Fragment, Zone
from resources.warehouse import Session

PLACES_AT_A_TIME, _THREADS = 4096, 4
"""The number of places compared with the truth at a time, whose answers and absolute values take about 70 MB per thread
(2,143 answers of 4 bytes for a place, nearly all of them twice), and the maximum number of threads."""

_RECORDS_COUNTED = SQL("topdown/records_counted", "SELECT coalesce(sum(count), 0)::BIGINT FROM {{ counts }}")

RAW, POST_PROCESSED = "raw", "post-processed"
"""The sources compared with the truth: the noisy measurements, and the estimates made from them."""

_ROWS = pa.schema(
    {"level": pa.string(), "metric": pa.string(), "source": pa.string(), "value": pa.float64(), "units": pa.int64()}
)


@dataclass(frozen=True)
class Metric:
    """The mean absolute difference between answers to a query and the exact answers.

    Attributes:
        leading: the number of leading answers in each place that count; None for all.
        relative: whether the metric is instead half the sum of differences divided by the number of records: the total
            variation distance between histograms with the same number of records.
    """

    name: str
    title: str
    schema: Schema
    query: str
    leading: int | None = None
    relative: bool = False

    @property
    def marginal(self) -> Marginal:
        return self.schema.marginal(self.query)

    def value(self, differences: int, places: int, records: int) -> float | None:
        """The metric, from the sum of absolute differences; None if it is relative and there are no records."""
        if self.relative:
            return differences / (2 * records) if records else None
        return differences / (places * self.answers)

    @property
    def answers(self) -> int:
        """The number of answers in each place that count."""
        return len(range(self.marginal.size)[: self.leading])

    def locate(self, counts: Counts, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """As `Counts.locate`, without the answers that do not count."""
        positions, amounts = counts.locate(self.marginal, first, last)
        counted = positions % self.marginal.size < self.answers
        return positions[counted], amounts[counted]

    def sum_differences(self, noisy: NDArray[np.int32], positions: NDArray[np.int64], counts: NDArray[np.int64]) -> int:
        """The sum of absolute differences of noisy answers, shape (places, marginal cells), from exact answers, which
        are the sums of counts at these positions, and 0 at all others."""
        positions, exact = _add_up(positions, counts)
        # The absolute value of the least integer is itself, unless it is read as unsigned.
        from_zero = int(np.abs(noisy).view(np.uint32)[:, : self.leading].sum(dtype=np.int64))
        answers = noisy.ravel()[positions].astype(np.int64)
        return from_zero + int((np.abs(answers - exact) - np.abs(answers)).sum())


METRICS = (
    Metric("population", "Total population: mean absolute error", PERSONS, TOTAL),
    Metric("race_by_hispanic", "Race × Hispanic counts: mean absolute error", PERSONS, "hispanic * cenrace"),
    Metric("histogram", "Histogram: absolute error per person, halved", PERSONS, DETAILED, relative=True),
    Metric("occupied", "Occupied housing units: mean absolute error", UNITS, DETAILED, leading=1),
)


class Figure(NamedTuple):
    """The value of a metric at a level with `units` places; None if the level does not measure the query or has no
    records."""

    level: str
    metric: str
    source: str
    value: float | None
    units: int


Shown = Mapping[str, dg.MetadataValue]


def build_accuracy(release: TopDownRelease) -> dg.AssetsDefinition:
    titles = {metric.name: metric.title for metric in METRICS}
    return build_accuracy_of(
        release,
        TEXTS("accuracy"),
        [HISTOGRAMS, release.estimated],
        lambda session: measure_accuracy(session, release),
        lambda figures: draw_figures(release, figures, titles),
    )


def build_accuracy_of(
    release: TreeRelease,
    description: str,
    deps: Sequence[str],
    measure: Callable[[Session], Iterable[Figure]],
    show: Callable[[list[Figure]], Shown],
) -> dg.AssetsDefinition:
    """The asset with the measured figures. It shows them only for a synthetic dataset."""

    def recipes(session: Session) -> Recipes:
        figures = [dict(zip(_ROWS.names, figure, strict=True)) for figure in measure(session)]
        rows = pa.Table.from_pylist(figures, schema=_ROWS)
        return {release.confidential(ACCURACY): store_rows(session, "figures", rows)}

    return build_stage(
        release,
        "accuracy",
        StageKind.UTILITY,
        description,
        deps,
        recipes,
        metadata=lambda session, tables: {"table": named(tables[0])},
        shown_if_synthetic=lambda session, tables: show(
            [Figure(*row) for row in session.rows("warehouse/all", source=tables[0])]
        ),
        version=lambda session, tables, custody: session.content_version(tables, custody.version_key()),
        reads=[Zone.PUBLIC],
        kinds={"duckdb", "numpy", "matplotlib"},
    )


def measure_accuracy(session: Session, release: TopDownRelease) -> Iterator[Figure]:
    places = count_places(session, release)
    for level in release.levels:
        for schema in (PERSONS, UNITS):
            exact = roll_up(session, release, release.confidential(HISTOGRAMS), schema.name, level)
            (records,) = session.row(_RECORDS_COUNTED, counts=exact)
            metrics = [metric for metric in METRICS if metric.schema is schema]
            sums = _sum_differences(session, release, level, metrics, exact, places[level])
            for metric in metrics:
                for source in (POST_PROCESSED, RAW):
                    differences = sums.get((metric.name, source))
                    value = None if differences is None else metric.value(differences, places[level], records)
                    yield Figure(level, metric.name, source, value, places[level])


def _sum_differences(
    session: Session, release: TopDownRelease, level: str, metrics: Sequence[Metric], exact: Fragment, places: int
) -> Counter[tuple[str, str]]:
    """The sums of absolute differences from the exact answers, by the name of each metric of one histogram and by
    source. A query that is not measured has no sum of measurements."""
    histogram, size = metrics[0].schema.name, metrics[0].schema.size
    measured = {query.query: query for query in release.design.measured_at(histogram, level)}
    own = {metric.query: measured[metric.query] for metric in metrics if metric.query in measured}
    estimates = release.public(release.estimates(level))

    def read_truth() -> Iterator[tuple[int, int, Counts]]:
        # The exact counts are in a temporary table, which no other connection sees.
        for first in range(0, places, PLACES_AT_A_TIME):
            last = min(first + PLACES_AT_A_TIME, places)
            yield first, last, read_counts(session, exact, size, first, last)

    def compare(part: tuple[int, int, Counts], stopped: Stopped) -> Counter[tuple[str, str]]:
        first, last, truth = part
        with session.open_sibling() as reading:
            estimated = read_counts(reading, estimates, size, first, last, histogram=histogram)
            noisy = read_answers(reading, release, list(own.values()), first, last) if own else {}
        sums = Counter[tuple[str, str]]()
        for metric in metrics:
            positions, counts = metric.locate(truth, first, last)
            own_positions, own_counts = metric.locate(estimated, first, last)
            _, differences = _add_up(np.append(own_positions, positions), np.append(own_counts, -counts))
            sums[metric.name, POST_PROCESSED] = int(np.abs(differences).sum())
            if metric.query in own:
                sums[metric.name, RAW] = metric.sum_differences(noisy[own[metric.query]], positions, counts)
        return sums

    total = Counter[tuple[str, str]]()
    with closing(in_threads(compare, read_truth(), min(release.processes, _THREADS))) as parts:
        for sums in parts:
            total.update(sums)
    return total


def _add_up(positions: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each position once, ascending, and the sum of its counts."""
    order = np.argsort(positions, kind="stable")
    positions = positions[order]
    firsts = np.flatnonzero(np.diff(positions, prepend=-1))
    return positions[firsts], np.add.reduceat(counts[order], firsts)


def draw_figures(
    release: TreeRelease, figures: Iterable[Figure], titles: Mapping[str, str]
) -> dict[str, dg.MetadataValue]:
    """A chart and tables of the metrics with a title."""
    from assets.topdown.charts import accuracy_by_level

    values = {(figure.metric, figure.source, figure.level): figure.value for figure in figures}
    levels = [words(level) for level in release.levels]
    panels = {
        title: {source: [values[metric, source, level] for level in release.levels] for source in (RAW, POST_PROCESSED)}
        for metric, title in titles.items()
    }
    tables = {
        f"{title} (synthetic data)": preview(
            ["level", RAW, POST_PROCESSED],
            [(level, *map(format_value, pair)) for level, *pair in zip(levels, *sources.values(), strict=True)],
        )
        for title, sources in panels.items()
    }
    finest = "; ".join(
        f"{title}: " + ", ".join(f"{source} {format_value(values[-1])}" for source, values in sources.items())
        for title, sources in panels.items()
    )
    return {
        "accuracy by level (synthetic data)": picture(
            accuracy_by_level(levels, panels),
            f"Error by geographic level, raw and post-processed. At the level {levels[-1]}: {finest}.",
        ),
        **tables,
    }


def format_value(value: float | None) -> str:
    return "not measured" if value is None else f"{value:,.4g}"
