"""The data flow of a release, from the project's asset graph, and its picture."""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from assets.conventions import CROSSING, STAGE_KIND, ZONE, StageKind
from assets.pictures import BLUE, INK, PALE_BLUE, QUIET, VERMILION
from docs.pictures.shapes import Arrow, Box, Diamond, Drawing, Line
from orchestration.definitions import defs
from resources.statements import Zone

FILLS = {Zone.CONFIDENTIAL.value: "#fbe6d8", Zone.PUBLIC.value: PALE_BLUE}
EDGES = {Zone.CONFIDENTIAL.value: VERMILION, Zone.PUBLIC.value: BLUE}
LANES = {Zone.CONFIDENTIAL.value: (32.0, 210.0), Zone.PUBLIC.value: (500.0, 226.0)}
"""By zone, where its boxes begin and how wide they are."""
BORDER = 385.0
"""Where one zone ends and the other begins."""
BETWEEN, BEYOND, TRACK = 262.0, 744.0, 20.0
"""Where the first vertical lines are, between the lanes and to the right of them, and how far apart such lines are."""
FIRST, PITCH, HEIGHT = 112.0, 46.0, 30.0
"""The top of the first box, the distance to the next, and a box's height."""
CROSSINGS = {"invariant": "invariant", "draw": "charged draw", "keyed-version": "keyed version"}
"""The crossing tag in words."""


@dataclass(frozen=True)
class Stage:
    """An asset of a release as the picture shows it, without dataset and release in its names, with the number of its
    blocking checks; `crossing` explains why it may be made from confidential data."""

    name: str
    zone: str
    kind: str
    crossing: str | None
    parents: tuple[str, ...]
    checks: int


def load_definitions() -> dg.Definitions:
    """The project's definitions, without Dagster's warnings of its own changes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return defs()


def list_stages(defined: dg.Definitions, dataset: str, release: str) -> list[Stage]:
    """The stages of a release, with the dataset's and the ledger: each after its parents, else by kind."""
    specs = {spec.key.to_user_string(): spec for spec in defined.resolve_all_asset_specs()}
    own = {key for key, spec in specs.items() if list(spec.key.path[:-1]) in ([dataset, release], [dataset], [])}
    checks = Counter(
        spec.asset_key.to_user_string()
        for check in defined.asset_checks or ()
        if isinstance(check, dg.AssetsDefinition)
        for spec in check.check_specs
    )
    kinds = list(StageKind)
    left = [
        Stage(
            name=spec.key.path[-1],
            zone=spec.tags[ZONE],
            kind=spec.tags[STAGE_KIND],
            crossing=spec.tags.get(CROSSING),
            parents=tuple(sorted(dep.asset_key.path[-1] for dep in spec.deps if dep.asset_key.to_user_string() in own)),
            checks=checks[key],
        )
        for key, spec in specs.items()
        if key in own
    ]
    left.sort(key=lambda stage: (kinds.index(StageKind(stage.kind)), stage.name))
    ordered: list[Stage] = []
    while left:
        names = {stage.name for stage in ordered}
        following = next(stage for stage in left if names.issuperset(stage.parents))
        left.remove(following)
        ordered.append(following)
    return ordered


def draw_lineage(title: str, flow: Sequence[Stage]) -> Drawing:
    """How the data of a release flow: a lane for each zone, and marks where data leave the confidential one."""
    end = FIRST + PITCH * len(flow)
    words = "From top to bottom in the order of a run. An arrow leads from a stage to what is computed from it."
    drawing = Drawing(end + 56)
    drawing.write_head(title, words)
    drawing.add(Line(((BORDER, 66), (BORDER, end - 4)), QUIET))
    drawing.write(20, 84, "Confidential zone", 13, "#8f3f00", bold=True)
    drawing.write(BORDER + 14, 84, "Public zone", 13, "#00527f", bold=True)
    boxes = {stage.name: _make_box(stage, FIRST + PITCH * number) for number, stage in enumerate(flow)}
    zones = {stage.name: stage.zone for stage in flow}
    arrows = _make_arrows(flow, boxes)
    drawing.add(*arrows)
    for stage in flow:
        box = boxes[stage.name]
        drawing.add(box)
        y, charge = box.center[1], stage.kind == StageKind.CHARGE
        drawing.write(box.left + 10, y, stage.name, 12.5, background=box.fill, bold=charge)
        if stage.checks:
            number = f"{stage.checks} check{'s' * (stage.checks > 1)}"
            drawing.write(box.left + box.width - 10, y, number, 11, background=box.fill, align="right")
    for stage in flow:
        crossing = [
            arrow.points[-1][1]
            for arrow in arrows
            if arrow.target == stage.name and (zones[arrow.source], stage.zone) == (Zone.CONFIDENTIAL, Zone.PUBLIC)
        ]
        if crossing:
            # Arrows into the same stage are so close that one mark is on all of them.
            y, several = sum(crossing) / len(crossing), "s" * (len(crossing) > 1)
            drawing.add(Diamond(BORDER, y, INK))
            drawing.write(BORDER + 12, y - 11, CROSSINGS[stage.crossing or ""] + several, 11)
    drawing.add(Diamond(28, end + 12, INK))
    drawing.write(42, end + 12, "The only ways out of the confidential zone, and why each is allowed.")
    drawing.add(Box(20, end + 26, 16, 16, FILLS[Zone.PUBLIC.value], INK, 2.5))
    drawing.write(42, end + 34, "The charge: the ledger reserves the loss before anything is drawn.")
    return drawing


def _make_box(stage: Stage, top: float) -> Box:
    left, width = LANES[stage.zone]
    edge, line = (INK, 2.5) if stage.kind == StageKind.CHARGE else (EDGES[stage.zone], 1.0)
    return Box(left, top, width, HEIGHT, FILLS[stage.zone], edge, line)


def _make_arrows(flow: Sequence[Stage], boxes: dict[str, Box]) -> list[Arrow]:
    """Straight down to the next box of the same lane; else by a vertical line that the source has for itself, as long
    as it reaches: the first one that no other source needs there."""
    arrows = []
    entered: Counter[tuple[str, bool]] = Counter()
    ends: dict[bool, list[float]] = {False: [], True: []}
    for number, stage in enumerate(flow):
        box = boxes[stage.name]
        right, leaves = box.left + box.width, box.top + HEIGHT - 8
        following = next((other.name for other in flow[number + 1 :] if other.zone == stage.zone), None)
        aside: dict[bool, list[tuple[Stage, float]]] = {False: [], True: []}
        for child in (other for other in flow if stage.name in other.parents):
            end = boxes[child.name]
            if child.name == following:
                down = ((box.center[0], box.top + HEIGHT), (box.center[0], end.top))
                arrows.append(Arrow(stage.name, child.name, down, EDGES[stage.zone]))
            else:
                outside = child.zone == stage.zone == Zone.PUBLIC
                entered[child.name, outside] += 1
                aside[outside].append((child, end.top + 3 + 5 * entered[child.name, outside]))
        for outside, children in aside.items():
            if not children:
                continue
            free = next((track for track, last in enumerate(ends[outside]) if last < leaves), len(ends[outside]))
            ends[outside][free : free + 1] = [max(enters for _, enters in children)]
            track = (BEYOND if outside else BETWEEN) + TRACK * free
            start = right if outside or stage.zone == Zone.CONFIDENTIAL else box.left
            for child, enters in children:
                end = boxes[child.name]
                stop = end.left + end.width if outside or child.zone == Zone.CONFIDENTIAL else end.left
                points = ((start, leaves), (track, leaves), (track, enters), (stop, enters))
                arrows.append(Arrow(stage.name, child.name, points, EDGES[stage.zone]))
    return arrows
