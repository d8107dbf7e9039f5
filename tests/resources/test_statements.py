"""Claims about statements: only quoted identifiers, of any text, become SQL."""

import duckdb
import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources import statements
from resources.statements import Fragment, Table, Zone, quote, quote_all, quote_literal, render

HOSTILE = ['a"b', '"', '"; DROP TABLE t; --', "a'b", "a.b", "select", "Größe", "{{ x }}", "%s", "$name", "a\nb", " "]


@pytest.mark.parametrize("name", HOSTILE)
def test_an_identifier_names_one_thing_and_does_nothing_else(name):
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE {quote(name)} ({quote(name)} INTEGER, other INTEGER)")
        tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        assert tables == [(name,)]
        columns = connection.execute(f"SELECT {quote_all([name, 'other'], name)} FROM {quote(name)}").description
        assert [column[0] for column in columns] == [name, "other"]


@given(st.text(alphabet=st.characters(blacklist_characters="\x00", blacklist_categories=["Cs"]), min_size=1))
def test_a_quoted_identifier_ends_where_its_name_ends(name):
    text = quote(name).text
    assert text[0] == text[-1] == '"'
    assert text[1:-1].replace('""', "") == name.replace('"', "")
    assert text[1:-1].count('"') == 2 * name.count('"')


@pytest.mark.deep
@given(st.text(alphabet=st.characters(blacklist_characters="\x00", blacklist_categories=["Cs"])))
def test_a_literal_is_read_back_as_it_was(value):
    with duckdb.connect() as connection:
        assert connection.execute(f"SELECT {quote_literal(value)}").fetchone() == (value,)


@pytest.mark.parametrize("name", ["", "a\x00b", "\x00"])
def test_an_impossible_identifier_is_refused(name):
    for use in (
        quote,
        lambda name: quote_all([name]),
        lambda name: Table(Zone.PUBLIC, "s", name).text,
    ):
        with pytest.raises(ValueError, match="not empty"):
            use(name)


def test_a_table_is_addressed_by_its_quoted_parts():
    table = Table(Zone.CONFIDENTIAL, 'ma"1940', "units.x")
    assert table.text == '"confidential"."ma""1940"."units.x"'
    assert str(table) == 'confidential.ma"1940.units.x'


def test_an_identifier_is_not_quoted_twice():
    assert quote(quote('a"b')) == Fragment('"a""b"')


@pytest.fixture
def texts(monkeypatch):
    """Statements of the tests' own."""
    written = {}
    monkeypatch.setattr(statements._environment(), "loader", jinja2.DictLoader(written))
    return written


@pytest.mark.parametrize("value", ["units", "units; DROP TABLE t", "", 1.5, True, None, ["a"], {"a": 1}, Zone.PUBLIC])
def test_text_that_was_not_quoted_does_not_enter_a_statement(texts, value):
    texts["tests/unquoted.sql"] = "SELECT * FROM {{ table }}"
    with pytest.raises(TypeError, match="identifiers through"):
        render("tests/unquoted", {"table": value})


def test_a_statement_without_all_its_names_is_refused(texts):
    texts["tests/missing.sql"] = "SELECT {{ column | id }} FROM {{ table }} LIMIT {{ limit }}"
    names = {"column": 'a"b', "table": Table(Zone.PUBLIC, "s", "t"), "limit": 3}
    assert render("tests/missing", names) == 'SELECT "a""b" FROM "public"."s"."t" LIMIT 3'
    for name in names:
        with pytest.raises((jinja2.UndefinedError, TypeError)):
            render("tests/missing", {key: value for key, value in names.items() if key != name})


def test_a_column_named_like_a_placeholder_stays_a_name(texts):
    texts["tests/quoted.sql"] = "SELECT {{ columns | ids }}"
    assert render("tests/quoted", {"columns": ["{{ secret }}", "{% raw %}"]}) == 'SELECT "{{ secret }}", "{% raw %}"'


@pytest.mark.parametrize("name", ["../resources/ledger", "nowhere/nothing", "/etc/passwd"])
def test_statements_are_read_from_their_folder_only(name):
    with pytest.raises(jinja2.TemplateNotFound):
        render(name)


def test_columns_agree_where_both_are_null():
    condition = statements.equate_columns(['a"b', "c"], "one", "other").text
    row = '(SELECT NULL AS "a""b", {} AS c)'
    with duckdb.connect() as connection:
        for value, agrees in (("1", 1), ("2", 0), ("NULL", 0)):
            joined = f"SELECT count(*) FROM {row.format(1)} AS one JOIN {row.format(value)} AS other ON {condition}"
            assert connection.execute(joined).fetchone() == (agrees,)
