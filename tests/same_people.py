"""The rate at which the same people are recognized in another file, and different people are taken for the same.

`python -m tests.same_people [repetitions]` makes synthetic files, rewrites each in the ways of `CHANGES`, and prints
for each way the share of files that are missed. Then it compares files about different people: other seeds of the same
design, which have the same places, numbers of records and numbering. `docs/explanation/composition.md` has the result.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from assets.cef.generated import GeneratedDeclaration
from assets.cef.readers import open_source
from assets.cef.sketch import hash_values
from assets.cef.survey import SurveyParameters, synthetic_survey
from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from mechanisms.people import SHARE, Sketcher, TableSketch, compute_overlap
from resources.statements import SQL, Zone
from resources.warehouse import Warehouse

_EVERYTHING = SQL("tests/source", "FROM ({{ relation }})")
_FACTORS = np.random.default_rng(7).integers(1 << 63, size=258, dtype=np.uint64)
_KEYS = ("MAFID", "household", "person", "dwelling")

Rng = np.random.Generator
Change = Callable[[pa.Table, Rng], pa.Table]


def sketch(table: pa.Table) -> TableSketch:
    """The sketch of a table of texts, as an ingestion makes it."""
    sketcher = Sketcher()
    for batch in table.combine_chunks().to_batches(100_000):
        sketcher.add([hash_values(column, _FACTORS) for column in batch.columns])
    return sketcher.finish()


def read_generated(declaration: GeneratedDeclaration) -> dict[str, pa.Table]:
    """By table, the generated values as texts."""
    with TemporaryDirectory() as folder, Warehouse(folder=folder).session(writes=Zone.CONFIDENTIAL) as session:
        sources = {table: open_source(declaration, table, Path()) for table in declaration.tables}
        tables = {
            table: session.arrow(_EVERYTHING, source.values, relation=source.relation)
            for table, source in sources.items()
        }
    return {
        f"{declaration.name} {name}": table.cast(pa.schema([(column, pa.string()) for column in table.column_names]))
        for name, table in tables.items()
    }


def make_files(seed: int) -> dict[str, pa.Table]:
    """Files of a census, of one with detailed codes, of a survey and of a register with few categories."""
    census = SyntheticPopulation(seed=seed, households=3000, states=["10", "44"], detailed_codes=False)
    detailed = SyntheticPopulation(seed=seed, households=3000, states=["10"], detailed_codes=True)
    survey = SurveyParameters.model_validate({"seed": seed, "households": 3000, "states": ["10", "44", "50"]})
    files = read_generated(synthetic_census(census, name="census", cap={"rho": 1}))
    files |= read_generated(synthetic_census(detailed, name="detailed", cap={"rho": 1}))
    files |= read_generated(synthetic_survey(survey, name="survey", cap=1))
    rng, records = np.random.default_rng(seed), 20_000
    codes = {"county": 14, "size": 12, "tenure": 2}
    drawn = {name: rng.zipf(1.5, records) % number for name, number in codes.items()}
    columns = {"dwelling": range(records), **drawn}
    return files | {"register": pa.table({name: [str(value) for value in of] for name, of in columns.items()})}


def resort(table: pa.Table, rng: Rng) -> pa.Table:
    return sample(table, rng, 1.0)


def sample(table: pa.Table, rng: Rng, share: float) -> pa.Table:
    return table.take(pa.array(rng.permutation(table.num_rows)[: max(1, int(share * table.num_rows))]))


def leave_out(table: pa.Table, rng: Rng, number: int) -> pa.Table:
    left = rng.permutation(table.num_columns)[: max(2, table.num_columns - number)]
    return table.select([table.column_names[column] for column in left])


def leave_keys_out(table: pa.Table, _: Rng) -> pa.Table:
    return table.select([name for name in table.column_names if name not in _KEYS])


def renumber(table: pa.Table, rng: Rng) -> pa.Table:
    """Other numbers in place of every key."""
    for place, name in enumerate(table.column_names):
        if name in _KEYS:
            coded = table[name].combine_chunks().dictionary_encode()
            numbers = pa.array([str(number) for number in rng.permutation(len(coded.dictionary)) + 500_000])
            table = table.set_column(place, name, numbers.take(coded.indices))
    return table


def retype(table: pa.Table, rng: Rng) -> pa.Table:
    """Whole numbers with leading zeros or decimals, blanks around texts, and other names."""
    written = [
        lambda text: f"00{text}" if text.isdigit() else text,
        lambda text: f"{text}.0" if text.isdigit() else text,
    ]
    written.append(lambda text: f" {text} ")
    columns = [
        pa.array([None if text is None else written[kind](text) for text in column.to_pylist()], pa.string())
        for kind, column in zip(rng.integers(len(written), size=table.num_columns), table.columns, strict=True)
    ]
    return pa.table(columns, names=[f"v{number}" for number in range(len(columns))])


def correct(table: pa.Table, rng: Rng, share: float = 0.05) -> pa.Table:
    """Every value is replaced, with this probability, by another record's."""
    rows = np.arange(table.num_rows)
    columns = []
    for column in table.columns:
        others = np.where(rng.random(len(rows)) < share, rng.permutation(rows), rows)
        columns.append(column.take(pa.array(others)))
    return pa.table(columns, names=table.column_names)


def add_records(table: pa.Table, rng: Rng, share: float) -> pa.Table:
    """Additional records, each with values of different records."""
    return pa.concat_tables([table, sample(correct(table, rng, 1.0), rng, share)])


def _then(*changes: Change) -> Change:
    def change(table: pa.Table, rng: Rng) -> pa.Table:
        for one in changes:
            table = one(table, rng)
        return table

    return change


def _sample(share: float) -> Change:
    return lambda table, rng: sample(table, rng, share)


def _leave_out(number: int) -> Change:
    return lambda table, rng: leave_out(table, rng, number)


def _compose(table: pa.Table, rng: Rng) -> pa.Table:
    """Two to four changes of the declaration, drawn at random."""
    for change in islice(_draw_forever(rng), int(rng.integers(2, 5))):
        table = change(table, rng)
    return table


def _draw_forever(rng: Rng) -> Iterator[Change]:
    kinds: list[Change] = [
        _leave_out(1),
        leave_keys_out,
        renumber,
        retype,
        lambda table, rng: add_records(table, rng, 0),
    ]
    while True:
        yield kinds[rng.integers(len(kinds))]


CHANGES: Mapping[str, Change] = {
    "sorted anew": resort,
    "other names, types and ways to write numbers": retype,
    "a column left out": _leave_out(1),
    "two columns left out": _leave_out(2),
    "half of the columns left out": lambda table, rng: leave_out(table, rng, table.num_columns // 2),
    "keys left out": leave_keys_out,
    "keys replaced": renumber,
    "a record more": lambda table, rng: add_records(table, rng, 0),
    "every record three times and one more": lambda table, rng: add_records(pa.concat_tables([table] * 3), rng, 0),
    "two to four of these": _compose,
    "1% of the records more": lambda table, rng: add_records(table, rng, 0.01),
    "5% of the values corrected": correct,
    "a half of the records": _sample(0.5),
    "a tenth of the records": _sample(0.1),
    "a hundredth of the records": _sample(0.01),
    "a half of the records, two columns left out": _then(_sample(0.5), _leave_out(2)),
    "1% of the records more, keys left out": _then(lambda table, rng: add_records(table, rng, 0.01), leave_keys_out),
    "5% of the values corrected, keys left out": _then(correct, leave_keys_out),
    "a half of the records, keys left out": _then(_sample(0.5), leave_keys_out),
    "a tenth of the records, keys left out": _then(_sample(0.1), leave_keys_out),
}
"""The ways of rewriting a file about the same people. All also sort the file again."""

SAME = tuple(CHANGES)[: tuple(CHANGES).index("two to four of these") + 1]
"""The changes that leave all records unchanged, or add a single one."""

OTHERS = ("sorted anew", "keys left out", "half of the columns left out", "a tenth of the records")
"""The ways of rewriting files about different people before they are compared."""


def find_overlaps(files: Mapping[str, pa.Table], change: Change, seed: int) -> dict[str, float]:
    """By file, the overlap of the file with itself after a change."""
    rng = np.random.default_rng(seed)
    return {
        name: compute_overlap([sketch(table)], [sketch(change(resort(table, rng), rng))])
        for name, table in files.items()
    }


def find_overlaps_of_others(change: Change, seeds: int) -> dict[str, list[float]]:
    """By file, the overlaps with the files of other seeds after a change."""
    rng, made = np.random.default_rng(seeds), [make_files(seed) for seed in range(seeds)]
    whole = [{name: sketch(table) for name, table in files.items()} for files in made]
    anew = [{name: sketch(change(table, rng)) for name, table in files.items()} for files in made]
    return {
        name: [compute_overlap([whole[one][name]], [anew[other][name]]) for one, other in combinations(range(seeds), 2)]
        for name in made[0]
    }


def main(repetitions: int) -> None:
    files = make_files(1)
    print("missed".ljust(50), *(name.rjust(17) for name in files))
    for name, change in CHANGES.items():
        runs = [find_overlaps(files, change, seed) for seed in range(repetitions)]
        missed = {file: sum(run[file] < SHARE for run in runs) / repetitions for file in files}
        print(name.ljust(50), *(f"{share:17.0%}" for share in missed.values()), flush=True)
    print(
        "\nDifferent people: false alarms, and the greatest overlap".ljust(50),
        repetitions * (repetitions - 1) // 2,
        "pairs",
    )
    for name in OTHERS:
        found = find_overlaps_of_others(CHANGES[name], repetitions)
        shares = [f"{sum(one >= SHARE for one in of) / len(of):.0%} {max(of):.2f}" for of in found.values()]
        print(name.ljust(50), *(share.rjust(17) for share in shares), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
