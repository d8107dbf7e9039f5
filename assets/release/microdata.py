"""The published records of a release, for another publication to count for other places.

`Method.microdata` describes the records of a release if they name a block. `assets.retabulation` counts them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assets.release.published import PublishedTable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Counting:
    """The rule by which some or all cells of a table follow from published records.

    Attributes:
        records: the name of the published table of records.
        block: the columns of the records that a block's code is joined from.
        attributes: the columns of the records by which cells are counted.
        count: given the records as counts, with the columns `number` (of a place), the attributes and `count`, and the
            number of places, the figures of each cell, by its column, shape (places,).
    """

    records: str
    block: tuple[str, ...]
    attributes: tuple[str, ...]
    count: Callable[["pa.Table", int], Mapping[str, Any]]


@dataclass(frozen=True)
class CountedTable:
    """A table that follows from published records.

    Attributes:
        published: the description of the table at the places of the release itself; columns with figures are its cells.
        parts: the rules that count the cells, in the order of the cells.
    """

    published: PublishedTable
    parts: tuple[Counting, ...]


@dataclass(frozen=True)
class Microdata:
    """The published records of a release, and its list of blocks.

    Attributes:
        block: the columns of the dataset's units that a block's code is joined from.
        level: the level of blocks in the release's published table `spine`.
        tables: the tables that can be counted, by name, such as P1.
    """

    block: tuple[str, ...]
    level: str
    tables: Mapping[str, CountedTable]
