"""The descriptions, for the data dictionary, of PHSafe's published tables, which `tables` makes."""

from dataclasses import replace

from assets.cef.census import find_place_names, name_states
from assets.measurement.grid import NOISE_NAMES
from assets.phsafe.plan import NULLABLE, PARAMETER_COLUMNS, PARAMETERS
from assets.phsafe.release import PHSafeRelease
from assets.phsafe.tables import NOISE_MARGIN, finished_table, list_measured_files, measured_table
from assets.release.published import ESTIMATE, STANDARD_ERROR, PublishedColumn, PublishedTable, error_columns
from mechanisms.phsafe.estimation import Interval
from mechanisms.phsafe.runs import FILES, ITERATIONS, NATION_ID, RUN, SHELL, Shell, list_measured_labels

_NOT_ADDING_UP = (
    "Every cell of every group is estimated by itself, so cells do not add up to their totals, states not to the "
    "nation, iterations not to the total population, and the same quantity may differ between tables."
)

# The data dictionary's explanations of the intervals of counts and of averages.
COUNTS = {
    Interval.SHORTEST: "The shortest set of counts with a posterior probability of 0.902, given the noisy count and "
    "its noise, if all counts from 0 up are equally likely before.",
    Interval.EQUAL_TAILED: "The counts between the posterior quantiles 0.05 and 0.95, given the noisy count and its "
    "noise, if all counts from 0 up are equally likely before.",
}

AVERAGES = (
    "All plausible averages that are compatible with the two noisy counts: those whose line comes within 1.645 "
    "standard deviations of them."
)

_LEVELS = {"STATE": "USA"}
_REGION_TYPES = {"USA": "The nation: all states of the release", "STATE": "A state or its equivalent"}


def published_tables(release: PHSafeRelease) -> list[PublishedTable]:
    """The declared finished tables, the released measurement files (of eleven), and the parameters."""
    return [
        *(_finished(release, SHELL[name]) for name in release.products),
        *(_measured(release, name) for name in list_measured_files(release.design)),
        PublishedTable(
            "parameters",
            "Parameters and margins of error",
            "The truncation, stability, budget, noise and margins of error of each run and level.",
            release.public(PARAMETERS),
            tuple(
                PublishedColumn(name, kind, words, required=name not in NULLABLE)
                for name, (kind, words) in PARAMETER_COLUMNS.items()
            ),
            ("run", "level"),
        ),
    ]


def _finished(release: PHSafeRelease, shell: Shell) -> PublishedTable:
    number = "decimal" if shell.averages else "integer"
    counted = "average" if shell.averages else "count"
    unit = RUN[shell.cells[0].counted.run].counts
    kind = "" if shell.averages else f"{release.declaration.interval.value.replace('_', '-')} credible "
    return PublishedTable(
        shell.name.lower(),
        f"{shell.name}: {shell.title}",
        f"Universe: {shell.universe}. Estimates from the noisy measurements, with 90% {kind}intervals. They do not "
        "account for persons dropped by truncation. As post-processing, they add nothing to the loss. "
        f"{_NOT_ADDING_UP}",
        finished_table(release, shell.name),
        (
            *_group(release),
            PublishedColumn("region", "string", "Name of the region", names="region_id"),
            PublishedColumn("iteration", "string", "Race and ethnicity in words", names="iteration_code"),
            PublishedColumn(
                "cell", "integer", "Number of the table's cell", {cell.number: cell.label for cell in shell.cells}
            ),
            PublishedColumn("label", "string", "Label of the cell", names="cell"),
            *error_columns(
                number,
                f"Estimated {counted}, given the measurements",
                "Always empty: an average of noisy counts has no finite variance"
                if shell.averages
                else "Standard deviation of the noise of the count, before only counts from 0 up were admitted",
                f"average {unit}" if shell.averages else unit,
                optional=(STANDARD_ERROR,) if shell.averages else (),
            ),
            PublishedColumn(
                "half_width", "decimal", "Half the width of the 90% interval, (upper − lower)/2", error_of=ESTIMATE
            )
            if shell.averages
            else PublishedColumn("noise_margin", "decimal", NOISE_MARGIN, error_of=ESTIMATE),
        ),
        ("region_type", "region_id", "iteration_code", "cell"),
        interval=AVERAGES if shell.averages else COUNTS[release.declaration.interval],
        geography=("region_type", "region_id"),
        levels=_LEVELS,
    )


def _group(release: PHSafeRelease) -> tuple[PublishedColumn, ...]:
    design = release.design
    names = {NATION_ID: "The nation"} | name_states(find_place_names(release.dataset), design.states)
    regions = {code: name for code, name in names.items() if code in design.regions}
    types = {name: words for name, words in _REGION_TYPES.items() if name in design.region_types}
    codes = {code: words for code, words in ITERATIONS.items() if code in design.iterations}
    return (
        PublishedColumn("region_type", "string", "Geographic level", types),
        PublishedColumn("region_id", "string", "1 for the nation, or the state's FIPS code", regions),
        PublishedColumn("iteration_code", "string", "Race and ethnicity iteration", codes),
    )


def _measured(release: PHSafeRelease, name: str) -> PublishedTable:
    region_type, region_id, iteration_code = _group(release)
    return PublishedTable(
        f"{name.lower()}_measurements",
        f"{name}: noisy measurements",
        "Each count is an exact count plus noise of the stated distribution and variance, and may be negative. The "
        "noise is independent, so counts add up neither over cells, nor over iterations, nor over regions. The "
        "columns are those of the production system.",
        measured_table(release, name),
        (
            *(replace(column, name=column.name.upper()) for column in (region_id, region_type, iteration_code)),
            PublishedColumn(f"{name.upper()}_DATA_CELL", "integer", "Basis cell", list_measured_labels(name)),
            PublishedColumn("COUNT", "integer", "Noisy count", unit=RUN[FILES[name].run].counts),
            PublishedColumn(
                "NOISE_DISTRIBUTION",
                "string",
                "Distribution of the noise of one measurement; sums of measurements have sums of such noise",
                {NOISE_NAMES[release.design.noise]: ""},
            ),
            PublishedColumn("VARIANCE", "decimal", "Exact variance of the noise, to 18 decimals", error_of="COUNT"),
        ),
        ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", f"{name.upper()}_DATA_CELL"),
        delimiter="|" if release.declaration.measurement_format == "pipe" else ",",
        geography=("REGION_TYPE", "REGION_ID"),
        levels=_LEVELS,
    )
