"""The page *Budgets*: what each population was charged, by which release, what is left, and what one more would cost.

Losses are added up where the ledger adds them up: by `assets.ledger.comparison` and `resources.ledger`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import pandas as pd
import streamlit as st

from assets.ledger.comparison import Comparison, compare
from assets.ledger.page import charged_draws
from assets.ledger.population import Population
from assets.ledger.words import reasons, remarks
from assets.release.numbers import positive_fraction
from mechanisms.accounting.composition import DoesNotCompose, Loss, beside_finite, finite, stated, symbol, total_like
from mechanisms.accounting.infinite import InfiniteLoss
from mechanisms.accounting.loss import PureLoss
from mechanisms.accounting.zcdp import ConcentratedLoss
from orchestration.explorer.reading import UnavailableError, declared_populations, intact_entries, names
from orchestration.explorer.shown import axis_of, draw, height_of, table
from orchestration.explorer.words import plain
from resources.chain import Entry
from resources.ledger import CapExceeded, of_population, remaining, require_fit

PLANNED = "planned"
"""The key in the session of what the page Plan showed last: its population, its release and its loss."""

_SPENT, _CAP = "#1f5a8c", "#b35900"


@dataclass(frozen=True)
class Standing:
    """What a population was charged, under its cap.

    Attributes:
        population: the population.
        entries: its entries in the ledger.
        comparison: its releases side by side.
        charged: the composition of its finite charges; None if they cannot be counted under the cap.
        reason: why not; "" if they can.
    """

    population: Population
    entries: tuple[Entry, ...]
    comparison: Comparison
    charged: Loss | None
    reason: str = ""

    @property
    def left(self) -> str:
        if self.charged is None:
            return "unknown"
        return f"{symbol(self.population.cap)} = {remaining(self.charged, self.population.cap)}"

    @property
    def beside(self) -> str:
        """What is said of charges without a finite loss; "" without any."""
        return beside_finite(len(self.comparison.infinite))


def standing(population: Population, entries: Sequence[Entry]) -> Standing:
    """What a population was charged, from the entries of an intact ledger."""
    own = of_population(entries, population.name)
    comparison = compare(own)
    try:
        return Standing(population, own, comparison, comparison.counted(population.cap))
    except DoesNotCompose as error:
        return Standing(population, own, comparison, None, str(error))


def with_charge(found: Standing, release: str, loss: Loss) -> tuple[bool, str]:
    """Whether a charge would fit, and in a sentence the total with it, or why the ledger would refuse it."""
    cap = found.population.cap
    if isinstance(loss, InfiniteLoss):
        allowed = found.population.allows_unbounded_releases
        ends = "it would be recorded beside the others" if allowed else "the dataset does not allow it"
        return allowed, f"{stated(loss)} fits under no cap; {ends}."
    charges = finite(charge.specification.charge for charge in found.comparison.charges)
    try:
        require_fit(found.population.name, release, charges, loss, cap)
    except CapExceeded as error:
        return False, f"It would be refused: {error}."
    after = total_like(cap, [*charges, loss])
    return True, (
        f"With {release}, {stated(after)} of the cap of {stated(cap)} would be charged, and "
        f"{symbol(cap)} = {remaining(after, cap)} would remain."
    )


def show() -> None:
    """Draw the page."""
    st.title("Budgets")
    try:
        entries = intact_entries()
        known = declared_populations()
    except UnavailableError as error:
        st.warning(plain(error))
        return
    standings = {each.name: standing(each, entries) for each in known}
    _overview(standings, entries)
    if not standings:
        return
    given = st.query_params.get("population", "")
    options = list(standings)
    name = st.selectbox("Population", options, options.index(given) if given in options else 0)
    st.query_params["population"] = name
    found = standings[name]
    _population(found)
    _imagined(found)
    _invariants(found)


def _overview(standings: dict[str, Standing], entries: Sequence[Entry]) -> None:
    rows = [
        {
            "Population": name,
            "Spent": stated(each.charged) if each.charged else "cannot be added up",
            "Left": each.left,
            "Cap": stated(each.population.cap),
        }
        for name, each in standings.items()
    ]
    rows += [
        {"Population": name, "Spent": "see stirred budget", "Left": "–", "Cap": "no longer declared"}
        for name in names(entries)
        if name not in standings
    ]
    if rows:
        table(rows)
    else:
        st.info("No dataset is declared.")


def _population(found: Standing) -> None:
    cap = found.population.cap
    st.header(plain(f"{found.population.name}: {found.population.title}"))
    spent, left, most = st.columns(3)
    spent.metric("Spent, rounded up", stated(found.charged).partition(" at ")[0] if found.charged else "unknown")
    left.metric("Left, rounded down", found.left)
    most.metric("Cap", stated(cap).partition(" at ")[0], help=stated(cap))
    if found.reason:
        st.warning(plain(f"The charges cannot be counted under the cap: {found.reason}."))
    if found.beside:
        st.warning(plain(found.beside))
    rows = [
        {
            "Entry": str(each.entry.sequence),
            "Release": each.release,
            "Charged": stated(each.entry.declared().charge),
            "Total with it": _through(found, each.entry),
            "For one": each.entry.declared().flavor.unit,
            "Authorized by": each.authorized_by,
        }
        for each in charged_draws(found.entries)
    ]
    if not rows:
        st.info("Nothing was charged to this population yet.")
        return
    chart = _chart(found)
    if chart is not None:
        draw(chart, "What each charge added to the total, under the cap; the table follows.")
    with st.expander("The table behind the chart: every charge", expanded=chart is None):
        table(rows)
    with st.expander("What adds up, and what does not"):
        for total in found.comparison.totals:
            out = "; ".join(
                f"{', '.join(each)}: {why}" for why, each in reasons(found.comparison.shares(total)).items()
            )
            left_out = f" Left out: {out}" if out else ""
            st.write(plain(f"{stated(total.loss)} for one {total.unit}, from {total.releases} charges.{left_out}"))
        for remark in remarks(found.comparison):
            st.write(plain(remark))


def _through(found: Standing, last: Entry) -> str:
    """The composition of the charges up to an entry, as text."""
    counted = _counted_through(found, last)
    return stated(counted) if counted is not None else "cannot be added up"


def _counted_through(found: Standing, last: Entry) -> Loss | None:
    try:
        return compare(each for each in found.entries if each.sequence <= last.sequence).counted(found.population.cap)
    except DoesNotCompose:
        return None


def _chart(found: Standing) -> alt.LayerChart | None:
    """For each charge, by how much the total grew with it; None if the charges do not add up."""
    rows: list[dict[str, str | float]] = []
    before = 0.0
    for each in charged_draws(found.entries):
        total = _counted_through(found, each.entry)
        if total is None:
            return None
        after = before if isinstance(each.entry.declared().charge, InfiniteLoss) else float(total)
        name = f"{each.entry.sequence}: {each.entry.dataset}/{each.entry.release}"
        rows.append({"name": name, "from": before, "to": after, "charged": stated(each.entry.declared().charge)})
        before = after
    sign = symbol(found.population.cap)
    shown = [str(row["name"]) for row in rows]
    bars = (
        alt.Chart(pd.DataFrame(rows))
        .mark_bar(color=_SPENT)
        .encode(
            y=alt.Y("name:N", sort=None, axis=axis_of(shown)),
            x=alt.X("from:Q", title=f"total charged, {sign}; the line is the cap"),
            x2="to:Q",
            tooltip=[alt.Tooltip("name:N", title="entry"), alt.Tooltip("charged:N", title="charged")],
        )
    )
    cap = (
        alt.Chart(pd.DataFrame([{"cap": float(found.population.cap)}]))
        .mark_rule(color=_CAP, strokeWidth=3)
        .encode(x="cap:Q")
    )
    return (bars + cap).properties(height=height_of(shown))


def _imagined(found: Standing) -> None:
    st.subheader("Add an imagined release")
    st.write("Nothing is charged by this. The page Plan says what a declaration would charge.")
    if PLANNED in st.session_state:
        population, release, planned_loss = st.session_state[PLANNED]
        if population == found.population.name:
            st.write(plain(f"The plan of {release} that was shown last would charge {stated(planned_loss)}."))
            _said(*with_charge(found, f"{release} as planned", planned_loss))
    name = st.text_input("Its name", "next_release", max_chars=60)
    measure = st.selectbox(
        "Its loss is an", ["ε", "ρ"], format_func=lambda each: f"{each} ({'pure' if each == 'ε' else 'zCDP'})"
    )
    text = st.text_input("The loss, such as 1, 0.5 or 1/2", "1", max_chars=40)
    try:
        amount = positive_fraction(text)
    except ValueError as error:
        st.error(plain(f"The loss {text} cannot be read: {error}."))
        return
    loss = PureLoss(amount) if measure == "ε" else ConcentratedLoss(amount)
    _said(*with_charge(found, f"{found.population.datasets[0].name}/{name or 'next_release'}", loss))


def _said(fits: bool, words: str) -> None:
    (st.success if fits else st.error)(plain(words))


def _invariants(found: Standing) -> None:
    st.subheader("What the releases publish exactly")
    invariants, latest = found.comparison.invariants, [charge.release for charge in found.comparison.latest]
    if not latest:
        st.write("There is no release yet.")
        return
    st.write("A loss bounds only what differs between data sets that agree on all invariants of a release.")
    if not invariants:
        st.write("No release has invariants.")
        return
    table(
        [
            {"Invariant": words, **{release: "exact" if release in holders else "–" for release in latest}}
            for words, holders in invariants.items()
        ]
    )
    without = [release for release in latest if not any(release in holders for holders in invariants.values())]
    if without:
        st.write(plain(f"Without invariants: {', '.join(without)}."))
