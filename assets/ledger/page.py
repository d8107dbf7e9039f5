"""The pages of the assets `ledger` and `composition`: the rows of `view` as metadata.

The first lists spending, randomness and the rest of each cap; the second compares a population's releases. A table of
more than four columns does not fit on a page, so a row's facts are in several tables, which the number of the charge or
the release connects.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from assets.conventions import DRAW_ID, WIDE_ROOM, escape_markdown, group_digits, join_digits, join_names, preview
from assets.ledger import view
from assets.ledger.comparison import Charge, Comparison
from assets.ledger.population import Population
from assets.ledger.remarks import write_remarks
from assets.pictures import picture
from assets.texts import show_line
from mechanisms.accounting.losses import Loss, format_loss
from mechanisms.accounting.rounding import format_decimal
from mechanisms.accounting.specification import DELTA
from resources.chain import Entry

REPLAY = "replay"
LATEST = 40
_AT_ONCE = 20
"""The number of evaluations of a check read at a time."""

_BUDGET = {
    "of": "Population; a population with several datasets has a row for each of them too",
    "spent": "The sum of all charges, rounded up",
    "left": "The rest of the cap, rounded down",
    "of the cap": "The spent share of the cap",
}
_ENTRY = {"entry": "Number of the charge in the ledger"}
_CHARGES = {
    "charges": _ENTRY
    | {
        "release": "Release and edition",
        "loss": "The loss that was charged, rounded up",
        "total": "The population's total, including this entry",
    },
    "randomness": _ENTRY
    | {
        "draw": "Beginning of the draw's id",
        "commitment": "Beginning of the SHA-256 of the draw's key",
        "custody": "escrowed: the draw can be replayed; ephemeral: its key is destroyed",
    },
    "decisions": _ENTRY
    | {
        "authorized by": "Who authorized the charge; automatic if the dataset is declared so",
        "settled": "The entry with the output of the draw, and when it was made (UTC)",
        "last replay": "When the draw was last repeated (UTC), and whether it gave the same output; failed: it gave "
        "another one, or could not be repeated",
    },
}
_TOTALS = {
    "unit": "Whose change the total bounds",
    "output premetric": "How the loss is measured",
    "loss": "The total, rounded up",
    "charges": "How many charges it counts",
}
_RELEASE = {"release": "Release, with its latest charge"}
_CONVERTED = f"ε at δ = {format_decimal(DELTA)}"
_RELEASES = {
    "releases": _RELEASE
    | {
        "unit": "What is protected, and which data sets are neighbors",
        "loss": "The loss that was charged, rounded up",
        "charges": "How often the release was charged; every charge counts",
    },
    "guarantees": _RELEASE
    | {
        "output premetric": "How the loss is measured",
        "exactly": "The loss, exactly",
        "invariants": "How many statistics are published exactly; they are listed below",
    },
    _CONVERTED: {
        "release": "Release whose loss is a ρ",
        "ε": "Its ρ, converted as Canonne, Kamath and Steinke do",
        "by Bun and Steinke": "The same with their looser bound",
    },
}


def describe_ledger(
    entries: Sequence[Entry], populations: Iterable[Population], replays: Mapping[str, str]
) -> dict[str, dg.MetadataValue | str]:
    """The metadata of an intact ledger, the most important first; `replays` are the last replays by draw id."""
    budgets = view.list_budgets(entries, populations)
    charges = {charge.entry.sequence: charge for budget in budgets.values() for charge in budget.charges}
    rows = view.list_charge_rows(budgets.values(), replays, LATEST)[::-1]
    latest = f" (latest {LATEST} of {len(charges)})" if len(charges) > len(rows) else ""
    warnings = [show_line(f"{name}: {budget.warning}") for name, budget in budgets.items() if budget.warning]
    public = [
        f"{entry['release']}, entry {entry['entry']}: {entry['charged']}, from {entry['public']}, authorized by "
        f"{entry['authorized_by']}" + (f", public because {because}" if (because := entry["public_because"]) else "")
        for entry in view.list_entry_records(entries)
        if entry["public"]
    ]
    in_full = "\n\n".join(_describe_charge(charges[int(row["entry"])]) for row in rows)
    return {
        "budget": _table(_BUDGET, view.list_budget_rows(budgets.values())),
        **({"without a finite loss": "\n".join(warnings)} if warnings else {}),
        **({"public data": _list_lines(public)} if public else {}),
        **{f"{name}{latest}": _table(columns, rows) for name, columns in _CHARGES.items()},
        f"in full{latest}": dg.MetadataValue.md(in_full or "There is no entry."),
    }


def describe_composition(budget: view.Budget, cap: Loss, title: str) -> dict[str, Any]:
    comparison = budget.comparison
    facts = {
        "counted against the cap": budget.excess or (format_loss(budget.total) if budget.total else ""),
        "cap": format_loss(cap),
        **({"remaining": budget.left} if budget.total else {}),
        **({"without a finite loss": budget.warning} if budget.warning else {}),
        "charges": len(comparison.charges),
    }
    if not comparison.charges:
        return facts

    from assets.ledger.charts import draw_comparison

    losses = [f"{charge.release} with {format_loss(charge.specification.loss)}" for charge in comparison.latest]
    together = join_names([f"{format_loss(total.loss)} for one {total.unit}" for total in comparison.totals])
    words = f"Bars of the losses of {join_names(losses)}, under a cap of {format_loss(cap)}; together {together}."
    return {
        "releases side by side": picture(draw_comparison(budget, title), words),
        **facts,
        **describe_totals(comparison),
        **describe_releases(comparison),
        "what adds up": _list_lines(write_remarks(comparison)),
        "invariants": describe_invariants(comparison),
    }


def describe_totals(comparison: Comparison) -> dict[str, dg.MetadataValue]:
    """A table of the totals, and for each, the releases that it counts or leaves out, with the reasons."""
    rows = view.list_total_rows(comparison)
    escaped = [{name: escape_markdown(text) for name, text in row.items()} for row in rows]
    counts = [f"- **{row['loss']} for one {row['unit']}**{row['by curve']} counts {row['counts']}" for row in escaped]
    return {"totals": _table(_TOTALS, rows), "what they count": dg.MetadataValue.md("\n".join(counts))}


def describe_releases(comparison: Comparison) -> dict[str, dg.MetadataValue]:
    rows = view.list_release_rows(comparison)
    tables = {
        name: _table(columns, complete)
        for name, columns in _RELEASES.items()
        if (complete := [row for row in rows if columns.keys() <= row.keys()])
    }
    domains: dict[str, list[str]] = {}
    for charge in comparison.latest:
        domains.setdefault(charge.specification.flavor.domain, []).append(charge.release)
    lines = (f"Domain of {join_names(releases)}: {domain}." for domain, releases in domains.items())
    return tables | {"domains": _list_lines(lines)}


def describe_invariants(comparison: Comparison) -> dg.MetadataValue:
    lines = [f"{row['invariant']} ({row['releases']})" for row in view.list_invariant_rows(comparison)]
    return _list_lines(lines or ["No release has invariants."])


def _list_lines(lines: Iterable[str]) -> dg.MetadataValue:
    """An item of a list for each line, with Markdown escaped, since persons wrote parts of it."""
    return dg.MetadataValue.md("\n".join(f"- {escape_markdown(line)}" for line in lines))


def _table(columns: Mapping[str, str], rows: Iterable[Mapping[str, str]]) -> dg.MetadataValue:
    return preview(columns, [[row[column] for column in columns] for row in rows], room=WIDE_ROOM)


def _describe_charge(charge: Charge) -> str:
    entry, details, settled = charge.entry, charge.entry.parse_details(), charge.settled
    facts = {
        "charged": f"{format_loss(charge.loss)}, exactly {charge.loss}, to {details.population}",
        "recorded at": f"{entry.recorded_at} by run {details.authorization.get('run', 'not recorded')}",
        "authorized by": charge.authorized_by,
        **({"different people because": charge.different_people} if charge.different_people else {}),
        "draw": group_digits(entry.draw_id),
        "commitment": group_digits(entry.commitment),
        "hash of the entry": group_digits(entry.hash),
        "output": f"{group_digits(str(settled.output_version))} (entry {settled.sequence})" if settled else "none",
    }
    lines = [f"- {name}: {escape_markdown(fact)}" for name, fact in facts.items()]
    return "\n".join([f"**Entry {entry.sequence}: {escape_markdown(view.describe_draw(charge))}**\n", *lines])


def read_last_replays(instance: dg.DagsterInstance, draws: Iterable[dg.AssetKey]) -> dict[str, str]:
    """By draw id, when the draw was last replayed and with which result, as Dagster recorded it.

    An evaluation names the draw that it repeated. If the last evaluation failed before it could identify the draw, it
    counts as a failure for the draw repeated before.
    """
    replays: dict[str, str] = {}
    for key in draws:
        last = None
        for event in _list_evaluations(instance, dg.AssetCheckKey(key, REPLAY)):
            last = last or event
            named = event.get_dagster_event().asset_check_evaluation_data.metadata.get(DRAW_ID)
            if named:
                passed = last.get_dagster_event().asset_check_evaluation_data.passed
                at = view.format_minute(datetime.fromtimestamp(last.timestamp, UTC).isoformat())
                replays[join_digits(str(named.value))] = f"{at}, {'same output' if passed else 'failed'}"
                break
    return replays


def _list_evaluations(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> Iterator[dg.EventLogEntry]:
    """The evaluations that runs made of a check, the latest first.

    Reports by hand are ignored: anyone who can launch can make them, and they would hide a failed replay. Dagster lists
    evaluations by the time they were planned, and some are not made yet.
    """
    cursor = None
    while records := instance.event_log_storage.get_asset_check_execution_history(check, _AT_ONCE, cursor):
        cursor = records[-1].id
        events = [record.event for record in records if record.event and record.event.run_id]
        made = [each for each in events if each.dagster_event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION]
        yield from sorted(made, key=lambda event: event.timestamp, reverse=True)
