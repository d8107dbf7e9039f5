"""The tables and files of a release can be written side by side, or the release is refused before anything runs."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from assets.release.published import ERRORS, PublishedColumn, PublishedTable, error_columns, require_placeable
from assets.release.release import DeclarationError, Release, ReleaseDeclaration
from resources.statements import Table, Zone


def release(published: Path = Path("published")) -> Release:
    declaration = ReleaseDeclaration(name="tables", dataset="town", title="Tables")
    return Release(declaration, cast(Any, SimpleNamespace(name="town")), None, published)


def table(name: str, stored: str | None = None) -> PublishedTable:
    columns = (PublishedColumn("count", "integer"),)
    return PublishedTable(name, name, "", Table(Zone.PUBLIC, "town__tables", stored or name), columns, ("count",))


def test_distinct_names_and_short_paths_are_accepted() -> None:
    require_placeable(release(), [table("population"), table("tables")])


def _with_errors(names: Sequence[str], interval: str) -> PublishedTable:
    columns = tuple(PublishedColumn(name, "decimal") for name in names)
    return PublishedTable("town", "Town", "", Table(Zone.PUBLIC, "town", "town"), columns, (), interval=interval)


@pytest.mark.parametrize("missing", range(len(ERRORS)))
def test_a_method_of_intervals_is_stated_by_tables_with_all_columns_of_errors_alone(missing: int) -> None:
    assert _with_errors(ERRORS, "Exact.").interval == "Exact."
    some = [name for name in ERRORS if name != ERRORS[missing]]
    assert not _with_errors(some, "").interval, "a dataset may have variables of these names"
    for names, interval in ((ERRORS, ""), (some, "Exact."), (["count"], "Exact.")):
        with pytest.raises(ValueError, match="states the method of its intervals"):
            _with_errors(names, interval)


def test_columns_of_errors_have_the_same_names_and_order_everywhere() -> None:
    columns = error_columns("integer", "Number", "Error", "persons", optional=("standard_error",))
    assert tuple(column.name for column in columns) == ERRORS == ("estimate", "standard_error", "lower", "upper")
    assert [column.type for column in columns] == ["integer", "decimal", "integer", "integer"]
    assert [column.required for column in columns] == [True, False, True, True]


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ([table("population"), table("population", "other")], "population would be written 2 times"),
        ([table("population", "same"), table("tables", "SAME")], "public.town__tables.same would be written 2 times"),
        ([table("certificate")], "certificate is the name of a file or folder"),
        ([table("datapackage")], "datapackage is the name of a file or folder"),
        ([table("sha256sums")], "sha256sums is the name of a file or folder"),
        ([table("a" * 250)], "its path in the folder of publications would be too long"),
    ],
)
def test_what_could_not_be_written_is_refused(tables: list[PublishedTable], said: str) -> None:
    with pytest.raises(DeclarationError, match=f"^release town/tables: products: .*{said}"):
        require_placeable(release(), tables)


def test_a_path_that_the_file_system_does_not_allow_is_refused() -> None:
    with pytest.raises(DeclarationError, match="too long"):
        require_placeable(release(Path("a" * 200, *["b" * 200] * 20)), [table("population")])
