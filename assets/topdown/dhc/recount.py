"""The published records of a DHC release in a retabulation: from the codes of the 2020 Census's microdata files back to
the cells of the histograms."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assets.release.microdata import CountedTable, Counting, Microdata
from assets.topdown.dhc.products import TABLES, cell_names, count_cells, describe_table, place_columns, to_tenths
from assets.topdown.dhc.published import published_profile, published_table
from assets.topdown.dhc.release import DHCRelease
from mechanisms.topdown.dhc.households import HOUSEHOLDS, UNITS
from mechanisms.topdown.dhc.persons import PERSONS, QUARTERS
from mechanisms.topdown.dhc.profile import ORDER, PROFILE, TENTHS, count_profile
from mechanisms.topdown.dhc.records import PRESENT, list_households, list_relationships
from mechanisms.topdown.schema import Counts, Schema

_Codes = NDArray[np.int64]

_LIVING = ("GQTYPE", "RELSHIP", "LIVE_ALONE")
_KIND = ("HHSIZE", "HHT", "HHT2", "CPLT", "UPART", "MULTG", "PAOC", "PAC", "TP18")
_PRESENT = ("TP60", "TP65", "TP75")
_VACANT, _IN_QUARTERS = 4, 11
"""The first codes of `tenvacgq` for vacant units and for group quarters."""

ATTRIBUTES = {
    PERSONS.name: ("persons", (*_LIVING, "QSEX", "QAGE", "CENHISP", "CENRACE")),
    HOUSEHOLDS.name: ("units", ("TEN", *_KIND, "HHSEX", "THHLDRAGE", "THHSPAN", "THHRACE", *_PRESENT)),
    UNITS.name: ("units", ("GQTYPE", "TEN", "VACS")),
}
"""By histogram, the published table of its records, and the columns that determine its cells."""


def list_microdata(release: DHCRelease) -> Microdata:
    """The tables of the DHC that follow from the published records, whether or not the release publishes them, and the
    Demographic Profile."""
    code = release.spine[release.finest].columns
    block = code if place_columns(release) else ("geoid",)

    def part(histogram: str, count: Callable[[pa.Table, int], Mapping[str, pa.Array]]) -> Counting:
        records, attributes = ATTRIBUTES[histogram]
        return Counting(records, block, attributes, count)

    tables = {}
    for name in TABLES:
        histogram = describe_table(name)[3]
        parts = (part(histogram, partial(_tabulate, name, histogram)),)
        tables[name] = CountedTable(published_table(release, name), parts)
    profile = tuple(part(histogram, partial(_profile, histogram)) for histogram in ORDER)
    tables[PROFILE] = CountedTable(published_profile(release), profile)
    complete = {
        name: table for name, table in tables.items() if {each.records for each in table.parts} <= {*release.products}
    }
    return Microdata(code, release.finest, complete)


def _tabulate(name: str, histogram: str, records: pa.Table, places: int) -> dict[str, pa.Array]:
    counts = find_counts(histogram, records)
    return dict(zip(cell_names(name), count_cells(name, counts, places), strict=True))


def _profile(histogram: str, records: pa.Table, places: int) -> dict[str, pa.Array]:
    figures = count_profile(histogram, find_counts(histogram, records), places)
    return {name: to_tenths(own) if name in TENTHS else pa.array(own) for name, own in figures.items()}


def find_counts(histogram: str, records: pa.Table) -> Counts:
    """The counts of a histogram, from records with the columns `number`, `count` and `ATTRIBUTES`."""
    if histogram == HOUSEHOLDS.name:
        records = records.filter(pc.not_equal(records["TEN"], "0"))
    records = records.sort_by("number")
    schema, find = _CELLS[histogram]
    cells = np.ravel_multi_index(find(records), [attribute.size for attribute in schema.attributes])
    return Counts(records["number"].to_numpy(), cells, records["count"].to_numpy())


def _find_persons(records: pa.Table) -> tuple[_Codes, ...]:
    sex, hispanic, race = (_number(records, name) - 1 for name in ("QSEX", "CENHISP", "CENRACE"))
    return _find(records, _LIVING, list_relationships()), sex, _number(records, "QAGE"), hispanic, race


def _find_households(records: pa.Table) -> tuple[_Codes, ...]:
    kinds = list_households()
    sex, age, hispanic, race = (_number(records, name) - 1 for name in ("HHSEX", "THHLDRAGE", "THHSPAN", "THHRACE"))
    elderly = _find(records, _PRESENT, (dict(zip(_PRESENT, present, strict=True)) for present in PRESENT))
    tenure = np.minimum(_number(records, "TEN") - 1, 2)
    types = np.array([kind["type"] for kind in kinds], dtype=np.int64)
    rows = [{**kind, "HHSEX": int(kind["sex"]) + 1} for kind in kinds]
    return sex, age, hispanic, race, elderly, tenure, types[_find(records, ("HHSEX", *_KIND), rows)]


def _find_units(records: pa.Table) -> tuple[_Codes, ...]:
    quarters = pc.fill_null(pc.index_in(records["GQTYPE"], pa.array(list(map(str, QUARTERS)))), -1).to_numpy()
    tenure, vacancy = _number(records, "TEN"), _number(records, "VACS")
    housing = np.where(tenure > 0, tenure - 1, vacancy + _VACANT - 1)
    return (np.where(quarters >= 0, quarters + _IN_QUARTERS, housing),)


_CELLS: Mapping[str, tuple[Schema, Callable[[pa.Table], tuple[_Codes, ...]]]] = {
    PERSONS.name: (PERSONS, _find_persons),
    HOUSEHOLDS.name: (HOUSEHOLDS, _find_households),
    UNITS.name: (UNITS, _find_units),
}


def _number(records: pa.Table, name: str) -> _Codes:
    return pc.cast(records[name], pa.int64()).to_numpy()


def _find(records: pa.Table, columns: Iterable[str], rows: Iterable[Mapping[str, str | int]]) -> _Codes:
    """The position of each record's codes in some columns among the rows."""
    names = list(columns)
    joined = pc.binary_join_element_wise(*(pc.cast(records[name], pa.string()) for name in names), "|")
    known = pa.array(["|".join(str(row[name]) for name in names) for row in rows])
    return pc.index_in(joined, known).to_numpy().astype(np.int64)
