"""What the page of the asset `ledger` shows: what was spent, by what, with which randomness, and what is left.

This module turns the entries of an intact ledger into metadata. The entry number connects the tables, because a table
of more than four columns does not fit on the page.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from assets.conventions import DRAW_ID, WIDE_ROOM, in_groups, in_one_piece, preview, shortened
from assets.ledger.population import Population
from mechanisms.accounting.composition import (
    DoesNotCompose,
    Loss,
    beside_finite,
    finite,
    number,
    stated,
    symbol,
    total_like,
)
from mechanisms.accounting.infinite import InfiniteLoss
from resources.chain import RESERVE, SETTLE, WITHDRAW, Entry
from resources.ledger import of_population, remaining

AUTOMATIC = "the declaration: the dataset is charged automatically"
"""What the ledger says of a charge that needed no authorization."""
REPLAY = "replay"
"""The name of the check that repeats a draw."""
LATEST = 40
"""How many charges the page shows; the table of entries has all of them."""
_NONE = "–"
_BAR = 10
_MINUTES = len("2026-01-01T00:00")


@dataclass(frozen=True)
class ChargedDraw:
    """A reservation, and what the ledger says about its draw.

    Attributes:
        entry: the reservation.
        edition: the number of the draw's edition; None if the draw was not made.
        settled: the entry that settles it, or None.
        withdrawn: the entry that withdraws it, or None.
    """

    entry: Entry
    edition: int | None
    settled: Entry | None
    withdrawn: Entry | None

    @property
    def release(self) -> str:
        edition = f"edition {self.edition}" if self.edition else "not drawn"
        withdrawn = f", withdrawn in entry {self.withdrawn.sequence}" if self.withdrawn else ""
        return f"{self.entry.dataset} / {self.entry.release}, {_unbroken(edition)}{withdrawn}"

    @property
    def custody(self) -> str:
        return str(self.entry.known().draw.get("parameters", {}).get("custody", "not recorded"))

    @property
    def authorized_by(self) -> str:
        return self.entry.known().authorization.get("by", "not recorded")


def page(
    entries: Sequence[Entry], populations: Iterable[Population], replays: Mapping[str, str]
) -> dict[str, dg.MetadataValue | str]:
    """The metadata of the ledger, what is asked first in front.

    Args:
        entries: all entries of an intact ledger, in order.
        populations: the declared populations.
        replays: by draw id, when the draw was last replayed and with which result.
    """
    declared = {population.name: population for population in populations}
    charges = list(charged_draws(entries))
    shown = charges[: -LATEST - 1 : -1]
    latest = f" (latest {LATEST} of {len(charges)})" if len(charges) > len(shown) else ""
    return {
        "budget": preview(
            {
                "of": "Population; a population with several datasets has a row for each of them too",
                "spent": "The sum of all charges, rounded up",
                "left": "What remains of the cap, rounded down",
                "of the cap": "What was spent as a share of the cap",
            },
            [row for population in _named(entries, declared) for row in _budget(entries, population, declared)],
            room=WIDE_ROOM,
        ),
        **({"without a finite loss": "\n".join(beside)} if (beside := list(_beside(charges))) else {}),
        f"charges{latest}": preview(
            {
                "entry": "Number of the charge in the ledger",
                "release": "Release and edition",
                "loss": "The loss that was charged, rounded up",
                "total": "What the population had been charged with this entry",
            },
            [
                (
                    each.entry.sequence,
                    each.release,
                    _with_delta(each.entry.declared().charge),
                    _running(entries, each, declared),
                )
                for each in shown
            ],
            room=WIDE_ROOM,
        ),
        f"randomness{latest}": preview(
            {
                "entry": "Number of the charge in the ledger",
                "draw": "Beginning of the draw's id",
                "commitment": "Beginning of the SHA-256 of the draw's key",
                "custody": "escrowed: the draw can be replayed; ephemeral: its key is destroyed",
            },
            [
                (each.entry.sequence, shortened(each.entry.draw_id), shortened(each.entry.commitment), each.custody)
                for each in shown
            ],
            room=WIDE_ROOM,
        ),
        f"decisions{latest}": preview(
            {
                "entry": "Number of the charge in the ledger",
                "authorized by": "Who authorized the charge; automatic if the dataset is declared so",
                "settled": "The entry with the output of the draw, and when it was made (UTC)",
                "last replay": "When the draw was last repeated (UTC), and whether it gave the same output",
            },
            [
                (
                    each.entry.sequence,
                    "automatic" if each.authorized_by == AUTOMATIC else each.authorized_by,
                    f"entry {each.settled.sequence}, {_time(each.settled.recorded_at)}"
                    if each.settled
                    else "not drawn",
                    replayed(each, replays),
                )
                for each in shown
            ],
            room=WIDE_ROOM,
        ),
        f"in full{latest}": dg.MetadataValue.md("\n\n".join(map(_in_full, shown)) or "There is no entry."),
    }


def _beside(charges: Iterable[ChargedDraw]) -> Iterable[str]:
    """For each population with infinite charges, that no finite total bounds what its releases disclose together."""
    infinite = Counter(
        each.entry.known().population for each in charges if isinstance(each.entry.declared().charge, InfiniteLoss)
    )
    for population, count in infinite.items():
        yield f"{population}: {beside_finite(count)}"


def charged_draws(entries: Sequence[Entry]) -> Iterable[ChargedDraw]:
    """Every charge of a ledger with what the ledger says of its draw, in order."""
    settled = {entry.draw_id: entry for entry in entries if entry.kind == SETTLE}
    withdrawn = {entry.draw_id: entry for entry in entries if entry.kind == WITHDRAW}
    editions: dict[str, int] = {}
    counts: dict[tuple[str, str], int] = {}
    for draw_id, entry in settled.items():
        editions[draw_id] = counts[entry.dataset, entry.release] = counts.get((entry.dataset, entry.release), 0) + 1
    for entry in entries:
        if entry.kind == RESERVE:
            draw = entry.draw_id
            yield ChargedDraw(entry, editions.get(draw), settled.get(draw), withdrawn.get(draw))


def _running(entries: Sequence[Entry], charge: ChargedDraw, declared: Mapping[str, Population]) -> str:
    """What the population was charged up to and including this charge."""
    population = charge.entry.known().population
    through = of_population(entries[: charge.entry.sequence], population)
    return _spent(through, _total(through, declared[population].cap if population in declared else None))


def _named(entries: Sequence[Entry], declared: Mapping[str, Population]) -> list[str]:
    """The declared populations, and those that were charged and are declared no longer."""
    charged = [entry.known().population for entry in entries if entry.kind == RESERVE]
    return list(dict.fromkeys([*declared, *charged]))


def _budget(
    entries: Sequence[Entry], population: str, declared: Mapping[str, Population]
) -> Iterable[tuple[str, str, str, str]]:
    own = of_population(entries, population)
    cap = declared[population].cap if population in declared else None
    spent = _total(own, cap)
    words = _spent(own, spent)
    if cap is None:
        yield population, words, _NONE, "no longer declared"
    elif spent is None:
        yield population, words, _NONE, _unbroken(f"of {cap.rounded_up()}")
    else:
        at_delta = stated(cap).partition(" at ")[2]
        of_cap = f"of\u00a0{cap.rounded_up()}" + (f" {_unbroken(f'at {at_delta}')}" if at_delta else "")
        yield population, words, str(remaining(spent, cap)), f"{bar(float(spent) / float(cap))} {of_cap}"
    datasets = [dataset.name for dataset in declared[population].datasets] if population in declared else []
    for dataset in dict.fromkeys([*datasets, *(entry.dataset for entry in own)]):
        if dataset != population:
            entries_of = [entry for entry in own if entry.dataset == dataset]
            part = _total(entries_of, cap)
            yield f"– dataset {dataset}", _spent(entries_of, part), _NONE, _NONE


def _total(entries: Iterable[Entry], cap: Loss | None) -> Loss | None:
    """The sum of the finite charges in the premetric of the cap, or else of the first; None if there is none."""
    losses = finite(entry.declared().charge for entry in entries if entry.kind == RESERVE)
    if cap is None and not losses:
        return None
    try:
        return total_like(cap or losses[0], losses)
    except DoesNotCompose:
        return None


def _spent(entries: Iterable[Entry], total: Loss | None) -> str:
    """A finite total as text, with ∞ beside it if a charge is infinite."""
    charges = [entry.declared().charge for entry in entries if entry.kind == RESERVE]
    infinite = len(charges) - len(finite(charges))
    parts = [_loss(total) if total else "does not add up"] if infinite < len(charges) or not charges else []
    return ", and ".join([*parts, *([_loss(InfiniteLoss())] if infinite else [])])


def bar(share: float) -> str:
    """A share as a bar of ten blocks and a percentage. Only nothing has no block, and only all of it has ten."""
    blocks = _BAR if share >= 1 else min(_BAR - 1, max(round(_BAR * share), 1 if share > 0 else 0))
    percent = "under 1" if 0 < share < 0.01 else "over 99" if 0.99 < share < 1 else f"{100 * share:.0f}"
    return f"{'█' * blocks}{'░' * (_BAR - blocks)} {_unbroken(percent)}\u00a0%"


def _with_delta(loss: Loss) -> str:
    """A loss with its δ, if it has one; a line may end before it."""
    return " at\u00a0".join(_unbroken(part) for part in stated(loss).split(" at "))


def _loss(loss: Loss) -> str:
    """A total without its δ, which the cap states."""
    return _unbroken(f"{symbol(loss)} = {number(loss)}")


def _unbroken(text: str) -> str:
    return text.replace(" ", "\u00a0")


def _time(recorded_at: str) -> str:
    return _unbroken(recorded_at[:_MINUTES].replace("T", " ").replace("-", "\N{NON-BREAKING HYPHEN}"))


def replayed(charge: ChargedDraw, replays: Mapping[str, str]) -> str:
    """When a draw was last repeated, and with which result; `replays` are those of `last_replays`."""
    if charge.custody == "ephemeral":
        return "impossible"
    return replays.get(charge.entry.draw_id, "none seen")


def _in_full(charge: ChargedDraw) -> str:
    entry, known = charge.entry, charge.entry.known()
    settled = charge.settled
    facts = {
        "charged": f"{stated(entry.declared().charge)}, exactly {entry.declared().charge}, to {known.population}",
        "recorded at": f"{entry.recorded_at} by run {known.authorization.get('run', 'not recorded')}",
        "authorized by": charge.authorized_by,
        "draw": in_groups(entry.draw_id),
        "commitment": in_groups(entry.commitment),
        "hash of the entry": in_groups(entry.hash),
        "output": f"{in_groups(str(settled.output_version))} (entry {settled.sequence})" if settled else "none",
    }
    return "\n".join([f"**Entry {entry.sequence}: {charge.release}**\n", *(f"- {k}: {v}" for k, v in facts.items())])


def last_replays(instance: dg.DagsterInstance, draws: Iterable[dg.AssetKey]) -> dict[str, str]:
    """By draw id, when the draw was last replayed and with which result, as Dagster recorded it.

    Args:
        instance: the Dagster instance.
        draws: the assets that draw.
    """
    found: dict[str, str] = {}
    for key in draws:
        record = instance.get_latest_asset_check_evaluation_record(dg.AssetCheckKey(key, REPLAY))
        event = record.event if record else None
        told = event.dagster_event if event else None
        # While a run goes on that is about to replay the draw, the latest record says only that.
        evaluated = told is not None and told.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
        evaluation = told.asset_check_evaluation_data if told and evaluated else None
        made = evaluation.target_materialization_data if evaluation else None
        if event is None or evaluation is None or made is None:
            continue
        events = instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=key, storage_ids=[made.storage_id]), limit=1
        ).records
        materialization = events[0].asset_materialization if events else None
        at = datetime.fromtimestamp(event.timestamp, UTC)
        if materialization and DRAW_ID in materialization.metadata:
            found[in_one_piece(str(materialization.metadata[DRAW_ID].value))] = (
                f"{_time(at.isoformat())}, {'same output' if evaluation.passed else 'not the same output'}"
            )
    return found
