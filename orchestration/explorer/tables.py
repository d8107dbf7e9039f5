"""The page *Tables*: published numbers with their intervals, by place and group, compared, ranked, and on a map.

It uses the folder of publications alone. All choices are in the page's address, which a reader can send to others.
"""

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from assets.ledger.view import write_minute
from assets.release.published import SUPPRESSED
from orchestration.explorer.display import (
    MARK,
    PAPER,
    choose,
    fit_height,
    make_legend,
    make_row_chart,
    name_choice,
    read_link,
    show_chart_with_table,
    show_table,
    split_page,
)
from orchestration.explorer.products import (
    ESTIMATE,
    LINEAR,
    LINEAR_LOWER,
    LINEAR_UPPER,
    LOWER,
    MOST_VALUES,
    OF_LINEAR,
    STANDARD_ERROR,
    TOTAL,
    UPPER,
    Product,
    as_option,
    list_publications,
)
from orchestration.explorer.questions import answers_questions, show_answer
from orchestration.explorer.reading import UnavailableError, find_file_problems, read_intact_entries
from orchestration.explorer.settings import read_settings
from orchestration.explorer.words import ON_GRID, distinguish, escape, format_figure, join_levels
from resources.chain import find_last_withdrawal

RANKED, PLACE, TWO, MAP = "Places ranked", "One place", "Two places", "Map"
_MOST_SHOWN, _MOST_RANKED, _MOST_ROWS = 50, 10, 5000
MOST_DRAWN = 500
"""The largest number of rows in a chart: a browser cannot draw pictures higher than 65,535 pixels, and takes seconds
for large ones."""
_MOST_BYTES = 100_000_000
"""The limit of files for download. Larger files are named with their path, because the page would hold them in
memory."""
_UNCERTAIN = "too uncertain"
_ASK = "?"
"""The choice of a question instead of a table; no table has this name."""
_ERRORS = (LOWER, UPPER, STANDARD_ERROR)
_OF_LINEAR = (
    "Beside a published count is the linear estimate from all noisy measurements, with a 90% interval around it: in "
    "about nine of ten cells, the interval contains the true count. It need not contain the published count, which is "
    "never negative and mostly closer to the truth in small places."
)


@dataclass(frozen=True)
class Choice:
    """The choices that all views share: the column of the picture, the prefix of the keys of further choices, the
    future address of the page, the required values by column, the group with a row for each of its values, if any, the
    error, in percent of a number, above which the number is too uncertain, whether this error is a standard error or
    half the interval, and the counted object, in words."""

    picture: DeltaGenerator
    product: Product
    scope: str
    link: dict[str, str]
    number: str
    equal: Mapping[str, Any]
    varying: str
    greatest: int
    by_error: bool
    title: str

    def find_heading(self, otherwise: str) -> str:
        return self.product.fields[self.varying].words if self.varying else otherwise


def show() -> None:
    st.title("Tables")
    publications = list_publications()
    if not publications:
        st.info("Nothing is published. A release is published by `stirred launch`.")
    for problem in filter(None, (publication.problem for publication in publications)):
        st.error(escape(problem))
    readable = {publication.release: publication for publication in publications if publication.products}
    named = st.query_params.get("release", "")
    fate = "" if named in readable else _explain_withdrawal(named)
    if not readable:
        if fate:
            st.warning(escape(f"The link names {named}, which {fate}."))
        return
    controls, picture = split_page()
    with controls:
        link: dict[str, str] = {}
        titles = {name: f"{publication.title} ({name})" for name, publication in readable.items()}
        release = choose("Release", titles, link, "release", fate=fate)
        for problem in find_file_problems(release):
            picture.error(escape(f"Do not rely on these files: {problem}."))
        if readable[release].public:
            picture.info(escape(readable[release].public))
        products = {product.name: product for product in readable[release].products}
        titles = {key: product.title for key, product in products.items()}
        titles |= {_ASK: "Ask for another one"} if answers_questions(release) else {}
        name = choose("Table", titles, link, "table", f"{release}:")
        if name == _ASK:
            fields = [field for product in products.values() for field in product.fields.values()]
            show_answer(picture, release, {field.name: field.words for field in fields}, link)
            return
        product = products[name]
        if product.is_counted:
            _show_numbers(picture, product, f"{release}:{name}:", link)
        else:
            picture.write("This is a list, not a table of numbers by place. Its first rows:")
            with picture:
                show_table(product.read_first(_MOST_SHOWN))
            st.query_params.from_dict(link)
        _describe_product(product)


def _explain_withdrawal(release: str) -> str:
    """When a release was withdrawn, in words after "which", if the ledger can be read; empty if it was not."""
    dataset, _, name = release.partition("/")
    with suppress(UnavailableError):
        if withdrawn := find_last_withdrawal(read_intact_entries(), dataset, name):
            return f"was withdrawn on {write_minute(withdrawn.recorded_at)} UTC, in ledger entry {withdrawn.sequence}"
    return ""


def _describe_product(product: Product) -> None:
    with st.expander("About this table"):
        st.write(escape(product.description) or "The dictionary does not describe it.")
        if product.has_errors:
            st.write(escape(f"Intervals: 90%. {product.interval}".strip()))
        elif product.linear:
            st.write(_OF_LINEAR)
        elif product.is_counted:
            st.write("No error is published for these numbers.")
    with st.expander("The published files"):
        for path in product.files:
            size, label = path.stat().st_size, f"Download {escape(path.name)}"
            st.write(escape(f"{path}, {size:,} bytes"))
            if size <= _MOST_BYTES:
                st.download_button(label, path.read_bytes, path.name, key=f"file:{path}", on_click="ignore")


def _show_numbers(picture: DeltaGenerator, product: Product, scope: str, link: dict[str, str]) -> None:
    equal: dict[str, Any] = {}
    if product.level:
        levels = product.list_options(product.level)
        level = choose("Level", levels, link, "level", scope, default=min(1, len(levels) - 1))
        equal |= product.match({product.level: level})
        scope += f"{level}:"
    views = list(_VIEWS)
    first = read_link("view", views, RANKED)
    link["view"] = view = st.radio("View", views, views.index(first), horizontal=True, key=f"{scope}view")
    number, title = product.choices[0], product.title
    if len(product.choices) > 1:
        fields = [product.fields[column] for column in product.choices]
        columns = {each.name: (product.wide and join_levels(each.description)) or each.words for each in fields}
        number = choose("What is counted", columns, link, "number", scope)
        title = f"{product.title}: {columns[number]}"
    varying = ""
    if view in (PLACE, TWO) and product.groups:
        words = {group: product.fields[group].words for group in product.groups}
        varying = choose("One row for each", words, link, "by", scope)
    for group in product.groups:
        if group != varying:
            heading, options = product.fields[group].words, product.list_options(group, equal)
            if product.find_total_flag(group):
                options = {TOTAL: "All together", **options}
            value = choose(heading, options or {"": "nothing"}, link, name_choice(group), scope)
            label = "all together" if value == TOTAL else product.label(group, value, product.list_options(group))
            title += f", {heading}: {label}"
            equal |= product.match({group: value})
    if varying:
        equal |= product.exclude_totals([varying])
    places = st.container()
    # An average of noisy counts has an interval but no standard error.
    by_error = STANDARD_ERROR in product.numbers and bool(product.read_rows(STANDARD_ERROR, {}, 1))
    greatest = 0
    if product.has_errors:
        name, first, measure = ("cv", "30", "its standard error") if by_error else ("half", "50", "half its interval")
        question = f"Call a number too uncertain if {measure} is more than this share of it (%)"
        greatest = int(
            st.number_input(question, 1, 1000, int(read_link(name, list(map(str, range(1, 1001))), first)), key=name)
        )
        link[name] = str(greatest)
    elif number in product.estimated:
        picture.caption(_OF_LINEAR)
    else:
        picture.caption("No error is published for these numbers: they are counts of the published data.")
    if SUPPRESSED in product.fields:
        picture.caption("Suppressed numbers are not published, and are left out here.")
    with places:
        _VIEWS[view](Choice(picture, product, scope, link, number, equal, varying, greatest, by_error, title))


def _show_ranked(choice: Choice) -> None:
    words = "How many places, from the greatest number"
    most = int(st.number_input(words, 1, MOST_DRAWN, _MOST_RANKED, key=f"{choice.scope}most"))
    # The ranks of the first places depend on the other places.
    lines = _list_places(choice, _read_places(choice, _MOST_ROWS))
    _show_lines(choice, lines[:most], choice.product.place_words, choice.title)


def _show_one_place(choice: Choice) -> None:
    place, name = _choose_place(choice, choice.product.place_words, "place")
    lines = _add_ranks(choice, _list_groups(choice, place))
    _show_lines(choice, lines, choice.find_heading(choice.product.place_words), f"{name}. {choice.title}")


def _show_two_places(choice: Choice) -> None:
    place, name = _choose_place(choice, "First place", "place")
    other, other_name = _choose_place(choice, "Second place", "other", default=1)
    lines, other_lines = _list_groups(choice, place), _list_groups(choice, other)
    by_code = {line["code"]: line for line in other_lines}
    pairs = [(line, by_code[line["code"]]) for line in lines if line["code"] in by_code]
    if alone := len(lines) + len(other_lines) - 2 * len(pairs):
        choice.picture.info(
            f"{alone} {'row is' if alone == 1 else 'rows are'} left out: only one of the two places has a number."
        )
    has_errors = choice.product.has_errors
    if has_errors and pairs:
        _report_overlaps(choice, pairs)
    both = []
    for pair in pairs:
        further = {"overlap": "yes" if overlap(*pair) else "no"} if has_errors else {}
        further |= {} if choice.varying else {"name": choice.title}
        both += [line | {"where": where} | further for line, where in zip(pair, (name, other_name), strict=True)]
    _show_lines(choice, both, choice.find_heading("Number"), choice.title)


def _report_overlaps(choice: Choice, pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    overlapping = sum(overlap(*pair) for pair in pairs)
    if not overlapping:
        choice.picture.success("The intervals of the two places do not overlap in any row.")
        return
    rows = f"{overlapping} of {len(pairs)} rows" if choice.varying else "this number"
    unknown = None in [line[end] for pair in pairs for line in pair for end in (LOWER, UPPER)]
    choice.picture.warning(
        f"The intervals of the two places overlap for {rows}"
        f"{', or are not published' if unknown else ''}: there, the difference may come from the error alone, "
        "and these numbers do not show which place has more."
    )


def _show_map(choice: Choice) -> None:
    features, source = _read_boundaries()
    if not features:
        st.info(
            "A map needs boundaries: upload a GeoJSON file whose features have the codes of places as a property, or "
            "start the explorer with --boundaries and a folder of such files."
        )
        st.query_params.from_dict(choice.link)
        return
    product, rows = choice.product, _read_places(choice, _MOST_ROWS)
    lines = _list_places(choice, rows)
    # A feature has the codes of all levels of its place, one after the other.
    by_code = {"".join(str(row[column]) for column in product.place): row for row in rows}
    names = sorted({name for feature in features for name in feature.get("properties") or {}})
    matches = {name: sum(_read_code(feature, name) in by_code for feature in features) for name in names}
    if not names:
        st.error(f"{escape(source)}: its features have no properties, so their places are unknown.")
        return
    code = choose(
        "Property with the place's code",
        {name: f"{name} ({matches[name]} of {len(features)} match)" for name in names},
        {},
        "property",
        f"{source}:{choice.scope}",
        default=names.index(max(names, key=lambda name: matches[name])),
    )
    if not matches[code]:
        example = escape(next(iter(by_code), ""))
        st.warning(f"No feature's {escape(code)} is a code of a place of this table, such as {example}.")
    left_out = f", or not among its {_MOST_ROWS:,} greatest numbers" if len(rows) == _MOST_ROWS else ""
    unknown = {"name": f"not in the table{left_out}", "number": None, "interval": "–", "flag": ""}
    places = []
    for feature in features:
        row = by_code.get(_read_code(feature, code))
        line = _make_line(choice, product.name_place(row), row) if row else unknown
        places.append({"type": "Feature", "geometry": feature["geometry"], "properties": line})
    known = any(place["properties"]["number"] is not None for place in places)
    legend = alt.Legend(orient="bottom", format=",.12~r") if known else None
    base = alt.Chart(alt.Data(values=places)).project(type="mercator")
    chart = base.mark_geoshape(stroke="white", fill="#dddddd") + base.transform_filter(
        "isValid(datum.properties.number)"
    ).mark_geoshape(strokeWidth=2).encode(
        color=alt.Color("properties.number:Q", title="number", scale=alt.Scale(scheme="blues"), legend=legend),
        stroke=alt.condition("datum.properties.flag == ''", alt.value("white"), alt.value(MARK)),
        tooltip=[alt.Tooltip("properties.name:N", title="place"), alt.Tooltip("properties.interval:N", title="number")],
    )
    st.query_params.from_dict(choice.link)
    with choice.picture:
        st.markdown(f"**{escape(choice.title)}**")
        show_chart_with_table(
            chart.properties(height=420),
            f"A map. {choice.title}",
            [_describe_line(choice, line, "Place") for line in lines[:500]],
            of="map",
            expanded=True,
        )
        st.caption(
            "Places without a number are gray, and those whose number is too uncertain have an orange border. Numbers "
            "are shown, and not rates: a large place has more of everything."
        )
        _remark_ranks(lines)
        _offer_download(choice, lines[:500], "Place")


_VIEWS: Mapping[str, Callable[[Choice], None]] = {
    RANKED: _show_ranked,
    PLACE: _show_one_place,
    TWO: _show_two_places,
    MAP: _show_map,
}


def _read_places(choice: Choice, most: int) -> list[dict[str, Any]]:
    product = choice.product
    return product.read_rows(choice.number, {**choice.equal, **product.exclude_totals(product.place)}, most)


def _list_places(choice: Choice, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    product = choice.product
    names = distinguish({product.code_place(row): product.name_place(row) for row in rows})
    return _add_ranks(choice, [_make_line(choice, names[product.code_place(row)], row) for row in rows])


def _list_groups(choice: Choice, place: str) -> list[dict[str, Any]]:
    product, varying = choice.product, choice.varying
    codes = dict(zip(product.place, place.split("/", len(product.place) - 1), strict=False))
    rows = product.read_rows(choice.number, {**choice.equal, **product.match(codes)}, _MOST_ROWS)
    if not varying:
        return [_make_line(choice, product.name_place(row), row) | {"code": ""} for row in rows]
    names = product.list_options(varying)
    order = {value: position for position, value in enumerate(names)}
    rows.sort(key=lambda row: order.get(as_option(row[varying]), 0))
    return [
        _make_line(choice, product.label(varying, row[varying], names), row) | {"code": as_option(row[varying])}
        for row in rows
    ]


def _read_code(feature: Mapping[str, Any], name: str) -> str:
    return str((feature.get("properties") or {}).get(name))


def _read_boundaries() -> tuple[list[dict[str, Any]], str]:
    folder = read_settings().boundaries
    files = sorted(Path(folder).glob("*.*json")) if folder else []
    uploaded = st.file_uploader("GeoJSON file with boundaries", type=["geojson", "json"])
    words = "Or a file of the folder of boundaries"
    chosen = st.selectbox(words, files, format_func=lambda path: path.name) if files else None
    source = uploaded or chosen
    if source is None:
        return [], ""
    try:
        features = json.loads(source.read_bytes() if isinstance(source, Path) else source.getvalue())["features"]
        located = [feature for feature in features if isinstance(feature, dict) and feature.get("geometry")]
        return [feature | {"geometry": wind(feature["geometry"])} for feature in located], source.name
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        st.error(f"{escape(source.name)} is not a GeoJSON file with features.")
        return [], source.name


def wind(geometry: Mapping[str, Any]) -> dict[str, Any]:
    """A geometry of GeoJSON whose outer rings run clockwise and whose holes run counterclockwise.

    Vega draws the outside of a ring that runs the other way. RFC 7946 requires that other direction, and many files
    have this one.
    """

    def turn(ring: Sequence[Sequence[float]], clockwise: bool) -> Sequence[Sequence[float]]:
        doubled_area = sum(x * after[1] - after[0] * y for (x, y, *_), after in pairwise(ring))
        return ring if (doubled_area < 0) == clockwise else ring[::-1]

    def turn_all(polygon: Sequence[Sequence[Sequence[float]]]) -> list[Sequence[Sequence[float]]]:
        return [turn(ring, clockwise=not position) for position, ring in enumerate(polygon)]

    match geometry["type"]:
        case "Polygon":
            return {**geometry, "coordinates": turn_all(geometry["coordinates"])}
        case "MultiPolygon":
            return {**geometry, "coordinates": [turn_all(polygon) for polygon in geometry["coordinates"]]}
        case "GeometryCollection":
            return {**geometry, "geometries": [wind(each) for each in geometry["geometries"]]}
        case _:
            return dict(geometry)


def _choose_place(choice: Choice, words: str, name: str, default: int = 0) -> tuple[str, str]:
    product = choice.product
    places = product.list_places({key: value for key, value in choice.equal.items() if key == product.level})
    if len(places) >= MOST_VALUES:
        # A place beyond the listed ones is named by its code.
        named = st.query_params.get(name, "")
        typed = st.text_input(
            f"{words}, by the codes of its levels, separated by /; the box below has {MOST_VALUES:,}",
            "" if named in places else named,
            key=f"{choice.scope}{name}:code",
        )
        if len(typed.split("/")) == len(product.place):
            choice.link[name] = typed
            return typed, typed
    options, position = places or {"": "nothing"}, min(default, max(0, len(places) - 1))
    code = choose(words, options, choice.link, name, choice.scope, default=position)
    return code, places.get(code, "")


def _make_line(choice: Choice, name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a row and, as texts, its figure with the interval and the remark `flag`."""
    number = _float(row[choice.number])
    line: dict[str, Any] = {"name": name, "number": number, "interval": format_figure(number), "flag": ""}
    if choice.product.has_errors:
        line |= {error: _float(row.get(error)) for error in _ERRORS}
        line["range"] = f"{format_figure(line[LOWER])} to {format_figure(line[UPPER])}"
        line["interval"] += f" ({line['range']})"
        error = line[STANDARD_ERROR] if choice.by_error else _halve(line[LOWER], line[UPPER])
        line["flag"] = _UNCERTAIN if is_uncertain(number, error, choice.greatest) else ""
    if choice.number in choice.product.estimated:
        line |= {name: _float(row.get(name)) for name in OF_LINEAR}
        line["range"] = f"{format_figure(line[LINEAR_LOWER])} to {format_figure(line[LINEAR_UPPER])}"
        line["interval"] += f" (linear estimate {format_figure(line[LINEAR])}, 90% interval {line['range']})"
    return line


def _halve(lower: float | None, upper: float | None) -> float | None:
    return None if lower is None or upper is None else (upper - lower) / 2


def _add_ranks(choice: Choice, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not choice.product.has_errors or len(lines) < 2:
        return lines
    return [line | {"rank": rank} for line, rank in zip(lines, find_ranks(lines), strict=True)]


def find_ranks(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The possible ranks of each number if all numbers are in their intervals, the greatest first: `3`, or `2 to 5`. An
    unpublished end may have any value."""
    ends = [(line.get(LOWER), line.get(UPPER)) for line in lines]
    bounds = [(-math.inf if low is None else low, math.inf if high is None else high) for low, high in ends]
    lowest, highest = sorted(low for low, _ in bounds), sorted(high for _, high in bounds)
    ranks = []
    for low, high in bounds:
        first = 1 + len(lines) - bisect_right(lowest, high)
        last = len(lines) - bisect_left(highest, low)
        ranks.append(str(first) if first == last else f"{first} to {last}")
    return ranks


def _remark_ranks(lines: Sequence[Mapping[str, Any]]) -> None:
    ranks = [line["rank"] for line in lines if "rank" in line]
    if unsure := sum(" " in rank for rank in ranks):
        st.caption(
            f"The intervals of {unsure:,} of these {len(ranks):,} numbers overlap with others', so that their order "
            "may be due to the error alone. The column *Rank* has the ranks that the intervals allow."
        )


def is_uncertain(number: float | None, error: float | None, greatest: float) -> bool:
    """Whether an error exceeds a share, in percent, of a number. For a standard error, this share is the coefficient of
    variation."""
    if number is None or error is None or error == 0:
        return False
    return error * 100 > greatest * number


def overlap(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Whether two intervals share a number. An unpublished interval may overlap with any."""
    if None in (left.get(LOWER), left.get(UPPER), right.get(LOWER), right.get(UPPER)):
        return True
    return bool(left[LOWER] <= right[UPPER] and right[LOWER] <= left[UPPER])


def _float(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _show_lines(choice: Choice, lines: Sequence[Mapping[str, Any]], heading: str, title: str) -> None:
    st.query_params.from_dict(choice.link)
    with choice.picture:
        _draw_lines(choice, lines, heading, title)


def _draw_lines(choice: Choice, lines: Sequence[Mapping[str, Any]], heading: str, title: str) -> None:
    if not lines:
        st.info("The table has no row for this choice.")
        return
    st.markdown(f"**{escape(title)}**")
    if uncertain := sum(bool(line["flag"]) for line in lines):
        st.warning(
            f"{uncertain:,} of {len(lines):,} numbers are too uncertain. They are drawn hollow and marked in the table."
        )
    drawn = lines[:MOST_DRAWN]
    if len(drawn) < len(lines):
        st.info(f"The first {len(drawn):,} of {len(lines):,} rows are shown. The download has all of them.")
    rows = [_describe_line(choice, line, heading) for line in drawn]
    show_chart_with_table(_make_chart(choice.product, drawn), title, rows, expanded=True, in_rows=True)
    _remark_ranks(lines)
    if choice.product.has_errors and "quantile" in choice.product.fields:
        st.caption(ON_GRID)
    _offer_download(choice, lines, heading)


def _make_chart(product: Product, lines: Sequence[Mapping[str, Any]]) -> alt.Chart | alt.LayerChart:
    rows = [{"where": "", **line} for line in lines]
    names, places = (list(dict.fromkeys(row[field] for row in rows)) for field in ("name", "where"))
    two = len(places) > 1
    color = alt.Color("where:N", scale=alt.Scale(domain=places), legend=make_legend(places) if two else None)
    words = "number, with its 90% interval" if product.has_errors else "number"
    base = make_row_chart(rows, {"name": "row", **({"where": "place"} if two else {}), "interval": "number"})
    if two:
        base = base.encode(yOffset=alt.YOffset("where:N", sort=places))
    numbers = base.encode(x=alt.X("number:Q", title=words, scale=alt.Scale(zero=not product.has_errors)))
    chart: alt.Chart | alt.LayerChart = numbers.mark_bar().encode(color=color)
    if product.has_errors:
        rule = base.mark_rule(strokeWidth=2).encode(x=alt.X("lower:Q", title=words), x2="upper:Q", color=color)
        points = numbers.mark_point(size=45, opacity=1, strokeWidth=2).encode(stroke=color)
        certain = points.transform_filter("datum.flag == ''").encode(fill=color)
        # A number that is too uncertain is drawn hollow, in the same color.
        uncertain = points.transform_filter("datum.flag != ''").encode(fill=alt.value(PAPER))
        chart = rule + certain + uncertain
    return chart.properties(height=fit_height(names) + (18 * len(names) + 50 if two else 0))


def _describe_line(choice: Choice, line: Mapping[str, Any], heading: str) -> dict[str, str]:
    row = {"Rank": line["rank"]} if "rank" in line else {}
    row |= {heading: line["name"], **({"Place": line["where"]} if "where" in line else {})}
    if not choice.product.has_errors:
        row |= {"Count": format_figure(line["number"])}
        if "range" in line:
            row |= {"Linear estimate": format_figure(line[LINEAR]), "90% interval": line["range"]}
        return row
    row |= {
        "Estimate": format_figure(line["number"]),
        "90% interval": line["range"],
        **({"Standard error": format_figure(line[STANDARD_ERROR])} if choice.by_error else {}),
        "Remark": line["flag"],
    }
    return row | ({"Intervals overlap": line["overlap"]} if "overlap" in line else {})


def _offer_download(choice: Choice, lines: Sequence[Mapping[str, Any]], heading: str) -> None:
    errors = _ERRORS if choice.product.has_errors else ()
    linear = OF_LINEAR if choice.number in choice.product.estimated else ()
    columns = {"name": heading, **({"where": "Place"} if any("where" in line for line in lines) else {})}
    columns |= {"number": ESTIMATE if errors else "number"} | {column: column for column in (*errors, *linear, "flag")}
    text = pd.DataFrame(lines, columns=list(columns)).to_csv(index=False, header=list(columns.values()))
    name = f"shown-{choice.product.name}.csv"
    st.download_button("Download the shown table (CSV)", text, name, "text/csv", on_click="ignore")
    st.caption("The address of this page is a permanent link to this choice.")
