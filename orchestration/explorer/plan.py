"""The page *Plan*: a draft declaration, with its charge, its accuracy, and its time, memory and disk.

It asks `orchestration.planning`, which reads no record, and shows the facts that a charge would state, without a
charge.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st
import yaml

from assets.charge.assessment import describe_charged, find_charged
from assets.planning.expectation import UnknownError, expectation, expected_size, this_machine
from assets.planning.lines import is_shown_exactly
from assets.release.dataset import DatasetDeclaration
from assets.release.plan import Curve, Line, Plan, PlanRequest
from assets.release.release import DeclarationError
from mechanisms.accounting.losses import InfiniteLoss, format_loss
from mechanisms.accounting.specification import Specification
from orchestration.components.release import ReleaseComponent
from orchestration.explorer.budgets import PLANNED, show_charge
from orchestration.explorer.display import (
    INK,
    MARK,
    choose,
    fit_height,
    make_legend,
    make_row_chart,
    show_chart_with_table,
    show_table,
    split_page,
    wrap_title,
)
from orchestration.explorer.reading import (
    UnavailableError,
    find_published,
    find_warehouse,
    load_declarations,
    read_intact_entries,
)
from orchestration.explorer.words import escape
from orchestration.planning import PlannedDeclaration, plan_declaration

_AS_DECLARED, _SWAP, _TOTAL, _MARGIN = "As declared", "Swap rate", "Another total", "Another margin of error"
_TIMES = [Fraction(times) for times in (1, 2, 3, 4, 5, 10, 20, 50, 100)]
_TIMES = sorted({*_TIMES, *(1 / times for times in _TIMES), Fraction(2, 3), Fraction(3, 2)})
_SWAP_RATE = "swap_rate"
_RATES = [Fraction(thousandths, 1000) for thousandths in (1, 2, 5, *range(10, 100, 10), *range(100, 1000, 25))]
_EVERY, _MANY = "all levels", 15
_MARKED = 6
"""The number of marks up to which a chart has room for their names."""


def show() -> None:
    st.title("Plan")
    st.caption("The charge and the accuracy of a declaration. This reads no record and charges nothing.")
    try:
        datasets, releases = load_declarations()
    except UnavailableError as error:
        st.warning(escape(error))
        return
    known = {name: component for name, component in releases.items() if component.charges}
    if not known:
        st.info("No release is declared yet. `stirred new release` proposes one.")
        return
    controls, picture = split_page()
    with controls:
        link: dict[str, str] = {}
        titles = {key: f"{component.declaration.title} ({key})" for key, component in known.items()}
        name = choose("Release", titles, link, "release")
        st.query_params.from_dict(link)
        component = known[name]
        dataset = next(candidate for candidate in datasets if candidate.name == component.declaration.dataset)
        declared: Plan | None = None
        try:
            declared = plan_declaration(component, dataset, find_published(), PlanRequest()).plan
        except DeclarationError as error:
            st.info(escape(error))
        request = _read_request(component, declared, name)
        if request is None:
            return
        try:
            planned = plan_declaration(component, dataset, find_published(), request)
        except DeclarationError as error:
            st.error(escape(error))
            return
        lines = _choose_lines(planned.plan.lines, name)
        _show_expectation(planned, name)
    with picture:
        _show_plan(planned, lines, dataset, name)


def _show_plan(planned: PlannedDeclaration, lines: Sequence[Line], dataset: DatasetDeclaration, name: str) -> None:
    _show_total(planned, dataset, name)
    if lines:
        _show_lines(lines)
    for curve in planned.plan.curves:
        _show_curve(curve)
    if planned.plan.facts:
        st.header("What follows")
        show_table([{"Fact": label, "In words": words} for label, words in planned.plan.facts.items()])
    for title, (header, rows) in planned.plan.tables.items():
        with st.expander(escape(title)):
            show_table([dict(zip(header, row, strict=True)) for row in rows])
    st.header("The declaration")
    st.write("Copy it into the release's defs.yaml:")
    st.code(planned.text, language=None, wrap_lines=True)


def _read_request(component: ReleaseComponent, plan: Plan | None, name: str) -> PlanRequest | None:
    fields: dict[str, Any] = {}
    margins: dict[str, str] = {}
    total, largest = None, 0
    swaps = _SWAP_RATE in type(component.draft).model_fields
    ways = [_SWAP if swaps else _AS_DECLARED]
    ways += [] if plan and isinstance(plan.loss, InfiniteLoss) else [_TOTAL]
    ways += [_MARGIN] if plan and plan.lines else []
    way = st.radio("What you decide on", ways, horizontal=True, key=f"{name}:way")
    if way == _SWAP:
        fields = _choose_swap_rate(component, name)
    elif way == _TOTAL:
        times = _ask_times("Times the declared total", f"{name}:times")
        wanted = Fraction(plan.loss.round_up()) * times if plan and plan.loss else Fraction(1)
        total = st.text_input("The total, or another one", f"{float(wanted):.6g}", key=f"{name}:total:{times}")
        if not total:
            return None
    elif way == _MARGIN and plan:
        margins = _choose_margin(plan.lines, name)
    if swaps:
        question = "b, the number of records in the largest stratum (0: b of the published edition)"
        largest = int(st.number_input(question, 0, step=1000, key=f"{name}:b"))
    with st.expander("Other fields of the declaration, as in defs.yaml"):
        text = st.text_area("Fields to replace (YAML); null removes a field", key=f"{name}:fields")
    try:
        further = yaml.safe_load(text) or {}
        if not isinstance(further, Mapping):
            raise yaml.YAMLError
    except yaml.YAMLError:
        st.error("The other fields cannot be read: they are lines such as  swap_rate: 1/10")
        return None
    return PlanRequest(fields={**fields, **further}, margins=margins, total=total, largest_stratum=largest or None)


def _choose_swap_rate(component: ReleaseComponent, name: str) -> dict[str, Any]:
    """The field with the chosen rate, if it differs from the declared one."""
    declared = getattr(component.draft, _SWAP_RATE, None)
    rate = declared if isinstance(declared, Fraction) else None
    rates = sorted({*_RATES, *([rate] if rate else [])})
    first, key = rate or Fraction(1, 10), f"{name}:rate"
    chosen = st.select_slider(_SWAP, rates, first, format_func=lambda rate: f"{float(rate):.1%}", key=key)
    return {} if chosen == rate else {_SWAP_RATE: str(chosen)}


def _choose_margin(lines: tuple[Line, ...], name: str) -> dict[str, str]:
    by_name = {line.name: line for line in lines}
    chosen = st.selectbox(
        "Line",
        list(by_name),
        format_func=lambda line: f"{by_name[line].title or line}: {by_name[line].counted}",
        key=f"{name}:line",
    )
    declared = by_name[chosen].margin
    times = _ask_times(f"Multiple of its declared margin of {_format(declared)}", f"{name}:{chosen}:times")
    key, first = f"{name}:{chosen}:margin:{times}", f"{declared * float(times):.6g}"
    return {chosen: st.text_input("The 90% margin of one number", first, key=key)}


def _ask_times(words: str, key: str) -> Fraction:
    return st.select_slider(words, _TIMES, Fraction(1), format_func=lambda times: f"× {times}", key=key)


def _show_total(planned: PlannedDeclaration, dataset: DatasetDeclaration, name: str) -> None:
    plan, charge = planned.plan, planned.plan.specification
    if plan.problem:
        st.error(escape(plan.problem))
    if charge is None:
        st.warning("The charge depends on a fact that is not known yet. The fact stands below, under What follows.")
        return
    loss = charge.charge
    st.session_state[PLANNED] = (dataset.population, name, charge)
    amount, judgment = st.columns([1, 2])
    amount.metric(f"{'At most' if plan.is_bound else 'In total'}, rounded up", format_loss(loss))
    exact = "" if is_shown_exactly(loss) else f"Exactly {loss}. "
    amount.caption(escape(f"{exact}For one {charge.flavor.unit}."))
    with judgment:
        _judge_charge(planned, dataset, name, charge)


def _judge_charge(planned: PlannedDeclaration, dataset: DatasetDeclaration, name: str, charge: Specification) -> None:
    """Show whether another launch would charge the loss, and whether it would fit under the cap."""
    try:
        entries = read_intact_entries()
    except UnavailableError as error:
        st.warning(escape(error))
        return
    if charged := find_charged(planned.method, entries):
        st.success(describe_charged(charged))
        return
    show_charge(dataset, name.partition("/")[2], charge, entries)
    if any(f"{entry.dataset}/{entry.release}" == name for entry in entries):
        st.caption(
            "The release was charged before. Those charges stay, and are counted; a changed declaration is a new draw."
        )


def _show_expectation(planned: PlannedDeclaration, name: str) -> None:
    """Show the expected time, memory and disk of a launch; ask for the number of records if it is not public."""
    st.header("Time, memory and disk of a launch")
    records: int | None = None
    if expected_size(planned.method.release.dataset) is None:
        question = "The number of persons, or of units, that you expect"
        records = int(st.number_input(question, 0, step=1000, key=f"{name}:records")) or None
    try:
        place = find_warehouse()
        machine = this_machine(Path(place.folder), find_published(), in_lake=bool(place.lake))
        expected = expectation(planned.method, records, machine)
    except UnknownError as error:
        st.info(escape(error))
        return
    st.caption("On this machine:")
    show_table([{"What": label, "In words": words} for label, words in expected.words.items() if label != "warning"])
    for warning in expected.warnings:
        st.warning(escape(warning))


def _choose_lines(lines: Sequence[Line], name: str) -> Sequence[Line]:
    levels = list(dict.fromkeys(line.level for line in lines))
    if len(lines) <= _MANY or len(levels) == 1:
        return lines
    level = st.selectbox("Lines of the level", [*levels, _EVERY], key=f"{name}:level")
    return [line for line in lines if level in (_EVERY, line.level)]


def _show_lines(lines: Sequence[Line]) -> None:
    st.markdown("**Accuracy of the numbers**")
    names, is_counted = [line.title or line.name for line in lines], any(line.numbers is not None for line in lines)
    rows = [
        {"name": title, "margin": line.margin, "figure": _format(line.margin)}
        for title, line in zip(names, lines, strict=True)
    ]
    table = [
        {
            "Line": title,
            "What is counted": line.counted,
            "Budget": f"{float(line.budget):.6g}",
            "Standard error": _format(line.standard_error),
            "90% margin": _format(line.margin),
            **({"Numbers": "" if line.numbers is None else f"{line.numbers:,}"} if is_counted else {}),
        }
        for title, line in zip(names, lines, strict=True)
    ]
    if not any(line.margin for line in lines):
        # A chart would be empty, with an axis from 0 to 0.
        st.write("Every 90% margin of error is 0: each number is exact with a probability of at least 90%.")
        show_table(table)
        return
    chart = (
        make_row_chart(rows, {"name": "line", "figure": "margin"})
        .mark_bar()
        .encode(x=alt.X("margin:Q", title=wrap_title("90% margin of error of one number")))
        .properties(height=fit_height(names))
    )
    show_chart_with_table(
        chart,
        "90% margins of error by line",
        table,
        expanded=len(lines) <= _MANY,
        in_rows=True,
    )


def _format(number: float) -> str:
    """A number with four digits, or with all digits before the point if there are more."""
    return f"{number:,.0f}" if number >= 10_000 else f"{number:,.4g}"


def _show_curve(curve: Curve) -> None:
    st.markdown(f"**{escape(curve.title)}**")
    rows = [{"series": name, "x": x, "y": y} for name, points in curve.series.items() for x, y in points]
    names = list(curve.series)
    # Levels are whole numbers, so there are no ticks between them.
    ticks = (
        alt.Axis(tickMinStep=1)
        if all(x == int(x) for points in curve.series.values() for x, _ in points)
        else alt.Axis()
    )
    across, up = (alt.Scale(type="log") if log else alt.Scale(zero=False) for log in (curve.log_x, curve.log_y))
    color = alt.Color("series:N", sort=names, scale=alt.Scale(domain=names), legend=make_legend(names))
    lines = alt.Chart(pd.DataFrame(rows)).mark_line()
    lines = lines.encode(
        x=alt.X("x:Q", title=wrap_title(curve.x), scale=across, axis=ticks),
        y=alt.Y("y:Q", title=wrap_title(curve.y), scale=up),
    )
    chart: alt.LayerChart | alt.Chart = lines.encode(color=color) if len(names) > 1 else lines
    if curve.marks:
        marks = pd.DataFrame([{"name": name, "x": x, "y": y} for name, x, y in curve.marks])
        base = alt.Chart(marks).encode(x="x:Q", y="y:Q")
        chart += base.mark_point(size=90, filled=True, color=MARK, opacity=1)
        if len(curve.marks) <= _MARKED:
            # Above the mark, on the side where a rising, or falling, line is below it.
            (_, first), *_, (_, last) = curve.series[names[0]]
            side: dict[str, Any] = {"align": "right", "dx": -8} if first < last else {"align": "left", "dx": 8}
            chart += base.mark_text(**side, dy=-8, color=INK).encode(text="name:N")
    show_chart_with_table(
        chart.properties(height=340 + (24 * len(names) if len(names) > 1 else 0)),
        curve.title,
        [{"Series": row["series"], curve.x: f"{row['x']:.6g}", curve.y: f"{row['y']:.6g}"} for row in rows[:200]],
    )
    if len(rows) > 200:
        st.caption(f"The table has the first 200 of {len(rows)} points.")
