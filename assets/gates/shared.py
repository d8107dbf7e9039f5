"""The gates that all releases share, combined with the gates of a release's mechanism, and their blocking Dagster
checks.

Gates are evaluated on the stored tables. The publication evaluates all gates again before it writes files.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import groupby
from typing import Any

import dagster as dg

from assets.cef.validation import cef_problems, structure_findings, structure_offenders
from assets.charge.asset import charge_facts, charge_recipe
from assets.charge.drawing import open_charged_key
from assets.confidentiality import find_leaks, list_deployed_nodes
from assets.conventions import DRAW_ID, NO_CONFIG, POOL, check_result, group_digits, write_count
from assets.ledger.asset import find_cap_problems
from assets.ledger.page import REPLAY
from assets.release import signature
from assets.release.contents import find_content_problems, is_checked
from assets.release.dataset import CEF, DatasetDeclaration
from assets.release.gate import Gate, ReleaseContext, find_verdicts
from assets.release.method import CHARGE, PUBLICATION, Method
from assets.release.stage import is_view
from assets.stages import guard_step
from mechanisms.refusal import RefusedError
from resources.chain import finished_draws
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Fragment, Table, Zone
from resources.storage import TransientError
from resources.warehouse import Recipe, Session, Warehouse, WarehouseError

NAMED_ROWS, LONGEST_ROW = 10, 300
"""The most rows of an altered public table that a problem shows, and the most characters of each."""

DATASET_STAGES = (CEF, "composition")
"""The stages of the dataset, whose checks belong to the dataset and not to a release."""


def all_gates(method: Method[Any, Any, Any]) -> tuple[Gate[Any], ...]:
    """All gates of a release in the order of its stages; within a stage, the mechanism's gates come first.

    Raises:
        ValueError: if a gate belongs to no stage of the release, or two gates of a stage have the same name.
    """
    stages = [CEF, *method.stages, "composition"]
    # The test of the noise reads all noisy measurements, so the shared gates after it can use their version.
    shared = _shared_gates(method) if method.release.declaration.charges else []
    of_records = isinstance(method.release.dataset, DatasetDeclaration)
    gates = [*(_cef_gates(method.release.dataset) if of_records else []), *method.own_gates(), *shared]
    for gate in gates:
        if gate.stage not in stages:
            raise ValueError(f"{method.release.schema}: gate {gate.name}: there is no stage {gate.stage}")
    ((stage, name), times), *_ = Counter((gate.stage, gate.name) for gate in gates).most_common(1)
    if times > 1:
        raise ValueError(f"{method.release.schema}: stage {stage} has {times} gates called {name}")
    return tuple(sorted(gates, key=lambda gate: stages.index(gate.stage)))


def _cef_gates(dataset: DatasetDeclaration) -> list[Gate[Any]]:
    words = "The persons and units of the CEF are consistent with each other."
    return [
        Gate("schema_and_keys", CEF, "The CEF has the declared columns, types and keys.", _cef),
        Gate("as_read", CEF, "The stored CEF is the one that was read from the source.", _as_read),
        *([Gate[Any]("structure", CEF, words, _structure)] if dataset.structure else []),
    ]


def _shared_gates(method: Method[Any, Any, Any]) -> list[Gate[Any]]:
    stage, output = method.draw_stage, method.drawn_words
    if method.release.can_replay:
        replay = Gate(REPLAY, stage, f"Repeating the draw gives the same {output}.", _replay)
    else:
        replay = Gate("key_gone", stage, "The draw's key no longer exists, so the draw cannot be replayed.", _key_gone)
    return [
        Gate(
            "charge_present",
            CHARGE,
            "The ledger holds the charge for exactly this draw, and the release's table of the charge agrees with it.",
            _charge,
        ),
        Gate("settled", stage, f"The stored {output} are those that the ledger settled.", _settled),
        replay,
        Gate(
            "confidentiality",
            method.closing_stage,
            "Every path from confidential data to the publication passes through a charged draw, a declared "
            "invariant, or keyed versions.",
            lambda context: find_leaks(context.nodes, context.release.key(PUBLICATION)),
        ),
        Gate(
            "within_cap",
            "composition",
            "All charges to the population stay within its cap, and none is infinite unless that is allowed.",
            lambda context: find_cap_problems(context.release.dataset, context.reading),
        ),
        Gate(
            "ledger_intact",
            "composition",
            "No ledger entry was edited, removed or reordered.",
            _ledger_intact,
        ),
    ]


def build_gates(method: Method[Any, Any, Any]) -> list[dg.AssetChecksDefinition]:
    """A blocking check for every gate of a release, except the gates that belong to its dataset.

    The gates of a stage are evaluated in one step, on content that stays the same until the last of them is done.
    Intermediate results that several of them need, such as the version of all noisy measurements, can then be computed
    once. Each gate is still a separate check, which can be launched alone.
    """
    own = [gate for gate in all_gates(method) if gate.stage not in DATASET_STAGES]
    return [_build_check(method, stage, list(gates)) for stage, gates in groupby(own, key=lambda gate: gate.stage)]


def keep_part_verdicts(
    method: Method[Any, Any, Any],
    warehouse: Warehouse,
    custody: Custody,
    ledger: Ledger,
    part: str,
    stages: Collection[str],
) -> None:
    """Evaluate the rules of some stages on the part that this run made, and keep the verdicts of those that hold for
    the run that joins all parts. Problems are left for that run to find.

    Raises WarehouseError if a zone cannot be read. Nothing may have been written to the public zone yet.
    """
    if not method.keeps_verdicts:
        return
    verdicts = find_verdicts(method, custody)
    with warehouse.snapshot([zone for zone in method.release.zones if warehouse.holds(zone)]) as held:
        context = ReleaseContext(method, held, custody, ledger, {}, verdicts)
        for gate in (gate for gate in all_gates(method) if gate.stage in stages):
            with suppress(RefusedError):
                gate.holds_in(context, verdicts, part, set())


def _build_check(method: Any, stage: str, gates: Sequence[Gate[Any]]) -> dg.AssetChecksDefinition:
    key = method.release.key(stage)

    @dg.multi_asset_check(
        name="__".join([*key.path, "gates"]),
        specs=[dg.AssetCheckSpec(gate.name, asset=key, description=gate.words, blocking=True) for gate in gates],
        can_subset=True,
        pool=POOL,
        config_schema=NO_CONFIG,
    )
    def checks(
        context: dg.AssetCheckExecutionContext, warehouse: Warehouse, custody: Custody, ledger: Ledger
    ) -> Iterator[dg.AssetCheckResult]:
        names = {check.name for check in context.selected_asset_check_keys}
        selected = [gate for gate in gates if gate.name in names]
        release_context = ReleaseContext(
            method,
            method.release.adapt(warehouse),
            custody,
            ledger,
            list_deployed_nodes(context),
            find_verdicts(method, custody),
        )
        faults: list[Exception] = []
        with guard_step(), ExitStack() as opened:
            # If a zone is missing or cannot be read, the gates that read it report this.
            with suppress(WarehouseError):
                release_context = opened.enter_context(release_context.snapshot())
            for gate in selected:
                try:
                    problems = gate.evaluate(release_context)
                    draw_id = find_draw_id(release_context) if gate.name == REPLAY else None
                except TransientError:
                    raise
                except Exception as fault:
                    # The remaining gates are still evaluated.
                    faults.append(fault)
                else:
                    # For the ledger's page.
                    of_draw = {DRAW_ID: group_digits(draw_id)} if draw_id else {}
                    yield check_result(gate.name, problems, {"problems": write_count(len(problems))} | of_draw)
            if faults:
                raise faults[0]

    return checks


def find_draw_id(context: ReleaseContext[Any]) -> str | None:
    """The id of the draw that the gates check; None if its inputs cannot be read."""
    try:
        with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
            return context.method.describe(session, context.custody).draw_id
    except (RefusedError, dg.Failure):
        return None


def count_differences(session: Session, first: Table | Fragment, second: Table | Fragment, columns: list[str]) -> int:
    """The number of rows by which two tables differ, as multisets over some columns; all rows if types differ.

    Without the check of types, DuckDB would compare '7.2' as an integer with 7. A table made again usually has its rows
    in the same order, so this is compared first: it takes a tenth of the time.
    """
    one, other = (session.columns(table) for table in (first, second))
    if any(one[column] != other[column] for column in columns):
        return sum(session.row("warehouse/count", table=table)[0] for table in (first, second))
    (same,) = session.row("gates/same_in_order", first=first, second=second, columns=columns)
    if same:
        return 0
    (rows,) = session.row("gates/differing_rows", first=first, second=second, columns=columns)
    return int(rows)


def count_unequal(
    session: Session, first: Table | Fragment, second: Table | Fragment, columns: list[str], totals: Sequence[str] = ()
) -> int:
    """The number of combinations of values of some columns whose counts differ between two tables.

    Args:
        totals: the columns that mark rows of totals in the first table; these rows are left out.
    """
    names = {"first": first, "second": second, "columns": columns, "totals": list(totals)}
    (cells,) = session.row("gates/differing_margins", **names)
    return int(cells)


def count_problem(number: int, what: str) -> list[str]:
    """A problem with its count; none if the count is 0."""
    return [f"{what}: {number:,}"] if number else []


def differing_table(session: Session, stored: Table, recipe: Recipe) -> list[str]:
    """The problem if a stored table differs from the result of its recipe, with the number of differing rows.

    A session that reads only the public zone computes from public tables only, so the problem also shows rows. Of a
    view, the definition is compared.
    """
    name, values, names = recipe
    if is_view(recipe):
        is_made = all(map(session.columns, names["tables"])) and session.is_view_of(stored, name, **names)
        return [] if is_made else [f"{stored}: not the view of its parts"]
    again = session.stage("again", name, values, **names)
    described, made = (list(session.columns(table).items()) for table in (stored, again))
    if described != made:
        return [f"{stored}: the columns or their types are not those that its recipe gives"]
    columns = [column for column, _ in described]
    problems = count_problem(count_differences(session, stored, again, columns), f"{stored}: differing rows")
    if problems and Zone.CONFIDENTIAL not in session.zones:
        altered = session.rows("gates/altered_rows", {"rows": NAMED_ROWS}, stored=stored, again=again, columns=columns)
        problems += [_named(columns, row) for row in altered]
    return problems


def _named(columns: Sequence[str], row: Sequence[object]) -> str:
    which, *values = row
    cell = ", ".join(f"{name} = {value}" for name, value in zip(columns, values, strict=True))
    return f"{which}: {cell if len(cell) <= LONGEST_ROW else f'{cell[:LONGEST_ROW]}…'}"


def _is_checked(context: ReleaseContext[Any]) -> bool:
    """Whether the CEF satisfied its rules when it was read. False in a context without kept verdicts, or whose content
    could change, so that the rules are evaluated again."""
    if context.verdicts is None or not context.warehouse.is_held:
        return False
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        return is_checked(session, context.custody, context.release.dataset)


def _cef(context: ReleaseContext[Any]) -> list[str]:
    if _is_checked(context):
        return []
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        return cef_problems(session, context.release.dataset)


def _as_read(context: ReleaseContext[Any]) -> list[str]:
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        return find_content_problems(session, context.custody, context.release.dataset)


def _structure(context: ReleaseContext[Any]) -> list[str]:
    if _is_checked(context):
        return []
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        return [str(finding) for finding in structure_findings(structure_offenders(session, context.release.dataset))]


def _charge(context: ReleaseContext[Any]) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = context.method.describe(session, context.custody)
        entry = context.reading.find_reservation(draw.draw_id)
        if entry is None:
            return [f"no ledger entry for draw {draw.draw_id}"]
        if withdrawn := context.reading.find_withdrawal(draw.draw_id):
            return [f"the draw was withdrawn in ledger entry {withdrawn.sequence}"]
        if not entry.parse_specification().protects_like(draw.specification):
            return [f"ledger entry {entry.sequence} was made for another DP specification"]
        if (entry.dataset, entry.release) != (release.dataset.name, release.name):
            return [f"ledger entry {entry.sequence} belongs to {entry.dataset}/{entry.release}"]
        if entry.parse_details().population != release.dataset.population:
            return [f"ledger entry {entry.sequence} was charged to population {entry.parse_details().population}"]
        if release.dataset.public and entry.parse_details().public != release.dataset.source:
            return [f"ledger entry {entry.sequence} is a draw from records of another source than is declared"]
        if release.dataset.synthetic and entry.parse_details().synthetic is False:
            return [f"ledger entry {entry.sequence} is a draw from confidential records, not from synthetic ones"]
        recipe = charge_recipe(session, charge_facts(context.method, draw, entry))
        return differing_table(session, release.public(CHARGE), recipe)


def _ledger_intact(context: ReleaseContext[Any]) -> list[str]:
    # As the gate takes the ledger itself, its verdict is not kept, which would miss editions published since.
    ledger, reading = context.ledger, context.reading
    if reading.problems:
        return list(reading.problems)
    editions = signature.list_signed(context.release.published, signature.public_key(context.custody))
    if not signature.find_set_back(editions, reading.entries):
        return []
    # Other processes may have charged and published since the reading.
    return signature.find_set_back(editions, ledger.read().entries)


def _settled(context: ReleaseContext[Any]) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = context.method.describe(session, context.custody)
        settled = context.reading.find_settlement(draw.draw_id)
        if settled is None:
            return [f"draw {draw.draw_id} is not settled"]
        if not context.method.is_settled_as(session, draw, settled.output_version):
            return [f"the stored output is not the one that ledger entry {settled.sequence} settled"]
    return []


def _replay(context: ReleaseContext[Any]) -> list[str]:
    method = context.method
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw = method.describe(session, context.custody)
        entry, settled = context.reading.find_reservation(draw.draw_id), context.reading.find_settlement(draw.draw_id)
        if entry is None:
            return [f"draw {draw.draw_id} is not charged, so it cannot be repeated"]
        # A kept verdict does not show that the key still exists.
        key = open_charged_key(method, draw, context.custody, context.ledger)
        again, verdicts = settled.output_version if settled else None, context.verdicts
        # The draw id covers the exact counts; `counts_as_charged` checks that the stored counts are the same.
        if not (verdicts and verdicts.holds(REPLAY, draw.draw_id, entry.commitment, again)):
            again = method.repeat(session, draw, key, context.custody, verdicts, entry.commitment)
            if verdicts:
                verdicts.keep(REPLAY, draw.draw_id, entry.commitment, again)
        if again == method.stored_version(session, draw):
            return []
        # Until this draw is made, the stored output belongs to an earlier draw.
        return ["the repeated draw gives another output" if settled else f"draw {draw.draw_id} was not made yet"]


def _key_gone(context: ReleaseContext[Any]) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw_id = context.method.describe(session, context.custody).draw_id
    custody, finished = context.custody, finished_draws(context.reading.entries)
    # A process of another release may have been killed between the settlement and the deletion. The next charge or draw
    # would delete the key, but this gate need not wait for one.
    keys = custody.list_keys()
    if draw_id not in keys and not finished.isdisjoint(keys):
        context.ledger.forget_keys()
        keys = custody.list_keys()
    return [f"the key of draw {kept} still exists" for kept in sorted((finished | {draw_id}) & keys)]
