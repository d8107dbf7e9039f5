"""The page *Plan*: a declaration that was not made yet, what it would charge, how exact it would be, and what it takes.

It asks `orchestration.planning`, which reads no record, and shows what a charge would state. Nothing is charged.
"""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st
import yaml

from assets.planning.expectation import UnknownError, expectation, expected_size, this_machine
from assets.release.plan import Curve, Line, Plan, PlanRequest
from assets.release.release import DeclarationError
from mechanisms.accounting.losses import InfiniteLoss, format_loss
from orchestration.components.release import ReleaseComponent
from orchestration.explorer.budgets import PLANNED, show_charge
from orchestration.explorer.display import COLORS, choose, fit_height, make_row_chart, show_chart_with_table, show_table
from orchestration.explorer.reading import (
    UnavailableError,
    find_published,
    find_warehouse,
    load_declarations,
    load_populations,
    read_intact_entries,
)
from orchestration.explorer.words import escape
from orchestration.planning import PlannedDeclaration, plan_declaration

_AS_DECLARED, _TOTAL, _MARGIN = "As declared", "Another total", "Another margin of error"
_TIMES = [Fraction(times) for times in (1, 2, 3, 4, 5, 10, 20, 50, 100)]
_TIMES = sorted({*_TIMES, *(1 / times for times in _TIMES), Fraction(2, 3), Fraction(3, 2)})
_SWAP_RATE = "swap_rate"
_RATES = [Fraction(thousandths, 1000) for thousandths in (1, 2, 5, *range(10, 100, 10), *range(100, 1000, 25))]
_EVERY, _MANY = "all levels", 15
_MARKED = 6
"""A chart with more marks than this has no room for their names."""


def show() -> None:
    st.title("Plan")
    st.write("What a declaration would charge and how exact it would be. No record is read, and nothing is charged.")
    try:
        datasets, releases = load_declarations()
    except UnavailableError as error:
        st.warning(escape(error))
        return
    known = {name: component for name, component in releases.items() if component.charges}
    if not known:
        st.info("No release is declared yet. `stirred new release` proposes one.")
        return
    link: dict[str, str] = {}
    name = choose(
        "Release", {key: f"{component.declaration.title} ({key})" for key, component in known.items()}, link, "release"
    )
    st.query_params.from_dict(link)
    component = known[name]
    dataset = next(candidate for candidate in datasets if candidate.name == component.declaration.dataset)
    declared_plan: PlannedDeclaration | None = None
    try:
        declared_plan = plan_declaration(component, dataset, find_published(), PlanRequest())
    except DeclarationError as error:
        st.info(escape(error))
    request = _read_request(component, declared_plan.plan if declared_plan else None, name)
    if request is None:
        return
    try:
        found = plan_declaration(component, dataset, find_published(), request)
    except DeclarationError as error:
        st.error(escape(error))
        return
    _total(found.plan, dataset.population, name)
    _expected(found, name)
    _facts(found.plan)
    _lines(found.plan.lines, name)
    for curve in found.plan.curves:
        _curve(curve)
    for title, (header, rows) in found.plan.tables.items():
        with st.expander(escape(title)):
            show_table([dict(zip(header, row, strict=True)) for row in rows])
    st.subheader("The declaration")
    st.write("Copy it into the release's defs.yaml:")
    st.code(found.text, language="yaml", wrap_lines=True)


def _read_request(component: ReleaseComponent, plan: Plan | None, name: str) -> PlanRequest | None:
    st.subheader("What to try")
    fields: dict[str, Any] = {}
    given: dict[str, Any] = {}
    swaps = _SWAP_RATE in type(component.tried).model_fields
    infinite = plan is not None and isinstance(plan.loss, InfiniteLoss)
    ways = [_AS_DECLARED, *([] if infinite else [_TOTAL]), *([_MARGIN] if plan and plan.lines else [])]
    if swaps:
        ways[0] = "Swap rate"
    way = st.segmented_control("What you decide on", ways, default=ways[0], key=f"{name}:way") or ways[0]
    if way == "Swap rate":
        rate = _declared_rate(component)
        rates = sorted({*_RATES, *([rate] if rate else [])})
        picked = st.select_slider(
            "Swap rate",
            rates,
            rate or Fraction(1, 10),
            format_func=lambda rate: f"{float(rate):.1%}",
            key=f"{name}:rate",
        )
        if picked != rate:
            fields[_SWAP_RATE] = str(picked)
    elif way == _TOTAL:
        if not _wanted_total(plan, given, name):
            return None
    elif way == _MARGIN and plan:
        _wanted_margin(plan.lines, given, name)
    if swaps:
        largest = int(
            st.number_input(
                "b, the number of records in the largest stratum (0: that of the published edition)",
                0,
                step=1000,
                key=f"{name}:b",
            )
        )
        if largest:
            given["largest_stratum"] = largest
    with st.expander("Other fields of the declaration, as in defs.yaml"):
        text = st.text_area("Fields in place of the declared ones (YAML); null removes one", key=f"{name}:fields")
    try:
        further = yaml.safe_load(text) or {}
        if not isinstance(further, Mapping):
            raise yaml.YAMLError
    except yaml.YAMLError:
        st.error("The other fields cannot be read: they are lines such as  swap_rate: 1/10")
        return None
    return PlanRequest(fields={**fields, **further}, **given)


def _declared_rate(component: ReleaseComponent) -> Fraction | None:
    rate = getattr(component.tried, _SWAP_RATE, None)
    return rate if isinstance(rate, Fraction) else None


def _wanted_total(plan: Plan | None, given: dict[str, Any], name: str) -> bool:
    times = _ask_times("Times the declared total", f"{name}:times")
    total = Fraction(plan.loss.round_up()) * times if plan and plan.loss else Fraction(1)
    text = st.text_input("The total, or another one", f"{float(total):.6g}", key=f"{name}:total:{times}")
    given["total"] = text
    return bool(text)


def _wanted_margin(lines: tuple[Line, ...], given: dict[str, Any], name: str) -> None:
    by_name = {line.name: line for line in lines}
    picked = st.selectbox(
        "Line", list(by_name), format_func=lambda line: f"{line}: {by_name[line].counted}", key=f"{name}:line"
    )
    declared_margin = by_name[picked].margin
    times = _ask_times(f"Times its declared margin of {declared_margin:,.4g}", f"{name}:{picked}:times")
    text = st.text_input(
        "The 90% margin of one number, or another one",
        f"{declared_margin * float(times):.6g}",
        key=f"{name}:{picked}:margin:{times}",
    )
    given["margins"] = {picked: text}


def _ask_times(words: str, key: str) -> Fraction:
    return st.select_slider(words, _TIMES, Fraction(1), format_func=lambda times: f"× {times}", key=key)


def _total(plan: Plan, population: str, name: str) -> None:
    loss = plan.loss
    st.subheader("What it would charge")
    if plan.problem:
        st.error(escape(plan.problem))
    if loss is None:
        st.warning("What it would charge depends on something that is not known yet.")
        return
    st.metric("At most" if plan.is_bound else "Total, rounded up", format_loss(loss))
    st.caption(escape(f"Exactly {loss}, for one {plan.specification.flavor.unit}.") if plan.specification else "")
    st.session_state[PLANNED] = (population, name, loss)
    try:
        entries = read_intact_entries()
        declared_population = next(known for known in load_populations() if known.name == population)
    except UnavailableError as error:
        st.warning(escape(error))
        return
    show_charge(declared_population, name.partition("/")[2], loss, entries)
    if any(f"{entry.dataset}/{entry.release}" == name for entry in entries):
        st.caption(
            "The release was charged before. Those charges stay, and are counted; a changed declaration is a new draw."
        )


def _expected(found: PlannedDeclaration, name: str) -> None:
    """What a launch is expected to take; where the number of records is not public, ask for it."""
    st.subheader("What a launch would take on this machine")
    records: int | None = None
    if expected_size(found.method.release.dataset) is None:
        given = st.number_input(
            "The number of persons, or of units, that you expect", 0, step=1000, key=f"{name}:records"
        )
        records = int(given) or None
    try:
        place = find_warehouse()
        machine = this_machine(Path(place.folder), find_published(), in_lake=bool(place.lake))
        expected = expectation(found.method, records, machine)
    except UnknownError as error:
        st.info(escape(error))
        return
    show_table([{"What": label, "In words": words} for label, words in expected.words.items() if label != "warning"])
    for warning in expected.warnings:
        st.warning(escape(warning))


def _facts(plan: Plan) -> None:
    if plan.facts:
        st.subheader("What follows")
        show_table([{"Fact": label, "In words": words} for label, words in plan.facts.items()])


def _lines(lines: tuple[Line, ...], name: str) -> None:
    if not lines:
        return
    st.subheader("How exact the numbers would be")
    levels = list(dict.fromkeys(line.level for line in lines))
    if len(lines) > _MANY and len(levels) > 1:
        level = st.selectbox("Lines of the level", [*levels, _EVERY], key=f"{name}:level")
        lines = tuple(line for line in lines if level in (_EVERY, line.level))
    rows = [{"name": line.name, "margin": line.margin, "said": f"{line.margin:,.4g}"} for line in lines]
    chart = (
        make_row_chart(rows, {"name": "line", "said": "margin"})
        .mark_bar(color=COLORS[0])
        .encode(x=alt.X("margin:Q", title="90% margin of error of one number"))
        .properties(height=fit_height([line.name for line in lines]))
    )
    show_chart_with_table(
        chart,
        "90% margins of error by line",
        [
            {
                "Line": line.name,
                "What is counted": line.counted,
                "Budget": f"{float(line.budget):.6g}",
                "Standard error": f"{line.standard_error:,.4g}",
                "90% margin": f"{line.margin:,.4g}",
                "Numbers": "" if line.numbers is None else f"{line.numbers:,}",
            }
            for line in lines
        ],
        expanded=len(lines) <= _MANY,
    )


def _curve(curve: Curve) -> None:
    st.subheader(escape(curve.title))
    rows = [{"series": name, "x": x, "y": y} for name, points in curve.series.items() for x, y in points]
    names = list(curve.series)
    across, up = (alt.Scale(type="log") if log else alt.Scale(zero=False) for log in (curve.log_x, curve.log_y))
    colors = alt.Scale(domain=names, range=[COLORS[position % len(COLORS)] for position in range(len(names))])
    color = alt.Color(
        "series:N",
        sort=names,
        scale=colors,
        legend=alt.Legend(title=None, orient="bottom", direction="vertical", labelLimit=0),
    )
    lines = (
        alt.Chart(pd.DataFrame(rows))
        .mark_line()
        .encode(
            x=alt.X("x:Q", title=curve.x, scale=across),
            y=alt.Y("y:Q", title=curve.y, scale=up),
            color=color if len(names) > 1 else alt.value(COLORS[0]),
        )
    )
    chart: alt.LayerChart | alt.Chart = lines
    if curve.marks:
        marks = pd.DataFrame([{"name": name, "x": x, "y": y} for name, x, y in curve.marks])
        base = alt.Chart(marks).encode(x="x:Q", y="y:Q")
        chart = lines + base.mark_point(size=90, filled=True, color=COLORS[1], opacity=1)
        if len(curve.marks) <= _MARKED:
            chart = chart + base.mark_text(align="left", dx=8, dy=-8).encode(text="name:N")
    show_chart_with_table(
        chart.properties(height=340 + (24 * len(names) if len(names) > 1 else 0)),
        curve.title,
        [{"Series": row["series"], curve.x: f"{row['x']:.6g}", curve.y: f"{row['y']:.6g}"} for row in rows[:200]],
    )
    if len(rows) > 200:
        st.caption(f"The table has the first 200 of {len(rows)} points.")
