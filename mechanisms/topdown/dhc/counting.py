"""Tables of a histogram, all counted in one reading of it by a compiled loop.

A table does not distinguish all codes of an attribute: codes that the same cells count are a class. A leaf is a
combination of classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.schema import Counts, Schema

Numbers = NDArray[np.int64]

_FIGURES_AT_A_TIME = 2**18
"""The most figures counted at a time, unless the figures of a single place are more."""


@dataclass(frozen=True)
class Leaves:
    """The leaves of a table.

    Attributes:
        classes: by attribute whose codes are distinguished, the class of each code.
        counted: shape (leaves, cells): which cells count a leaf. Leaves are in order of the classes of their
            attributes, those of the last attribute changing fastest.
    """

    classes: Mapping[str, NDArray[np.int64]]
    counted: NDArray[np.bool_]


class Tally:
    """Tables of a histogram that are counted together. The figures of a place are those of one table after the other,
    each of which begins at its entry of `cells`; the last entry is the number of all."""

    def __init__(self, schema: Schema, tables: Sequence[Leaves]) -> None:
        names = [attribute.name for attribute in schema.attributes]
        # The number that each code adds to the number of a leaf, by table and attribute, one after the other.
        added, offsets, attributes, of_table = list[Numbers](), [0], list[int](), [0]
        # The leaves of all tables are numbered consecutively.
        first, leaf, cell, cells = [0], list[Numbers](), list[Numbers](), [0]
        for table in tables:
            step = len(table.counted)
            for name, of_code in table.classes.items():
                step //= int(of_code.max()) + 1
                added.append(of_code * step)
                offsets.append(offsets[-1] + len(of_code))
                attributes.append(names.index(name))
            of_table.append(len(attributes))
            own, counting = np.nonzero(table.counted)
            leaf.append(own + first[-1])
            cell.append(counting + cells[-1])
            first.append(first[-1] + len(table.counted))
            cells.append(cells[-1] + table.counted.shape[1])
        self.cells = cells
        starts = np.searchsorted(np.concatenate(leaf), np.arange(first[-1] + 1))
        steps = [schema.marginal(name).parts[0].step for name in names]
        lists = steps, first[:-1], of_table, offsets, attributes
        self._plan = (
            *(np.array(each, dtype=np.int64) for each in lists),
            np.concatenate([*added, np.zeros(0, dtype=np.int64)]),
            starts,
            np.concatenate(cell),
        )

    def count(self, counts: Counts, places: int) -> Iterator[tuple[int, int, Numbers]]:
        """Some places at a time: the first place, the one after the last, and the figures of all tables, shape (places,
        figures)."""
        # Imported here, so that code that only names tables does not wait for numba.
        from mechanisms.topdown.dhc.kernels import tally

        step = max(1, _FIGURES_AT_A_TIME // self.cells[-1])
        for first in range(0, places, step):
            last = min(first + step, places)
            own = slice(*np.searchsorted(counts.number, [first, last]))
            figures = np.zeros((last - first, self.cells[-1]), dtype=np.int64)
            columns = counts.number[own] - first, read_only(counts.cell[own]), read_only(counts.count[own])
            tally(columns, self._plan, figures)
            yield first, last, figures


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, read-only for kernels: one type for writable and read-only arrays."""
    view = array.view()
    view.flags.writeable = False
    return view
