"""Files of p-tables: errors name the file, and a picture shows what a p-table guarantees."""

from fractions import Fraction
from pathlib import Path

import pytest

from assets.table_builder.charts import loss_against_epsilon
from assets.table_builder.p_tables import PTableFileError, load_p_table
from mechanisms.accounting.loss import PureLoss
from mechanisms.table_builder.judging import judge
from mechanisms.table_builder.p_table import PTable, Row

EXPORT = "i;j;p;v;p_int_ub\n0;0;1;0;1\n1;0;0.5;-1;0.5\n1;2;0.5;1;1\n"


def test_a_file_of_a_p_table_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "p_table.txt"
    path.write_text("\ufeff" + EXPORT.replace("\n", "\r\n"), "utf-8")
    assert load_p_table(path, "sdctools").rows[1] == Row((-1, 1), (1, 1))


@pytest.mark.parametrize(
    ("content", "form", "rule"),
    [
        (EXPORT.replace("0.5\n", "0.7\n").encode(), "sdctools", "line 3, field p: p must be the length"),
        (EXPORT.encode(), "ons", "line 1: the header must have the field pcv once"),
        (b"\xff\xfe", "sdctools", "not UTF-8"),
        (b"", "sdctools", "line 1: the header"),
    ],
)
def test_an_error_names_the_file(tmp_path: Path, content: bytes, form: str, rule: str) -> None:
    path = tmp_path / "p_table.txt"
    path.write_bytes(content)
    with pytest.raises(PTableFileError, match=f"^{path}: .*{rule}"):
        load_p_table(path, form)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(PTableFileError, match=r"none.txt: the p-table cannot be read \(No such file"):
        load_p_table(tmp_path / "none.txt", "ons")


TABLE = PTable((Row((0,), (1,)), Row((-1, 0, 1), (1, 2, 1))))


def test_the_picture_is_a_png_of_the_usual_width_and_the_same_every_time() -> None:
    charged = judge(TABLE, PureLoss(Fraction(1)))
    once, again = (loss_against_epsilon(TABLE, "The loss of a p-table", charged) for _ in range(2))
    assert once.startswith(b"\x89PNG")
    assert int.from_bytes(once[16:20], "big") == 1080
    assert once == again


def test_a_table_that_changes_nothing_has_no_picture() -> None:
    with pytest.raises(ValueError, match="changes no count"):
        loss_against_epsilon(PTable((Row((0,), (1,)),)), "Nothing")
