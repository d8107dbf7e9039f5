"""The asset `accuracy` of a DHC release: the errors of measurements and estimates, level by level, and of its tables.

The errors are computed from the exact histograms and are therefore confidential. The UI shows them only for a synthetic
dataset.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import dagster as dg
import numpy as np
from numpy.typing import NDArray

from assets.conventions import preview
from assets.measurement.method import MEASUREMENTS
from assets.topdown.accuracy import (
    POST_PROCESSED,
    RAW,
    Figure,
    Shown,
    build_accuracy_of,
    draw_figures,
    format_value,
)
from assets.topdown.dhc.levels import plan_histograms, read_exact
from assets.topdown.dhc.measurements import Stored
from assets.topdown.dhc.products import describe_table, list_runs, read_estimates, table_names
from assets.topdown.dhc.release import ESTIMATES, HISTOGRAMS, TEXTS, DHCRelease
from assets.topdown.spine import read_tree
from mechanisms.topdown.design import words
from mechanisms.topdown.dhc.design import SCHEMAS, DHCDesign
from mechanisms.topdown.dhc.linear import list_complete
from mechanisms.topdown.dhc.tables import MEDIAN_AGES, list_figures
from mechanisms.topdown.schema import DETAILED, Counts
from resources.warehouse import Session

_TITLES = {
    "age_38_groups * sex": "Sex and age",
    "popSehsdTargetsRelship": "Relationship",
    "gq_constr_groups * age_10_groups": "Group quarters and age",
    "coupled_hh_type * hisp * hhtenshort_2lev": "Couple and tenure",
    "hisp * hhtenshort_2lev * race": "Householder's race and tenure",
    DETAILED: "Tenure and vacancy",
}
"""The production queries to compare, each of one histogram; the query of all cells is the one of units."""

_HISTOGRAMS = dict(zip(_TITLES, ("persons", "persons", "persons", "households", "households", "units"), strict=True))


class _Query(NamedTuple):
    histogram: str
    query: str
    title: str


def _list_queries(design: DHCDesign) -> dict[str, _Query]:
    """By metric, the queries to compare. For histograms with declared passes, these are all queries with few answers
    that every level asks."""
    complete = {name: list_complete(plan, design.allocations[name]) for name, plan in design.plans.items()}
    compared = {
        query: _Query(_HISTOGRAMS[query], query, title)
        for query, title in _TITLES.items()
        if _HISTOGRAMS[query] not in design.passes and query in complete[_HISTOGRAMS[query]]
    }
    for histogram in design.passes:
        for query in complete[histogram]:
            compared[f"{histogram} {query}"] = _Query(histogram, query, f"{histogram}: {query}")
    return compared


def build_dhc_accuracy(release: DHCRelease) -> dg.AssetsDefinition:
    def show(figures: list[Figure]) -> Shown:
        queries = _list_queries(release.design)
        titles = {metric: f"{query.title}: mean absolute error" for metric, query in queries.items()}
        values = {(each.metric, each.level): format_value(each.value) for each in figures}
        rows = [(name, *(values[name, level] for level in release.levels)) for name in _compared(release)]
        tables = preview(["table", *map(words, release.levels)], rows)
        return {**draw_figures(release, figures, titles), "tables: mean absolute error (synthetic data)": tables}

    return build_accuracy_of(
        release,
        TEXTS("accuracy"),
        [HISTOGRAMS, MEASUREMENTS, ESTIMATES],
        lambda session: measure_accuracy(session, release),
        show,
    )


def _compared(release: DHCRelease) -> list[str]:
    """The published tables without their iterations by race and origin."""
    return [name for name in table_names(release) if name[-1].isdigit()]


def measure_accuracy(session: Session, release: DHCRelease) -> Iterator[Figure]:
    tree, runs = read_tree(session, release), list_runs(session, release, 2)
    compared = _list_queries(release.design)
    for histogram, planned in plan_histograms(release, tree).items():
        tables = [name for name in _compared(release) if describe_table(name)[3] == histogram]
        queries = {metric: each.query for metric, each in compared.items() if each.histogram == histogram}
        for level in planned:
            sums = defaultdict[tuple[str, str], list[Errors]](list)
            for first, last in (places for _, name, *places in runs if name == level.name):
                own = level.take(first, last)
                exact = read_exact(session, release, tree, histogram, own)
                estimates = read_estimates(session, release, histogram, level.name, first, last)
                both = [list_figures(tables, each, last - first) for each in (exact, estimates)] if tables else []
                for (_, _, truth), (_, _, found) in zip(*both, strict=True):
                    for name in tables:
                        sums[name, POST_PROCESSED].append(_compare_tables(name, truth[name], found[name]))
                stored = Stored(session, release, SCHEMAS[histogram], own, list(queries.values()))
                for metric, query in queries.items():
                    errors = compare_answers(stored, query, exact, estimates)
                    for source, error in zip((RAW, POST_PROCESSED), errors, strict=True):
                        sums[metric, source].append(error)
            for (metric, source), errors in sums.items():
                absolute, figures = map(sum, zip(*errors, strict=True))
                mean = float(absolute) / figures if figures else None
                yield Figure(level.name, metric, source, mean, len(level.runs))


Errors = tuple[float, int]
"""The sum of absolute errors and the number of figures."""


def _compare_tables(name: str, truth: NDArray[np.int64], found: NDArray[np.int64]) -> Errors:
    """The errors of a table's figures; for median ages, only of those known in both."""
    if name not in MEDIAN_AGES:
        return int(np.abs(found - truth).sum()), truth.size
    both = (truth >= 0) & (found >= 0)
    return int(np.abs(found - truth)[both].sum()) / 10, int(both.sum())


def compare_answers(stored: Stored, query: str, exact: Counts, estimates: Counts) -> list[Errors]:
    """The errors of measurements and of estimates in the measured cells."""
    marginal = stored.schema.marginal(query)
    sums, answers = np.zeros(2, dtype=np.int64), 0
    for asked, noisy in stored.list_kept(query):
        truth, estimated = np.zeros_like(noisy), np.zeros_like(noisy)
        asked.add_exact(marginal, exact, truth)
        asked.add_exact(marginal, estimates, estimated)
        sums += [np.abs(own - truth).sum() for own in (noisy, estimated)]
        answers += len(noisy)
    return [(each, answers) for each in sums.tolist()]
