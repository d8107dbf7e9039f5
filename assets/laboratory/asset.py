"""The assets `grid` and `results` of a laboratory.

`grid` is partitioned by point and draw. A run makes any number of partitions one after the other, and stores each when
it is made: a run that was killed leaves those that are stored, and the next one skips them. `results` is made of all
that are stored.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.cef.readers import source_paths
from assets.conventions import StageKind, named, preview
from assets.laboratory.attacking import Attacker, OwnAttack
from assets.laboratory.declaration import LaboratoryDeclaration
from assets.laboratory.evaluation import Truth, measure_baselines, measure_holdout
from assets.laboratory.grid import VERSION, Part, measure_part
from assets.laboratory.points import Exact
from assets.laboratory.records import list_tracts, read_tract
from assets.laboratory.results import draw_pictures, label_results, write_results
from assets.pictures import picture
from assets.release.dataset import CEF, DatasetDeclaration
from assets.stages import stage
from mechanisms.risk.tiers import TIERS
from resources.chain import canonicalize
from resources.custody import Custody
from resources.statements import SQL, Table, Zone
from resources.warehouse import Session, Warehouse

GRID, RESULTS = "grid", "results"
POINT, DRAW = "point", "draw"

_IS_STORED = SQL(
    "laboratory/is_stored", "SELECT count(*) FROM {{ measures }} WHERE made_of = $made_of AND draw = $draw"
)


def build_laboratory(
    declaration: LaboratoryDeclaration, dataset: DatasetDeclaration, root: Path, folder: Path
) -> list[dg.AssetsDefinition]:
    """The assets of a laboratory. Relative source paths start from `root`; `folder` gets the files of results."""
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
    def grid(context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        own = {name: OwnAttack.find(target) for name, target in declaration.attacks.items()}
        with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            digests = compute_digests(session, custody, declaration, dataset, own)
            truths = read_truths(session, declaration, dataset)
        left_out = [Path(warehouse.folder), Path(custody.folder), *source_paths(dataset, root)]
        # Draw by draw, so that a run that has not ended compares all methods already.
        wanted = sorted(
            (int(keys[DRAW]), keys[POINT])
            for keys in (parts.get_partition_key_from_str(key).keys_by_dimension for key in context.partition_keys)
        )
        made = 0
        with Attacker(own, left_out) as attacker:
            for draw, point in wanted:
                part = Part(points[point], draw, digests[point])
                with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
                    values = {"made_of": part.made_of, "draw": draw}
                    stored = table.name in session.tables(table.zone, table.schema)
                    if stored and session.row(_IS_STORED, values, measures=table) != (0,):
                        continue
                measures = measure_part(declaration, part, truths, attacker, custody)
                with warehouse.session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
                    values = {"point": point, "draw": draw} if stored else {}
                    new = session.register("new", measures)
                    session.create(table, "laboratory/merged", values, stored=table if stored else None, new=new)
                made += 1
                context.log.info(f"{point}, draw {draw}: {made} of {len(wanted)}")
        return dg.MaterializeResult(
            metadata={"made now": made, "stored before": len(wanted) - made, "table": named(table)}
        )

    @stage(
        dg.AssetKey([declaration.dataset, declaration.name, RESULTS]),
        declaration.group,
        StageKind.UTILITY,
        "Risk against error of every method with each of its parameters, from all parts of the grid that are stored.",
        [cef, key],
        kinds={"duckdb", "matplotlib"},
    )
    def results(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        own = {name: OwnAttack.find(target) for name, target in declaration.attacks.items()}
        with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
            digests = compute_digests(session, custody, declaration, dataset, own)
            measures = _read_current(session, table, digests)
            truths = read_truths(session, declaration, dataset)
            baselines = [
                {POINT: "", DRAW: 1, "made_of": "", "tract": name} | vars(measure)
                for name, truth in truths.items()
                for measure in (
                    *measure_baselines(truth),
                    *(measure_holdout(truth, [other for other in truths.values() if other is not truth])),
                )
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
) -> dict[str, str]:
    """By point, the digest of all that its measures follow from but the number of the draw."""
    parts = {
        "version": VERSION,
        "records": session.content_version(dataset.cef_tables(), custody.version_key()),
        "laboratory": declaration.group,
        "tier": declaration.tier,
        "tracts": declaration.tracts,
        "targets": declaration.targets,
        "attacks": {name: [attack.target, attack.version] for name, attack in own.items()},
    }
    keys = [point.key for point in declaration.points]
    return {key: sha256(canonicalize(parts | {POINT: key})).hexdigest() for key in keys}


def read_truths(session: Session, declaration: LaboratoryDeclaration, dataset: DatasetDeclaration) -> dict[str, Truth]:
    """By name, the declared number of tracts, spread evenly over all of the dataset."""
    tracts = list_tracts(session, dataset)
    number = min(declaration.tracts, len(tracts))
    chosen = [tracts[place * len(tracts) // number] for place in range(number)]
    tier, groups = TIERS[declaration.tier], declaration.codes_of_groups
    return {"".join(names): Truth(read_tract(session, dataset, tier, names, groups)) for names in chosen}


def _read_current(session: Session, table: Table, digests: Mapping[str, str]) -> pa.Table:
    if table.name not in session.tables(table.zone, table.schema):
        raise dg.Failure("no part of the grid is stored yet: materialize partitions of it first", allow_retries=False)
    return session.arrow("laboratory/current", {"digests": list(digests.values())}, measures=table)
