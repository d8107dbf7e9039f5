"""p-tables in the forms that other tools write are read exactly, and anything else is refused in one sentence."""

from fractions import Fraction

import pytest

from mechanisms.table_builder.p_table import Row
from mechanisms.table_builder.reading import PTableError, read_ons, read_sdctools

EXPORT = """\
i;j;p;v;p_int_ub
0;0;1.00000000; 0;1.00000000
1;0;0.36648551;-1;0.36648551
1;1;0.36648551; 0;0.73297102
1;2;0.16757247; 1;0.90054349
1;3;0.09945651; 2;1.00000000
2;0;0.12345678;-2;0.12345678
2;1;0.20000000;-1;0.32345678
2;4;0.00000001; 2;0.32345679
2;1;0.17654321;-1;0.50000000
2;2;0.50000000; 0;1.00000000
"""
"""As `pt_export` of ptable 1.0.0 writes it, padded by blanks; the last row as `modify_cnt_ptable` shuffles it."""

WITH_LOWER = "i;j;p;v;p_int_lb;p_int_ub\n0;0;1;0;0;1\n1;0;2.5e-01;-1;0;0.25\n1;2;0;1;0.25;0.25\n1;1;0.75;0;0.25;1\n"
"""In the form that `pt_export` writes for SAS."""


def test_an_export_of_sdctools_is_read_exactly() -> None:
    table = read_sdctools(EXPORT)
    assert table.last == 2
    assert table.cycle == 1
    assert table.rows[1] == Row((-1, 0, 1, 2), (36648551, 36648551, 16757247, 9945651))
    assert table.rows[2].changes == (-2, -1, 2, -1, 0)
    assert table.probability(2, 1) == Fraction(20000000 + 17654321, 10**8)
    assert table.probability(7, 9) == Fraction(1, 10**8)


def test_the_form_for_sas_is_read_too_and_a_byte_order_mark_is_no_part_of_a_name() -> None:
    assert read_sdctools(f"\ufeff{WITH_LOWER}").rows[1] == Row((-1, 0), (1, 3))


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ("p_int_ub\n", "kum_p_o\n", "line 1: the header must have the field p_int_ub once, .* it has it 0 times"),
        (";", ",", "line 1: the header must have the field i once, separated by ';'"),
        (
            "1;3;0.09945651; 2;1.00000000\n",
            "",
            "line 5, field p_int_ub: the probabilities of count 1 sum to 0.90054349",
        ),
        ("1;2;0.16757247; 1;0.90054349", "1;2;0.16757247; 1;0.7", "line 5, field p_int_ub: .* and this one does not"),
        ("1;3;0.09945651; 2;1.00000000", "1;3;0.09945651; 2;1.1", "line 6, field p_int_ub: .* and this one does not"),
        ("1;2;0.16757247; 1;0.90054349", "1;2;0.26757247; 1;0.90054349", "line 5, field p: .* length of its interval"),
        ("2;2;0.50000000; 0", "2;3;0.50000000; 0", r"line 11, field j: the result must be i \+ v = 2"),
        ("1;0;0.36648551;-1", "1;-1;0.36648551;-2", "line 3, field j: .* not negative"),
        ("2;0;0.12345678;-2", "4;2;0.12345678;-2", "line 7, field i: the counts must be 0, 1, 2, … .*; 4 is where 2"),
        ("0;0;1.00000000; 0;1.00000000\n", "", "line 2, field i: .* 1 is where 0 belongs"),
        ("1;1;0.36648551; 0;", "1;1;0.36648551; 0;a", "line 4, field p_int_ub: a number is needed"),
        (
            "1;1;0.36648551; 0;",
            "1;1;0.36648551; 0.5;",
            "line 4, field v: a whole number is needed; p-tables",
        ),
        ("1;1;0.36648551; 0;", "1;1;0.36648551; 1e30;", "line 4, field v: a count is changed by at most 1,000"),
        ("1;1;0.36648551; 0;", "1;1;0.36648551; NaN;", "line 4, field v: a number is needed"),
        ("1;1;0.36648551; 0;", "1;1;0.36648551; 0", "line 4: 5 fields are needed, as in the header; there are 4"),
        (EXPORT[17:], "", "line 2: a p-table has at least one line after the header"),
        (EXPORT, "", "the file is empty"),
    ],
)
def test_a_malformed_export_is_refused_with_line_field_and_rule(before: str, after: str, rule: str) -> None:
    assert before in EXPORT
    with pytest.raises(PTableError, match=rule):
        read_sdctools(EXPORT.replace(before, after, -1 if before == ";" else 1))


def ons(rows: int = 750, keys: int = 2) -> str:
    """A small p-table in the form of that office: odd counts rise by their key, even ones stay."""
    lines = [f"{count},{key},{key * (count % 2)}" for count in range(1, rows + 1) for key in range(keys)]
    return "\n".join(['"pcv","ckey","pvalue"', *lines, ""])


def test_a_p_table_of_the_office_for_national_statistics_is_read() -> None:
    table = read_ons(ons())
    assert (table.last, table.cycle, table.zero_stays_zero) == (750, 250, True)
    assert table.rows[1] == Row((0, 1), (1, 1))
    assert table.rows[2] == Row((0,), (2,))
    assert table.row(751) is table.rows[501]
    assert table.row(1000) is table.rows[750]


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ("pvalue", "value", "line 1: the header must have the field pvalue once"),
        ("\n3,1,1", "", "field ckey: every count from 1 to 750 needs every key from 0 to 1 once; 1 lines are missing"),
        ("\n3,1,1", "\n3,0,1", "line 7, field ckey: count 3 has key 0 twice"),
        ("\n3,1,1", "\n3,7,1", "every key from 0 to 7 once; 4500 lines are missing"),
        ("\n3,1,1", "\n3,1,-4", "line 7, field pvalue: the result of count 3 is negative: -1"),
        ("\n3,1,1", "\n751,1,1", "line 7, field pcv: counts are from 1 to 750, not 751"),
        ("\n3,1,1", "\n3,-1,1", "line 7, field ckey: keys are not negative"),
        ("\n3,1,1", "\n3,1,1001", "line 7, field pvalue: a count is changed by at most 1,000, not by 1,001"),
        ("\n3,1,1", "\n3,1,1e30", "line 7, field pvalue: a count is changed by at most 1,000"),
        ("\n3,1,1", "\n3,1,1.5", "line 7, field pvalue: a whole number is needed; p-tables of magnitudes"),
        ("\n3,1,1", "\n3,1", "line 7: 3 fields are needed"),
    ],
)
def test_a_malformed_p_table_of_that_office_is_refused(before: str, after: str, rule: str) -> None:
    with pytest.raises(PTableError, match=rule):
        read_ons(ons().replace(before, after, 1))


def test_a_p_table_that_ends_before_750_is_refused() -> None:
    """The rule for greater counts needs the rows up to 750."""
    with pytest.raises(PTableError, match="every count from 1 to 750"):
        read_ons(ons(rows=749))
