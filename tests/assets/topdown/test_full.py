"""Full estimation from stored measurements: information up the tree, persons down it, then units that agree."""

from pathlib import Path

from assets.topdown.information import make_information
from tests.assets.topdown.table_oracle import custody_of, release_of, village, written


def quiet(message: str) -> None:
    pass


def test_inform(tmp_path: Path) -> None:
    country = village()
    release = release_of(country, types_first="State")
    warehouse = written(tmp_path, release, country)
    made = make_information(warehouse, custody_of(warehouse), release, print)
    print(made)
    assert make_information(warehouse, custody_of(warehouse), release, print) == made
