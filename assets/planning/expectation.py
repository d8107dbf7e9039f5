"""What a release is expected to take on a machine: time, memory and disk, from jobs that were measured.

`slopes.json` beside this module has, for each kind of release, a constant and what each record and each noisy number
adds. `python -m benchmarks.slopes` measures them. Times are scaled by the speed of the machine, and not by its cores.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from assets.planning.machine import Machine
from assets.planning.size import expected_size
from assets.release.method import Method

SLOPES = Path(__file__).with_name("slopes.json")

LIMIT_OF_DUCKDB = 2 * 2**30
"""The bytes that DuckDB takes at most, by default."""

_FAR = 10
"""The factor beyond the largest measured job from which an expectation says so."""
_MINUTE, _HOUR = 60, 3600
_MOST_SECONDS, _MOST_MINUTES = 100, 100
"""Up to these, a duration is stated in seconds, or in minutes."""


@dataclass(frozen=True)
class Slope:
    """What something takes: a constant, and what each record of the CEF and each number measured with noise adds."""

    constant: float
    record: float
    number: float

    def at(self, records: int, numbers: int) -> float:
        """What it takes for so many records and numbers."""
        return self.constant + self.record * records + self.number * numbers


@dataclass(frozen=True)
class Slopes:
    """What jobs of one kind of release were measured to take.

    Attributes:
        cores: the cores of the machine that was measured.
        reference_seconds: the duration of the reference work on it.
        seconds: the duration.
        warehouse: the most bytes that databases and spilled data had on disk.
        published: the bytes of the publication.
        memory: bytes of all processes together at their peak, by records; both ascend.
        in_pieces: whether no more than DuckDB's part of the memory grows with the records, as all else handles them in
            pieces of bounded size.
    """

    cores: int
    reference_seconds: float
    seconds: Slope
    warehouse: Slope
    published: Slope
    memory: tuple[tuple[int, float], ...]
    in_pieces: bool

    @property
    def largest(self) -> int:
        """The records of the largest job."""
        return self.memory[-1][0]

    def memory_at(self, records: int) -> float:
        """The peak memory: between measured jobs on a line, and beyond them on the last one, which never falls.

        Beyond the largest measured job it is at least what a job takes. In pieces, it grows there by no more than
        DuckDB takes at most.
        """
        if records <= self.memory[0][0] or len(self.memory) == 1:
            return self.memory[0][1]
        segments = list(pairwise(self.memory))
        (left, low), (right, high) = next((each for each in segments if records <= each[1][0]), segments[-1])
        line = low + (high - low) * (records - left) / (right - left)
        return min(line, high + LIMIT_OF_DUCKDB) if self.in_pieces else line


@dataclass(frozen=True)
class Expectation:
    """What a job is expected to take on a machine.

    Attributes:
        records: the records of the CEF.
        numbers: the numbers that are measured with noise.
        seconds: the duration.
        memory: bytes of all processes together at their peak.
        warehouse: the most bytes of the databases and of what is spilled.
        published: the bytes of the publication.
        memory_is_least: whether no job with so many records was measured, so that it may take more memory.
        warnings: what the machine has too little of, and what is uncertain, as sentences.
    """

    records: int
    numbers: int
    seconds: float
    memory: float
    warehouse: float
    published: float
    memory_is_least: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def words(self) -> dict[str, str]:
        """The expectation as a reader sees it, by label."""
        numbers = f", {self.numbers:,} numbers with noise" if self.numbers else ""
        disk = f"{in_bytes(self.warehouse)} in the warehouse, {in_bytes(self.published)} published"
        found = {
            "expected size": f"{self.records:,} records{numbers}",
            "expected time": f"about {in_time(self.seconds)}",
            "expected memory": f"{'at least' if self.memory_is_least else 'about'} {in_bytes(self.memory)}",
            "expected disk": f"about {disk}",
        }
        return found | ({"warning": " ".join(self.warnings)} if self.warnings else {})

    @property
    def record(self) -> dict[str, Any]:
        """The expectation for scripts: whole seconds and bytes."""
        return {name: round(value) if isinstance(value, float) else value for name, value in asdict(self).items()}


class UnknownError(Exception):
    """What a release takes cannot be expected. The message says why, and what to do."""


def expectation(
    method: Method[Any, Any, Any], records: int | None, machine: Machine, slopes: Mapping[str, Slopes] | None = None
) -> Expectation:
    """What a job that makes a release is expected to take: every stage from the source to the publication.

    Args:
        method: how the release is made.
        records: the expected number of persons, or of units where there are none; None if it is not given.
        machine: the machine.
        slopes: what was measured, by mechanism; by default, that of `slopes.json`.

    Raises:
        UnknownError: if the number of records is not known, or nothing was measured for this kind of release.
        ValueError: if the number is not positive.
    """
    dataset = method.release.dataset
    size = expected_size(dataset, records)
    if size is None:
        counted = "persons" if dataset.persons else f"{dataset.record_name}s"
        raise UnknownError(
            f"Time, memory and disk depend on the number of {counted} of {dataset.name}, which is not public: give the "
            "number that you expect as records (stirred plan --records NUMBER)."
        )
    found = (measured_slopes() if slopes is None else slopes).get(method.mechanism)
    if found is None:
        raise UnknownError(f"No job of this kind ({method.mechanism}) was measured, so its time is not known.")
    numbers = method.numbers(size)
    expected = Expectation(
        size.records,
        numbers,
        found.seconds.at(size.records, numbers) * machine.reference_seconds / found.reference_seconds,
        found.memory_at(size.records),
        found.warehouse.at(size.records, numbers),
        found.published.at(size.records, numbers),
        memory_is_least=size.records > found.largest,
    )
    return Expectation(**asdict(expected) | {"warnings": tuple(_warnings(expected, machine, found))})


def expected_in_words(method: Method[Any, Any, Any], records: int | None, machine: Machine) -> dict[str, str]:
    """An expectation as a reader sees it, by label; if there is none, why, and what to do.

    Args:
        method: how the release is made.
        records: as in `expectation`.
        machine: the machine.
    """
    try:
        return expectation(method, records, machine).words
    except UnknownError as error:
        return {"expected time": str(error)}


def _warnings(expected: Expectation, machine: Machine, slopes: Slopes) -> Sequence[str]:
    warnings = []
    if expected.memory > machine.memory:
        warnings.append(
            f"This machine has {in_bytes(machine.memory)} of memory, which is less than the "
            f"{in_bytes(expected.memory)} expected."
        )
    disks = [
        ("the warehouse (STIRRED_HOME)", machine.free_home, expected.warehouse),
        ("the publications (STIRRED_PUBLISHED)", machine.free_published, expected.published),
    ]
    if machine.one_disk:
        disks = [("the warehouse and the publications", machine.free_home, expected.warehouse + expected.published)]
    warnings += [
        f"The disk of {what} has {in_bytes(free)} left, which is less than the {in_bytes(needed)} expected."
        for what, free, needed in disks
        if needed > free
    ]
    if machine.cores < slopes.cores:
        warnings.append(f"The times were measured on {slopes.cores} cores, and this machine has {machine.cores}.")
    if expected.records > _FAR * slopes.largest:
        warnings.append(
            f"This is {expected.records / slopes.largest:,.0f} times the {slopes.largest:,} records of the largest job "
            "that was measured."
        )
    return warnings


@cache
def measured_slopes() -> Mapping[str, Slopes]:
    """What was measured, by mechanism."""
    return {name: read_slopes(given) for name, given in json.loads(SLOPES.read_text("utf-8")).items()}


def read_slopes(given: Mapping[str, Any]) -> Slopes:
    """The slopes of one kind of release, as the file has them."""
    memory = tuple((records, float(peak)) for records, peak in given["memory"])
    slopes = {name: Slope(**given[name]) for name in ("seconds", "warehouse", "published")}
    return Slopes(given["cores"], given["reference_seconds"], memory=memory, in_pieces=given["in_pieces"], **slopes)


def in_time(seconds: float) -> str:
    """A duration in the unit that suits it, to two digits."""
    if seconds < _MOST_SECONDS:
        return f"{_two_digits(seconds)} s"
    if seconds < _MOST_MINUTES * _MINUTE:
        return f"{_two_digits(seconds / _MINUTE)} min"
    return f"{_two_digits(seconds / _HOUR)} hours"


def in_bytes(number: float) -> str:
    """A number of bytes in the unit that suits it, to two digits; less than a tenth of a MiB is shown as that."""
    mebibytes = max(0.1, number / 2**20)
    for unit in ("MiB", "GiB"):
        if mebibytes < 1000:
            return f"{_two_digits(mebibytes)} {unit}"
        mebibytes /= 1024
    return f"{_two_digits(mebibytes)} TiB"


def _two_digits(number: float) -> str:
    """A number to two digits, and without an exponent."""
    return f"{float(f'{number:.2g}'):,.10g}"
