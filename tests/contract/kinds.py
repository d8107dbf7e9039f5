"""Every kind of release as a small deployment, for the tests that all kinds must pass.

A further kind is added to `KINDS`, with its smallest useful release.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assets.release.dataset import DatasetDeclaration
from assets.release.method import CHARGE, Method
from tests.contract.laplace_tables.component import LaplaceTables
from tests.contract.laplace_tables.declaration import LaplaceDeclaration
from tests.deployments import (
    PRODUCTS,
    UNITS,
    Deployment,
    deploy,
    households,
    members,
    small_dataset,
    small_deployment,
    write_csv,
)
from tests.dhc_deployments import BUDGETS, dhc_deployment
from tests.pair_swapping_deployments import PRODUCTS as PAIR_PRODUCTS
from tests.pair_swapping_deployments import pair_swapping_deployment
from tests.phsafe_deployments import FEW, Files, census, changed, phsafe_deployment
from tests.safetab_deployments import PERSONS, safetab_deployment
from tests.table_builder_deployments import STATISTICS, TENURE, hypercube_deployment
from tests.topdown_deployments import TWO_LEVELS, topdown_deployment, with_quarters
from tests.unperturbed_deployments import (
    COARSE_PRODUCTS,
    SPARSE_PRODUCTS,
    coarsening_deployment,
    suppression_deployment,
)

Build = Callable[..., Deployment[Any]]


@dataclass(frozen=True)
class Kind:
    """A kind of release.

    Attributes:
        build: makes a deployment below a folder. Keyword arguments: `guess`, 0 or 1, the value of the one record that
            an attacker does not know; `dataset`, changes to the dataset's declaration; all others, changes to the
            release's declaration.
        reordered: changes that give the same declaration in another order.
        small_cap: a cap under which the release does not fit; None if no cap bounds its infinite loss.
        tampering: a statement that alters the draw's stored output.
        later_change: a statement that alters the draw's confidential input.
    """

    build: Build
    reordered: Mapping[str, Any]
    small_cap: Any
    tampering: str
    later_change: str


def before_draw(method: Method[Any, Any, Any]) -> list[str]:
    """The stages up to the charge."""
    return ["cef", *method.stages[: list(method.stages).index(CHARGE) + 1]]


def to_publication(method: Method[Any, Any, Any]) -> list[str]:
    """The stages that a publication needs."""
    return ["cef", *method.stages, "publication"]


def village(guess: int) -> list[dict[str, Any]]:
    """Two households of one stratum exchange their counties, or not: both have the same margins."""
    rows = households()
    one, other = (
        next(
            row
            for row in rows
            if (row["region"], row["size"], row["tenure"], row["county"]) == ("S", 2, tenure, county)
        )
        for tenure, county in (("own", "Avon"), ("rent", "Brent"))
    )
    if guess:
        one["county"], other["county"] = other["county"], one["county"]
    return rows


def _swapping(root: Path, guess: int = 0, **changes: Any) -> Deployment[Any]:
    return small_deployment(root, units=village(guess), **changes)


def _laplace(root: Path, guess: int = 0, dataset: Mapping[str, Any] | None = None, **changes: Any) -> Deployment[Any]:
    root.mkdir(exist_ok=True)
    write_csv(root / "units.csv", village(guess))
    declared: DatasetDeclaration = small_dataset(root, **(dataset or {}))
    declaration = LaplaceDeclaration.model_validate(
        {"name": "noisy", "dataset": declared.name, "title": "Noisy tables", "products": LAPLACE_PRODUCTS} | changes
    )
    return deploy(root, declared, LaplaceTables(declaration))


def _hypercubes(
    root: Path, guess: int = 0, dataset: Mapping[str, Any] | None = None, **changes: Any
) -> Deployment[Any]:
    units = village(guess)
    return hypercube_deployment(root, units=units, persons=members(households()), dataset=dataset, **changes)


def _statistics(tested: int, cube: Mapping[str, Any] = STATISTICS) -> Build:
    def build(root: Path, guess: int = 0, dataset: Mapping[str, Any] | None = None, **changes: Any) -> Deployment[Any]:
        given = {"hypercubes": [cube]} | changes
        cubes, persons = given.pop("hypercubes"), members(households())
        return hypercube_deployment(
            root, *cubes, units=village(guess), persons=persons, dataset=dataset, tested=tested, **given
        )

    return build


def guessed(files: Files, guess: int) -> Files:
    """A householder living alone has one race or another."""
    alone = next(row["MAFID"] for row in files["units"] if row["HHT"] == "4")

    def set_race(column: str) -> Callable[[list[dict[str, str]]], None]:
        return lambda rows: [row.update({column: f"0{guess + 1}"}) for row in rows if row["MAFID"] == alone].clear()

    return changed(files, persons=set_race("CENRACE"), units=set_race("HHRACE"))


def _phsafe(root: Path, guess: int = 0, **changes: Any) -> Deployment[Any]:
    return phsafe_deployment(root, files=guessed(census(60), guess), **({"runs": FEW} | changes))


def _safetab(root: Path, guess: int = 0, dataset: Mapping[str, Any] | None = None, **changes: Any) -> Deployment[Any]:
    return safetab_deployment(root, changes, size=150, guess=guess, dataset=dict(dataset or {}))


def _topdown(root: Path, guess: int = 0, **changes: Any) -> Deployment[Any]:
    products = {"products": ["P1", "H1", "persons", "noisy_measurements"]}
    files = guessed(with_quarters(census(60)), guess)
    return topdown_deployment(root, files=files, **(TWO_LEVELS | products | changes))


def _dhc(root: Path, guess: int = 0, **changes: Any) -> Deployment[Any]:
    return dhc_deployment(root, guess, files=guessed(census(30, ("10",), dhc=True), guess), **changes)


def _pair_swapping(root: Path, guess: int = 0, **changes: Any) -> Deployment[Any]:
    files = guessed(with_quarters(census(60)), guess)
    return pair_swapping_deployment(root, files=files, **({"products": PAIR_PRODUCTS[:1]} | changes))


def _coarsening(root: Path, guess: int = 0, **changes: Any) -> Deployment[Any]:
    return coarsening_deployment(root, units=village(guess), **changes)


def _suppression(root: Path, guess: int = 0, **changes: Any) -> Deployment[Any]:
    return suppression_deployment(root, units=village(guess), **changes)


def _backwards(declared: Any) -> Any:
    """A declaration with all its mappings and lists in reverse order."""
    if isinstance(declared, Mapping):
        return {name: _backwards(value) for name, value in reversed(declared.items())}
    return [_backwards(value) for value in reversed(declared)] if isinstance(declared, list) else declared


LAPLACE_PRODUCTS = [
    {"name": "tenure_by_county", "geography": ["county"], "dimensions": ["tenure"], "epsilon": "1/2"},
    {"name": "county_by_size", "geography": ["region", "county"], "dimensions": ["size"], "epsilon": 1},
]

DRAWN = STATISTICS | {"quantiles": {"size": {"bounds": [1, 9], "grid": 1, "at": ["1/2", "1/4"]}}}

KINDS: dict[str, Kind] = {
    "swapping": Kind(
        _swapping,
        {
            "match": ["size", "region"],
            "products": PRODUCTS[::-1],
            "dataset": {"units": {"path": "units.csv", "columns": dict(reversed(UNITS.items()))}},
        },
        1,
        "UPDATE swapped_cells SET count = count + 1 WHERE holding_code = 0",
        "UPDATE confidential.village.units SET county = CASE serial WHEN 1 THEN 'Brent' ELSE 'Cairn' END "
        "WHERE serial < 3",
    ),
    "phsafe": Kind(
        _phsafe,
        {"runs": _backwards(FEW), "states": ["44", "10"], "products": ["PH2", "PH1"]},
        {"rho": "1/100"},
        "UPDATE noisy_measurements SET count = count + 1 WHERE draw_order = 0",
        "UPDATE confidential.town__s_dhc.counts SET count = count + 1 WHERE draw_order = 0",
    ),
    "safetab": Kind(
        _safetab,
        {
            "states": PERSONS["states"][::-1],
            "budgets": _backwards(PERSONS["budgets"]),
            "thresholds": dict(reversed(PERSONS["thresholds"].items())),
        },
        {"rho": "1/100"},
        "UPDATE noisy_measurements SET count = count + 1 WHERE region_type = 'USA'",
        "UPDATE confidential.town__a.counts SET count = count + 1",
    ),
    "topdown": Kind(
        _topdown,
        {
            "invariants": _backwards(TWO_LEVELS["invariants"]),
            "persons": _backwards(TWO_LEVELS["persons"]),
            "units": _backwards(TWO_LEVELS["units"]),
            "products": ["noisy_measurements", "persons", "H1", "P1"],
        },
        {"rho": "1/100"},
        "UPDATE noisy_measurements SET answers = packed(list_transform(unpacked(answers), lambda x: x + 1)) "
        "WHERE number = 0",
        "UPDATE confidential.town__redistricting.histograms SET count = count + 1",
    ),
    "dhc": Kind(
        _dhc,
        {
            **{name: _backwards(BUDGETS[name]) for name in ("persons", "units", "households")},
            "products": ["facilities", "noisy_measurements", "units", "persons", "H3", "P16", "P13", "P12", "P8", "P1"],
        },
        {"rho": 5},
        "UPDATE noisy_measurements SET answers = list_transform(answers, lambda x: x + 1) WHERE number = 0",
        "UPDATE confidential.town__dhc.histograms SET count = count + 1",
    ),
    "table builder": Kind(
        _hypercubes,
        {"hypercubes": [_backwards(TENURE)]},
        1,
        "UPDATE noisy_measurements SET count = count + 1 WHERE draw_order = 0",
        "UPDATE confidential.village__tables_tenure.counts SET count = count + 1 WHERE draw_order = 0",
    ),
    "quantiles": Kind(
        _statistics(1),
        {"hypercubes": [_backwards(STATISTICS) | {"quantiles": STATISTICS["quantiles"]}]},
        1,
        "UPDATE noisy_measurements SET count = count + 1 WHERE draw_order = 0",
        "UPDATE confidential.village__tables_sizes_size_quantiles.counts SET count = count + 1 WHERE draw_order = 0",
    ),
    "drawn quantiles": Kind(
        _statistics(1, DRAWN),
        {
            "hypercubes": [
                _backwards(DRAWN) | {"quantiles": {"size": DRAWN["quantiles"]["size"] | {"at": ["1/4", "1/2"]}}}
            ]
        },
        1,
        "UPDATE noisy_measurements SET count = count + 1 WHERE draw_order = 0",
        "UPDATE confidential.village__tables_sizes_size_quantiles.counts SET count = count + 1 WHERE draw_order = 0",
    ),
    "moments": Kind(
        _statistics(2),
        {"hypercubes": [_backwards(STATISTICS) | {"quantiles": STATISTICS["quantiles"]}]},
        1,
        "UPDATE noisy_measurements SET count = count + 1 WHERE draw_order = 0",
        "UPDATE confidential.village__tables_sizes_moments.counts SET count = count + 1 WHERE draw_order = 0",
    ),
    "pair swapping": Kind(
        _pair_swapping,
        {"key": ["HHT", "HHSPAN", "HHRACE"]},
        None,
        "UPDATE swapped SET TABBLK = '9999' WHERE unit = 1",
        "UPDATE confidential.town__pairs.households SET block = 0 WHERE block = 1",
    ),
    "coarsening": Kind(
        _coarsening,
        {"kept": ["tenure"], "products": COARSE_PRODUCTS[::-1]},
        None,
        "UPDATE coarsened SET count = count + 1",
        "UPDATE confidential.village__coarse.counts SET count = count + 1",
    ),
    "suppression": Kind(
        _suppression,
        {"products": _backwards(SPARSE_PRODUCTS)},
        None,
        "UPDATE suppressed_cells SET count = count + 1 WHERE cell = 0",
        "UPDATE confidential.village__sparse.counts SET count = count + 1",
    ),
    "laplace tables": Kind(
        _laplace,
        {
            "products": _backwards(LAPLACE_PRODUCTS),
            "dataset": {"units": {"path": "units.csv", "columns": _backwards(UNITS)}},
        },
        1,
        "UPDATE noisy_measurements SET count = count + 1 WHERE draw_order = 0",
        "UPDATE confidential.village__noisy.counts SET count = count + 1 WHERE draw_order = 0",
    ),
}
"""All kinds of release, and the worked example of CONTRIBUTING.md."""
