"""The expected time, memory and disk of a release on a machine, from measured jobs.

`slopes.json` beside this module has, for each kind of release, a constant and the increments per record and per noisy
number. `python -m benchmarks.slopes` measures them. Times are scaled by the speed of the machine, not by its cores.

The number of confidential records is not public, so this module never reads the records, their file or its length. The
size of a dataset comes from the parameters of a generated one, and otherwise from the planner.
"""

import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from assets.cef.generated import GeneratedDeclaration
from assets.cef.readers import MA1940_SIZES
from assets.release.dataset import DatasetDeclaration, Reader, Size
from assets.release.method import Method
from resources.machine import count_cores, count_memory

SLOPES = Path(__file__).with_name("slopes.json")

LIMIT_OF_DUCKDB = 2 * 2**30
"""The most bytes of memory that DuckDB takes, by default."""

_FAR = 10
"""The factor beyond the largest measured job from which an expectation has a warning."""
_MINUTE, _HOUR = 60, 3600
_MOST_SECONDS, _MOST_MINUTES = 100, 100
"""The limits below which a duration is stated in seconds, and in minutes."""

_PERSONS_2020, _UNITS_2020 = 331_449_281, 140_498_736
"""The persons and the housing units of the 2020 Census, in the states and the District of Columbia."""

_PLACES_2020 = {
    "TABBLKST": 51,
    "TABBLKCOU": 3_143,
    "TABTRACTCE": 84_414,
    "TABBLKGRPCE": 239_780,
    "TABBLK": 8_132_968,
    "PLACEFP": 31_617,
    "AIANNHCE": 704,
}
"""The places of the 2020 Census, by the column of the census layout that identifies them. Source: the Census Bureau's
tallies of geographic entities."""

_REPEATED = 5
_SORTED, _HASHED, _LOOPED = 2**19, 2**23, 2**18


@dataclass(frozen=True)
class Machine:
    """A machine: the cores and bytes of memory that this process may use, and the duration of the reference work.

    Attributes:
        free_home, free_published: the free bytes in the folder of the databases (unbounded if they are in a lake), and
            in the folder of the publications.
        one_disk: whether both folders are on one known disk and share its free space.
    """

    cores: int
    memory: int
    reference_seconds: float
    free_home: int
    free_published: int
    one_disk: bool


@dataclass(frozen=True)
class Slope:
    """A linear cost: a constant, and the increments per record of the CEF and per number measured with noise."""

    constant: float
    record: float
    number: float

    def at(self, records: int, numbers: int) -> float:
        return self.constant + self.record * records + self.number * numbers


@dataclass(frozen=True)
class Slopes:
    """The measured costs of jobs of one kind of release.

    Attributes:
        cores, reference_seconds: the cores of the measured machine, and the seconds of the reference work on it.
        warehouse: the peak bytes of databases and spilled data on disk.
        published: the bytes of the publication.
        memory: the peak bytes of all processes together, by records; both ascend.
        in_pieces: whether only DuckDB's part of the memory grows with the records, because all other code handles them
            in pieces of bounded size.
        replicate: the seconds per replicate, for kinds that have replicates.
    """

    cores: int
    reference_seconds: float
    seconds: Slope
    warehouse: Slope
    published: Slope
    memory: tuple[tuple[int, float], ...]
    in_pieces: bool
    replicate: Slope = Slope(0, 0, 0)

    @property
    def largest(self) -> int:
        return self.memory[-1][0]

    def memory_at(self, records: int, *, in_pieces: bool = True) -> float:
        """The peak memory: interpolated linearly between measured jobs, and extrapolated beyond them on the last line,
        which never falls.

        Beyond the largest measured job, it is a lower bound. There it grows by at most DuckDB's limit if both the
        measured jobs and this one (`in_pieces`) handle records in pieces.
        """
        if records <= self.memory[0][0] or len(self.memory) == 1:
            return self.memory[0][1]
        segments = list(pairwise(self.memory))
        (left, low), (right, high) = next((segment for segment in segments if records <= segment[1][0]), segments[-1])
        line = low + (high - low) * (records - left) / (right - left)
        return min(line, high + LIMIT_OF_DUCKDB) if self.in_pieces and in_pieces else line


@dataclass(frozen=True)
class Expectation:
    """The expected costs, as in `Slopes`, of a job with these numbers of records and noisy numbers on a machine.

    Attributes:
        memory_is_least: whether all measured jobs had fewer records, so that the job may take more memory.
        warnings: sentences on insufficient resources of the machine and on uncertainty.
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
        """The expectation as shown to a reader, by label."""
        numbers = f", {self.numbers:,} numbers with noise" if self.numbers else ""
        disk = f"{in_bytes(self.warehouse)} in the warehouse, {in_bytes(self.published)} published"
        words = {
            "expected size": f"{self.records:,} records{numbers}",
            "expected time": f"about {in_time(self.seconds)}",
            "expected memory": f"{'at least' if self.memory_is_least else 'about'} {in_bytes(self.memory)}",
            "expected disk": f"about {disk}",
        }
        return words | ({"warning": " ".join(self.warnings)} if self.warnings else {})

    @property
    def record(self) -> dict[str, Any]:
        """The expectation for scripts: whole seconds and bytes."""
        return {name: round(value) if isinstance(value, float) else value for name, value in asdict(self).items()}


class UnknownError(Exception):
    """The costs of a release are unknown. The message gives the reason and a remedy."""


def expectation(
    method: Method[Any, Any, Any], records: int | None, machine: Machine, slopes: Mapping[str, Slopes] | None = None
) -> Expectation:
    """The expected costs of a job that makes a release, with every stage from the source to the publication.

    `records` is the expected number of persons, or of units if there are no persons; None if it is not given. `slopes`
    are the measured ones by mechanism, by default those in `slopes.json`. Raises UnknownError if the number is unknown
    or this kind of release was not measured, and ValueError if the number is not positive.
    """
    dataset = method.release.dataset
    size = expected_size(dataset, records)
    if size is None:
        counted = "persons" if dataset.persons else f"{dataset.record_name}s"
        raise UnknownError(
            f"Time, memory and disk depend on the number of {counted} of {dataset.name}, which is not public: "
            "enter the number that you expect (on the command line: stirred plan --records NUMBER)."
        )
    measured = (measured_slopes() if slopes is None else slopes).get(method.mechanism)
    if measured is None:
        raise UnknownError(f"No job of this kind ({method.mechanism}) was measured, so its time is not known.")
    numbers = method.numbers(size)
    seconds = measured.seconds.at(size.records, numbers) + method.replicates * measured.replicate.at(size.records, 0)
    expected = Expectation(
        size.records,
        numbers,
        seconds * machine.reference_seconds / measured.reference_seconds,
        measured.memory_at(size.records, in_pieces=method.in_pieces),
        measured.warehouse.at(size.records, numbers),
        measured.published.at(size.records, numbers),
        memory_is_least=size.records > measured.largest,
    )
    return replace(expected, warnings=tuple(_warn(expected, machine, measured)))


def format_expectation(method: Method[Any, Any, Any], records: int | None, machine: Machine) -> dict[str, str]:
    """An expectation as shown to a reader, by label; if there is none, the reason and a remedy."""
    try:
        return expectation(method, records, machine).words
    except UnknownError as error:
        return {"expected time": str(error)}


def _warn(expected: Expectation, machine: Machine, slopes: Slopes) -> Iterator[str]:
    if expected.memory > machine.memory:
        yield (
            f"This machine has {in_bytes(machine.memory)} of memory, which is less than the "
            f"{in_bytes(expected.memory)} expected."
        )
    disks = [
        ("the warehouse (STIRRED_HOME)", machine.free_home, expected.warehouse),
        ("the publications (STIRRED_PUBLISHED)", machine.free_published, expected.published),
    ]
    if machine.one_disk:
        disks = [("the warehouse and the publications", machine.free_home, expected.warehouse + expected.published)]
    for place, free, needed in disks:
        if needed > free:
            yield f"The disk of {place} has {in_bytes(free)} left, which is less than the {in_bytes(needed)} expected."
    if machine.cores < slopes.cores:
        yield f"The times were measured on {slopes.cores} cores, and this machine has {machine.cores}."
    if expected.records > _FAR * slopes.largest:
        yield (
            f"This is {expected.records / slopes.largest:,.0f} times the {slopes.largest:,} records of the largest job "
            "that was measured."
        )


@cache
def measured_slopes() -> Mapping[str, Slopes]:
    """The slopes in `slopes.json`, by mechanism."""
    return TypeAdapter(dict[str, Slopes]).validate_json(SLOPES.read_bytes())


def in_time(seconds: float) -> str:
    """A duration in a suitable unit, to two digits."""
    if seconds < _MOST_SECONDS:
        return f"{_two_digits(seconds)} s"
    if seconds < _MOST_MINUTES * _MINUTE:
        return f"{_two_digits(seconds / _MINUTE)} min"
    return f"{_two_digits(seconds / _HOUR)} hours"


def in_bytes(number: float) -> str:
    """A number of bytes in a suitable unit, to two digits, and at least a tenth of a MiB."""
    mebibytes = max(0.1, number / 2**20)
    for unit in ("MiB", "GiB"):
        if mebibytes < 1000:
            return f"{_two_digits(mebibytes)} {unit}"
        mebibytes /= 1024
    return f"{_two_digits(mebibytes)} TiB"


def _two_digits(number: float) -> str:
    """A number to two digits, without an exponent."""
    return f"{float(f'{number:.2g}'):,.10g}"


def expected_size(dataset: DatasetDeclaration, records: int | None = None) -> Size | None:
    """The expected size of a dataset; None if it is unknown.

    `records` is as for `expectation`. Units and places per person are as in the 2020 Census.
    """
    if records is not None:
        if records < 1:
            raise ValueError(f"records: {records} is not a number of records, 1 or more")
        return Size(records, 0) if dataset.persons is None else like_2020(records)
    if isinstance(dataset, GeneratedDeclaration):
        return dataset.generated.size
    return Size(sum(MA1940_SIZES.values()), 0) if dataset.reader is Reader.MA1940 else None


def like_2020(persons: int) -> Size:
    """The size of a census of 1 or more persons, with as many housing units and places per person as in 2020."""

    def share(number: int) -> int:
        return max(1, -(-number * persons // _PERSONS_2020))

    return Size(share(_UNITS_2020), persons, {column: share(number) for column, number in _PLACES_2020.items()})


def this_machine(home: Path, published: Path, *, in_lake: bool = False) -> Machine:
    """This machine, with the folders of the databases (unless they are in a lake) and of the publications, which need
    not exist yet."""
    home, published = _nearest_existing(home), _nearest_existing(published)
    return Machine(
        count_cores(),
        count_memory(),
        reference_seconds(),
        sys.maxsize if in_lake else shutil.disk_usage(home).free,
        shutil.disk_usage(published).free,
        not in_lake and home.stat().st_dev == published.stat().st_dev,
    )


@cache
def reference_seconds() -> float:
    """The CPU seconds of a small reference work on one core, measured once per process.

    It sorts, hashes and loops, for a tenth of a second. CPU time excludes other programs, but they still slow the work
    down, so the least of several times is taken.
    """
    numbers = np.arange(_SORTED, dtype=np.int64) * 2_654_435_761 % (2**31 - 1)
    text = bytes(_HASHED)
    durations = []
    for _ in range(_REPEATED):
        started = time.thread_time()
        np.sort(numbers)
        sha256(text).digest()
        sums: dict[int, int] = {}
        for number in range(_LOOPED):
            sums[number & 1023] = sums.get(number & 1023, 0) + number
        durations.append(time.thread_time() - started)
    return min(durations)


def _nearest_existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())
