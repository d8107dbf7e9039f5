"""Whole S-DHC releases, from source files to publication, against independent counts, noise and posteriors.

The test counts the rows that the files were written from (`oracle`), draws again from the custody's key, and derives
estimates from the published measurements, without the project's SQL or post-processing. The released cells are written
down here a second time.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from frictionless import validate
from numpy.typing import NDArray

from assets.gates.shared import all_gates
from assets.phsafe.release import PHSafeRelease
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.phsafe.runs import RUN
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.stream import RandomStream
from tests.assets.phsafe.oracle import Census, Person, Unit, expected_counts
from tests.deployments import Deployment
from tests.depth import deep_cases
from tests.docs.warehouse import tables_of, undescribed
from tests.formats import differing_rows
from tests.phsafe_deployments import TO_PUBLICATION, Files, census, changed, phsafe_deployment

CELLS = {
    "PH1_num": [2, 3],
    "PH1_denom": [1],
    "PH2": [3, 4, 6, 7, 9, 10, 12, 13],
    "PH3": [2, 4, 5, 6, 7, 9, 10],
    "PH4": [2, 3],
    "PH5_denom": [1],
    "PH6": [3, 4, 5, 6, 8, 9, 10, 11, 13, 14, 15, 16, 18, 19, 20, 21],
    "PH7": [2, 3, 4],
    "PH8_denom": [2, 3],
}
"""Basis cells of the nine runs (Sexton et al., Section 5)."""

NOT_ITERATED = {"PH2", "PH6"}
CODES = {"*": "*", "A-G": "ABCDEFG", "H,I": "HI"}
LEVELS = [f"{geography}_{codes}" for geography in ("nation", "state") for codes in CODES]
DERIVED = {"PH5_num": ("PH4", {2: [2], 3: [3]}), "PH8_num": ("PH7", {2: [2, 3], 3: [4]})}

COUNTS: dict[str, tuple[str, int, dict[int, list[int]]]] = {
    "PH2": ("PH2", 13, {1: CELLS["PH2"], 2: [3, 4], 5: [6, 7], 8: [9, 10], 11: [12, 13]}),
    "PH3": ("PH3", 10, {1: CELLS["PH3"], 3: [4, 5, 6, 7], 8: [9, 10]}),
    "PH4": ("PH4", 3, {1: [2, 3]}),
    "PH6": (
        "PH6",
        21,
        {1: CELLS["PH6"], 2: [3, 4, 5, 6], 7: [8, 9, 10, 11], 12: [13, 14, 15, 16], 17: [18, 19, 20, 21]},
    ),
    "PH7": ("PH7", 4, {1: [2, 3, 4]}),
}
"""Finished tables of counts: their run, how many cells they have, and which are sums of several basis cells."""

AVERAGES: dict[str, tuple[str, str, int, dict[int, tuple[list[int], list[int]]]]] = {
    "PH1": ("PH1_num", "PH1_denom", 1, {1: ([2, 3], [1]), 2: ([2], [1]), 3: ([3], [1])}),
    "PH5": ("PH4", "PH5_denom", 2, {1: ([2, 3], [1]), 2: ([2], [1]), 3: ([3], [1])}),
    "PH8": ("PH7", "PH8_denom", 1, {1: ([2, 3, 4], [2, 3]), 2: ([2, 3], [2]), 3: ([4], [3])}),
}
"""Finished tables of averages: persons, units, the least plausible total, and by cell, the cells of the numerator and
of the denominator."""

Key = tuple[str, str, str, int]
"""Region type, region, iteration and cell."""


@dataclass(frozen=True)
class Case:
    """A published release.

    Attributes:
        budgets: ρ or ε for one person added or removed, by run and level, as declared.
        truncation: τ of the runs that count persons.
        products: the finished tables.
    """

    deployment: Deployment[PHSafeRelease]
    files: Files
    states: list[str]
    budgets: dict[tuple[str, str], Fraction]
    truncation: dict[str, int]
    products: list[str]
    gaussian: bool = True

    def stability(self, run: str) -> int:
        return 2 * self.truncation[run] + 2 if run in self.truncation else 2

    @property
    def runs(self) -> list[str]:
        return [run for run in CELLS if any(run == released for released, _ in self.budgets)]

    @property
    def measured_files(self) -> dict[str, str]:
        """The run that each measurement file is made from."""
        files = {run: run for run in self.runs}
        return files | {name: source for name, (source, _) in DERIVED.items() if source in files}

    def distribution(self, run: str, level: str) -> DiscreteGaussian | DiscreteLaplace:
        stability, budget = self.stability(run), self.budgets[run, level]
        return DiscreteGaussian(stability**2 / (2 * budget)) if self.gaussian else DiscreteLaplace(stability / budget)

    def groups(self, level: str) -> list[tuple[str, str, str]]:
        """The population groups of a level, in the order of their noise."""
        geography, codes = level.split("_")
        regions = [("USA", "1")] if geography == "nation" else [("STATE", state) for state in sorted(self.states)]
        return [(*region, code) for region in regions for code in CODES[codes]]

    def keys(self, run: str, level: str, cells: list[int]) -> list[Key]:
        return [(*group, cell) for group in self.groups(level) for cell in cells]

    @cached_property
    def counts(self) -> dict[tuple[Any, ...], int]:
        """The exact counts of all runs and levels, recounted from the files."""
        states = {row["MAFID"]: row["TABBLKST"] for row in self.files["geo"]}
        units = [
            Unit(int(row["MAFID"]), *(row[name] for name in Unit._fields[1:-1]), states[row["MAFID"]])
            for row in self.files["units"]
        ]
        persons = [
            Person(int(row["MAFID"]), row["RTYPE"], int(row["QAGE"]), row["CENHISP"], row["CENRACE"], row["RELSHIP"])
            for row in self.files["persons"]
        ]
        truncation = {run: self.truncation.get(run) for run in self.runs}
        released = [(run, level) for run in self.runs for level in RUN[run].levels if (run, level.name) in self.budgets]
        stand_in = cast(Census, SimpleNamespace(units=units, persons=persons, states=self.states))
        return expected_counts(stand_in, truncation, released)


@pytest.fixture(scope="module", autouse=True)
def same_draws_in_every_run() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIRRED_TEST_MASTER_KEY", "5a" * 32)
        yield


def crowded(files: Files) -> Files:
    """Two families with more persons than any threshold of production: nonrelatives in one, children in the other."""
    family, parents = [unit["MAFID"] for unit in files["units"] if unit["HHT2"] == "01"][:2]
    guests = [("36", 20 + 5 * number, "35", "2") for number in range(11)]
    children = [("25", number, "01", "1") for number in range(9)]

    def persons(rows: list[dict[str, str]]) -> None:
        for unit, added in ((family, guests), (parents, children)):
            for relationship, age, race, hispanic in added:
                codes = {"RELSHIP": relationship, "QAGE": str(age), "CENRACE": race, "CENHISP": hispanic}
                rows.append({**rows[0], "RTYPE": "3", "MAFID": unit, **codes})

    def units(rows: list[dict[str, str]]) -> None:
        for row in rows:
            if row["MAFID"] == family:
                row["FINAL_POP"] = str(int(row["FINAL_POP"]) + len(guests))
            if row["MAFID"] == parents:
                row["FINAL_POP"] = str(int(row["FINAL_POP"]) + len(children))
                row["NPF"] = str(int(row["NPF"]) + len(children))

    return changed(files, persons=persons, units=units)


THRESHOLDS = {"PH1_num": 10, "PH2": 10, "PH3": 6, "PH4": 10, "PH6": 6, "PH7": 10}
"""τ of production (Sexton et al., Table 10)."""


def production_budgets() -> dict[tuple[str, str], Fraction]:
    """The budgets of production as published."""
    path = Path(__file__).parents[2] / "data" / "phsafe_production.csv"
    with path.open(newline="") as file:
        return {(row["run"], row["level"]): Fraction(row["rho_unbounded"]) for row in csv.DictReader(file)}


def production(root: Path) -> Case:
    files = crowded(census())
    deployment = phsafe_deployment(root, files=files)
    return Case(
        deployment, files, ["10", "44"], production_budgets(), THRESHOLDS, [f"PH{number}" for number in range(1, 9)]
    )


def budgets_of(runs: dict[str, Any]) -> dict[tuple[str, str], Fraction]:
    return {
        (run, level): Fraction(budget)
        for run, declared in runs.items()
        for level, budget in declared["budget"].items()
        if Fraction(budget)
    }


def truncation_of(runs: dict[str, Any]) -> dict[str, int]:
    return {run: declared["truncation"] for run, declared in runs.items() if "truncation" in declared}


PURE: dict[str, Any] = {
    "PH1_num": {"truncation": 4, "budget": {"nation_*": 1, "state_A-G": "1/2"}},
    "PH1_denom": {"budget": {"nation_*": 2, "state_*": 0}},
    "PH2": {"truncation": 3, "budget": {"state_*": 1}},
    "PH4": {"truncation": 3, "budget": {"state_*": 2, "state_H,I": 0.5}},
}


def pure(root: Path) -> Case:
    """Discrete Laplace noise, some runs, a level with budget 0, a cap that is met exactly, and the Bureau's format."""
    dataset = {"cap": 14, "synthetic": True}
    deployment = phsafe_deployment(root, runs=PURE, noise="pure", measurement_format="pipe", dataset=dataset)
    products = ["PH1", "PH2", "PH4"]
    return Case(deployment, census(), ["10", "44"], budgets_of(PURE), truncation_of(PURE), products, gaussian=False)


STATE_LEVELS: dict[str, Any] = {
    "PH3": {"truncation": 6, "budget": {"state_*": "1/100", "state_A-G": "2/3"}},
    "PH4": {"truncation": 10, "budget": {"state_*": "1/60", "state_H,I": "1/60"}},
    "PH5_denom": {"budget": {"state_*": "1/5000"}},
}


def puerto_rico(root: Path) -> Case:
    """By itself, without levels of the nation; of the three products that could be made, two are declared."""
    files = census(120, ("72",))
    deployment = phsafe_deployment(
        root, files=files, states=["72"], runs=STATE_LEVELS, products=["PH3", "PH5"], interval="equal_tailed"
    )
    return Case(deployment, files, ["72"], budgets_of(STATE_LEVELS), truncation_of(STATE_LEVELS), ["PH3", "PH5"])


HARDLY_ANY: dict[str, Any] = {
    run: ({"truncation": 14} if run in THRESHOLDS else {})
    | {"budget": {"state_*": 1000} if run in NOT_ITERATED else {"state_*": 1000, "state_A-G": 1000}}
    for run in CELLS
}
"""All runs at budgets that leave noise of σ = 0.7 in counts of persons and none in counts of units."""


NAMED: dict[str, Any] = {"cap": {"rho": 32_000}, "place_names": {"44": "Ø-land"}}


def hardly_any_noise(root: Path) -> Case:
    """Of one state of two: the other's units are out of universe."""
    deployment = phsafe_deployment(root, states=["44"], runs=HARDLY_ANY, dataset=NAMED)
    products = [f"PH{number}" for number in range(1, 9)]
    return Case(deployment, census(), ["44"], budgets_of(HARDLY_ANY), truncation_of(HARDLY_ANY), products)


CASES = [
    pytest.param(case, id=case.__name__, marks=marks)
    for case, marks in (
        (production, []),
        (pure, [pytest.mark.prove]),
        (puerto_rico, [pytest.mark.prove]),
        (hardly_any_noise, [pytest.mark.prove]),
    )
]


Cases = Callable[[Callable[[Path], Case]], Case]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    """Each case, run once."""

    @cache
    def made(make: Callable[[Path], Case]) -> Case:
        case = make(tmp_path_factory.mktemp("deployment"))
        case.deployment.reach(*TO_PUBLICATION)
        return case

    return made


@pytest.fixture(scope="module", params=CASES)
def published(request: pytest.FixtureRequest, cases: Cases) -> Case:
    return cases(request.param)


@pytest.fixture(scope="module")
def of_production(cases: Cases) -> Case:
    return cases(production)


# Published files


def rows_of(case: Case, name: str, delimiter: str = ",") -> list[dict[str, str]]:
    text = case.deployment.published()[f"{name}.csv"].decode()
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))


def separator(case: Case) -> str:
    """The separator of the columns of measurements; one case declares the format of the production system."""
    return "," if case.gaussian else "|"


def measurements(case: Case, name: str) -> dict[Key, dict[str, str]]:
    """A measurement file by its cells; no cell may occur twice."""
    found = {}
    for row in rows_of(case, f"{name.lower()}_measurements", separator(case)):
        key = (row["REGION_TYPE"], row["REGION_ID"], row["ITERATION_CODE"], int(row[f"{name.upper()}_DATA_CELL"]))
        assert key not in found
        found[key] = row
    return found


def finished(case: Case, name: str) -> dict[Key, dict[str, str]]:
    found = {}
    for row in rows_of(case, name.lower()):
        key = (row["region_type"], row["region_id"], row["iteration_code"], int(row["cell"]))
        assert key not in found
        found[key] = row
    return found


@pytest.mark.deep
def test_the_page_of_the_warehouse_describes_every_table(of_production: Case) -> None:
    assert undescribed(tables_of(of_production.deployment), "phsafe") == []


@deep_cases(1)
def test_these_files_are_published_and_no_others(published: Case) -> None:
    names = [name.lower() for name in published.products]
    names += [f"{name.lower()}_measurements" for name in published.measured_files]
    files = {f"{name}.{ending}" for name in [*names, "parameters"] for ending in ("csv", "parquet")}
    assert set(published.deployment.published()) == files | {
        "certificate.html",
        "certificate.json",
        "certificate.schema.json",
        "README.txt",
        "datapackage.json",
        "dcat.jsonld",
        "SHA256SUMS",
        "SHA256SUMS.sig",
    }


def test_production_publishes_eight_tables_and_eleven_files_of_measurements(of_production: Case) -> None:
    files = {path for path in of_production.deployment.published() if path.endswith(".csv")}
    assert len([path for path in files if re.fullmatch(r"ph[1-8]\.csv", path)]) == 8
    assert len([path for path in files if path.endswith("_measurements.csv")]) == 11
    assert len(of_production.budgets) == 46


def test_a_measurement_file_has_the_columns_of_production_and_the_declared_separator(published: Case) -> None:
    separated = separator(published)
    for name in published.measured_files:
        text = published.deployment.published()[f"{name.lower()}_measurements.csv"].decode()
        header, *lines = text.splitlines()
        cell = f"{name.upper()}_DATA_CELL"
        columns = ["REGION_ID", "REGION_TYPE", "ITERATION_CODE", cell, "COUNT", "NOISE_DISTRIBUTION", "VARIANCE"]
        assert header == separated.join(columns)
        noise = "Discrete Gaussian" if published.gaussian else "Discrete Laplace"
        pattern = re.compile(rf"(1\|USA|\d\d\|STATE)\|[*A-I]\|\d+\|-?\d+\|{noise}\|\d+\.\d{{18}}")
        assert all(pattern.fullmatch(line.replace(separated, "|")) for line in lines)


def test_every_group_and_cell_that_is_released_is_measured_once_and_no_other(published: Case) -> None:
    """Zeros too: the set of cells does not depend on the census, in which many are empty."""
    for name, source in published.measured_files.items():
        cells = list(DERIVED[name][1]) if name in DERIVED else CELLS[source]
        levels = [level for run, level in published.budgets if run == source]
        expected = [key for level in levels for key in published.keys(source, level, cells)]
        assert sorted(measurements(published, name)) == sorted(expected)


def test_csv_and_parquet_hold_the_same_rows(published: Case) -> None:
    for path in published.deployment.release.folder.glob("*.parquet"):
        delimiter = separator(published) if path.stem.endswith("_measurements") else ","
        assert differing_rows(path, rows_of(published, path.stem, delimiter)) == []


def test_the_data_package_is_valid(published: Case) -> None:
    report = validate(str(published.deployment.release.folder / "datapackage.json"))
    assert report.valid, report.flatten(["type", "title", "note"])
    tables = [task for task in report.tasks if task.type == "table"]
    assert len(tables) == len(published.products) + len(published.measured_files) + 1


def test_every_measured_cell_has_a_label_of_its_own(of_production: Case) -> None:
    package = json.loads(of_production.deployment.published()["datapackage.json"])
    for name, source in of_production.measured_files.items():
        (resource,) = (each for each in package["resources"] if each["name"] == f"{name.lower()}_measurements")
        (field,) = (each for each in resource["schema"]["fields"] if each["name"] == f"{name}_DATA_CELL".upper())
        labels = {each["value"]: each["label"] for each in field["categories"]}
        assert list(labels) == (list(DERIVED[name][1]) if name in DERIVED else CELLS[source])
        assert len(set(labels.values())) == len(labels)
        if name == "PH8_num":
            assert labels == {2: "Owner occupied", 3: "Renter occupied"}


def test_the_parameters_are_those_declared(published: Case) -> None:
    rows = {(row["run"], row["level"]): row for row in rows_of(published, "parameters")}
    assert rows.keys() == published.budgets.keys()
    for (run, level), row in rows.items():
        assert Fraction(row["budget_exact"]) == published.budgets[run, level]
        assert int(row["stability"]) == published.stability(run)
        assert row["truncation"] == str(published.truncation.get(run, ""))


# Measurements: exact counts and the draw's noise


def drawn(case: Case, run: str, level: str, cells: list[int]) -> NDArray[np.int64]:
    """Measurements minus the recounted exact counts of a run at a level."""
    rows = measurements(case, run)
    return np.array([int(rows[key]["COUNT"]) - case.counts[(run, level, *key)] for key in case.keys(run, level, cells)])


def test_truncation_leaves_persons_out_of_this_census(of_production: Case) -> None:
    """Otherwise a release without truncation would pass all other tests."""
    truncated = of_production.counts
    untruncated = replace(of_production, truncation=dict.fromkeys(of_production.truncation, 999)).counts
    runs = {key[0] for key in truncated if truncated[key] != untruncated[key]}
    assert runs == set(THRESHOLDS)


def test_measurement_less_exact_count_is_the_noise_of_the_draws_key(published: Case) -> None:
    """A stream for each run and level, named for it; in the order of regions, iterations and cells."""
    entry = published.deployment.ledger[0]
    key = published.deployment.context.custody.derive(f"draw {entry.draw_id}")
    assert sha256(key).hexdigest() == entry.commitment
    for run, level in published.budgets:
        noise = drawn(published, run, level, CELLS[run])
        stream = RandomStream(key, f"PHSafe {run} {level}")
        assert noise.tolist() == published.distribution(run, level).sample(len(noise), stream).tolist()


def variance(case: Case, run: str, level: str) -> Decimal:
    """The exact variance of a run's noise, to 30 digits: Σ x² P(x), not the distribution's parameter."""
    with localcontext(prec=50):
        stability, budget = case.stability(run), case.budgets[run, level]
        if not case.gaussian:
            q = (-Decimal(budget.numerator) / (budget.denominator * stability)).exp()
            return 2 * q / (1 - q) ** 2
        parameter = stability**2 / (2 * budget)
        base = (-Decimal(parameter.denominator) / (2 * parameter.numerator)).exp()
        # exp(−x²/2σ²) is a product of odd powers of exp(−1/2σ²).
        weight, odd, squared = Decimal(1), base, base * base
        total, spread = Decimal(1), Decimal(0)
        for value in range(1, 12 * int(parameter**0.5) + 30):
            weight *= odd
            odd *= squared
            total += 2 * weight
            spread += 2 * value * value * weight
        return spread / total


def test_the_published_variance_is_the_discrete_distributions_own(published: Case) -> None:
    unit = Decimal(1).scaleb(-18)
    for run, level in published.budgets:
        expected = variance(published, run, level).quantize(unit)
        rows = measurements(published, run)
        assert {Decimal(rows[key]["VARIANCE"]) for key in published.keys(run, level, CELLS[run])} == {expected}


@pytest.mark.prove
def test_noise_of_small_variance_does_not_have_the_variance_of_the_continuous_one(cases: Cases) -> None:
    """So a release that published σ² itself would be noticed."""
    case = cases(hardly_any_noise)
    assert 0 < variance(case, "PH1_denom", "state_*") < Decimal("1e-100")
    assert Decimal(measurements(case, "PH1_denom")["STATE", "44", "*", 1]["VARIANCE"]) == 0


def test_derived_files_are_sums_with_added_variances(published: Case) -> None:
    """PH5_num is PH4, and PH8_num from PH7: as owned with and without a mortgage are added, so are their variances."""
    for name in published.measured_files.keys() & DERIVED.keys():
        source, cells = DERIVED[name]
        summed, measured = measurements(published, name), measurements(published, source)
        for key, row in summed.items():
            parts = [measured[(*key[:3], cell)] for cell in cells[key[3]]]
            assert int(row["COUNT"]) == sum(int(part["COUNT"]) for part in parts)
            assert Decimal(row["VARIANCE"]) == sum(Decimal(part["VARIANCE"]) for part in parts)


# Finished tables


def expected_groups(case: Case, runs: list[str]) -> list[tuple[str, str, str]]:
    return [
        group for level in LEVELS if all((run, level) in case.budgets for run in runs) for group in case.groups(level)
    ]


def test_a_finished_table_has_every_cell_of_every_group_once_and_in_words(published: Case) -> None:
    for name in published.products:
        if name in COUNTS:
            run, cells, _ = COUNTS[name]
            groups = expected_groups(published, [run])
        else:
            persons, units, _, parts = AVERAGES[name]
            groups, cells = expected_groups(published, [persons, units]), len(parts)
        rows = finished(published, name)
        assert sorted(rows) == sorted((*group, cell) for group in groups for cell in range(1, cells + 1))
        assert all(row["region"] and row["iteration"] and row["label"] for row in rows.values())
        for code, place in published.deployment.release.dataset.place_names.items():
            assert {row["region"] for row in rows.values() if row["region_id"] == code} <= {place}


def test_no_estimate_is_negative_or_outside_its_interval(published: Case) -> None:
    for name in published.products:
        for row in finished(published, name).values():
            low, estimate, high = (Decimal(row[column]) for column in ("lower", "estimate", "upper"))
            assert Decimal(0) <= low <= estimate <= high
            assert high.is_finite()


def posterior(case: Case, run: str, level: str, noisy: int, cells: int) -> NDArray[np.float64]:
    """P(y | noisy) for y = 0, 1, 2, … under a flat prior: the noise of one cell, added up as often as there are cells.

    Sums of discrete Gaussians with σ of 2 and more are taken as one with the added variance, which is exact to 10^-30.
    """
    distribution = case.distribution(run, level)
    deviation = float(distribution.exact_variance) ** 0.5
    if case.gaussian and deviation >= 2:
        reach = int(40 * deviation * cells**0.5) + 30
        noise = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * cells * deviation**2))
    else:
        reach = int(40 * deviation) + 30
        one = distribution.probabilities(np.arange(-reach, reach + 1))
        noise = one
        for _ in range(cells - 1):
            noise = np.convolve(noise, one)
        reach *= cells
    # The noise is noisy − y, from noisy downwards.
    weights = noise[: min(noisy, reach) + reach + 1][::-1]
    first = max(0, noisy - reach)
    padded = np.concatenate([np.zeros(first), weights])
    return cast(NDArray[np.float64], padded / padded.sum())


def test_counts_and_their_intervals_are_what_the_measurements_say(published: Case) -> None:
    """The posterior by enumeration: its mean, and for the interval a set of 90% that needs both of its ends."""
    equal = published.deployment.release.declaration.interval.value == "equal_tailed"
    for name in [name for name in published.products if name in COUNTS]:
        run, last, sums = COUNTS[name]
        rows, measured = finished(published, name), measurements(published, run)
        for level in [level for released, level in published.budgets if released == run]:
            for key in published.keys(run, level, list(range(1, last + 1))):
                cells = sums.get(key[3], [key[3]])
                noisy = sum(int(measured[(*key[:3], cell)]["COUNT"]) for cell in cells)
                row, chance = rows[key], posterior(published, run, level, noisy, len(cells))
                low, high = int(row["lower"]), int(row["upper"])
                mean = float(chance @ np.arange(len(chance)))
                assert abs(int(row["estimate"]) - mean) <= 0.5 + 1e-6
                assert chance[low : high + 1].sum() >= 0.9 - 1e-9
                if equal:
                    assert chance[:low].sum() <= 0.05 + 1e-9 < chance[: low + 1].sum() + 2e-9
                    assert chance[high + 1 :].sum() <= 0.05 + 1e-9 < chance[high:].sum() + 2e-9
                elif low < high:
                    assert chance[low : high + 1].sum() - min(chance[low], chance[high]) <= 0.905
                margin = 1.645 * (len(cells) * float(published.distribution(run, level).exact_variance)) ** 0.5
                assert margin - 1e-6 <= float(row["noise_margin"]) < margin + 0.01 + 1e-6
                assert float(row["standard_error"]) == pytest.approx(margin / 1.645, abs=0.005 + 1e-6)


def test_averages_are_plausible_and_no_greater_than_what_truncation_keeps(published: Case) -> None:
    for name in [name for name in published.products if name in AVERAGES]:
        persons, _, least, _ = AVERAGES[name]
        for (*_, cell), row in finished(published, name).items():
            assert row["standard_error"] == "", "a ratio of noisy counts has no finite variance"
            assert 2 * Decimal(row["half_width"]) == Decimal(row["upper"]) - Decimal(row["lower"])
            assert "noise_margin" not in row, "one name never stands for two quantities"
            assert Decimal(row["lower"]) >= (least if cell == 1 or name == "PH8" else 0)
            assert Decimal(row["upper"]) <= max(published.truncation[persons], least)


@pytest.mark.deep
def test_with_hardly_any_noise_the_finished_tables_are_those_of_the_census(cases: Cases) -> None:
    """Noise has σ = 0.7 for persons: one of some 400 counts is off by 6 or more in one draw of 10^13 only.

    A table with another denominator, another sum or another state's records is off by much more.
    """
    case = cases(hardly_any_noise)

    def true(run: str, key: Key, cells: list[int]) -> int:
        level = "state_*" if key[2] == "*" else "state_A-G"
        return sum(case.counts[(run, level, *key[:3], cell)] for cell in cells)

    for name, (run, _, sums) in COUNTS.items():
        for key, row in finished(case, name).items():
            cells = sums.get(key[3], [key[3]])
            assert abs(int(row["estimate"]) - true(run, key, cells)) < 6 * len(cells) ** 0.5
    compared = 0
    for name, (persons, units, _, parts) in AVERAGES.items():
        for key, row in finished(case, name).items():
            above, below = true(persons, key, parts[key[3]][0]), true(units, key, parts[key[3]][1])
            if below >= 8:
                compared += 1
                assert abs(float(row["estimate"]) - above / below) < 6 * len(parts[key[3]][0]) ** 0.5 / below + 0.01
    assert compared >= 9


# Charge and certificate


def test_one_reservation_and_one_settlement_is_the_whole_ledger(published: Case) -> None:
    assert [entry.kind for entry in published.deployment.ledger] == ["reserve", "settle"]
    assert published.deployment.context.ledger.verify() == ()


def test_what_is_charged_is_twice_the_sum_of_all_budgets_with_a_line_for_each(published: Case) -> None:
    specification = published.deployment.ledger[0].parse_specification()
    exactly = {line.label: loss(line.loss) for line in specification.lines}
    assert exactly == {f"{run} {level}": 2 * budget for (run, level), budget in published.budgets.items()}
    assert loss(specification.loss) == 2 * sum(published.budgets.values())
    assert (specification.flavor.unit, specification.flavor.neighbors) == ("person", "bounded")
    assert specification.flavor.multiverse == ("whether a block has a housing unit or not",)


def loss(of: Any) -> Fraction:
    return of.rho if isinstance(of, ConcentratedLoss) else of.rational


def test_production_is_charged_in_46_lines_and_in_total_as_published(of_production: Case) -> None:
    specification = of_production.deployment.ledger[0].parse_specification()
    assert len(specification.lines) == 46
    assert loss(specification.loss) == Fraction("2.514562")


def certificate(case: Case) -> dict[str, Any]:
    return cast(dict[str, Any], json.loads(case.deployment.published()["certificate.json"]))


def test_the_certificate_states_both_losses_and_every_line(published: Case) -> None:
    stated = certificate(published)["loss"]
    total = sum(published.budgets.values())
    assert stated["symbol"] == ("ρ" if published.gaussian else "ε")
    assert Fraction(stated["exact"]) == 2 * total
    assert {line["label"]: Fraction(line["exact"]) for line in stated["lines"]} == {
        f"{run} {level}": 2 * budget for (run, level), budget in published.budgets.items()
    }
    bounded, unbounded = stated["equivalents"]["losses"]
    assert (unbounded["symbol"], unbounded["of"]) == (stated["symbol"], "One person added or removed (unbounded)")
    assert (Fraction(bounded["exact"]), Fraction(unbounded["exact"])) == (2 * total, total)
    assert len(unbounded["epsilons"]) == (2 if published.gaussian else 0), "a pure ε needs no δ"
    html = published.deployment.published()["certificate.html"].decode().replace("<wbr>", "")
    assert all(line["label"] in html for line in stated["lines"])


def test_the_certificate_of_production_has_the_known_figures(of_production: Case) -> None:
    """ρ = 2.514562 and both conversions at δ = 10^-10, rounded up; for one person added or removed, ρ is half of it."""
    stated = certificate(of_production)["loss"]
    assert Fraction(stated["exact"]) == Fraction("2.514562")
    of = stated["equivalents"]
    assert of["delta"] == {"value": 1e-10, "exact": "1/10000000000"}
    assert [each["authors"] for each in of["conversions"]] == ["Canonne, Kamath and Steinke", "Bun and Steinke"]
    changed_, added = of["losses"]
    assert changed_["of"].startswith("One person's record changed (bounded")
    assert changed_["epsilons"] == [16.9802, 17.733]
    assert (added["exact"], added["rounded_up"]) == ("1257281/1000000", 1.2573)
    # ρ + 2√(ρ ln 10^10) for ρ = 1.257281.
    assert added["epsilons"][1] == 12.0184
    assert added["epsilons"][0] < 12.0184


def test_the_certificate_says_how_it_was_made_and_names_the_keyed_version(published: Case) -> None:
    record, entry = certificate(published), published.deployment.ledger[0]
    parameters = {each["label"]: each["value"] for each in record["mechanism"]["parameters"]}
    assert parameters["Truncation and stability"] == [
        f"{run}: τ = {published.truncation[run]}, Δ = {published.stability(run)}"
        if run in published.truncation
        else f"{run}: Δ = 2"
        for run in published.runs
    ]
    names = {"10": "Delaware", "44": "Rhode Island", "72": "Puerto Rico"}
    names |= published.deployment.release.dataset.place_names
    nation = ["the nation"] if any(level.startswith("nation") for _, level in published.budgets) else []
    assert parameters["Regions"] == nation + [names[state] for state in published.states]
    versions = {each["name"]: each for each in record["data_versions"]["versions"]}
    assert versions["exact counts"]["keyed"]
    assert versions["exact counts"]["version"] == published.deployment.versions()["town/s_dhc/counts"]
    assert not versions["noisy measurements"]["keyed"]
    assert versions["noisy measurements"]["version"] == published.deployment.ledger[1].output_version
    assert (record["randomness"]["draw_id"], record["randomness"]["commitment"]) == (entry.draw_id, entry.commitment)
    assert record["ledger"]["entry_hash"] == entry.hash
    assert [check["name"] for check in record["checks"]] == [
        gate.name for gate in all_gates(published.deployment.context.method)
    ]


def test_a_synthetic_dataset_is_said_to_be_so_and_no_other(published: Case) -> None:
    synthetic = published.deployment.release.dataset.synthetic
    assert certificate(published)["dataset"]["synthetic"] == synthetic
    page = published.deployment.published()["certificate.html"].decode()
    assert ("<strong>Synthetic data.</strong>" in page) == synthetic


def test_no_key_of_a_unit_leaves_the_confidential_zone(published: Case) -> None:
    """No key is text in a published file, a value in Parquet, or a value in any table of the public zone."""
    shown = [content.decode("utf-8", "replace") for content in published.deployment.published().values()]
    shown += [pd.read_parquet(path).to_csv() for path in published.deployment.release.folder.glob("*.parquet")]
    with published.deployment.opened() as connection:
        tables = connection.execute("SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
        shown += [connection.table(f'public."{schema}"."{name}"').df().to_csv() for schema, name in tables]
    keys = {row["MAFID"] for row in published.files["units"]}
    assert len(tables) > 10
    assert not keys & set(re.findall(r"\d{6,}", "\n".join(shown)))
