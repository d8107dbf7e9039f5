"""The swapped data: drawn from the records, stored as codes, and decoded to values."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from assets.release.draw import Draw, StaleInputError
from assets.swapping.draw import SwappingInputs, strata_of_records
from assets.swapping.records import (
    HOLDING,
    SWAPPING,
    as_contingency,
    cells_version,
    codebooks,
    holding_table,
    margin_statements,
    read_contingency,
    stage_records,
)
from assets.swapping.release import SwappingRelease
from assets.swapping.stirs import Stirring, stirring, stored_stirring
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.permutation import Contingency, permute, stir
from resources.custody import Custody
from resources.statements import Fragment, Table
from resources.warehouse import Session

SWAPPED, CELLS = "swapped", "swapped_cells"
MECHANISM = "permutation swapping"
DRAW_NUMBER = "draw_number"

_ROWS_OF_BATCH = 122_880
"""The number of rows of one of DuckDB's row groups."""

_OTHER_STRATA = (
    "{release}: the charge was computed for other strata than those of the records; materialize invariants and charge "
    "again"
)


def write_cells(session: Session, release: SwappingRelease, cells: Contingency) -> None:
    session.create(release.public(CELLS), "warehouse/all", source=session.register("drawn", _columns(cells)))
    session.create_view(
        release.public(SWAPPED), "swapping/decoded", cells=release.public(CELLS), **_value_columns(release)
    )


def drawn_cells(
    session: Session, release: SwappingRelease, draw: Draw[SwappingInputs], key: bytes, custody: Custody
) -> Contingency:
    """The draw's output, computed from the confidential records and the draw's key.

    Raises:
        StaleInputError: if the CEF has changed since the invariants were computed, or the loss that was charged does
            not follow from the records.
    """
    records = read_contingency(session, release, stage_records(session, release))
    with ThreadPoolExecutor(1) as beside:
        version = beside.submit(cells_version, records, release.version_key(custody))
        drawn = _swapped(session, release, draw, key, records)
        if version.result() != draw.inputs.versions["records"]:
            raise StaleInputError(
                f"{release.schema}: the CEF has changed since the invariants were computed; materialize them again"
            )
    if drawn is None:
        raise StaleInputError(_OTHER_STRATA.format(release=release.schema))
    return drawn


def _swapped(
    session: Session, release: SwappingRelease, draw: Draw[SwappingInputs], key: bytes, records: Contingency
) -> Contingency | None:
    """The swapped records; None if the loss that was charged does not follow from the records."""
    design = release.design
    if design.plain_rate is not None:
        if strata_of_records(records) != (draw.inputs.strata, draw.inputs.largest_stratum):
            return None
        return permute(records, design.plain_rate, RandomStream(key, MECHANISM))
    found = stored_stirring(session, release)
    if not _margins_agree(session, release, records) or found.losses != draw.inputs.losses:
        return None
    return stir(
        records,
        found.of_cells(records, release),
        [RandomStream(key, f"{MECHANISM} {number}") for number, _ in enumerate(found.stirs, start=1)],
        design.noise,
        RandomStream(key, f"{MECHANISM} noise before") if design.noise else None,
    )


def _margins_agree(session: Session, release: SwappingRelease, records: Contingency) -> bool:
    """Whether the stored margins count the records as they are: all codes, each as often."""
    margins = [(SWAPPING, "swap_code", records.swap)]
    if not release.design.noise:
        margins.append((HOLDING, "holding_code", records.holding))
    for margin, code, codes in margins:
        stored = session.arrow("swapping/counts_by_code", margin=release.public(margin), code=code)["count"].to_numpy()
        counted = np.zeros(len(stored), dtype=np.int64)
        np.add.at(counted, codes, records.count)
        if not np.array_equal(counted, stored):
            return False
    return True


def stirring_of_records(session: Session, release: SwappingRelease, records: Fragment | Table) -> Stirring:
    """The stirs that follow from the confidential records alone."""
    margins = {
        table: session.stage(f"margin_of_{table}", "swapping/margin", **names)
        for table, names in margin_statements(release, records).items()
    }
    # Noise leaves the holding margin out, and nothing of it is read.
    return stirring(session, release, margins.get(HOLDING, margins[SWAPPING]), margins[SWAPPING])


def swapped_version(inputs: SwappingInputs, cells: Contingency) -> str:
    """The content hash of swapped data: of the codes and of the codebooks that define them."""
    parts = "\n".join([inputs.versions["holding"], inputs.versions["swap"], cells_version(cells, None)])
    return sha256(parts.encode()).hexdigest()


def read_version(session: Session, release: SwappingRelease, inputs: SwappingInputs) -> str | None:
    """The content hash of the stored swapped data; None if they are missing or not a valid contingency table."""
    if not session.columns(release.public(CELLS)):
        return None
    cells = session.arrow("swapping/stored_cells", cells=release.public(CELLS), holding=holding_table(release))
    try:
        return swapped_version(inputs, as_contingency(cells))
    except ValueError:
        return None


def stage_decoded(
    session: Session,
    release: SwappingRelease,
    table: Contingency,
    name: str,
    margins: Mapping[str, Fragment] | None = None,
) -> Fragment:
    """Decode a contingency table into a temporary table of values, with staged margins in place of the stored ones."""
    names = _value_columns(release) | dict(margins or {})
    return session.stage(name, "swapping/decoded", cells=session.register("cells", _columns(table)), **names)


def stage_drawn(session: Session, release: SwappingRelease, tables: Sequence[Contingency], name: str) -> Fragment:
    """Decode contingency tables into one temporary table of values, with the position of each in `draw_number`."""
    columns = [
        _columns(table).append_column(DRAW_NUMBER, pa.array(np.full(len(table.count), number, dtype=np.int32)))
        for number, table in enumerate(tables)
    ]
    names = _value_columns(release) | {"kept": [DRAW_NUMBER, "holding_code"]}
    return session.stage(
        name, "swapping/decoded", cells=session.register("cells_of_draws", pa.concat_tables(columns)), **names
    )


def stage_stored(session: Session, release: SwappingRelease, name: str) -> Fragment:
    return session.stage(name, "swapping/decoded", cells=release.public(CELLS), **_value_columns(release))


def _columns(table: Contingency) -> pa.Table:
    columns = pa.table({"holding_code": table.holding, "swap_code": table.swap, "count": table.count})
    # DuckDB reads batches side by side.
    return pa.Table.from_batches(columns.to_batches(_ROWS_OF_BATCH), columns.schema)


def _value_columns(release: SwappingRelease) -> dict[str, Any]:
    return codebooks(release) | {
        "holding_variables": list(release.design.holding),
        "swap_variables": list(release.design.swap),
        "kept": ["holding_code"],
    }
