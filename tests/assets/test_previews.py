"""Small tables on an asset's page: a table that fits stays one, and a page cuts nothing."""

import dagster as dg

from assets.conventions import MOST_ROWS, ROOM, group_digits, join_digits, preview

LETTERS = 20
"""Two columns with words of this length fit; with twice the length they do not."""


def test_a_table_that_fits_is_one_and_one_that_would_be_cut_is_text_with_the_same_values() -> None:
    narrow = preview(["name", "rows"], [("a" * LETTERS, 12), ("b*", 3)])
    assert isinstance(narrow, dg.TableMetadataValue)
    assert [list(record.data.values()) for record in narrow.records] == [["a" * LETTERS, "12"], ["b*", "3"]]
    wide = preview(["name", "rows"], [("a" * 2 * LETTERS, 12), ("b*", 3)])
    assert isinstance(wide, dg.MarkdownMetadataValue)
    assert wide.md_str == f"**{'a' * 2 * LETTERS}**: rows 12\n\n**b\\***: rows 3"
    assert isinstance(preview(["name", "rows"], [("a" * 2 * LETTERS, 12)], room=2 * ROOM), dg.TableMetadataValue)


def test_words_are_broken_and_headers_are_not() -> None:
    assert isinstance(preview(["name"], [(" ".join(["word"] * 50),)]), dg.TableMetadataValue)
    assert isinstance(preview([" ".join(["word"] * 50), "rows"], [("a", 1)]), dg.MarkdownMetadataValue)
    assert isinstance(preview(["name"], [("2026\u00a0" * 50,)]), dg.MarkdownMetadataValue)
    assert isinstance(preview(["name"], []), dg.TableMetadataValue)


def test_a_long_table_is_one_click_away() -> None:
    long = preview(["name", "rows"], [("a", 1)] * (MOST_ROWS + 1))
    assert isinstance(long, dg.MarkdownMetadataValue)
    assert long.md_str
    assert long.md_str.startswith("| name | rows |")


def test_a_hash_in_groups_is_the_same_hash() -> None:
    digest = "0123456789abcdef" * 4
    assert group_digits(digest) == " ".join(["0123456789abcdef"] * 4)
    assert join_digits(group_digits(digest)) == digest
