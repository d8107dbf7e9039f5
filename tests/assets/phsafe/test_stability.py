"""The stability of the truncated join (Lemma 6), by an adversarial search that also catches programs without it.

A *world* is a small census and a neighbor of it: one person more or fewer, and with the person up to two unit records
removed or added, anywhere (a unit whose attributes change is one removed and one added). Lemma 6 bounds the change of
the join by 2τ + 2; its proof bounds it more tightly, by 2 + kτ where k unit records differ. Worlds are tried many at a
time, side by side in one census, each with keys and a state of its own. Seeds are fixed, so there are no false alarms.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from jinja2 import ChoiceLoader, DictLoader

from assets.phsafe.counts import join_recipe
from mechanisms.phsafe.runs import RUN, RUNS
from resources import statements
from resources.statements import SQL_FOLDER, Zone
from resources.warehouse import Session, Warehouse
from tests.assets.phsafe.oracle import JOINING, VACANT, Census, Person, Unit, thresholds

pytestmark = pytest.mark.deep


THRESHOLD = 3
GENERATIONS, LINES = 50, 8
KEYS = 3
DIFFERENT = ["PH1_num", "PH3", "PH4", "PH6"]
"""Runs that differ in their universes; PH2 and PH7 have that of PH1_num."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("warehouse")
    with Warehouse(folder=str(folder), threads=1).session(writes=Zone.CONFIDENTIAL) as opened:
        yield opened


@dataclass(frozen=True)
class World:
    """A census and its neighbor: their common records, and the records of only one."""

    persons: tuple[Person, ...]
    person: Person
    units: tuple[Unit, ...]
    removed: tuple[Unit, ...]
    added: tuple[Unit, ...]

    @property
    def before(self) -> tuple[tuple[Unit, ...], tuple[Person, ...]]:
        return (*self.units, *self.removed), self.persons

    @property
    def after(self) -> tuple[tuple[Unit, ...], tuple[Person, ...]]:
        return (*self.units, *self.added), (*self.persons, self.person)


def any_person(source: random.Random) -> Person:
    return Person(
        source.randrange(KEYS),
        PERSON_RTYPE=source.choice("33335"),
        QAGE=source.choice([3, 3, 4, 40]),
        CENRACE=source.choice(["01", "02"]),
        RELSHIP=source.choice(["20", "25", "25", "25", "36"]),
    )


def any_unit(source: random.Random) -> Unit:
    if source.random() < 0.1:
        return Unit(source.randrange(KEYS), **VACANT)
    return Unit(
        source.randrange(KEYS),
        HHRACE=source.choice(["01", "02"]),
        TEN=source.choice("13"),
        HHT=source.choice("114"),
        HHT2=source.choice(["01", "03"]),
        CPLT=source.choice("13"),
    )


def first_world(source: random.Random, units_changed: int) -> World:
    changed = [any_unit(source) for _ in range(units_changed)]
    cut = source.randint(0, units_changed)
    return World((), any_person(source), (any_unit(source),), tuple(changed[:cut]), tuple(changed[cut:]))


def mutated(world: World, source: random.Random) -> World:
    """The world with one change, and the same number of unit records that differ between the neighbors."""
    persons, units = list(world.persons), list(world.units)
    match source.randrange(8):
        case 0 | 1:
            persons.append(source.choice([any_person(source), *persons]))
        case 2 if persons:
            persons.pop(source.randrange(len(persons)))
        case 3 if persons:
            persons[source.randrange(len(persons))] = any_person(source)
        case 4:
            units.append(any_unit(source))
        case 5 if units:
            units.pop(source.randrange(len(units)))
        case 6:
            return replace(world, person=any_person(source))
        case 7:
            removed, added = list(world.removed), list(world.added)
            changed = source.choice([side for side in (removed, added) if side] or [[]])
            if changed:
                changed.pop(source.randrange(len(changed)))
                source.choice([removed, added]).append(any_unit(source))
            return replace(world, removed=tuple(removed), added=tuple(added))
    return replace(world, persons=tuple(persons[:14]), units=tuple(units[:5]))


def side_by_side(session: Session, sides: list[tuple[tuple[Unit, ...], tuple[Person, ...]]], seed: int) -> Census:
    """One census of many small ones, its rows in a random order."""
    units = [
        unit._replace(MAFID=unit.MAFID + KEYS * number, TABBLKST=f"{number:03d}")
        for number, (these, _) in enumerate(sides)
        for unit in these
    ]
    persons = [
        person._replace(MAFID=person.MAFID + KEYS * number)
        for number, (_, these) in enumerate(sides)
        for person in these
    ]
    random.Random(seed).shuffle(units)
    random.Random(seed).shuffle(persons)
    return Census(session, units, persons, [f"{number:03d}" for number in range(len(sides))])


def changes(session: Session, worlds: list[World], seed: int) -> list[dict[str, int]]:
    """By world and run that joins, the number of records by which the neighbors' truncated joins differ."""
    truncation = thresholds(THRESHOLD)
    before = side_by_side(session, [world.before for world in worlds], seed).joined_records(truncation)
    after = side_by_side(session, [world.after for world in worlds], seed + 1).joined_records(truncation)
    found = [dict.fromkeys(JOINING, 0) for _ in worlds]
    for run in JOINING:
        difference = before[run].copy()
        difference.subtract(after[run])
        for (_, unit), times in difference.items():
            found[int(unit.TABBLKST)][run] += abs(times)
    return found


def search(session: Session, seed: int, unit_records: tuple[int, ...] = (0, 1, 2)) -> dict[tuple[str, int], int]:
    """The greatest change found, by run and number of unit records that differ; ends once a run's Δ is exceeded.

    Every goal, a run and a number of unit records, has lines of worlds. A line continues with a mutation of its world,
    or of a better one of another line, if the run's join then changes at least as much.
    """
    source = random.Random(seed)
    goals = [(run, count) for run in DIFFERENT for count in unit_records for _ in range(LINES)]
    peers = {goal: [line for line, other in enumerate(goals) if other == goal] for goal in goals}
    lines = [first_world(source, count) for _, count in goals]
    scores = [0] * len(lines)
    greatest: Counter[tuple[str, int]] = Counter()
    for generation in range(GENERATIONS):
        parents = [max(line, source.choice(peers[goal]), key=scores.__getitem__) for line, goal in enumerate(goals)]
        tried = [mutated(mutated(lines[parent], source), source) for parent in parents]
        for number, found in enumerate(changes(session, tried, 2 * generation)):
            run, count = goals[number]
            for name, change in found.items():
                greatest[name, count] = max(greatest[name, count], change)
            if found[run] >= scores[number]:
                lines[number], scores[number] = tried[number], found[run]
        if exceeded(greatest):
            break
    return greatest


def exceeded(greatest: dict[tuple[str, int], int]) -> set[str]:
    """The runs whose join changed by more than their Δ."""
    return {run for (run, _), change in greatest.items() if change > RUN[run].stability(THRESHOLD)}


def test_no_neighbour_changes_a_truncated_join_by_more_than_its_stability(session: Session) -> None:
    greatest = search(session, seed=1)
    assert greatest == {(run, count): 2 + count * THRESHOLD for run in JOINING for count in (0, 1, 2)}
    assert {run: greatest[run, 2] for run in JOINING} == {run: RUN[run].stability(THRESHOLD) for run in JOINING}


def test_no_neighbour_changes_a_count_of_units_by_more_than_two(session: Session) -> None:
    source = random.Random(2)
    runs = [run.name for run in RUNS if not run.joins]
    worlds = [mutated(first_world(source, 2), source) for _ in range(400)]
    counts: list[Counter[tuple[str, ...]]] = []
    for side in ([world.before for world in worlds], [world.after for world in worlds]):
        census = side_by_side(session, side, seed=3)
        target = census.make("truncated_join", join_recipe(session, census.release(dict.fromkeys(runs))))
        counts.append(Counter({tuple(row[:-1]): row[-1] for row in session.rows("warehouse/all", source=target)}))
    counts[0].subtract(counts[1])
    changed: Counter[tuple[str, str]] = Counter()
    for (run, state, *_), difference in counts[0].items():
        changed[run, state] += abs(difference)
    assert {run: max(change for key, change in changed.items() if key[0] == run) for run in runs} == dict.fromkeys(
        runs, RUN[runs[0]].stability(None)
    )


# Wrong programs, and the search that notices them

JOIN = "phsafe/truncated_join"
UNIQUE = "coalesce(repeated.{{ run | id }}, 1) = 1 AND ("
ONE_OF_EACH_KEY = """WHERE units.TABBLKST IN (SELECT unnest($states))
    QUALIFY row_number() OVER (
        PARTITION BY units.MAFID ORDER BY {% for column in unit_columns %}units.{{ column | id }}, {% endfor %} 1
    ) = 1
"""
JOINED_FIRST = """
SELECT
    * REPLACE (
        {% for run, threshold in truncation.items() %}
        {{ run | id }} AND count(*) FILTER ({{ run | id }}) OVER by_digest <= {{ threshold }} AS {{ run | id }}
        {% if not loop.last %},{% endif %}
        {% endfor %}
    )
FROM (
    SELECT
        {{ unit_columns | ids("units") }},
        {{ person_columns[1:] | ids("persons") }},
        sha256(concat_ws('|', row_number() OVER (PARTITION BY units, persons), units, persons)) AS digest,
        {% for run in truncation %}
        ({% include "phsafe/person_universe.sql" %}) AND ({% include "phsafe/unit_universe.sql" %})
        AS {{ run | id }}{% if not loop.last %},{% endif %}
        {% endfor %}
    FROM {{ persons }} AS persons JOIN {{ units }} AS units ON persons.MAFID = units.MAFID
    WHERE units.TABBLKST IN (SELECT unnest($states))
)
WINDOW by_digest AS (PARTITION BY MAFID ORDER BY digest ROWS UNBOUNDED PRECEDING)
"""
WRONG = {
    "truncates in the order of rows": [("ORDER BY digest ROWS UNBOUNDED", "ROWS UNBOUNDED")],
    "does not truncate": [("OVER by_digest <= {{ threshold }}", "OVER by_digest <= 1000")],
    "keeps one person too many": [("OVER by_digest <= {{ threshold }}", "OVER by_digest <= {{ threshold }} + 1")],
    "keeps or drops equal records together": [
        ("row_number() OVER (PARTITION BY {{ person_columns | ids }})", "1"),
        ("ORDER BY digest ROWS", "ORDER BY digest RANGE"),
    ],
    "truncates crowded units away": [("<= {{ threshold }}", "* 0 + count(*) OVER (PARTITION BY MAFID) <= 0")],
    "joins with every unit of a repeated key": [(UNIQUE, "(")],
    "joins with one unit of a repeated key": [
        (UNIQUE, "("),
        ("WHERE units.TABBLKST IN (SELECT unnest($states))\n", ONE_OF_EACH_KEY),
    ],
    "truncates after the join, by a digest of person and unit": [("", JOINED_FIRST)],
}


QUICK = {"does not truncate", "joins with every unit of a repeated key"}


@pytest.mark.prove
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.deep] * (name not in QUICK)) for name in WRONG])
def test_the_search_finds_out_a_wrong_program(session: Session, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (SQL_FOLDER / f"{JOIN}.sql").read_text()
    for right, wrong in WRONG[name]:
        assert right in text
        text = text.replace(right, wrong) if right else wrong
    environment = statements._environment()
    assert environment.loader
    replaced = ChoiceLoader([DictLoader({f"{JOIN}.sql": text}), environment.loader])
    monkeypatch.setattr(environment, "loader", replaced)
    greatest = search(session, seed=1, unit_records=(2,))

    assert exceeded(greatest)
