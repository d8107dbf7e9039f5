"""`make bench`: every measurement, as a table and in `results.json`.

`python -m benchmarks samplers nation` makes only the named measurements, and writes no file.
"""

import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from benchmarks import (
    accounting,
    commands,
    dhc,
    ingestion,
    nation,
    reconstruction,
    samplers,
    stages,
    statistics,
    swap_stage,
    table_builder,
)
from benchmarks.harness import Result

RESULTS = Path(__file__).with_name("results.json")

MEASUREMENTS: Mapping[str, Callable[[], list[Result]]] = {
    "samplers": samplers.measure,
    "swap_stage": swap_stage.measure,
    "swap_extensions": swap_stage.measure_extensions,
    "pair_swapping": swap_stage.measure_pairs,
    "phsafe": stages.measure_phsafe,
    "safetab": nation.measure_detailed_groups,
    "topdown_steps": stages.measure_steps,
    "topdown_information": stages.measure_information,
    "topdown_full": stages.measure_full,
    "topdown_accuracy": stages.measure_improvement,
    "topdown_estimation": stages.measure_estimation,
    "topdown_replicates": stages.measure_replicates,
    "dhc": dhc.measure,
    "nation": nation.measure,
    "release_job": commands.measure_release,
    "cef_validation": ingestion.measure_validation,
    "extracts": ingestion.measure_extracts,
    "survey_generation": ingestion.measure_survey,
    "cell_keys": table_builder.measure_cell_keys,
    "hypercubes": table_builder.measure_hypercubes,
    "reconstruction": reconstruction.measure,
    "accounting": accounting.measure,
    "statistics": statistics.measure,
    "command": commands.measure,
    "launch": commands.measure_launch,
}


def main(names: list[str]) -> int:
    """Measure, print and write; return 1 if a limit is exceeded."""
    results: list[Result] = []
    for name in names or MEASUREMENTS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        results += MEASUREMENTS[name]()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"\n{machine}\n\n{'measurement':72}{'ours':>12}{'other':>12}{'ratio':>10}{'limit':>8}")
    print(*results, sep="\n")
    if not names:
        records = [asdict(result) | {"ratio": float(f"{result.ratio:.4g}"), "machine": machine} for result in results]
        RESULTS.write_text(json.dumps(records, indent=2, ensure_ascii=False) + "\n")
    return 0 if all(result.within_limit for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
