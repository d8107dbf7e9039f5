"""Questions to published quantiles and moments, a part of the page *Tables*: the questions that `stirred table`
answers.

All choices are in the address of the page, so that everyone who opens it sees the same answer.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from assets.publication.tables import PublishedTables
from assets.release.signature import SignedFolder, VerificationError
from mechanisms.refusal import RefusedError
from orchestration.components import TableBuilder
from orchestration.explorer.display import choose, name_choice, read_link, show_table
from orchestration.explorer.products import NO_VALUE, TOTAL
from orchestration.explorer.reading import find_published, read_key
from orchestration.explorer.words import ON_GRID, escape, format_figure

QUANTILE, SUMMARY, CORRELATION, REGRESSION = "quantiles", "summary", "correlation", "regression"

_WORDS = {
    QUANTILE: "A quantile, such as the median",
    SUMMARY: "Means, standard deviations and correlations",
    CORRELATION: "A correlation",
    REGRESSION: "A regression on one variable",
}


_ABOUT_ERRORS = (
    "The standard error and the interval, from lower to upper, are those of the noise. The error of the sample stands "
    "beside them."
)
_ABOUT_DRAWN = (
    "The estimate is drawn by itself. With a probability of at least 90%, it is off by fewer records than stated. How "
    "far it is from the quantile depends on the records."
)


def answers_questions(release: str) -> bool:
    return (find_published() / release / "scales.parquet").exists()


def show_answer(picture: DeltaGenerator, release: str, words: Mapping[str, str], link: dict[str, str]) -> None:
    """The controls of a question to a release, and its answer, or the reason why there is none. `words` names
    variables as the release's tables do."""
    folder, scope = find_published() / release, f"{release}:ask:"
    try:
        published, write, remark = _read(folder, SignedFolder.open(folder, read_key()).checksums)
        asked = [QUANTILE] if published.has_quantiles else [SUMMARY, CORRELATION, REGRESSION]
        question = choose("Question", {name: _WORDS[name] for name in asked}, link, "question", scope)
        arguments = _choose_arguments(question, published, link, scope)
        categories = published.cells.categories
        headings = {name: words.get(name, name) for name in categories}
        rows_by = {TOTAL: "All together", **headings}
        by = choose("One row for each", rows_by, link, "by", scope)
        where: dict[str, list[str | None]] = {}
        for name, values in categories.items():
            if name != by:
                texts = {_as_text(value): write(name, value) for value in values.to_pylist()}
                chosen = choose(headings[name], {TOTAL: "All together", **texts}, link, name_choice(name), scope)
                where |= {} if chosen == TOTAL else {name: [None if chosen == NO_VALUE else chosen]}
        answer = getattr(published, question)(*arguments, [] if by == TOTAL else [by], where)
    except (RefusedError, VerificationError, OSError) as error:
        picture.error(escape(f"{error}"))
        return
    st.query_params.from_dict(link)
    of = ", ".join(link[name].replace("_", " ") for name in ("variable", "other") if name in link)
    with picture:
        st.markdown(f"**{escape(': '.join(filter(None, (_WORDS[question], of))))}**")
        show_table(
            [
                {
                    headings.get(key, key.replace("_", " ")): write(key, cell) if key in categories else _format(cell)
                    for key, cell in row.items()
                }
                for row in answer.to_pylist()
            ]
        )
        st.caption(_ABOUT_DRAWN if published.drawn else _ABOUT_ERRORS)
        st.caption(escape(f"{remark} {published.bounds}".strip()))
        if question == QUANTILE and not published.drawn:
            st.caption(ON_GRID)


@lru_cache(maxsize=8)
def _read(folder: Path, checksums: str) -> tuple[Any, Callable[[str, Any], str], str]:
    """A publication as signed with these checksums, a function that writes its categories, and a remark on its
    intervals. A file that was altered for a while would otherwise stay in the cached answers. Raises
    VerificationError."""
    signed = SignedFolder.open(folder, read_key())
    if signed.checksums != checksums:
        raise VerificationError(f"{folder} was published anew while it was read; load the page again")
    files = PublishedTables.of(signed)
    write = TableBuilder.describe_categories(files, codes=False)
    return TableBuilder.read_statistic(files), write, TableBuilder.remark_on_intervals([files])


def _choose_arguments(question: str, published: Any, link: dict[str, str], scope: str) -> list[Any]:
    named = {name: name.replace("_", " ") for name in published.variables}
    if question == SUMMARY:
        return []
    one = choose("Variable", named, link, "variable", scope)
    if question == QUANTILE and published.drawn:
        shares = {str(quantile): f"{float(100 * quantile):g}% of the records" for quantile in published.drawn}
        return [one, [Fraction(choose("Quantile", shares, link, "share", scope))]]
    if question == QUANTILE:
        first = int(read_link("share", list(map(str, range(1, 100))), "50"))
        share = int(st.number_input("Share of the records up to it (%)", 1, 99, first, key=f"{scope}share"))
        link["share"] = str(share)
        return [one, [Fraction(share, 100)]]
    other = choose("And" if question == CORRELATION else "On", named, link, "other", scope, default=len(named) - 1)
    return [one, other] if question == CORRELATION else [one, [other]]


def _as_text(value: Any) -> str:
    return NO_VALUE if value is None else str(value)


def _format(cell: Any) -> str:
    if isinstance(cell, str):
        return cell
    return "too uncertain" if cell is None else format_figure(cell) if abs(cell) >= 10 else f"{cell:.4g}"
