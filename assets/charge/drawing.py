"""The draw of any mechanism: made only after it is charged, and repeated only with the same result.

The steps are: find the charge, draw, write, and settle, which deletes an ephemeral key. The mechanism makes the output.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg

from assets.conventions import DRAW_ID, StageKind, group_digits, public_table_metadata, shorten_digest, table_schema
from assets.release.draw import Draw, Inputs, StaleInputError, label_draw
from assets.release.method import CHARGE, DRAW, Method
from assets.release.stage import COLUMN_SCHEMA, release_stage
from mechanisms.accounting.losses import format_loss
from mechanisms.refusal import RefusedError
from resources.chain import Entry
from resources.custody import Custody
from resources.faults import name_error
from resources.ledger import Ledger, Reading
from resources.statements import Zone
from resources.storage import WarehouseError
from resources.warehouse import Session, Warehouse


class UnchargedDrawError(RefusedError):
    """The ledger holds no charge for the requested draw."""


class ReplayError(RefusedError):
    """A repeated draw did not give the same output as before."""


def build_draw(method: Method[Any, Any, Any]) -> dg.AssetsDefinition:
    """The asset `[dataset, release, <draw stage>]`."""
    release = method.release

    @release_stage(
        release,
        method.draw_stage,
        StageKind.DRAW,
        _description(method),
        [*method.draw_follows, CHARGE],
        kinds=method.draw_kinds,
    )
    def drawn(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        draw, entry, version = make_draw(method, release.adapt(warehouse), custody, ledger)
        table = release.public(method.drawn_table)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            metadata = {
                "loss": format_loss(draw.specification.loss),
                "ledger entry": str(entry.sequence),
                "custody": release.custody.value,
                DRAW: shorten_digest(draw.draw_id),
                COLUMN_SCHEMA: table_schema(session.columns(table), method.drawn_columns),
                **method.draw_metadata(session),
                DRAW_ID: group_digits(draw.draw_id),
                "randomness commitment": group_digits(entry.commitment),
                **public_table_metadata(session, table),
            }
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=metadata)

    return drawn


def make_draw(
    method: Method[Any, Any, Any], warehouse: Warehouse, custody: Custody, ledger: Ledger
) -> tuple[Draw[Inputs], Entry, str]:
    """Draw, write and settle, unless the draw is settled and its output is still stored.

    If the method draws in parts, the public zone is open for writing only while the finished parts are stored.

    Returns:
        The draw, its reservation, and the content hash of the output.

    Raises:
        UnchargedDrawError: if the ledger holds no reservation for exactly these inputs and parameters.
        StaleInputError: if the confidential input has changed since the charge.
        CustodyError: if the draw's key does not match the commitment, or both the key and the output are gone.
        ReplayError: if a settled draw gives another output than before; the new output is not written.
        WarehouseError: if the key is ephemeral and the stored output is not the drawn one; the key is kept.
    """
    ledger.forget_keys()
    draw_in = _draw_in_parts if method.draws_in_parts else _draw_in_session
    draw, entry, version = draw_in(method, warehouse, custody, ledger)
    ledger.settle(draw.draw_id, version)
    return draw, entry, version


def _draw_in_session(
    method: Method[Any, Any, Any], warehouse: Warehouse, custody: Custody, ledger: Ledger
) -> tuple[Draw[Inputs], Entry, str]:
    with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
        draw, entry, settled, stored = _find_draw(method, session, custody, ledger)
        if stored:
            return draw, entry, stored
        output = make_output(method, session, draw, custody, ledger)
        return draw, entry, _write(method, session, draw, output, settled)


def _draw_in_parts(
    method: Method[Any, Any, Any], warehouse: Warehouse, custody: Custody, ledger: Ledger
) -> tuple[Draw[Inputs], Entry, str]:
    """Draw in a session that only reads, and store in another."""
    with warehouse.private_folder() as folder:
        with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
            draw, entry, settled, stored = _find_draw(method, session, custody, ledger)
            if stored:
                return draw, entry, stored
            output = make_output(method, session, draw, custody, ledger)
            with writing_parts(folder):
                output = method.in_parts(draw, output, folder, custody)
        with warehouse.session(writes=Zone.PUBLIC, folder=folder) as session:
            if method.describe(session, custody).draw_id != draw.draw_id:
                raise StaleInputError(
                    f"{method.release.schema}: an input of the draw was replaced during the draw; nothing was "
                    f"stored; materialize {CHARGE} again"
                )
            return draw, entry, _write(method, session, draw, output, settled)


@contextmanager
def writing_parts(folder: Path) -> Iterator[None]:
    """Replace an OSError by one that explains that parts of an output cannot be written."""
    try:
        yield
    except OSError as error:
        problem = error.strerror or name_error(error)
        raise WarehouseError(f"{folder} cannot be written ({problem}); nothing was stored") from None


def _find_draw(
    method: Method[Any, Any, Any], session: Session, custody: Custody, ledger: Ledger
) -> tuple[Draw[Inputs], Entry, Entry | None, str | None]:
    """The draw, its reservation, its settlement, and the version of its stored output if that is the settled output."""
    method.hold_charged(session)
    draw = method.describe(session, custody)
    reading = ledger.read()
    entry, settled = require_charge(method, draw, reading), reading.find_settlement(draw.draw_id)
    ledger.confirm()
    stored = settled.output_version if settled else None
    return draw, entry, settled, stored if method.is_settled_as(session, draw, stored) else None


def _write(
    method: Method[Any, Any, Any], session: Session, draw: Draw[Inputs], output: Any, settled: Entry | None
) -> str:
    """Store and label an output in one transaction; return its version, the settled one if there is one. Raises errors
    as `make_draw`."""
    with session.transaction():
        version = method.write(session, draw, output)
        known = (settled and settled.output_version) or version
        if known != version and known != method.read_earlier_version(session, draw):
            raise ReplayError(
                f"{method.release.schema}: draw {draw.draw_id} gives another output than the one that was settled; if "
                "this software was changed since, the version before makes the draw again"
            )
        label_draw(session, method.release, draw)
    # An escrowed draw can always be repeated, and the gate `replay` repeats it.
    if not method.release.can_replay and method.stored_version(session, draw) != version:
        raise WarehouseError(
            f"{method.release.schema}: the stored output differs from the draw; the draw is not settled, and its key "
            "is kept"
        )
    return known


def require_charge(method: Method[Any, Any, Any], draw: Draw[Inputs], reading: Reading) -> Entry:
    """The reservation of a draw.

    Raises:
        UnchargedDrawError: if the ledger holds no reservation for exactly these inputs and parameters, or the draw was
            withdrawn.
    """
    entry = reading.find_reservation(draw.draw_id)
    if entry is None:
        raise UnchargedDrawError(
            f"{method.release.schema}: the ledger holds no charge for these inputs and parameters "
            f"(draw {draw.draw_id}); materialize the asset charge first"
        )
    if withdrawn := reading.find_withdrawal(draw.draw_id):
        raise UnchargedDrawError(
            f"{method.release.schema}: draw {draw.draw_id} was withdrawn in ledger entry {withdrawn.sequence} and is "
            "never made again; a release under a new name is a new draw, with a new charge"
        )
    if not entry.parse_specification().protects_like(draw.specification):
        raise UnchargedDrawError(
            f"{method.release.schema}: ledger entry {entry.sequence} reserved another loss for draw {draw.draw_id} "
            "than the one that follows from its inputs"
        )
    return entry


def make_output(
    method: Method[Any, Any, Any], session: Session, draw: Draw[Inputs], custody: Custody, ledger: Ledger
) -> Any:
    """The output of a charged draw, computed from the confidential input and the draw's key.

    Raises:
        UnchargedDrawError, CustodyError: as `open_charged_key`.
        StaleInputError: if the confidential input has changed since the charge.
    """
    return method.make(session, draw, open_charged_key(method, draw, custody, ledger), custody)


def open_charged_key(method: Method[Any, Any, Any], draw: Draw[Inputs], custody: Custody, ledger: Ledger) -> bytes:
    """The key of a charged draw.

    The key of a draw is opened only here. It must match the commitment in the draw's reservation.

    Raises:
        UnchargedDrawError: if the ledger holds no reservation for exactly these inputs and parameters.
        CustodyError: if the draw's key is gone, or does not match the commitment.
    """
    entry = require_charge(method, draw, ledger.read())
    return custody.open_key(draw.draw_id, method.release.custody, entry.commitment)


def _description(method: Method[Any, Any, Any]) -> str:
    randomness = (
        "The random stream is AES-256-CTR under a key that serves this draw alone. Sampling is exact: no probability "
        f"depends on floating-point arithmetic. Custody is {method.release.custody.value}. "
    )
    return (
        f"{method.draw_description()}\n\n{randomness if method.is_random else ''}"
        "The stage refuses to run without the charge for exactly these inputs and parameters."
    )
