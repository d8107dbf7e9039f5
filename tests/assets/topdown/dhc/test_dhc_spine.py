"""The levels of the production spine that no column of the census has: groups of tract subsets, and of blocks."""

from collections import defaultdict
from itertools import product
from math import isqrt
from pathlib import Path

import numpy as np
import pyarrow as pa

from assets.topdown.dhc.declaration import BLOCK_GROUP, SUBSET_GROUP
from resources.statements import Zone
from resources.warehouse import Warehouse

Unit = dict[str, str | int]


def draw_units() -> list[Unit]:
    """Units in any order. Tracts are numbered alike in two prims, and blocks alike in all tracts. Some blocks have one
    or two types of group quarters, of which some are empty. Recoded columns have names of computed ones."""
    random, units = np.random.default_rng(3), list[Unit]()
    for place, (tract, blocks) in product(("00001", "00002"), enumerate([300, 14, *[1] * 29])):
        for block in range(blocks if place == "00001" or tract < 12 else 0):
            several = tract == 0 and random.random() < 0.5
            kinds = random.choice(8, random.integers(1, 3), replace=False).tolist() if several else [0]
            code = {"TABBLKST": "10", "TABBLKCOU": "001", "PLACEFP": place, "TABTRACTCE": f"{tract:06}"}
            code |= {"TABBLK": f"{1 + block % 2}{block:03}", "TABBLKGRPCE": str(1 + block % 2)}
            code |= {SUBSET_GROUP: "recoded", BLOCK_GROUP: "recoded"}
            units += [{**code, "GQTYPE": str(kind), "FINAL_POP": int(random.integers(0, 2))} for kind in kinds]
    return [units[number] for number in random.permutation(len(units))]


def cut(codes: list[str], of: int) -> dict[str, int]:
    """The run of each code, of so many siblings."""
    return {code: number // (isqrt(of) + 13) for number, code in enumerate(sorted(codes))}


def list_groups(units: list[Unit]) -> dict[tuple[str, str, str], tuple[int, tuple[str, frozenset[str], int]]]:
    """By prim, tract and block: the run of its tract subset; its digit, its types of group quarters, and its run."""
    subsets = defaultdict[str, dict[str, dict[str, set[str]]]](lambda: defaultdict(lambda: defaultdict(set)))
    for unit in units:
        place, tract, block = (str(unit[name]) for name in ("PLACEFP", "TABTRACTCE", "TABBLK"))
        subsets[place][tract][block] |= {str(unit["GQTYPE"])} - {"0"} if unit["FINAL_POP"] else set()
    found = {}
    for place, tracts in subsets.items():
        run_of = cut(list(tracts), len(tracts))
        for tract, blocks in tracts.items():
            alike = defaultdict[tuple[str, frozenset[str]], list[str]](list)
            for block, types in blocks.items():
                alike[block[0], frozenset(types)].append(block)
            for group, members in alike.items():
                for block, run in cut(members, len(blocks)).items():
                    found[place, tract, block] = run_of[tract], (*group, run)
    return found


def test_runs_of_the_production_spine_are_those_that_plain_python_finds(tmp_path: Path) -> None:
    """Wrong programs: runs of a tract or a block code, wherever it is; as many blocks in a run as their number in the
    group allows, instead of their number in the tract subset; and empty group quarters that tell blocks apart, or types
    that do not; and recoded columns that are taken for the computed ones."""
    units = draw_units()
    with Warehouse(folder=str(tmp_path)).session(writes=Zone.PUBLIC) as session:
        names = {"subset_group": SUBSET_GROUP, "block_group": BLOCK_GROUP}
        records = session.register("units", pa.Table.from_pylist(units))
        placed = session.stage("placed", "dhc/units_of_the_spine", **names, units=records)
        rows = session.arrow("warehouse/all", source=placed).to_pylist()
    assert len(rows) == len(units)
    due = list_groups(units)
    found = {(row["PLACEFP"], row["TABTRACTCE"], row["TABBLK"]): (row[SUBSET_GROUP], row[BLOCK_GROUP]) for row in rows}
    assert found.keys() == due.keys()
    for place, level in product(("00001", "00002"), range(2)):
        # Codes of block groups are told apart within their tract subset.
        both = {
            (block[1] if level else "", due[block][level], found[block][level]) for block in due if block[0] == place
        }
        assert len(both) == len({each[:2] for each in both}) == len({each[::2] for each in both})
    assert {run for run, _ in due.values()} == {0, 1}
    assert max(run for _, (_, _, run) in due.values()) > 1
    assert len({types for _, (_, types, _) in due.values()}) > 10
