"""The display of the explorer's pages: tables with whole labels, axes of charts, and choices kept in the address."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any
from urllib.parse import quote

import altair as alt
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from assets.publication.listing import LISTING
from assets.publication.placement import publications
from assets.texts import show_line
from orchestration.explorer.process import DOCUMENTATION
from orchestration.explorer.reading import UnavailableError, find_published, load_publisher
from orchestration.explorer.words import escape

MARK = "#c56a10"
"""The color of a line or border that stands out in both a light and a dark theme."""
INK = alt.expr("luminance(background) > 0.5 ? '#222222' : '#e6e6e6'")
PAPER = alt.expr("background")
OPENED = "opened"
"""Whether this session has shown a page before, so that the address is no longer the one that the user opened."""
_LABEL, _AXIS, _LEGEND, _WHOLE = 28, 30, 40, 42
"""The letters that fit on a phone in a line of a label, of an axis title and of a legend, and in a choice in a box."""
_LINE = 12
"""The height of a line of a label, in pixels."""
OWN = frozenset(
    [
        *("release", "table", "level", "view", "number", "by", "place", "other", "cv", "half", "most"),
        *("question", "variable", "share", "embed", "embed_options"),
    ]
)
"""The names of the choices of the page *Tables*, and of Streamlit's own parameters of an address."""
_TALLEST, _SCROLLED = 600, 400
"""The height of a chart, in pixels, above which it scrolls, and the height of the scrolled view, which leaves the first
rows of its table visible."""


def show_header(place: DeltaGenerator) -> None:
    """Show the publisher, and links to the documentation, the publications, and the certificate of the release that the
    page's address names."""
    folder, release = find_published(), st.query_params.get("release", "")
    links = {"Documentation": "/documentation/how-to/explore.md"} if DOCUMENTATION.exists() else {}
    if (folder / LISTING).exists():
        links["Publications"] = "/published/"
    if tuple(release.split("/")) in publications(folder):
        links[f"Certificate of {release}"] = f"/published/{quote(release)}/certificate.html"
    try:
        name = load_publisher().authority or "Stirred"
    except UnavailableError:
        name = "Stirred"
    place.markdown(
        " · ".join([f"**{escape(name)}**", *(f"[{escape(words)}]({link})" for words, link in links.items())])
    )


def split_page() -> tuple[DeltaGenerator, DeltaGenerator]:
    """The columns of the controls and of the results; on a phone, one below the other."""
    controls, picture = st.columns([1, 2.6], gap="large")
    return controls, picture


def show_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str] | None = None) -> None:
    """Show a table with whole labels, without columns that are empty in every row. `columns` maps headings to keys;
    without it, every key is a heading."""
    if columns is not None:
        rows = [{heading: row[key] for heading, key in columns.items()} for row in rows]
    frame = pd.DataFrame([{escape(key): escape(value) for key, value in row.items()} for row in rows])
    st.table(frame.loc[:, (frame != "").any()], hide_index=True)


def show_chart_with_table(
    chart: alt.Chart | alt.LayerChart,
    words: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str] | None = None,
    *,
    of: str = "chart",
    expanded: bool = False,
    in_rows: bool = False,
) -> None:
    """A chart as wide as its column, above its table; `words` describe it to readers who cannot see it. A chart with
    many rows scrolls, with its axis above."""
    legible = chart.configure_axis(labelColor=INK, titleColor=INK).configure_legend(labelColor=INK, titleColor=INK)
    is_tall = in_rows and chart.height > _TALLEST
    # A title aligned to the end of the axis also leaves room above the row labels.
    legible = legible.configure_axisX(titleAnchor="end", orient="top" if is_tall else "bottom")
    with st.container(height=_SCROLLED, border=False) if is_tall else nullcontext():
        st.altair_chart(legible, width="stretch", alt=f"{words}; the table follows.")
    with st.expander(f"The table behind the {of}", expanded=expanded):
        show_table(rows, columns)


def make_row_chart(rows: Sequence[Mapping[str, Any]], tooltips: Mapping[str, str]) -> alt.Chart:
    """A chart with a row for each `name`, in the given order, never cut. `tooltips` has titles by the name of a
    field."""
    names = list(dict.fromkeys(str(row["name"]) for row in rows))
    lines = {name: len(wrap(name, _LABEL)) for name in names}
    # Otherwise, the first line of a label would be in the middle of the row, and the others near the next row.
    offsets = [
        {"test": f"{json.dumps(lines)}[datum.value] == {number}", "value": (1 - number) * _LINE / 2}
        for number in set(lines.values())
    ]
    axis = alt.Axis(
        labelLimit=0,
        labelExpr=break_labels(names),
        labelOffset={"condition": offsets, "value": 0},
        labelOverlap=False,
        labelFlush=False,
        title=None,
        ticks=False,
    )
    return alt.Chart(pd.DataFrame(rows)).encode(
        y=alt.Y("name:N", sort=names, axis=axis),
        tooltip=[alt.Tooltip(f"{field}:N", title=title) for field, title in tooltips.items()],
    )


def break_labels(names: Sequence[str], letters: int = _LABEL) -> str:
    """The Vega expression that breaks names into lines that fit on a phone."""
    return f"({json.dumps({name: wrap(name, letters) for name in names})})[datum.value]"


def fit_height(names: Sequence[str]) -> int:
    """The height of a chart with a row for each name, with room for its axis."""
    return 90 + sum(16 + _LINE * len(wrap(name, _LABEL)) for name in names)


def make_legend(names: Sequence[str]) -> alt.Legend:
    """A legend above a chart, with names that are never cut."""
    labels = break_labels(names, _LEGEND)
    return alt.Legend(title=None, orient="top", direction="vertical", labelLimit=0, labelExpr=labels)


def wrap_title(words: str) -> list[str]:
    """The title of an axis, in lines."""
    return wrap(words, _AXIS)


def wrap(text: str, width: int) -> list[str]:
    words = " ".join(show_line(text).split())
    return textwrap.wrap(words, width, break_long_words=False, break_on_hyphens=False) or [""]


def name_choice(variable: str) -> str:
    """The name of the choice of a variable's value: the variable's own, unless the page has another use for it."""
    return f"{variable}:" if variable.rstrip(":").lower() in OWN else variable


def read_link(name: str, options: Sequence[str], otherwise: str) -> str:
    """The option that the page's address names, or else `otherwise`."""
    named = st.query_params.get(name, otherwise)
    return named if named in options else otherwise


def choose(
    words: str,
    options: Mapping[str, str],
    link: dict[str, str],
    name: str,
    scope: str = "",
    default: int = 0,
    *,
    fate: str = "",
) -> str:
    """The chosen option, from options with labels by value. The initial choice is the option in the page's address, or
    else the one at position `default`. The choice becomes part of `link`, the future address, under its name. In
    another scope, the choice starts anew. `fate` tells why an option in the address is missing, in words after
    "which"."""
    values = list(options)
    named = st.query_params.get(name)
    if named is not None and named not in values and not st.session_state.get(OPENED):
        fate = fate or "is not there"
        st.warning(escape(f"{words}: the link names {named}, which {fate}; {options[values[default]]} is shown."))
    value = st.selectbox(
        escape(words),
        values,
        values.index(read_link(name, values, values[default])),
        format_func=lambda option: options.get(option, option),
        key=f"{scope}{name}",
    )
    if len(options.get(value, value)) > _WHOLE:
        # On a phone, the box shows only the beginning.
        st.caption(escape(options[value]))
    link[name] = value
    return value
