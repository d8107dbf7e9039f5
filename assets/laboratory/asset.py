"""The assets `grid` and `results` of a laboratory.

`grid` is partitioned by point and draw. A run makes any number of partitions in as many processes as there are cores
and stores each as soon as it is made. The next run after a killed one skips the stored partitions. `results` reads all
stored partitions.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.conventions import StageKind, named, preview
from assets.laboratory.attacking import OwnAttack
from assets.laboratory.declaration import LaboratoryDeclaration
from assets.laboratory.evaluation import Truth, measure_baselines, measure_holdout
from assets.laboratory.grid import VERSION, Part, Setting, measure_parts
from assets.laboratory.measures import MEASURES
from assets.laboratory.points import Exact
from assets.laboratory.records import list_tracts, read_tract
from assets.laboratory.results import draw_pictures, label_results, write_results
from assets.pictures import picture
from assets.release.contents import require_synthetic
from assets.release.dataset import CEF, DatasetDeclaration
from assets.stages import stage
from mechanisms.risk.tiers import TIERS
from resources.chain import canonicalize
from resources.custody import Custody
from resources.ledger import Ledger
from resources.machine import count_cores
from resources.statements import SQL, Table, Zone
from resources.warehouse import Session, Warehouse

GRID, RESULTS = "grid", "results"
POINT, DRAW = "point", "draw"

_STORED = SQL("laboratory/stored", "SELECT DISTINCT made_of, draw FROM {{ measures }}")


def build_laboratory(
    declaration: LaboratoryDeclaration, dataset: DatasetDeclaration, sources: Sequence[Path], folder: Path
) -> list[dg.AssetsDefinition]:
    """The assets of a laboratory. Results are written to `folder`.

    Args:
        sources: the source files of all datasets of the deployment, which no attack may open.
    """
    key, cef = dg.AssetKey([declaration.dataset, declaration.name, GRID]), dg.AssetKey([dataset.name, CEF])
    points = {point.key: point for point in declaration.points}
    parts = list_parts(declaration)
    table = Table(Zone.CONFIDENTIAL, declaration.group, "measures")

    @stage(
        key,
        declaration.group,
        StageKind.UTILITY,
        f"Draws of {len(points)} methods with their parameters, each attacked and evaluated. Nothing is published or "
        "charged, so this is possible only on a synthetic dataset.",
        [cef],
        code_version=str(VERSION),
        kinds={"duckdb", "numba"},
        partitions_def=parts,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def grid(
        context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody, ledger: Ledger
    ) -> dg.MaterializeResult:
        own = {name: OwnAttack.find(target) for name, target in declaration.attacks.items()}
        with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
            require_synthetic(session, ledger, dataset)
            digests = compute_digests(session, custody, declaration, dataset, own)
            truths = read_truths(session, declaration, dataset)
            is_stored = table.name in session.tables(table.zone, table.schema)
            stored = set(session.rows(_STORED, measures=table)) if is_stored else set()
        fit = {
            key: [name for name, truth in truths.items() if point.can_publish(truth.tract)]
            for key, point in points.items()
        }
        for key, names in fit.items():
            if too_small := sorted(truths.keys() - names):
                context.log.warning(f"{key}: left out are tracts that are too small for it: {', '.join(too_small)}")
        # Draw by draw, so that an unfinished run already compares all methods.
        wanted = sorted(
            (int(keys[DRAW]), keys[POINT])
            for keys in (parts.get_partition_key_from_str(key).keys_by_dimension for key in context.partition_keys)
        )
        missing = [
            Part.of(points[key], draw, digests[key], declaration.group, fit[key], custody)
            for draw, key in wanted
            if fit[key] and (digests[key][1], draw) not in stored
        ]
        left_out = [Path(warehouse.folder), Path(custody.folder), *sources]
        attackers, measured_by = declaration.attackers, declaration.measured
        setting = Setting(
            truths, declaration.targets, attackers, measured_by, own, declaration.attack_seconds, left_out
        )
        with closing(measure_parts(setting, missing, count_cores())) as measured:
            for number, (part, measures) in enumerate(zip(missing, measured, strict=True), 1):
                with warehouse.session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
                    values = {"point": part.point.key, "draw": part.draw} if is_stored else {}
                    new = session.register("new", measures)
                    session.create(table, "laboratory/merged", values, stored=table if is_stored else None, new=new)
                is_stored = True
                context.log.info(f"{part.point.key}, draw {part.draw}: {number} of {len(missing)}")
        before = sum((digests[key][1], draw) in stored for draw, key in wanted)
        return dg.MaterializeResult(metadata={"made now": len(missing), "stored before": before, "table": named(table)})

    @stage(
        dg.AssetKey([declaration.dataset, declaration.name, RESULTS]),
        declaration.group,
        StageKind.UTILITY,
        "Risk against error of every method with each of its parameters, from all parts of the grid that are stored.",
        [cef, key],
        kinds={"duckdb", "matplotlib"},
    )
    def results(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        own = {name: OwnAttack.find(target) for name, target in declaration.attacks.items()}
        with warehouse.session(reads=[Zone.PUBLIC], writes=Zone.CONFIDENTIAL) as session:
            # It measures guesses on the records as they are now, which may be others than those of the grid.
            require_synthetic(session, ledger, dataset)
            digests = compute_digests(session, custody, declaration, dataset, own)
            measures = _read_current(session, table, [made_of for _, made_of in digests.values()])
            truths = read_truths(session, declaration, dataset)
            baselines = [
                {POINT: "", DRAW: 1, "made_of": "", "tract": name} | vars(measure)
                for name, truth in truths.items()
                for measure in (
                    *measure_baselines(truth),
                    *(measure_holdout(truth, [other for other in truths.values() if other is not truth])),
                )
                if measure.measure in declaration.measured
            ]
            together = pa.concat_tables([measures, pa.Table.from_pylist(baselines, schema=measures.schema)])
            registered = session.register("together", together)
            values = {"unprotected": Exact().key}
            rows = session.arrow("laboratory/results", values, measures=registered).to_pylist()
            labelled = label_results(rows, declaration)
            stored = Table(Zone.CONFIDENTIAL, declaration.group, RESULTS)
            with session.transaction():
                session.create(stored, "warehouse/all", source=session.register("labelled", labelled))
            version = session.content_version([stored], custody.version_key())
        pictures = draw_pictures(labelled, declaration)
        files = write_results(folder, labelled, declaration, {name: content for name, (content, _) in pictures.items()})
        made = len(set(zip(*(measures[name].to_pylist() for name in (POINT, DRAW)), strict=True)))
        shown: dict[str, Any] = {f"{name} against error": picture(*drawn) for name, drawn in pictures.items()}
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata=shown
            | {
                "parts of the grid": f"{made} of {len(points) * declaration.draws}",
                "attackers": ", ".join([*declaration.attackers, *declaration.attacks]),
                "measures": f"{len(declaration.measured)} of {len(MEASURES)}",
                "files": preview(["file", "folder"], [(file.name, str(file.parent)) for file in files]),
                "table": named(stored),
            },
        )

    return [grid, results]


def list_parts(declaration: LaboratoryDeclaration) -> dg.MultiPartitionsDefinition:
    draws = [f"{number:04}" for number in range(1, declaration.draws + 1)]
    points = [point.key for point in declaration.points]
    return dg.MultiPartitionsDefinition(
        {DRAW: dg.StaticPartitionsDefinition(draws), POINT: dg.StaticPartitionsDefinition(points)}
    )


def compute_digests(
    session: Session,
    custody: Custody,
    declaration: LaboratoryDeclaration,
    dataset: DatasetDeclaration,
    own: Mapping[str, OwnAttack],
) -> dict[str, tuple[str, str]]:
    """By point, a digest of all inputs to its draws and one of all inputs to its measures, except the number of the
    draw. Two digests, because added attackers and measures use the same draws."""
    parts: dict[str, Any] = {
        "version": VERSION,
        "records": session.content_version(dataset.cef_tables(), custody.version_key()),
        "laboratory": declaration.group,
        "tier": declaration.tier,
        "tracts": declaration.tracts,
        **({} if declaration.counties is None else {"counties": declaration.counties}),
        "targets": declaration.targets,
        "attacks": {},
    }
    found = {"own": {name: [attack.target, attack.version] for name, attack in own.items()}} if own else {}
    # The name of a point has six digits of each number; its representation has all digits.
    return {
        point.key: (
            sha256(canonicalize(parts | {POINT: repr(point)})).hexdigest(),
            sha256(canonicalize(parts | found | declaration.chosen | {POINT: repr(point)})).hexdigest(),
        )
        for point in declaration.points
    }


def read_truths(session: Session, declaration: LaboratoryDeclaration, dataset: DatasetDeclaration) -> dict[str, Truth]:
    """By name, the declared number of tracts or counties, spread evenly over the whole dataset."""
    places, wanted = list_tracts(session, dataset), declaration.tracts
    if declaration.counties is not None:
        places, wanted = list(dict.fromkeys(names[:2] for names in places)), declaration.counties
    number = min(wanted, len(places))
    chosen = [places[each * len(places) // number] for each in range(number)]
    tier, groups = TIERS[declaration.tier], declaration.codes_of_groups
    return {"".join(names): Truth(read_tract(session, dataset, tier, names, groups)) for names in chosen}


def _read_current(session: Session, table: Table, digests: Sequence[str]) -> pa.Table:
    if table.name not in session.tables(table.zone, table.schema):
        raise dg.Failure("no part of the grid is stored yet: materialize partitions of it first", allow_retries=False)
    return session.arrow("laboratory/current", {"digests": digests}, measures=table)
