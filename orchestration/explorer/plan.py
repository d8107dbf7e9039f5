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

from assets.ledger.population import Population
from assets.planning.expectation import UnknownError, expectation, expected_size, this_machine
from assets.release.plan import Curve, Line, Plan, PlanRequest
from assets.release.release import DeclarationError
from mechanisms.accounting.composition import Loss, stated
from mechanisms.accounting.infinite import InfiniteLoss
from orchestration.components.release import ReleaseComponent
from orchestration.explorer.budgets import PLANNED, standing, with_charge
from orchestration.explorer.reading import (
    UnavailableError,
    declared,
    declared_populations,
    intact_entries,
    published,
    warehouse,
)
from orchestration.explorer.shown import axis_of, chosen, draw, height_of, table
from orchestration.explorer.words import plain
from orchestration.planning import PlannedDeclaration, plan_declaration

_AS_DECLARED, _TOTAL, _MARGIN = "As declared", "Another total", "Another margin of error"
_TIMES = [Fraction(each) for each in (1, 2, 3, 4, 5, 10, 20, 50, 100)]
_TIMES = sorted({*_TIMES, *(1 / each for each in _TIMES), Fraction(2, 3), Fraction(3, 2)})
_SWAP_RATE = "swap_rate"
_RATES = [Fraction(each, 1000) for each in (1, 2, 5, *range(10, 100, 10), *range(100, 1000, 25))]
_EVERY, _MANY = "all levels", 15
_MARKED = 6
"""A chart with more marks than this has no room for their names."""
_COLORS = ["#1f5a8c", "#b35900", "#2e7d32", "#7b3f99", "#a61b3c", "#5c5c5c"]


def show() -> None:
    """Draw the page."""
    st.title("Plan")
    st.write("What a declaration would charge and how exact it would be. No record is read, and nothing is charged.")
    try:
        datasets, releases = declared()
    except UnavailableError as error:
        st.warning(plain(error))
        return
    known = {name: each for name, each in releases.items() if each.charges}
    if not known:
        st.info("No release is declared yet. `stirred new release` proposes one.")
        return
    link: dict[str, str] = {}
    name = chosen("Release", {key: f"{each.declaration.title} ({key})" for key, each in known.items()}, link, "release")
    st.query_params.from_dict(link)
    component = known[name]
    dataset = next(each for each in datasets if each.name == component.declaration.dataset)
    declared_plan: PlannedDeclaration | None = None
    try:
        declared_plan = plan_declaration(component, dataset, published(), PlanRequest())
    except DeclarationError as error:
        st.info(plain(error))
    asked = _asked(component, declared_plan.plan if declared_plan else None, name)
    if asked is None:
        return
    try:
        found = plan_declaration(component, dataset, published(), asked)
    except DeclarationError as error:
        st.error(plain(error))
        return
    _total(found.plan, dataset.population, name)
    _expected(found, name)
    _facts(found.plan)
    _lines(found.plan.lines, name)
    for curve in found.plan.curves:
        _curve(curve)
    for title, (header, rows) in found.plan.tables.items():
        with st.expander(plain(title)):
            table([dict(zip(header, row, strict=True)) for row in rows])
    st.subheader("The declaration")
    st.write("Copy it into the release's defs.yaml:")
    st.code(found.text, language="yaml", wrap_lines=True)


def _asked(component: ReleaseComponent, plan: Plan | None, name: str) -> PlanRequest | None:
    """What to try, from the page's sliders and fields; None if something cannot be read."""
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
            format_func=lambda each: f"{float(each):.1%}",
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
    """Ask for a total; whether it can be read."""
    times = st.select_slider(
        "Times the declared total", _TIMES, Fraction(1), format_func=lambda each: f"× {each}", key=f"{name}:times"
    )
    loss = plan.loss if plan else None
    total = _number_of(loss) * times if loss else Fraction(1)
    text = st.text_input("The total, or another one", f"{float(total):.6g}", key=f"{name}:total:{times}")
    given["total"] = text
    return bool(text)


def _number_of(loss: Loss) -> Fraction:
    """A loss rounded up, as a number to begin with."""
    return Fraction(loss.rounded_up())


def _wanted_margin(lines: tuple[Line, ...], given: dict[str, Any], name: str) -> None:
    by_name = {line.name: line for line in lines}
    picked = st.selectbox(
        "Line", list(by_name), format_func=lambda each: f"{each}: {by_name[each].counted}", key=f"{name}:line"
    )
    declared_margin = by_name[picked].margin
    times = st.select_slider(
        f"Times its declared margin of {declared_margin:,.4g}",
        _TIMES,
        Fraction(1),
        format_func=lambda each: f"× {each}",
        key=f"{name}:{picked}:times",
    )
    text = st.text_input(
        "The 90% margin of one number, or another one",
        f"{declared_margin * float(times):.6g}",
        key=f"{name}:{picked}:margin:{times}",
    )
    given["margins"] = {picked: text}


def _total(plan: Plan, population: str, name: str) -> None:
    loss = plan.loss
    st.subheader("What it would charge")
    if plan.problem:
        st.error(plain(plan.problem))
    if loss is None:
        st.warning("What it would charge depends on something that is not known yet.")
        return
    st.metric("At most" if plan.is_bound else "Total, rounded up", stated(loss))
    st.caption(plain(f"Exactly {loss}, for one {plan.specification.flavor.unit}.") if plan.specification else "")
    st.session_state[PLANNED] = (population, name, loss)
    try:
        found = standing(_population(population), intact_entries())
    except UnavailableError as error:
        st.warning(plain(error))
        return
    fits, words = with_charge(found, name, loss)
    (st.success if fits else st.error)(plain(words))
    if any(f"{entry.dataset}/{entry.release}" == name for entry in found.entries):
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
        place = warehouse()
        machine = this_machine(Path(place.folder), published(), in_lake=bool(place.lake))
        expected = expectation(found.method, records, machine)
    except UnknownError as error:
        st.info(plain(error))
        return
    table([{"What": label, "In words": words} for label, words in expected.words.items() if label != "warning"])
    for warning in expected.warnings:
        st.warning(plain(warning))


def _population(name: str) -> Population:
    return next(each for each in declared_populations() if each.name == name)


def _facts(plan: Plan) -> None:
    if plan.facts:
        st.subheader("What follows")
        table([{"Fact": label, "In words": words} for label, words in plan.facts.items()])


def _lines(lines: tuple[Line, ...], name: str) -> None:
    if not lines:
        return
    st.subheader("How exact the numbers would be")
    levels = list(dict.fromkeys(line.level for line in lines))
    if len(lines) > _MANY and len(levels) > 1:
        level = st.selectbox("Lines of the level", [*levels, _EVERY], key=f"{name}:level")
        lines = tuple(line for line in lines if level in (_EVERY, line.level))
    frame = pd.DataFrame(
        [
            {"name": line.name, "margin": line.margin, "level": line.level or "all", "said": f"{line.margin:,.4g}"}
            for line in lines
        ]
    )
    names = list(frame["name"])
    chart = (
        alt.Chart(frame)
        .mark_bar(color=_COLORS[0])
        .encode(
            y=alt.Y("name:N", sort=names, axis=axis_of(names)),
            x=alt.X("margin:Q", title="90% margin of error of one number"),
            tooltip=[alt.Tooltip("name:N", title="line"), alt.Tooltip("said:N", title="margin")],
        )
    )
    draw(chart.properties(height=height_of(names)), "90% margins of error by line; the table follows.")
    with st.expander("The table behind the chart", expanded=len(lines) <= 15):
        table(
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
            ]
        )


def _curve(curve: Curve) -> None:
    st.subheader(plain(curve.title))
    rows = [{"series": name, "x": x, "y": y} for name, points in curve.series.items() for x, y in points]
    names = list(curve.series)
    across, up = (alt.Scale(type="log") if log else alt.Scale(zero=False) for log in (curve.log_x, curve.log_y))
    colors = alt.Scale(domain=names, range=[_COLORS[position % len(_COLORS)] for position in range(len(names))])
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
            color=color if len(names) > 1 else alt.value(_COLORS[0]),
        )
    )
    chart: alt.LayerChart | alt.Chart = lines
    if curve.marks:
        marks = pd.DataFrame([{"name": name, "x": x, "y": y} for name, x, y in curve.marks])
        base = alt.Chart(marks).encode(x="x:Q", y="y:Q")
        chart = lines + base.mark_point(size=90, filled=True, color=_COLORS[1], opacity=1)
        if len(curve.marks) <= _MARKED:
            chart = chart + base.mark_text(align="left", dx=8, dy=-8).encode(text="name:N")
    draw(
        chart.properties(height=340 + (24 * len(names) if len(names) > 1 else 0)), f"{curve.title}; the table follows."
    )
    with st.expander("The table behind the chart"):
        table([{"Series": row["series"], curve.x: f"{row['x']:.6g}", curve.y: f"{row['y']:.6g}"} for row in rows[:200]])
        if len(rows) > 200:
            st.caption(f"The first 200 of {len(rows)} points.")
