"""The gates of every release, and how they are put together with those of its mechanism.

A gate is evaluated on the tables as they are at that moment. The same functions serve the asset checks and the
publication, which evaluates every gate again before it writes a file.
"""

from collections import Counter
from typing import Any

from assets.cef.validation import cef_problems, structure_findings, structure_offenders
from assets.charge.drawing import make_again
from assets.confidentiality import leaks
from assets.ledger.asset import cap_problems
from assets.release.dataset import DatasetDeclaration
from assets.release.gate import Gate, ReleaseContext
from assets.release.method import CHARGE, PUBLICATION, Method
from resources.statements import Fragment, Table, Zone
from resources.warehouse import Recipe, Session

DATASET_STAGES = ("cef", "composition")
"""Stages of the dataset: their checks are the dataset's, not a release's."""


def all_gates(method: Method[Any, Any, Any]) -> tuple[Gate[Any], ...]:
    """All gates of a release in the order of its stages: the shared ones, and those its mechanism adds.

    Raises:
        ValueError: if a gate belongs to no stage of the release, or two gates of a stage have one name.
    """
    shared = [*_cef_gates(method.release.dataset), *(_shared_gates(method) if method.charges else [])]
    stages = ["cef", *method.stages, "composition"]
    gates = [*shared, *method.own_gates()]
    for gate in gates:
        if gate.stage not in stages:
            raise ValueError(f"{method.release.schema}: gate {gate.name}: there is no stage {gate.stage}")
    ((stage, name), times), *_ = Counter((gate.stage, gate.name) for gate in gates).most_common(1)
    if times > 1:
        raise ValueError(f"{method.release.schema}: stage {stage} has {times} gates called {name}")
    return tuple(sorted(gates, key=lambda gate: stages.index(gate.stage)))


def _cef_gates(dataset: DatasetDeclaration) -> list[Gate[Any]]:
    gates = [Gate("schema_and_keys", "cef", "The CEF has the declared columns, types and keys.", _cef)]
    if dataset.structure:
        words = "What the records of the CEF say of one another is consistent."
        gates.append(Gate("structure", "cef", words, _structure))
    return gates


def _shared_gates(method: Method[Any, Any, Any]) -> list[Gate[Any]]:
    stage, output = method.draw_stage, method.drawn_words
    if method.release.can_replay:
        replay = Gate("replay", stage, f"Making the draw again gives the same {output}.", _replay)
    else:
        replay = Gate("key_gone", stage, "The draw's key is no longer kept, so nobody can replay it.", _key_gone)
    return [
        Gate("charge_present", CHARGE, "The ledger holds the charge for exactly this draw.", _charge),
        Gate("settled", stage, f"The {output} are what the ledger settled this draw with.", _settled),
        replay,
        Gate(
            "confidentiality",
            method.closing_stage,
            "Every path from confidential data to the publication passes a charged draw or a declared invariant.",
            _confidentiality,
        ),
        Gate("within_cap", "composition", "All charges to the dataset stay within its cap.", _cap),
        Gate("ledger_intact", "composition", "No ledger entry was edited, removed or reordered.", _ledger),
    ]


def differing(session: Session, first: Table | Fragment, second: Table | Fragment, columns: list[str]) -> int:
    """How many rows of two tables differ, as multisets over some columns."""
    (rows,) = session.row("gates/differing_rows", first=first, second=second, columns=columns)
    return int(rows)


def unequal(
    session: Session,
    first: Table | Fragment,
    second: Table | Fragment,
    columns: list[str],
    totals: list[str] | None = None,
    total: str = "",
) -> int:
    """How many combinations of values two tables do not count equally often, totals set aside."""
    (cells,) = session.row(
        "gates/differing_margins",
        {"total": total} if totals else None,
        first=first,
        second=second,
        columns=columns,
        totals=totals or [],
    )
    return int(cells)


def said(number: int, what: str) -> list[str]:
    """A finding with its count; none if nothing was found."""
    return [f"{what}: {number:,}"] if number else []


def differing_table(session: Session, stored: Table, recipe: Recipe) -> list[str]:
    """How many rows of a stored table differ from the same made again."""
    name, values, names = recipe
    again = session.stage("again", name, values, **names)
    columns = list(session.columns(stored))
    return said(differing(session, stored, again, columns), f"{stored}: differing rows")


def _cef(context: ReleaseContext[Any]) -> list[str]:
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        return cef_problems(session, context.release.dataset)


def _structure(context: ReleaseContext[Any]) -> list[str]:
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        return [str(finding) for finding in structure_findings(structure_offenders(session, context.release.dataset))]


def _charge(context: ReleaseContext[Any]) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = context.method.describe(session, context.custody)
    entry = context.ledger.reservation(draw.draw_id)
    if entry is None:
        return [f"no ledger entry for draw {draw.draw_id}"]
    if not entry.declared().protects_like(draw.specification):
        return [f"ledger entry {entry.sequence} was made for another DP specification"]
    if (entry.dataset, entry.release) != (release.dataset.name, release.name):
        return [f"ledger entry {entry.sequence} belongs to {entry.dataset}/{entry.release}"]
    return []


def _settled(context: ReleaseContext[Any]) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = context.method.describe(session, context.custody)
        version = context.method.stored_version(session, draw)
    settled = context.ledger.settlement(draw.draw_id)
    if settled is None:
        return [f"draw {draw.draw_id} is not settled"]
    if version != settled.output_version:
        return [f"what is stored is not what ledger entry {settled.sequence} settled"]
    return []


def _replay(context: ReleaseContext[Any]) -> list[str]:
    method = context.method
    with context.warehouse.session(reads=method.draws_from) as session:
        draw = method.describe(session, context.custody)
        if context.ledger.reservation(draw.draw_id) is None:
            return [f"draw {draw.draw_id} is not charged, and so it is not made again"]
        again = method.version_of(draw, make_again(method, session, draw, context.custody, context.ledger))
        return [] if again == method.stored_version(session, draw) else ["the draw made again gives something else"]


def _key_gone(context: ReleaseContext[Any]) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw_id = context.method.describe(session, context.custody).draw_id
    return [f"the key of draw {draw_id} is still kept"] if context.custody.keeps(draw_id) else []


def _cap(context: ReleaseContext[Any]) -> list[str]:
    return cap_problems(context.release.dataset, context.ledger)


def _confidentiality(context: ReleaseContext[Any]) -> list[str]:
    return leaks(context.nodes, context.release.key(PUBLICATION))


def _ledger(context: ReleaseContext[Any]) -> list[str]:
    return list(context.ledger.verify())
