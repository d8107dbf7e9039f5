"""Sketches of records: they follow from the records alone, and their comparisons are checked by hand."""

from collections import Counter
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.people import SHARE, Coded, Sketcher, compute_overlap, from_bytes, list_sets, to_bytes
from tests.same_people import CHANGES, OTHERS, SAME, find_overlaps, find_overlaps_of_others, make_files, sketch

RECORDS = st.integers(1, 5).flatmap(
    lambda columns: st.lists(st.tuples(*[st.integers(0, 6)] * columns), min_size=1, max_size=60)
)


def code(records: list[tuple[int, ...]]) -> list[Coded]:
    """Columns whose values have their own hashes."""
    words = np.random.default_rng(1).integers(1 << 63, size=7, dtype=np.uint64) * np.uint64(2)
    return [(words, np.array(column, dtype=np.int32)) for column in zip(*records, strict=True)]


@given(RECORDS, st.integers(1, 60))
def test_a_sketch_holds_the_combinations_of_every_set_and_how_many_records_have_them(
    records: list[tuple[int, ...]], batch: int
) -> None:
    """Against a count by hand, for any division of the records into batches."""
    sketcher = Sketcher()
    for first in range(0, len(records), batch):
        sketcher.add(code(records[first : first + batch]))
    sketch = sketcher.finish()
    columns = len(records[0])
    sizes = {1, 2, columns - 2, columns - 1, columns} - {-1, 0} - ({2} if columns < 2 else set())
    assert sketch.sets == [chosen for size in sorted(sizes) for chosen in combinations(range(columns), size)]
    assert (sketch.records, sketch.columns) == (len(records), columns)
    for chosen, hashes, counts in zip(sketch.sets, sketch.hashes, sketch.counts, strict=True):
        summed = Counter(
            int(sum(int(words[codes[row]]) for words, codes in picked) % 2**64)
            for picked in [[code(records)[number] for number in chosen]]
            for row in range(len(records))
        )
        assert dict(zip(hashes.tolist(), counts.tolist(), strict=True)) == dict(sorted(summed.items())[: sketch.limit])
        assert hashes.tolist() == sorted(hashes.tolist())
    assert to_bytes(from_bytes(to_bytes([sketch, sketch]))) == to_bytes([sketch, sketch])


def test_of_many_combinations_the_smallest_are_held_with_all_their_records() -> None:
    """Fails for: counts that begin only when a hash has become one of the smallest."""
    rng = np.random.default_rng(3)
    words = rng.integers(1 << 63, size=30_000, dtype=np.uint64)
    codes = np.concatenate([rng.permutation(30_000), rng.permutation(30_000)]).astype(np.int32)
    sketcher = Sketcher()
    for first in range(0, 60_000, 7_000):
        part = codes[first : first + 7_000]
        sketcher.add([(words, part), (words, part)])
    sketch = sketcher.finish()
    for hashes, counts, factor in zip(sketch.hashes, sketch.counts, (1, 1, 2), strict=True):
        assert hashes.tolist() == sorted((np.uint64(factor) * words).tolist())[: sketch.limit]
        assert (counts == 2).all()
    assert sketch.limit == len(sketch.hashes[0]) < 30_000


@pytest.mark.parametrize("columns", range(1, 40))
def test_sets_are_different_and_few(columns: int) -> None:
    sets = list_sets(columns)
    assert len(set(sets)) == len(sets) <= 1 + 2 * columns + columns * columns
    assert {len(chosen) for chosen in sets} == {
        1,
        2,
        *range(max(1, columns - (2 if columns <= 12 else 1)), columns + 1),
    } - ({2} if columns < 2 else set())


def test_too_few_records_are_no_evidence() -> None:
    sketcher = Sketcher()
    sketcher.add(code([(1, 2), (3, 4), (5, 6)]))
    assert compute_overlap([sketcher.finish()], [sketcher.finish()]) == 0
    assert compute_overlap([], [sketcher.finish()]) == 0


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_a_record_number_and_a_characteristic_of_few_or_of_many_are_evidence(share: float) -> None:
    """Wrong program: one that takes any column beside a record number for the number of a person in a household."""
    rng = np.random.default_rng(6)
    register = pa.table(
        {"id": [str(number) for number in range(900)], "ill": [str(int(value < share)) for value in rng.random(900)]}
    )
    others = register.set_column(1, "ill", pa.array([str(int(value < share)) for value in rng.random(900)]))
    one, resorted, other = (sketch(table) for table in (register, register.take(rng.permutation(900)), others))
    assert compute_overlap([one], [resorted]) >= SHARE > compute_overlap([one], [other])


@pytest.mark.parametrize("times", [2, 12])
def test_repeated_records_are_of_the_same_people(times: int) -> None:
    """Fails for: a file in which no record is unique and no frequency is as before. One record is different."""
    rng = np.random.default_rng(5)
    values = {"age": rng.integers(90, size=900), "town": rng.integers(30, size=900), "ill": rng.integers(2, size=900)}
    once = pa.table({name: pa.array(map(str, column)) for name, column in values.items()})
    others = once.set_column(1, "town", once["town"].take(pa.array(rng.permutation(900))))
    repeated = pa.concat_tables([*[once] * times, others.slice(0, 1)])
    assert compute_overlap([sketch(once)], [sketch(repeated)]) >= SHARE
    assert compute_overlap([sketch(others)], [sketch(repeated)]) < SHARE


@pytest.mark.prove
def test_the_same_people_are_recognized_however_their_files_are_written_and_different_people_are_not() -> None:
    """With the files of the benchmark, whose seeds are fixed: no miss of the same people, and no false alarm."""
    files = make_files(1)
    for seed, name in enumerate(SAME):
        missed = {file: share for file, share in find_overlaps(files, CHANGES[name], seed).items() if share < SHARE}
        assert not missed, name
    for name in OTHERS[:2]:
        for file, overlaps in find_overlaps_of_others(CHANGES[name], 5).items():
            assert max(overlaps) < SHARE, (name, file)
