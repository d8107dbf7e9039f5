"""The published records of a release, as another publication counts them again for other places.

`Method.microdata` describes those of a release whose records name a block. `assets.retabulation` counts them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assets.release.published import PublishedTable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Counting:
    """How the cells of a table, or some of them, follow from published records.

    Attributes:
        records: the name of the published table of records.
        block: the columns of the records that a block's code is joined from.
        attributes: the columns of the records that it counts by.
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
        published: its description at the places of the release itself; columns with figures are its cells.
        parts: how these are counted, in their order.
    """

    published: PublishedTable
    parts: tuple[Counting, ...]


@dataclass(frozen=True)
class Microdata:
    """The published records of a release, and its list of blocks.

    Attributes:
        block: the columns of the dataset's units that a block's code is joined from.
        level: the level of blocks in the release's published table `spine`.
        tables: what can be counted, by name, such as P1.
    """

    block: tuple[str, ...]
    level: str
    tables: Mapping[str, CountedTable]
