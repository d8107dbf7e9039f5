"""The asset `noisy_measurements_of_states` of a TopDown release with partitions: the draw below each state.

Each state has its own run, which draws the streams of the state and stores their answers in a table. A single charge
precedes all draws, and together the runs draw the same answers as one run would. The stage `charge` records under a
seal the draw and digests of the places and exact counts of each state, so that a state's run reads and compares only
its own state. A sealed account names the draw of a table, with the hash of each stream's answers. The stage
`noisy_measurements` takes these hashes, draws the rest, and settles the version of all measurements; it refuses to run
if a state is missing or stale. The gate `settled` therefore finds an altered table, and the state's next run makes it
again.
"""

import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256

import dagster as dg
import pyarrow as pa

from assets.charge.drawing import open_charged_key, require_charge, writing_parts
from assets.conventions import StageKind, list_some, public_table_metadata, shorten_digest
from assets.measurement.method import ExactCounts, GridError
from assets.release.account import read_account, store_account
from assets.release.draw import Draw, Inputs, StaleInputError
from assets.release.gate import find_verdicts
from assets.release.method import CHARGE, DRAW
from assets.release.seal import is_sealed, store_sealed
from assets.release.stage import release_stage
from assets.stages import name_partition
from assets.topdown.drawing import Drawing
from assets.topdown.histograms import read_counts
from assets.topdown.measurements import are_as_read, measurements_table, read_streams, store_measurements
from assets.topdown.partitions import require_state, state_partitions
from assets.topdown.release import HISTOGRAMS, MEASUREMENTS_OF_STATES, TEXTS, TopDownRelease
from assets.topdown.spine import find_ranges, read_states, read_tree, require_tree_of_the_cef
from assets.topdown.sums import store_sums
from mechanisms.topdown.design import SCHEMAS
from resources.chain import canonicalize
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Zone
from resources.warehouse import Session, Warehouse

CHARGED = "charged_states"
"""The table of the inputs of the charged draw, for each state."""

REPEATED = "replay"
"""The name of the verdict that repeating the draw of a state gives its stored answers."""

_PLACES_AT_A_TIME = 2**17

TopDown = ExactCounts[TopDownRelease, Drawing]


@dataclass(frozen=True)
class Charged:
    """The inputs of a state's part of a draw.

    Attributes:
        declared: a digest of the parts of the draw that follow from the declaration.
        content: the keyed digest of the places and the exact counts of the state.
    """

    draw_id: str
    declared: str
    state: str
    content: str


@dataclass(frozen=True)
class Measured:
    """The account of the stored measurements below a state: their draw, and the SHA-256 of the answers of each stream,
    as JSON by label."""

    draw_id: str
    answers: str


def build_measured(method: TopDown) -> dg.AssetsDefinition:
    release = method.release

    @release_stage(
        release,
        MEASUREMENTS_OF_STATES,
        StageKind.DRAW,
        TEXTS("measurements of a state"),
        [HISTOGRAMS, CHARGE],
        kinds={"duckdb", "numba"},
        **state_partitions(release).options,
    )
    def measured(
        context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody, ledger: Ledger
    ) -> dg.MaterializeResult:
        state = name_partition(context)
        made = measure_state(method, release.adapt(warehouse), custody, ledger, state)
        if release.can_replay:
            keep_repeated(method, release.adapt(warehouse), custody, ledger, state)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            shown = public_table_metadata(session, measurements_table(release, state))
        version = sha256(made.answers.encode()).hexdigest()
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version), metadata={**shown, DRAW: shorten_digest(made.draw_id)}
        )

    return measured


def keep_charged(method: TopDown, warehouse: Warehouse, custody: Custody) -> list[str]:
    """Record the inputs of the current draw for each state; return the states' codes.

    Raises StaleInputError if the exact counts do not match the draw, and SpineError if the places do not match the CEF.
    """
    release = method.release
    with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        method.hold_charged(session)
        draw, states = method.describe(session, custody), read_states(session, release)
        method.require_counted(session, draw, custody)
        require_tree_of_the_cef(session, release)
        declared = _hash_declared(method)
        rows = [
            vars(Charged(draw.draw_id, declared, state, _hash_state(session, custody, release, state)))
            for state in states
        ]
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        table, charged = release.public(CHARGED), pa.Table.from_pylist(rows)
        store_sealed(session, custody, release.schema, CHARGED, table, charged)
    return states


def measure_state(method: TopDown, warehouse: Warehouse, custody: Custody, ledger: Ledger, state: str) -> Measured:
    """Draw and store the measurements below a state, unless they are already stored.

    Raises:
        PartitionError: if there is no such state.
        UnchargedDrawError, CustodyError: as `assets.charge.drawing.open_charged_key`.
        StaleInputError: if the places or exact counts of the state, or the declaration, have changed since the charge,
            or if the charge is made anew meanwhile.
        WarehouseError: if the parts cannot be written.
    """
    release = method.release
    with warehouse.private_folder() as folder:
        with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
            require_state(session, release, state)
            charged = _require_charged(session, custody, method, state)
            draw = Draw(charged.draw_id, release.specification, Inputs({}))
            require_charge(method, draw, ledger.read())
            stored = _read_measured(session, custody, release, state)
            if stored and stored.draw_id == draw.draw_id and _is_stored(session, release, stored, state):
                return stored
            ledger.confirm()
            drawing = Drawing(release, session, open_charged_key(method, draw, custody, ledger))
            with writing_parts(folder):
                drawing = drawing.of_state(draw.draw_id, folder, custody, state)
        made = Measured(draw.draw_id, json.dumps(drawing.answers))
        with warehouse.session(writes=Zone.PUBLIC, folder=folder) as session:
            if _read_charged(session, custody, release, state) != charged:
                raise StaleInputError(
                    f"{release.schema}: another draw was charged while {state} was measured; nothing was stored; "
                    f"materialize {MEASUREMENTS_OF_STATES} again"
                )
            with session.transaction():
                store_measurements(session, release, drawing.files, state)
                store_sums(session, custody, release, drawing.account, drawing.sums, state)
                store_account(session, custody, measurements_table(release, state), made)
    return made


def keep_repeated(method: TopDown, warehouse: Warehouse, custody: Custody, ledger: Ledger, state: str) -> None:
    """Repeat the draw of a state. If it gives the stored answers, keep this verdict for the gate `replay`, which then
    repeats only the other states.

    Raises UnchargedDrawError, CustodyError and StaleInputError as `measure_state`.
    """
    release, verdicts = method.release, find_verdicts(method, custody).of_part(state)
    with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        made = _read_measured(session, custody, release, state)
        entry = ledger.read().find_reservation(made.draw_id) if made else None
        if made is None or entry is None or verdicts.holds(REPEATED, made.draw_id, entry.commitment, made.answers):
            return
        charged = _require_charged(session, custody, method, state)
        draw = Draw(charged.draw_id, release.specification, Inputs({}))
        again = Drawing(release, session, open_charged_key(method, draw, custody, ledger)).repeat_state(state)
        if json.loads(made.answers) == again:
            verdicts.keep(REPEATED, draw.draw_id, entry.commitment, made.answers)


def find_repeated(
    session: Session,
    custody: Custody,
    release: TopDownRelease,
    draw_id: str,
    holds: Callable[[str, str], bool],
) -> dict[str, str]:
    """By label, the SHA-256 of the answers of each stream whose repetition is verified. `holds` takes a state's code
    and the account of its answers."""
    repeated = dict[str, str]()
    for state in read_states(session, release):
        made = _read_measured(session, custody, release, state)
        if made and made.draw_id == draw_id and holds(state, made.answers):
            repeated |= json.loads(made.answers)
    return repeated


def take_states(session: Session, custody: Custody, release: TopDownRelease, draw_id: str) -> Mapping[str, str]:
    """By label, the SHA-256 of the answers of each stream drawn by a state's run.

    Raises StaleInputError if the answers of a state are missing, or not of this draw.
    """
    taken, missing = dict[str, str](), list[str]()
    for state in read_states(session, release):
        made = _read_measured(session, custody, release, state)
        if made is None or made.draw_id != draw_id:
            missing.append(state)
        else:
            taken |= json.loads(made.answers)
    if missing or taken.keys() != {stream.label for stream in read_streams(session, release) if stream.state}:
        raise StaleInputError(
            f"{release.schema}: the measurements below {len(missing):,} states are missing, or not of this draw "
            f"({list_some(missing)}); materialize these partitions of {MEASUREMENTS_OF_STATES} first"
        )
    return taken


def _require_charged(session: Session, custody: Custody, method: TopDown, state: str) -> Charged:
    """The inputs of a state's part of the draw. Raises StaleInputError if any has changed since the charge."""
    charged = _read_charged(session, custody, method.release, state)
    if (
        charged is None
        or charged.declared != _hash_declared(method)
        or charged.content != _hash_state(session, custody, method.release, state)
    ):
        raise StaleInputError(
            f"{method.release.schema}: the places or counts of {state}, or the declaration, have changed since the "
            f"charge; materialize {CHARGE} again"
        )
    return charged


def _hash_declared(method: TopDown) -> str:
    return sha256(canonicalize(method.describe_declared())).hexdigest()


def _hash_state(session: Session, custody: Custody, release: TopDownRelease, state: str) -> str:
    """The keyed digest of the places of a state and their exact counts, to which the noise is added."""
    (depth, ranges), tree = find_ranges(session, release, state), read_tree(session, release)
    digest = hmac.new(release.version_key(custody), json.dumps([state, ranges]).encode(), sha256)
    for parents, (first, last) in zip(tree.parents[depth:], ranges[1:], strict=True):
        digest.update(parents[first:last].astype("<i8").data)
    (first, last), counted = ranges[-1], release.confidential(HISTOGRAMS)
    for histogram, schema in SCHEMAS.items():
        for begin in range(first, last, _PLACES_AT_A_TIME):
            end = min(begin + _PLACES_AT_A_TIME, last)
            counts = read_counts(session, counted, schema.size, begin, end, histogram=histogram)
            digest.update(json.dumps([histogram, begin, len(counts.count)]).encode())
            for numbers in (counts.number, counts.cell, counts.count):
                digest.update(numbers.astype("<i8").data)
    return digest.hexdigest()


def _read_charged(session: Session, custody: Custody, release: TopDownRelease, state: str) -> Charged | None:
    """The recorded inputs of a state's part of the draw; None if they were not recorded, or were altered."""
    table = release.public(CHARGED)
    # In a lake, another writer could otherwise make these counts be drawn with the noise of an earlier draw.
    session.hold([table])
    if not is_sealed(session, custody, release.schema, CHARGED, [table]):
        return None
    rows = [Charged(*row) for row in session.rows("warehouse/all", source=table)]
    return next((row for row in rows if row.state == state), None)


def _read_measured(session: Session, custody: Custody, release: TopDownRelease, state: str) -> Measured | None:
    """The account of the measurements of a state, which may have been altered since; None if there are none."""
    table = measurements_table(release, state)
    return read_account(session, custody, table, Measured) if session.columns(table) else None


def _is_stored(session: Session, release: TopDownRelease, measured: Measured, state: str) -> bool:
    try:
        return are_as_read(session, release, measured.answers, state)
    except GridError:
        return False
