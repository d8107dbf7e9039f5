"""The promises that every kind of release makes, and what promises are checked with.

Here belongs the evaluation of a promise, on the tables as they are at that moment. The same functions serve the asset
checks and the publication, which asks every one again before it writes a file. What one mechanism promises belongs with
it (`assets.swapping.gates`, `assets.phsafe.gates`).
"""

from typing import Any

from assets.cef.validation import cef_problems, structure_findings, structure_offenders
from assets.charge.drawing import make_again
from assets.confidentiality import leaks
from assets.ledger.asset import cap_problems
from assets.release.dataset import DatasetDeclaration
from assets.release.method import Gate, ReleaseContext
from resources.statements import Fragment, Table, Zone
from resources.warehouse import Recipe, Session


def cef_gates(dataset: DatasetDeclaration) -> list[Gate[Any]]:
    """What the dataset keeps."""
    kept = [Gate("schema_and_keys", "cef", "The CEF has the declared columns, types and keys.", _cef)]
    if dataset.structure:
        words = "What the records of the CEF say of one another is consistent."
        kept.append(Gate("structure", "cef", words, _structure))
    return kept


def charge_gates() -> list[Gate[Any]]:
    """What the charge keeps."""
    return [Gate("charge_present", "charge", "The ledger holds the charge for exactly this draw.", _charge)]


def draw_gates(stage: str, output: str, *, replay: bool) -> list[Gate[Any]]:
    """What the draw keeps.

    Args:
        stage: that draws.
        output: what it gives, in words, in the plural.
        replay: whether the draw can be made again.
    """
    settled = Gate("settled", stage, f"The {output} are what the ledger settled this draw with.", _settled)
    if replay:
        return [settled, Gate("replay", stage, f"Making the draw again gives the same {output}.", _replay)]
    words = "The draw's key is no longer kept, so nobody can replay it."
    return [settled, Gate("key_gone", stage, words, _key_gone)]


def closing_gates() -> list[Gate[Any]]:
    """What the whole release keeps, and the dataset's ledger."""
    return [
        Gate(
            "confidentiality",
            "tables",
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


def differing_table(session: Session, stored: Table, made: Recipe) -> list[str]:
    """How many rows of a stored table differ from the same made again."""
    name, values, names = made
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
    return leaks(context.nodes, context.release.key("publication"))


def _ledger(context: ReleaseContext[Any]) -> list[str]:
    return list(context.ledger.verify())
