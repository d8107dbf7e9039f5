"""The slopes from which `stirred plan` predicts time, memory and disk, measured on whole jobs of each kind at some
sizes.

`python -m benchmarks.slopes` measures all kinds, with names of kinds only these, and writes
`assets/planning/slopes.json`. The machine should be idle. `--further 3900000` also measures larger censuses, by
households, and keeps them in the fit. `--held-out 390000` compares other censuses with their expectation, without
changing a slope.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from assets.planning.expectation import SLOPES, Machine, expectation, expected_size, in_bytes, in_time, this_machine
from benchmarks.harness import read_processor_seconds, sample, temporary_home, time_with_memory
from benchmarks.jobs import RELEASES, Case

SMALL, LARGE = 10_000, 60_000
"""Households of the two sizes."""

TOPDOWN, COARSE = (40_000, 1_170_000), 390_000
"""Households of redistricting data, whose time grows less than in proportion below the first size; and of those that
end with tracts. The largest census has three million persons."""

MEASURED_NUMBERS = ("safetab_p", "safetab_h", "topdown")
"""The kinds whose time depends on the number of noisy numbers, because they measure so many."""

HOLD_RECORDS = ("swapping", "pair_swapping")
"""The kinds that hold all units in memory outside DuckDB."""

REPLICATES = {"topdown": 4, "dhc": 4}
"""For kinds with replicates, the number of replicates in the jobs that are also measured with some."""

ALIKE = 1.2
"""The factor within which two sizes count as about the same."""

QUANTITIES = ("seconds", "warehouse", "published")

_BETWEEN = 0.5


def list_cases(kind: str) -> list[Case]:
    """The cases of a kind: a small and a large census, and a large one with far fewer noisy numbers. Without the last
    one, noisy numbers grow in proportion to records, and no fit can separate their contributions."""
    if kind == "topdown":
        return [*(Case(kind, households) for households in TOPDOWN), Case(kind, COARSE, coarse=True)]
    coarse = [Case(kind, LARGE, coarse=True)] if kind in MEASURED_NUMBERS else []
    return [Case(kind, SMALL), Case(kind, LARGE), *coarse]


def run(case: Case) -> dict[str, Any]:
    """Run the jobs of a case in an empty deployment. Returns, for the last job, the records and noisy numbers that a
    plan expects; the seconds by the clock and of all cores; and the peak bytes of memory, of the databases with spilled
    data, and of the publication."""
    with temporary_home() as home:
        databases = Path(home) / "databases"
        for component in case.releases:
            disk_before, processor_before = _measure_disk(databases), read_processor_seconds()
            with sample(lambda: _measure_disk(databases), _BETWEEN) as sizes:
                launch = partial(case.launch, home, component, {"STIRRED_HOME": str(databases)})
                seconds, memory = time_with_memory(launch)
            processor = read_processor_seconds() - processor_before
        method = component.method(component.release(case.census, Path(home) / "published"))
        size = expected_size(case.census)
        assert size is not None
        return {
            "households": case.households,
            "coarse": case.coarse,
            "records": size.records,
            "numbers": method.numbers(size),
            "seconds": round(seconds, 1),
            "processor_seconds": round(processor, 1),
            "memory": round(memory * 2**30),
            "warehouse": max(1, round(max(sizes)) - disk_before),
            "published": _measure_disk(method.release.folder),
        }


def _measure_disk(folder: Path) -> int:
    """The bytes on disk of the files in a folder; 0 if the folder does not exist."""
    size = 0
    for path in folder.rglob("*"):
        # A file may have been removed meanwhile.
        with suppress(OSError):
            size += path.stat().st_blocks * 512
    return size


def fit(runs: Sequence[dict[str, Any]], quantity: str, *, numbers: bool) -> dict[str, float]:
    """A constant and slopes of a quantity, all nonnegative, with the least squares of relative errors."""
    names = ("constant", "record", *(["number"] if numbers else []))
    columns = [[float(run.get(f"{name}s", 1)) for run in runs] for name in names]
    design = np.array(columns).T / np.array([[float(run[quantity])] for run in runs])
    scale = design.max(axis=0)
    slopes = dict(zip(names, nnls(design / scale, np.ones(len(runs)))[0] / scale, strict=True))
    return {name: float(f"{slopes.get(name, 0):.6g}") for name in ("constant", "record", "number")}


def fit_replicate(runs: Sequence[dict[str, Any]], repeated: Sequence[dict[str, Any]], number: int) -> dict[str, float]:
    """The seconds for each replicate, from jobs without and with replicates."""
    added = [
        {**one, "seconds": max(1e-3, other["seconds"] - one["seconds"]) / number}
        for one, other in zip(runs, repeated, strict=True)
    ]
    return fit(added, "seconds", numbers=False)


def find_peaks(runs: Sequence[dict[str, Any]]) -> list[list[int]]:
    """The records of jobs, with the peak memory of jobs up to that size; among jobs of about the same size, the highest
    peak."""
    points: list[list[int]] = []
    for run in sorted(runs, key=lambda run: run["records"]):
        peak = max(run["memory"], points[-1][1] if points else 0)
        if points and run["records"] < ALIKE * points[-1][0]:
            points[-1][1] = peak
        else:
            points.append([run["records"], peak])
    return points


def main(arguments: Sequence[str]) -> None:
    """Measure kinds, and write their slopes or compare with them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=list(RELEASES), help="the kinds; all by default")
    parser.add_argument("--further", type=int, nargs="+", default=[], metavar="HOUSEHOLDS")
    parser.add_argument("--held-out", type=int, nargs="+", default=[], metavar="HOUSEHOLDS")
    options = parser.parse_args(arguments)
    machine = this_machine(Path(tempfile.gettempdir()), Path(tempfile.gettempdir()))
    if (load := os.getloadavg()[0]) > machine.cores / 2:
        print(f"Other programs keep {load:.1f} cores busy: the times will be too long.", file=sys.stderr)
    for kind in options.kinds or RELEASES:
        if options.held_out:
            for households in options.held_out:
                _compare(Case(kind, households), machine)
            continue
        runs = []
        for case in (*list_cases(kind), *(Case(kind, households) for households in options.further)):
            runs.append(run(case))
            print(f"{kind}: {runs[-1]}", flush=True)
        plain, repeated = [each for each in runs if not each["coarse"]][: 2 if kind in REPLICATES else 0], []
        for each in plain:
            repeated.append(run(Case(kind, each["households"], replicates=REPLICATES[kind])))
            print(f"{kind}, {REPLICATES[kind]} replicates: {repeated[-1]}", flush=True)
        slopes = json.loads(SLOPES.read_text("utf-8")) if SLOPES.exists() else {}
        method = case.releases[-1].method
        slopes[method.mechanism] = {
            "cores": machine.cores,
            "reference_seconds": round(machine.reference_seconds, 4),
            "in_pieces": kind not in HOLD_RECORDS,
            **{quantity: fit(runs, quantity, numbers=kind in MEASURED_NUMBERS) for quantity in QUANTITIES},
            "memory": find_peaks([*runs, *repeated]),
            "runs": runs,
        }
        if repeated:
            replicate = fit_replicate(plain, repeated, REPLICATES[kind])
            slopes[method.mechanism] |= {"replicate": replicate, "repeated": repeated}
        SLOPES.write_text(json.dumps(dict(sorted(slopes.items())), indent=1) + "\n", "utf-8")


def _compare(case: Case, machine: Machine) -> None:
    """Print a measured job beside its expectation."""
    component = case.releases[-1]
    method = component.method(component.release(case.census, Path(tempfile.gettempdir())))
    expected, measured = expectation(method, None, machine), run(case)
    all_cores = f"{in_time(measured['processor_seconds'])} of all cores"
    parts = [f"{in_time(measured['seconds'])}, {all_cores} (expected {in_time(expected.seconds)})"]
    for name in ("memory", "warehouse", "published"):
        parts.append(f"{name} {in_bytes(measured[name])} (expected {in_bytes(getattr(expected, name))})")
    print("; ".join([f"{case.kind}, {case.households:,} households", *parts]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
