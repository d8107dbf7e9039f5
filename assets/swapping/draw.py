"""The draw: its public inputs, and the swapped data, drawn from the records, stored as codes and decoded to values."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from assets.release.draw import Draw, Inputs, StaleInputError, read_published_version
from assets.swapping.invariants import UniqueRecords, count_strata, stored_unique
from assets.swapping.records import (
    CEF_CHANGED,
    HOLDING,
    RECORDS,
    SWAPPING,
    cells_version,
    codebooks,
    holding_table,
    read_contingency,
    stage_records,
    stored_stirring,
)
from assets.swapping.release import SwappingRelease
from mechanisms.accounting.losses import PureLoss
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.design import SwapLosses
from mechanisms.swapping.permutation import Contingency, measure_strata, permute, stir
from mechanisms.swapping.uncertainty import Moved, moved
from resources.custody import Custody
from resources.statements import Fragment, Table
from resources.warehouse import Session

SWAPPED, CELLS = "swapped", "swapped_cells"
MECHANISM = "permutation swapping"

_ROWS_OF_BATCH = 122_880
"""The number of rows of one of DuckDB's row groups."""


@dataclass(frozen=True)
class SwappingInputs(Inputs):
    """The inputs of a swap, with versions of the `records` and of the margins that number `holding` and `swap` values.

    Attributes:
        largest_stratum: b, the size of the largest stratum with two distinct records; 0 if there is none.
        losses: the losses, if they do not follow from b and a single rate; None for a plain swap.
    """

    strata: int
    largest_stratum: int
    unique: UniqueRecords
    moved: Moved
    losses: SwapLosses | None = None

    @property
    def loss(self) -> int | PureLoss:
        """The value that determines the specification's loss: b of a plain swap, or the charged loss."""
        return self.largest_stratum if self.losses is None else self.losses.charged


def read_inputs(session: Session, release: SwappingRelease, version_key: bytes) -> SwappingInputs:
    """The inputs from the stored tables. All versions are keyed."""
    versions = {
        "records": read_published_version(session, release.public(RECORDS)),
        "holding": session.content_version([holding_table(release)], version_key),
        "swap": session.content_version([release.public(SWAPPING)], version_key),
    }
    swap_rate = release.design.plain_rate
    if swap_rate is None:
        stirring = stored_stirring(session, release)
        first, (selected, *again) = stirring.losses.first, stirring.selected
        unique = stored_unique(session, release)
        share = Moved(selected, None, *again)
        return SwappingInputs(versions, first.strata, first.largest_stratum, unique, share, stirring.losses)
    sizes = session.arrow("swapping/stratum_sizes", swapping=release.public(SWAPPING))
    records, squares, strata = (sizes[name].to_numpy() for name in ("records", "squares", "strata"))
    share = moved(records, squares, strata, swap_rate)
    return SwappingInputs(versions, *count_strata(session, release), stored_unique(session, release), share)


def draw_cells(
    session: Session, release: SwappingRelease, draw: Draw[SwappingInputs], key: bytes, custody: Custody
) -> Contingency:
    """The draw's output. Raises StaleInputError if the CEF has changed, or does not give the charged loss."""
    records = read_contingency(session, release, stage_records(session, release))
    with ThreadPoolExecutor(1) as executor:
        version = executor.submit(cells_version, records, release.version_key(custody))
        cells = _swap(session, release, draw.inputs, key, records)
        if version.result() != draw.inputs.versions["records"]:
            raise StaleInputError(CEF_CHANGED.format(release=release.schema))
    if cells is None:
        raise StaleInputError(
            f"{release.schema}: the charge was computed for other strata than the records have; materialize "
            "invariants and charge again"
        )
    return cells


def _swap(
    session: Session, release: SwappingRelease, inputs: SwappingInputs, key: bytes, records: Contingency
) -> Contingency | None:
    """The swapped records; None if the records do not give the charged loss."""
    design = release.design
    if design.plain_rate is not None:
        if measure_strata(records) != (inputs.strata, inputs.largest_stratum):
            return None
        return permute(records, design.plain_rate, RandomStream(key, MECHANISM))
    stirring = stored_stirring(session, release)
    if not _margins_agree(session, release, records) or stirring.losses != inputs.losses:
        return None
    groups = records.stratum if design.noise else records.holding
    stirs = [of_groups.of_groups(groups) for of_groups in stirring.stirs]
    streams = [RandomStream(key, f"{MECHANISM} {number}") for number, _ in enumerate(stirs, start=1)]
    noise = RandomStream(key, f"{MECHANISM} noise before") if design.noise else None
    return stir(records, stirs, streams, design.noise, noise)


def _margins_agree(session: Session, release: SwappingRelease, records: Contingency) -> bool:
    """Whether the stored margins have the same codes as the records, with the same counts."""
    margins = [(SWAPPING, "swap_code", records.swap)]
    if not release.design.noise:
        margins.append((HOLDING, "holding_code", records.holding))
    for margin, code, codes in margins:
        stored = session.arrow("swapping/counts_by_code", margin=release.public(margin), code=code)["count"].to_numpy()
        counts = np.zeros(len(stored), dtype=np.int64)
        np.add.at(counts, codes, records.count)
        if not np.array_equal(counts, stored):
            return False
    return True


def write_cells(session: Session, release: SwappingRelease, cells: Contingency) -> None:
    session.create(release.public(CELLS), "warehouse/all", source=session.register("drawn", cells_table(cells)))
    names = decoding_names(release, release.public(CELLS))
    session.create_view(release.public(SWAPPED), "swapping/decoded", **names)


def swapped_version(inputs: SwappingInputs, cells: Contingency) -> str:
    """The content hash of swapped data: their codes, and the codebooks that define these."""
    parts = "\n".join([inputs.versions["holding"], inputs.versions["swap"], cells_version(cells, None)])
    return sha256(parts.encode()).hexdigest()


def read_version(session: Session, release: SwappingRelease, inputs: SwappingInputs) -> str | None:
    """The content hash of the stored swapped data; None if they are missing or not a valid contingency table."""
    if not session.columns(release.public(CELLS)):
        return None
    cells = session.arrow("swapping/stored_cells", cells=release.public(CELLS), holding=holding_table(release))
    try:
        return swapped_version(inputs, Contingency(*(column.to_numpy() for column in cells.columns)))
    except ValueError:
        return None


def stage_decoded(
    session: Session, release: SwappingRelease, table: Contingency, name: str, margins: Mapping[str, Fragment] = {}
) -> Fragment:
    """Decode a contingency table into a temporary table of values, with staged margins instead of the stored ones."""
    names = decoding_names(release, session.register("cells", cells_table(table))) | dict(margins)
    return session.stage(name, "swapping/decoded", **names)


def decoding_names(release: SwappingRelease, cells: Table | Fragment) -> dict[str, Any]:
    """The identifiers of the statement `swapping/decoded`."""
    return codebooks(release) | {
        "cells": cells,
        "holding_variables": list(release.design.holding),
        "swap_variables": list(release.design.swap),
        "kept": ["holding_code"],
    }


def cells_table(table: Contingency) -> pa.Table:
    columns = pa.table({"holding_code": table.holding, "swap_code": table.swap, "count": table.count})
    # DuckDB reads batches in parallel.
    return pa.Table.from_batches(columns.to_batches(_ROWS_OF_BATCH), columns.schema)
