"""The published tables of a DHC release: tables, microdata, spine, facilities and noisy measurements, as the data
dictionary describes them."""

from collections.abc import Iterator
from itertools import pairwise

from assets.cef.census import COLUMNS as CENSUS_COLUMNS
from assets.measurement.method import MEASUREMENTS
from assets.release.published import PublishedColumn, PublishedTable, describe_column
from assets.topdown.dhc.declaration import FACILITIES, MEASURED, RECORDS
from assets.topdown.dhc.given import FACILITY_COLUMNS
from assets.topdown.dhc.intervals import find_cells, interval_table
from assets.topdown.dhc.measurements import COLUMNS
from assets.topdown.dhc.products import cell_names, describe_table, place_columns, table_names, table_of
from assets.topdown.dhc.release import TEXTS, DHCRelease
from assets.topdown.published import describe_errors, describe_intervals, describe_spine, describe_summary
from mechanisms.topdown.design import words
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.profile import LABELS, PROFILE, TENTHS, TITLE, find_histogram
from mechanisms.topdown.dhc.tables import DHC_TABLES, MEDIAN_AGES

_UNITS = {"persons": "persons", "units": "housing units", "households": "households"}
_KEYS = {"persons": "EPNUM", "units": "record"}
_GEOID = PublishedColumn("geoid", "string", "Code of the place")


def published_tables(release: DHCRelease) -> tuple[PublishedTable, ...]:
    return (
        *(published_table(release, name) for name in table_names(release)),
        *(_records(release, name) for name in RECORDS if name in release.products),
        describe_spine(release),
        *([_facilities(release)] if FACILITIES in release.products else []),
        *([_measurements(release)] if MEASURED in release.products else []),
        *(_tables_of_errors(release) if release.declaration.replicates else []),
        *(_intervals(release) if release.design.complete else []),
    )


def _intervals(release: DHCRelease) -> Iterator[PublishedTable]:
    for name in release.tables_of_intervals:
        title, _, labels, histogram = describe_table(name)
        cells = {cell_names(name)[cell]: labels[cell] for cell in find_cells(release.design, name).positions.tolist()}
        text = TEXTS("table of intervals", table=name)
        yield describe_intervals(
            release,
            interval_table(release, name),
            f"{name}: {title}",
            text,
            cells,
            _UNITS[histogram],
            standard_errors=True,
        )


def _tables_of_errors(release: DHCRelease) -> Iterator[PublishedTable]:
    replicates = release.declaration.replicates
    for name in table_names(release):
        title, _, labels, histogram = describe_table(name)
        cells = dict(zip(cell_names(name), labels, strict=True))
        kind, unit = ("decimal", "years") if name in MEDIAN_AGES else ("integer", _UNITS[histogram])
        yield describe_errors(release, name, title, cells, unit, replicates, kind=kind, texts=TEXTS)
    yield describe_summary(release, replicates)


def published_profile(release: DHCRelease) -> PublishedTable:
    """The Demographic Profile, which only a retabulation publishes."""
    return PublishedTable(
        PROFILE.lower(),
        f"{PROFILE}: {TITLE}",
        TEXTS("profile"),
        release.public(f"table_{PROFILE.lower()}"),
        (
            _level(release),
            _GEOID,
            *(
                PublishedColumn(name, "decimal", label, required=False, unit=TENTHS[name])
                if name in TENTHS
                else PublishedColumn(name, "integer", label, unit=_UNITS[find_histogram(name)])
                for name, label in LABELS.items()
            ),
        ),
        ("level", "geoid"),
        geography=("level", "geoid"),
        levels=_levels(release),
    )


def published_table(release: DHCRelease, name: str) -> PublishedTable:
    title, universe, labels, histogram = describe_table(name)
    median, unit = name in MEDIAN_AGES, _UNITS[histogram]
    official = name not in DHC_TABLES or DHC_TABLES[name].published
    return PublishedTable(
        name.lower(),
        f"{name}: {title}",
        TEXTS("table", universe=universe, official=official, median=median),
        table_of(release, name),
        (
            PublishedColumn("depth", "integer", "Number of the level, from 0 at the root"),
            _level(release),
            _GEOID,
            PublishedColumn(
                "name", "string", "Name of the place, if the dataset declares one", required=False, names="geoid"
            ),
            *(
                PublishedColumn(cell, "decimal", f"Median age: {label}", required=False, unit="years")
                if median
                else PublishedColumn(cell, "integer", label, unit=unit)
                for cell, label in zip(cell_names(name), labels, strict=True)
            ),
        ),
        ("level", "geoid"),
        geography=("level", "geoid"),
        levels=_levels(release),
    )


def _records(release: DHCRelease, name: str) -> PublishedTable:
    places, known = place_columns(release), CENSUS_COLUMNS["PPMF places"] | CENSUS_COLUMNS[f"PPMF dhc {name}"]
    return PublishedTable(
        name,
        f"Privacy-protected microdata: {name}",
        TEXTS("records"),
        release.public(name),
        (
            PublishedColumn(_KEYS[name], "integer", "Number of the record, from 1, in the order of the places"),
            *([describe_column(column, known[column]) for column, _, _ in places] or [_GEOID]),
            *(describe_column(column, known[column]) for column in CENSUS_COLUMNS[f"PPMF dhc {name}"]),
        ),
        (_KEYS[name],),
        delimiter="|",
    )


def _facilities(release: DHCRelease) -> PublishedTable:
    return PublishedTable(
        FACILITIES,
        f"Exact: occupied group quarters of each type in each {words(release.finest)}",
        TEXTS("table of facilities"),
        release.public(FACILITIES),
        (
            PublishedColumn("number", "integer", FACILITY_COLUMNS["number"]),
            _GEOID,
            describe_column("type", CENSUS_COLUMNS["dhc units"]["GQTYPE3"]),
            PublishedColumn("count", "integer", FACILITY_COLUMNS["count"], unit="group quarters"),
        ),
        ("geoid", "type"),
        geography=("geoid",),
    )


def _measurements(release: DHCRelease) -> PublishedTable:
    queries = dict.fromkeys((measured.query for measured in release.design.measured), "")
    return PublishedTable(
        MEASUREMENTS,
        "Noisy measurements",
        TEXTS("measurements"),
        release.public(MEASUREMENTS),
        (
            PublishedColumn("histogram", "string", COLUMNS["histogram"], dict.fromkeys(SCHEMAS, "")),
            _level(release),
            PublishedColumn("query", "string", COLUMNS["query"], queries),
            PublishedColumn("number", "integer", COLUMNS["number"]),
            PublishedColumn("cells", "integers", COLUMNS["cells"]),
            PublishedColumn("answers", "integers", COLUMNS["answers"]),
        ),
        ("histogram", "level", "query", "number"),
    )


def _level(release: DHCRelease) -> PublishedColumn:
    return PublishedColumn("level", "string", "Geographic level", dict.fromkeys(release.levels, ""))


def _levels(release: DHCRelease) -> dict[str, str]:
    return {level: above for above, level in pairwise(release.levels)}
