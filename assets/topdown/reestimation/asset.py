"""The assets `measurements`, `estimates`, `tables` and `publication` of a reestimation, and their gates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.cef.census import find_place_names
from assets.confidentiality import find_leaks, list_deployed_nodes
from assets.conventions import StageKind, group_digits, preview
from assets.gates.shared import build_gates, count_problem, differing_table
from assets.publication.asset import link, publish
from assets.publication.package import DataFile
from assets.publication.record import Check
from assets.release.gate import Gate, ReleaseContext, read_claim
from assets.release.method import PUBLICATION
from assets.release.published import PublishedTable, require_placeable
from assets.release.signature import fingerprint, public_key, signed_identity
from assets.release.stage import Recipes, build_stage, create_tables, release_stage, store_rows
from assets.release.statement import Parameter
from assets.tabulation.asset import TABLES
from assets.topdown.anew import Bounded, Histograms, bound_cells, count_cells, estimate_as
from assets.topdown.asking import Measured, read_tree
from assets.topdown.intervals import COLUMNS as OF_INTERVALS
from assets.topdown.intervals import DIGITS, interval_table
from assets.topdown.reestimation.certificate import EstimateCertificate
from assets.topdown.reestimation.declaration import SOURCES, TEXTS, Reestimation, ReestimationError
from assets.topdown.reestimation.measurements import make_recipes, open_measurements, read_opened, read_stored
from assets.topdown.tables import redistricting_table
from mechanisms.topdown.design import SCHEMAS
from mechanisms.topdown.feasibility import FREE
from mechanisms.topdown.redistricting import REDISTRICTING
from resources.arrays import to_lists
from resources.clock import TimeStamp
from resources.custody import CURRENT, Custody
from resources.ledger import Ledger
from resources.statements import SQL, Zone
from resources.warehouse import Session, Warehouse

MEASURED, ESTIMATES = "measurements", "estimates"

_OF_LEVEL = SQL("reestimation/estimates", "FROM {{ table }} WHERE histogram = $histogram AND level = $level")


@dataclass(frozen=True)
class Anew:
    """A reestimation as the method of its publication, without a draw."""

    release: Reestimation
    estimation = ()
    stages = (MEASURED, ESTIMATES, TABLES)
    keeps_verdicts = False

    def own_gates(self) -> list[Gate[Reestimation]]:
        return [
            Gate(check.__name__.removeprefix("_"), stage, read_claim(check), check)
            for stage, checks in _CHECKS.items()
            for check in checks
        ]

    def tables(self) -> Sequence[PublishedTable]:
        return tuple(self.release.products.values())

    def describe_declared(self) -> dict[str, Any]:
        return {}

    def models(self, session: Session, custody: Custody) -> Sequence[Parameter]:
        return [Parameter("Leaning on housing units", "yes", TEXTS("leaning"))] if self.release.design.leaning else ()


def build_reestimation(release: Reestimation) -> dg.Definitions:
    """The assets and checks. Raises DeclarationError if a published table could not be written."""
    method: Any = Anew(release)
    require_placeable(release, method.tables())
    assets = [
        _build_measurements(release),
        _build_estimates(release),
        _build_tables(release),
        _build_publication(method),
    ]
    return dg.Definitions(assets=assets, asset_checks=build_gates(method))


def _build_measurements(release: Reestimation) -> dg.AssetsDefinition:
    deps = [release.of.key(PUBLICATION)] if release.of else []
    words = TEXTS("measurements", description=release.dataset.description)

    @release_stage(release, MEASURED, StageKind.POSTPROCESSING, words, deps, kinds={"duckdb", "parquet"})
    def measurements(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        opened = open_measurements(release, custody, ledger)
        measured = read_opened(release, opened)
        # Before storing, because the declaration may need another estimation or other measurements.
        release.design.complete(list(next(iter(measured.values())).tree))
        with release.adapt(warehouse).session(writes=Zone.PUBLIC) as session:
            made = make_recipes(session, release, opened, measured)
            with session.transaction():
                create_tables(session, made)
            version = session.content_version(list(made))
        own = next(iter(measured.values()))
        places = [(level, f"{len(codes):,}") for level, codes in own.codes.items()]
        metadata: dict[str, Any] = {
            "charged": "nothing",
            "source": release.dataset.source,
            "files": len(opened.digests),
            "sha256": group_digits(opened.checksums),
            "places": preview(["level", "places"], places),
        }
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=metadata)

    return measurements


def _build_estimates(release: Reestimation) -> dg.AssetsDefinition:
    return build_stage(
        release,
        ESTIMATES,
        StageKind.POSTPROCESSING,
        TEXTS("estimates", how=str(release.design)),
        [MEASURED],
        lambda session: _estimates_recipes(session, release),
        {"number": "Number of the place within its level", "cell": "Number of the cell of the histogram"},
        kinds={"duckdb", "numba"},
    )


def _build_tables(release: Reestimation) -> dg.AssetsDefinition:
    return build_stage(
        release,
        TABLES,
        StageKind.TABULATION,
        TEXTS("tables", tables=list(REDISTRICTING)),
        [MEASURED, ESTIMATES],
        lambda session: _tables_recipes(session, release),
        metadata=lambda session, tables: {
            "tables": preview(["table", "rows"], [(table.name, f"{session.count(table):,}") for table in tables])
        },
        kinds={"duckdb", "numba"},
    )


def _estimates_recipes(session: Session, release: Reestimation) -> Recipes:
    """The recipe of the estimates, from the stored measurements."""
    estimated = estimate_as(read_stored(session, release), release.design)
    parts = []
    for name, found in estimated.items():
        for level, counts in found.histograms.items():
            number, cell = np.nonzero(counts)
            named = {"histogram": pa.repeat(name, len(number)), "level": pa.repeat(level, len(number))}
            parts.append(pa.table({**named, "number": number, "cell": cell, "count": counts[number, cell]}))
    table = release.public(ESTIMATES)
    return {table: store_rows(session, f"made_{ESTIMATES}", pa.concat_tables(parts))}


def _read_estimates(session: Session, release: Reestimation, measured: Mapping[str, Measured]) -> dict[str, Histograms]:
    """The stored histograms. Raises ReestimationError if a count is of an unknown place or cell, or is repeated."""
    found = {}
    for name, own in measured.items():
        histograms = {}
        for level, parents in own.tree.items():
            counts = np.zeros((len(parents), SCHEMAS[name].size), dtype=np.int64)
            rows = session.arrow(_OF_LEVEL, {"histogram": name, "level": level}, table=release.public(ESTIMATES))
            number, cell, count = (rows[column].to_numpy() for column in ("number", "cell", "count"))
            inside = (number >= 0) & (number < len(counts)) & (cell >= 0) & (cell < counts.shape[1])
            if not inside.all() or len(np.unique(number * counts.shape[1] + cell)) < len(number):
                raise ReestimationError(
                    f"{release.schema}: {ESTIMATES}: {name} {level}: a cell is of no place, or twice"
                )
            counts[number, cell] = count
            histograms[level] = counts
        found[name] = Histograms(histograms, 0.0, 0.0)
    return found


def _tables_recipes(session: Session, release: Reestimation) -> Recipes:
    """The recipes of all tables, from the stored measurements and estimates."""
    measured = read_stored(session, release)
    estimated = _read_estimates(session, release, measured)
    place_names = find_place_names(release.of.dataset) if release.of else {}
    made = {}
    for name, table in REDISTRICTING.items():
        own = measured[table.schema.name]
        rows = count_cells(table, own, estimated[table.schema.name])
        depths = np.repeat(np.arange(len(own.codes)), [len(codes) for codes in own.codes.values()])
        names = pa.array([place_names.get(code) for code in rows["geoid"].to_pylist()], pa.string())
        rows = rows.add_column(0, "depth", pa.array(depths)).add_column(3, "name", names)
        made[redistricting_table(release, name)] = store_rows(session, f"made_{name}", rows)  # type: ignore[arg-type]
    bounded: dict[str, list[pa.Table]] = {name: [] for name in REDISTRICTING}
    for cells in bound_cells(measured):
        bounded[cells.table.name].append(_list_numbers(release, cells))
    for name, parts in bounded.items():
        stored = interval_table(release, name)  # type: ignore[arg-type]
        made[stored] = store_rows(session, f"made_{stored.name}", pa.concat_tables(parts))
    return made


def _list_numbers(release: Reestimation, cells: Bounded) -> pa.Table:
    """A row for each place, with the numbers of all cells in lists, in the format of a release."""
    if max(cells.lower.max(initial=0), cells.upper.max(initial=0)) > np.iinfo(np.int32).max:
        raise ReestimationError(f"{release.schema}: {cells.level}: the end of an interval is 2^31 or more")
    numbers: list[tuple[NDArray[Any], int | None]] = [
        (np.rint(cells.estimate * 10**DIGITS).astype(np.int64), DIGITS),
        *((end.astype(np.int32), None) for end in (cells.lower, cells.upper)),
    ]
    named = {"level": pa.repeat(cells.level, len(cells.codes)), "geoid": pa.array(cells.codes, pa.string())}
    lists = (to_lists(np.ascontiguousarray(each), digits) for each, digits in numbers)
    return pa.table(named | dict(zip(OF_INTERVALS, lists, strict=True)))


def _measurements_as_published(context: ReleaseContext[Reestimation]) -> list[str]:
    """The files that the measurements are from are as declared and, if they are a publication, signed and unaltered;
    and the stored measurements are those in the files."""
    opened = open_measurements(context.release, context.custody, context.ledger)
    measured = read_opened(context.release, opened)
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        recipes = make_recipes(session, context.release, opened, measured)
        return _list_differing(session, recipes)


def _estimates_as_made(context: ReleaseContext[Reestimation]) -> list[str]:
    """Estimating the stored measurements again gives the stored estimates."""
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        return _list_differing(session, _estimates_recipes(session, context.release))


def _within_limits(context: ReleaseContext[Reestimation]) -> list[str]:
    """No estimated count is negative. All add up to those of the place above in every cell, and keep the exact totals
    and bounds."""
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        measured = read_stored(session, context.release)
        estimated = _read_estimates(session, context.release, measured)
    return [problem for name, own in measured.items() for problem in _find_violations(name, own, estimated[name])]


def _find_violations(name: str, measured: Measured, estimated: Histograms) -> Iterator[str]:
    above: NDArray[np.int64] | None = None
    for (level, parents), limits in zip(measured.tree.items(), measured.limits, strict=True):
        counts = estimated.histograms[level]
        groups = measured.schema.groups.answer(counts)
        sums = np.zeros_like(above if above is not None else counts)
        np.add.at(sums, np.asarray(parents, dtype=np.int64), counts)
        fixed = limits.totals != FREE
        wrong = {
            "negative counts": counts < 0,
            "cells that do not add up to the place above": False if above is None else sums != above,
            "places without their exact total": counts.sum(axis=1)[fixed] != limits.totals[fixed],
            "groups out of their bounds": (groups < limits.lower) | (groups > limits.upper),
        }
        for words, found in wrong.items():
            yield from count_problem(int(np.count_nonzero(found)), f"{name} {level}: {words}")
        above = counts


def _tables_as_made(context: ReleaseContext[Reestimation]) -> list[str]:
    """Every stored table follows from the stored estimates and measurements."""
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        return _list_differing(session, _tables_recipes(session, context.release))


def _confidentiality(context: ReleaseContext[Reestimation]) -> list[str]:
    """Every path from confidential data to the publication passes through a charged draw or a declared invariant."""
    release = context.release
    return find_leaks(context.nodes, release.key(PUBLICATION), drawn=release.of is not None)


def _list_differing(session: Session, recipes: Recipes) -> list[str]:
    return [problem for table, recipe in recipes.items() for problem in differing_table(session, table, recipe)]


_CHECKS = {
    MEASURED: (_measurements_as_published,),
    ESTIMATES: (_estimates_as_made, _within_limits),
    TABLES: (_tables_as_made, _confidentiality),
}


def _build_publication(method: Any) -> dg.AssetsDefinition:
    release: Reestimation = method.release
    words = TEXTS("publication", description=release.description, folder=f"{release.dataset.name}/{release.name}")
    stages = [MEASURED, ESTIMATES, TABLES]

    @release_stage(release, PUBLICATION, StageKind.PUBLICATION, words, stages, kinds={"csv", "parquet", "html"})
    def publication(
        context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody, ledger: Ledger
    ) -> dg.MaterializeResult:
        with release.adapt(warehouse).session(reads=[Zone.PUBLIC]) as session:
            of_levels: Any = Anew(with_levels(session, release))
        nodes = list_deployed_nodes(context)
        of_run: ReleaseContext[Any] = ReleaseContext(of_levels, release.adapt(warehouse), custody, ledger, nodes)
        certificate, sums = publish(of_run, certify)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(sums),
            metadata={
                "charged": "nothing",
                "source": release.dataset.source,
                "sha256 of the source": group_digits(certificate.opened.checksums),
                "edition": certificate.edition_name,
                "certificate": link(release, "certificate.html"),
                "folder": link(release),
                "files": preview(["file", "rows"], [(file.path, f"{file.rows:,}") for file in certificate.products]),
            },
        )

    return publication


def with_levels(session: Session, release: Reestimation) -> Reestimation:
    """The release with the levels of the stored measurements. Raises PlacesError unless the places form a tree."""
    tree, _ = read_tree(lambda name: session.arrow("warehouse/all", source=release.public(name)))
    return replace(release, levels=tuple(tree))


def certify(
    context: ReleaseContext[Any],
    session: Session,
    passed: tuple[Check, ...],
    files: tuple[DataFile, ...],
    stamp: TimeStamp | None,
) -> EstimateCertificate:
    """Raises ReestimationError if the files of the measurements have changed since the stage `measurements`."""
    release, custody, key = context.release, context.custody, public_key(context.custody)
    opened = open_measurements(release, context.custody, context.ledger)
    if dict(session.rows("warehouse/all", source=release.public(SOURCES))) != dict(opened.digests):
        raise ReestimationError(f"{release.schema}: the files of the measurements were altered meanwhile")
    # Also the editions in the custody's record, so that numbers are not reused after the folder is removed.
    kept = custody.read_editions(release.dataset.name, release.name)
    known = {(int(name.partition(".")[0]), draw_id) for name, (draw_id, _) in kept.items() if name != CURRENT}
    if present := signed_identity(release.folder, key):
        known.add((present.edition, present.draw_id))
    return EstimateCertificate(release, opened, known, passed, files, fingerprint(key))
