"""Files of p-tables: errors name the file, and a picture shows the guarantee of a p-table."""

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from assets.table_builder.declaration import PTableFileError, load_p_table
from assets.table_builder.plan import describe_p_table, format_delta
from mechanisms.accounting.losses import PureLoss
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
        (b"", "sdctools", "the file is empty"),
        (b"\n \n", "ons", "the file is empty"),
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


def test_the_curve_has_delta_of_both_and_a_mark_for_what_is_declared() -> None:
    _, _, curve = describe_p_table(TABLE, PureLoss(Fraction(1)))
    assert curve is not None
    ours, theirs = curve.series.values()
    assert {delta for _, delta in ours} == {0.75}, "no ε holds without a δ"
    assert theirs[0] == (0, pytest.approx(0.5**0.5))
    assert all(first > second for (_, first), (_, second) in pairwise(theirs))
    assert curve.marks == [("declared: ε = 1.000, δ = 0.7500", 1.0, 0.75)]
    assert curve.log_y


def test_a_table_that_changes_nothing_has_no_curve() -> None:
    nothing = PTable((Row((0,), (1,)),))
    assert describe_p_table(nothing, None) == ("The p-table changes no count, so it guarantees nothing.", None, None)


def test_the_page_states_delta_beside_the_laplace_of_the_same_variance() -> None:
    words, table, curve = describe_p_table(TABLE, PureLoss(Fraction(1)))
    assert table is not None
    rows = table[1]
    # Count 1 becomes 1 or 2 in three of four cases, and count 0 never. The variance is 1/2, so q = 3 − 2√2 for the
    # discrete Laplace, and its δ is (1 − q) / (1 + q) = 1/√2 at ε = 0, and (1 − eq) / (1 + q) at ε = 1.
    assert [row[0] for row in rows] == ["0", "0.5", "1", "2", "5"]
    assert [row[1] for row in rows] == ["0.7500"] * 5
    assert [rows[place][2] for place in (0, 2, 3, 4)] == ["0.7072", "0.4555", "0", "0"]
    assert "No ε holds without a δ" in words
    assert "ε = 1.0000, δ = 0.7500" in words
    assert curve is not None


def test_a_delta_is_never_stated_below_itself() -> None:
    texts = [format_delta(Fraction(delta)) for delta in ("0", "1/3", "1", "1/10000001")]
    assert texts == ["0", "0.3334", "1.000", "1.000E-7"]
    assert all(Fraction(Decimal(format_delta(Fraction(1, n)))) >= Fraction(1, n) for n in range(1, 3000, 7))
