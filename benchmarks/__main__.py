"""`make bench`: every measurement, as a table and in `results.json`.

This module runs the measurements and reports them. Each of the other modules has a function `measure` that returns
results.
"""

import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks import (
    cef_validation,
    cell_keys,
    command,
    hypercubes,
    nation,
    pair_swapping,
    phsafe_stages,
    release_job,
    safetab,
    samplers,
    survey_generation,
    swap_extensions,
    swap_stage,
    topdown_accuracy,
    topdown_estimation,
    topdown_replicates,
    topdown_steps,
)
from benchmarks.result import Result

RESULTS = Path(__file__).with_name("results.json")

MODULES = (
    samplers,
    swap_stage,
    swap_extensions,
    pair_swapping,
    phsafe_stages,
    safetab,
    topdown_steps,
    topdown_accuracy,
    topdown_estimation,
    topdown_replicates,
    nation,
    release_job,
    cef_validation,
    survey_generation,
    cell_keys,
    hypercubes,
    command,
)


def main() -> int:
    """Measure, print and write; return 1 if a limit is exceeded."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    results: list[Result] = []
    for module in MODULES:
        print(f"{module.__name__} ...", file=sys.stderr, flush=True)
        results += module.measure()
    print(f"\n{machine}\n")
    print(f"{'measurement':72}{'ours':>12}{'other':>12}{'ratio':>10}{'limit':>8}")
    for result in results:
        print(
            f"{result.name:72}{result.ours:>12,.2f}{result.other:>12,.2f}{result.ratio:>10.4g}{result.limit:>8.3g}"
            f"{'' if result.kept else '  exceeded'}"
        )
    records = [asdict(result) | {"ratio": float(f"{result.ratio:.4g}"), "machine": machine} for result in results]
    RESULTS.write_text(json.dumps(records, indent=2, ensure_ascii=False) + "\n")
    return 0 if all(result.kept for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
