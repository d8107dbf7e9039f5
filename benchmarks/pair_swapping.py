"""The 2010 procedure on 20 million households, against permutation swapping in the same run.

Both go from stored confidential records to a stored result: the stage of the plain swap as in `swap_stage`, and the
targeted procedure from coded households, with their risks, to the block of each after the exchange.
"""

import shutil
import tempfile
from fractions import Fraction
from pathlib import Path

import pyarrow as pa

from assets.pair_swapping.records import as_households
from benchmarks import swap_stage
from benchmarks.processes import measured
from benchmarks.resources import opened
from benchmarks.result import Result
from mechanisms.pair_swapping.pairing import NOBODY, swap_pairs
from mechanisms.sampling.stream import RandomStream
from resources.statements import Table, Zone

HOUSEHOLDS = swap_stage.HOUSEHOLDS
SWAP_RATE = Fraction(1, 25)
_CODED = Table(Zone.CONFIDENTIAL, "bench", "coded")


def measure() -> list[Result]:
    """Seconds of both, and the peak memory: the run with the median ratio of three that alternate."""
    home = Path(tempfile.mkdtemp(prefix="stirred-bench-"))
    try:
        measured(swap_stage.prepare, str(home))
        measured(prepare, str(home))
        pairs = []
        for run in range(swap_stage.RUNS):
            other, _, _ = measured(swap_stage.swap, str(home), run)
            seconds, peak, _ = measured(swap, str(home), run)
            pairs.append((seconds, peak, other))
        seconds, peak, other = sorted(pairs, key=lambda pair: pair[0] / pair[2])[swap_stage.RUNS // 2]
        size = f"{HOUSEHOLDS:,} households"
        return [
            Result(f"targeted pair swap, {size}, against the plain swap (s)", seconds, other, 3.0),
            Result(f"targeted pair swap, {size}: peak memory (GiB)", peak, 4.0, 1.0),
        ]
    finally:
        shutil.rmtree(home)


def prepare(home: str) -> None:
    """Generate households in about 5 million blocks of 51 states, with 40,000 combinations of key values in use."""
    warehouse, _, _ = opened(home)
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
        session.create(_CODED, "benchmarks/coded_households", {"households": HOUSEHOLDS})


def swap(home: str, run: int) -> None:
    """Read, swap and store."""
    warehouse, _, _ = opened(home)
    with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
        stored = session.arrow("pair_swapping/in_order", households=_CODED)
        keys = stored["unit_key"]
        households = as_households(stored)
        swapped = swap_pairs(households, SWAP_RATE, RandomStream(run.to_bytes(32, "big"), "benchmark"))
        if not (swapped.partner != NOBODY).any():
            raise ValueError("nobody was swapped")
        result = pa.table({"unit_key": keys, "block": pa.array(swapped.of(households.block))})
        with session.transaction():
            session.create(
                Table(Zone.PUBLIC, "bench", f"pairs{run}"), "warehouse/all", source=session.register("result", result)
            )
