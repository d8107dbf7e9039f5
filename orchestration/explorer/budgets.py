"""The page *Budgets*: each population's charges by release, the rest of its cap, and the price of one more release.

The facts come from `assets.ledger.view`; `assets.charge.assessment` judges another charge.
"""

from collections.abc import Sequence

import altair as alt
import pandas as pd
import streamlit as st

from assets.charge.assessment import predict_budget
from assets.ledger.population import Population
from assets.ledger.remarks import write_remarks
from assets.ledger.view import UNDECLARED, Budget, list_budget_rows, list_budgets, list_charge_rows, list_total_rows
from assets.release.dataset import DatasetDeclaration
from assets.release.numbers import positive_fraction
from mechanisms.accounting.losses import ConcentratedLoss, InfiniteLoss, PureLoss, format_loss
from mechanisms.accounting.specification import Flavor, Specification
from orchestration.explorer.display import (
    MARK,
    choose,
    fit_height,
    make_row_chart,
    show_chart_with_table,
    show_table,
    split_page,
    wrap_title,
)
from orchestration.explorer.reading import UnavailableError, load_populations, read_intact_entries
from orchestration.explorer.words import escape
from resources.chain import Entry
from resources.ledger import Reading

PLANNED = "planned"
"""The session's key for the plan last shown on the page Plan: its population, its release and its loss."""
_BUDGETS = {"Population": "of", "Spent": "spent", "Left": "left", "Of the cap": "of the cap"}
_CHARGES = {
    "Entry": "entry",
    "Release": "release",
    "Charged": "loss",
    "Total with it": "total",
    "For one": "unit",
    "Authorized by": "authorized by",
}


def show() -> None:
    st.title("Budgets")
    try:
        entries = read_intact_entries()
        populations = {population.name: population for population in load_populations()}
    except UnavailableError as error:
        st.warning(escape(error))
        return
    budgets = list_budgets(entries, populations.values())
    if not budgets:
        st.info("No dataset is declared.")
        return
    show_table(list_budget_rows(budgets.values()), _BUDGETS)
    controls, picture = split_page()
    with controls:
        link: dict[str, str] = {}
        titles = dict.fromkeys(budgets, UNDECLARED) | {name: each.title for name, each in populations.items()}
        # A charged population has more to show.
        charged = (position for position, each in enumerate(titles) if budgets[each].charges)
        options = {name: f"{title} ({name})" for name, title in titles.items()}
        name = choose("Population", options, link, "population", default=next(charged, 0))
        st.query_params.from_dict(link)
        if name in populations:
            _imagine(populations[name], entries)
    with picture:
        _show_budget(budgets[name])
    _show_invariants(budgets[name])


def show_charge(dataset: DatasetDeclaration, release: str, charge: Specification, entries: Sequence[Entry]) -> None:
    """Show whether the charge of a release, by its name alone, would fit under the cap, and the remainder of the
    cap."""
    words, refusal = predict_budget(dataset, release, charge, Reading(tuple(entries), ()))
    if refusal:
        st.error(escape(f"A launch would be refused: {refusal}. {words}"))
    else:
        st.success(escape(words))


def _show_budget(budget: Budget) -> None:
    spent, left, most = st.columns([1.5, 1, 1])
    spent.metric("Spent, rounded up", budget.spent)
    left.metric("Left, rounded down", budget.left)
    cap = format_loss(budget.cap) if budget.cap else UNDECLARED
    most.metric("Cap", cap.partition(" at ")[0], help=cap)
    if budget.problem:
        st.warning(escape(f"The charges cannot be counted under the cap: {budget.problem}."))
    if budget.warning:
        st.warning(escape(budget.warning))
    if not budget.charges:
        st.info("There is no charge to this population yet.")
        return
    rows = list_charge_rows([budget])
    if chart := _make_chart(budget):
        words = "Increase of the total by each charge, under the cap"
        show_chart_with_table(chart, words, rows, _CHARGES, expanded=True, in_rows=True)
    else:
        show_table(rows, _CHARGES)
    with st.expander("Totals, and losses that they leave out"):
        for row in list_total_rows(budget.comparison):
            st.write(escape(f"{row['loss']} for one {row['unit']}{row['by curve']} counts {row['counts']}."))
        for remark in write_remarks(budget.comparison):
            st.write(escape(remark))


def _make_chart(budget: Budget) -> alt.LayerChart | None:
    """The charges as bars, each from the total before it to the total with it; None without a cap, or such a total."""
    if budget.cap is None:
        return None
    rows: list[dict[str, str | float]] = []
    before = 0.0
    for charge in budget.charges:
        total = budget.as_of(charge).total
        if total is None:
            return None
        after = before if isinstance(charge.loss, InfiniteLoss) else float(total)
        name = f"{charge.entry.sequence}: {charge.entry.dataset}/{charge.entry.release}"
        rows.append({"name": name, "from": before, "to": after, "charged": format_loss(charge.loss)})
        before = after
    bars = (
        make_row_chart(rows, {"name": "entry", "charged": "charged"})
        .mark_bar()
        .encode(
            x=alt.X("from:Q", title=wrap_title(f"total charged, {budget.cap.symbol}; the line is the cap")), x2="to:Q"
        )
    )
    cap = alt.Chart(pd.DataFrame([{"cap": float(budget.cap)}])).mark_rule(color=MARK, strokeWidth=3)
    return (bars + cap.encode(x="cap:Q")).properties(height=fit_height([str(row["name"]) for row in rows]))


def _imagine(population: Population, entries: Sequence[Entry]) -> None:
    st.header("Add an imagined release")
    st.caption("This charges nothing. The page Plan shows the charge of a declaration.")
    planned_population, release, planned = st.session_state.get(PLANNED, ("", "", None))
    if planned_population == population.name:
        st.write(escape(f"The plan of {release} that was shown last would charge {format_loss(planned.charge)}."))
        show_charge(population.datasets[0], release.partition("/")[2], planned, entries)
    name = st.text_input("Its name", "next_release", max_chars=60)
    measures = {"ε": PureLoss, "ρ": ConcentratedLoss}
    words = {"ε": "ε (pure)", "ρ": "ρ (zCDP)"}
    symbol = st.selectbox("Its loss is stated in", list(measures), format_func=words.__getitem__)
    text = st.text_input("The loss, such as 1, 0.5 or 1/2", "1", max_chars=40)
    try:
        loss = measures[symbol](positive_fraction(text))
    except ValueError as error:
        st.error(escape(f"The loss {text} cannot be read: {error}."))
        return
    imagined = Specification(Flavor("", (), "unit", None, loss.output_premetric), loss)
    show_charge(population.datasets[0], name or "next_release", imagined, entries)


def _show_invariants(budget: Budget) -> None:
    st.header("Exact statistics of the releases")
    invariants, latest = budget.comparison.invariants, [charge.release for charge in budget.comparison.latest]
    if not latest:
        st.write("There is no release yet.")
        return
    st.write("A loss bounds only what differs between data sets that agree on all invariants of a release.")
    if not invariants:
        st.write("No release has invariants.")
        return
    show_table(
        [
            {"Invariant": words}
            | {
                release: "exact" if release in holders else "implied" if release in implied else "–"
                for release in latest
            }
            for words, holders in invariants.items()
            for implied in [budget.comparison.find_implied(words)]
        ]
    )
    without = [release for release in latest if not any(release in holders for holders in invariants.values())]
    if without:
        st.write(escape(f"Without invariants: {', '.join(without)}."))
