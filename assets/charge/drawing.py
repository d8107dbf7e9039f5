"""Making a draw that was charged, whatever its mechanism: once, and again only to the same end.

Here belongs the order of the steps: charge found, drawn, written, settled, key thrown away. What is drawn belongs with
the mechanism.
"""

from typing import Any

from assets.release.draw import Draw
from assets.release.method import Method
from assets.release.release import Release
from mechanisms.accounting.composition import stated
from resources.chain import Entry
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Zone
from resources.warehouse import Session, Warehouse


class UnchargedDrawError(Exception):
    """A draw was asked for that the ledger holds no charge for."""


class ReplayError(Exception):
    """A draw made again did not give what it gave before."""


def make_draw(
    method: Method[Any, Any], warehouse: Warehouse, custody: Custody, ledger: Ledger
) -> tuple[Draw, Entry, str]:
    """Draw, write and settle; or find that the draw was settled and its output is still there.

    Returns:
        The draw, its reservation, and the content hash of the output.

    Raises:
        UnchargedDrawError: if the ledger holds no reservation for exactly these inputs and parameters.
        StaleInputError: if the confidential input is not the one that was charged.
        CustodyError: if the draw's key is gone and its output too.
        ReplayError: if a settled draw gives another output than before; then nothing is written.
    """
    with warehouse.session(reads=method.draws_from, writes=Zone.PUBLIC) as session:
        draw = method.describe(session, custody)
        entry, settled = require_charge(method, draw, ledger), ledger.settlement(draw.draw_id)
        version = method.stored_version(session, draw)
        if version is None or settled is None or settled.output_version != version:
            output = make_again(method, session, draw, custody, ledger)
            version = method.version_of(draw, output)
            if settled and settled.output_version != version:
                release = method.release.schema
                raise ReplayError(
                    f"{release}: draw {draw.draw_id} gives another output than the one it was settled with"
                )
            with session.transaction():
                method.write(session, draw, output)
    ledger.settle(draw.draw_id, version)
    custody.forget(draw.draw_id)
    return draw, entry, version


def require_charge(method: Method[Any, Any], draw: Draw, ledger: Ledger) -> Entry:
    """The reservation of a draw.

    Raises:
        UnchargedDrawError: if the ledger holds none for exactly these inputs and parameters.
    """
    entry = ledger.reservation(draw.draw_id)
    if entry is None:
        raise UnchargedDrawError(
            f"{method.release.schema}: the ledger holds no charge for these inputs and parameters "
            f"(draw {draw.draw_id}); materialize the asset charge first"
        )
    return entry


def make_again(method: Method[Any, Any], session: Session, draw: Draw, custody: Custody, ledger: Ledger) -> Any:
    """The output of a draw that is charged, from the confidential input and the draw's key.

    Raises:
        UnchargedDrawError: if the ledger holds no reservation for exactly these inputs and parameters.
        StaleInputError: if the confidential input is not the one that was charged.
        CustodyError: if the draw's key is gone.
    """
    require_charge(method, draw, ledger)
    return method.make(session, draw, custody)


def draw_metadata(release: Release, draw: Draw, entry: Entry) -> dict[str, str | int]:
    """What a drawing asset shows of its draw."""
    return {
        "draw id": draw.draw_id,
        "randomness commitment": entry.commitment,
        "ledger entry": entry.sequence,
        "loss": stated(draw.specification.loss, 6),
        "custody": release.custody.value,
    }
