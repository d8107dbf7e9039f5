"""A declaration of a dataset either has one meaning or is rejected with the reason."""

from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from assets.release.columns import Column, means_no_value, whole
from assets.release.dataset import DatasetDeclaration
from assets.release.numbers import exact_fraction
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, CurveLoss, PureLoss

KEY = {"type": "integer", "role": "key"}
UNIT = {"type": "integer", "role": "unit"}
TENURE = {"type": "string", "values": ["owned", "rented"]}


def declare(**changes: Any) -> DatasetDeclaration:
    given_attributes: dict[str, Any] = {
        "name": "town",
        "title": "A town",
        "reader": "csv",
        "cap": 1,
        "units": {"path": "units.csv", "columns": {"tenure": TENURE, "serial": KEY}},
        **changes,
    }
    return DatasetDeclaration.model_validate(given_attributes)


def places(town: dict[str, Any]) -> dict[str, Any]:
    """A table of units with the towns a and b, and the regions N and S."""
    place = {"type": "string", "role": "geography"}
    columns = {"region": place | {"values": ["N", "S"]}, "town": place | {"values": ["a", "b"]} | town}
    return {"path": "units.csv", "columns": columns}


def persons(**columns: Any) -> dict[str, Any]:
    return {"path": "persons.csv", "columns": columns}


@pytest.mark.parametrize(
    ("column", "complaint"),
    [
        ({"type": "integer"}, "must declare its domain: values, or minimum and maximum"),
        ({"type": "integer", "minimum": 1}, "must declare its domain"),
        ({"type": "string"}, "must declare its domain: values or a pattern"),
        ({"type": "string", "role": "geography"}, "must declare its domain"),
        ({"type": "integer", "minimum": 3, "maximum": 1}, "minimum 3 is greater than maximum 1"),
        ({"type": "date", "minimum": "1940-02-30"}, "is not of type date"),
        ({"type": "decimal", "minimum": 0.00001}, "is not of type decimal"),
        ({"type": "integer", "minimum": 0.5, "maximum": 2}, "is not of type integer"),
        ({"type": "integer", "values": ["1"]}, "'1' is not of type integer"),
        ({"type": "integer", "values": [True]}, "True is not of type integer"),
        ({"type": "string", "values": [1, 2]}, "put it in quotes"),
        ({"type": "string", "values": [False]}, "put it in quotes"),
        ({"type": "string", "values": ["a", "b", "b"]}, "a code occurs twice in values: 'b'"),
        ({"type": "string", "values": []}, "nonempty"),
        ({"type": "string", "values": "owned"}, "a nonempty list of codes or a nonempty mapping"),
        ({"type": "string", "pattern": "("}, "not a regular expression"),
        ({"type": "string", "pattern": "(?=a)"}, "not a regular expression"),
        ({"type": "integer", "pattern": "[0-9]"}, "takes no pattern"),
        ({"type": "string", "minimum": "a", "maximum": "b"}, "takes no minimum"),
        ({"type": "boolean", "values": [True]}, "takes no values"),
        ({"type": "integer", "values": [1], "maximum": 3}, "whole domain"),
        ({"type": "decimal", "role": "key"}, "an integer or a string"),
        ({"type": "integer", "role": "key", "nullable": True}, "not nullable"),
        ({"type": "text"}, "'integer', 'string'"),
        ({"type": "integer", "role": "weight"}, "'key', 'unit'"),
        ({"type": "boolean", "width": 3}, "Extra inputs"),
    ],
)
def test_a_column_without_a_sensible_domain_is_refused(column: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint.replace("(", r"\(")):
        Column.model_validate(column)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"name": "Town"}, "name"),
        ({"name": "my__town"}, "name"),
        ({"name": "town_"}, "name"),
        ({"name": "1940"}, "name"),
        ({"reader": "excel"}, "reader"),
        ({"cap": 0}, "greater than 0"),
        ({"cap": -1}, "greater than 0"),
        ({"cap": "a lot"}, "not a number or a fraction"),
        ({"cap": float("inf")}, "not a number or a fraction"),
        ({"cap": True}, "not a number or a fraction"),
        ({"cap": "1/0"}, "not a number or a fraction"),
        ({"units": {"path": "u.csv", "columns": {}}}, "columns"),
        ({"units": {"columns": {"tenure": TENURE}}}, "units: path is required with reader csv"),
        ({"units": {"path": "u.csv", "columns": {"a": KEY, "b": KEY}}}, "more than one key: a, b"),
        ({"units": {"path": "u.csv", "columns": {"a": UNIT}}}, "column a has role unit"),
        ({"units": {"path": "u.csv", "columns": {"a": TENURE, "A": TENURE}}}, "differ only in upper and lower case"),
        ({"units": {"path": "u.csv", "columns": {"": TENURE}}}, "name is not empty"),
        ({"units": places({"within": "land"})}, "within: land is not another column of role geography"),
        ({"units": places({"within": "region", "role": "characteristic"})}, "within: its role is not geography"),
        (
            {"units": places({"within": "region", "nesting": {"N": ["a"]}})},
            "nesting: it names each code of the column once, but 'b' 0 times",
        ),
        (
            {"units": places({"within": "region", "nesting": {"N": ["a", "c"], "S": ["b"]}})},
            "nesting: 'c' is not among the codes of the column",
        ),
        ({"persons": persons(tenure=TENURE)}, "exactly one column of role unit is required, found 0"),
        ({"persons": persons(a=UNIT, b=UNIT)}, "exactly one column of role unit is required, found 2"),
        ({"persons": persons(a={"type": "string", "role": "unit"})}, "differ in type"),
        (
            {"units": {"path": "u.csv", "columns": {"tenure": TENURE}}, "persons": persons(a=UNIT)},
            "units: a column of role key is required",
        ),
        ({"reader": "ma1940"}, "takes no path"),
        ({"reader": "ma1940", "units": {"columns": {"a": KEY}}, "persons": {"columns": {"a": UNIT}}}, "units only"),
        ({"units": {"path": "a", "columns": {"a": KEY | {"min": 1}}}}, r"a.min: there is no such .*mean minimum\?\)"),
        ({"units": {"path": "a", "columns": {"a": KEY | {"size": 1}}}}, "a.size: there is no such field; there are"),
        ({"units": {"path": "a", "columns": {"a": "integer"}}}, "a: it must be a mapping of fields and values"),
        ({"partitions": []}, "partitions: it must have 1 or more entries, not 0"),
        ({"name": "My town"}, "name: 'My town' is not lowercase letters, digits and single underscores"),
        ({"cap": "0,5"}, "cap: '0,5' has a decimal comma; write it with a decimal point, as 0.5"),
        ({"cap": {"epsilon": 1}}, r"\{epsilon: …, delta: …, by: curve\}"),
        ({"recordname": "home"}, r"recordname: there is no such field \(did you mean record_name\?\)"),
    ],
)
def test_an_inconsistent_dataset_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        declare(**changes)


@pytest.mark.parametrize("pattern", ["a)|(?:b", "(a", "a)", "a)(", r"\Qa", "[)]\\Q", "a\\", "(?i", "a" * 1001])
def test_a_pattern_that_could_end_the_group_around_it_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationError, match="pattern"):
        Column.model_validate({"type": "string", "pattern": pattern})


@given(st.text(r"ab()|[]\QEz?:i*+^$.", max_size=7), st.text("ab)", max_size=3))
def test_an_accepted_pattern_matches_the_whole_text_as_in_duckdb(pattern: str, text: str) -> None:
    try:
        column = Column.model_validate({"type": "string", "pattern": pattern})
    except ValidationError:
        return
    (matched,) = (
        duckdb.execute("SELECT regexp_full_match($text, $pattern)", {"text": text, "pattern": pattern}).fetchone() or ()
    )
    assert column.pattern is not None
    assert pc.match_substring_regex(pa.array([text]), whole(column.pattern))[0].as_py() == matched


def test_domains_are_values_of_the_columns_type() -> None:
    assert Column(type="integer", values={1: "One", 2: "Two"}).labels == {1: "One", 2: "Two"}
    assert Column(type="string", values=["01", "1"]).codes == ("01", "1")
    assert Column(type="date", minimum="1850-06-01").bounds == (date(1850, 6, 1), None)
    assert Column(type="decimal", minimum=0.1, maximum="2").bounds == (Decimal("0.1"), Decimal(2))


def test_the_cef_orders_columns_by_role_first() -> None:
    declaration = declare(persons=persons(age={"type": "integer", "minimum": 0, "maximum": 130}, home=UNIT, id=KEY))
    assert list(declaration.units.stored) == ["serial", "tenure"]
    assert list(declaration.units.variables) == ["tenure"]
    assert declaration.persons is not None
    assert list(declaration.persons.stored) == ["id", "home", "age"]
    assert [str(table) for table in declaration.cef_tables()] == [
        "confidential.town.units",
        "confidential.town.persons",
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (40, Fraction(40)),
        (0.1, Fraction(1, 10)),
        (17.08, Fraction(1708, 100)),
        (1e-05, Fraction(1, 100_000)),
        ("1/3", Fraction(1, 3)),
        ("0.25", Fraction(1, 4)),
        (Decimal("0.3"), Fraction(3, 10)),
    ],
)
def test_a_cap_is_the_number_that_was_written(written: Any, meant: Fraction) -> None:
    assert declare(cap=written).cap == PureLoss(meant)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"rho": 5}, ConcentratedLoss(Fraction(5))),
        ({"rho": "2.514562"}, ConcentratedLoss(Fraction(2514562, 10**6))),
        (
            {"epsilon": 20, "delta": "1/10000000000"},
            ApproximateLoss(PureLoss(Fraction(20)), Fraction(1, 10**10)),
        ),
        ({"epsilon": 20, "delta": 1e-10, "by": "curve"}, CurveLoss(PureLoss(Fraction(20)), Fraction(1, 10**10))),
    ],
)
def test_a_cap_may_be_in_any_output_premetric(written: Any, meant: Any) -> None:
    assert declare(cap=written).cap == meant


@pytest.mark.parametrize(
    "written",
    [
        *({}, {"rho": 0}, {"rho": 1, "delta": 0.5}, {"epsilon": 1}, {"epsilon": 1, "delta": 1}),
        *({"rho": 1, "by": "curve"}, {"epsilon": 1, "by": "curve"}, {"epsilon": 1, "delta": 0.1, "by": "conversion"}),
    ],
)
def test_a_cap_that_is_not_a_loss_is_refused(written: Any) -> None:
    longest = "a" * 60
    with pytest.raises(ValueError, match=f"dataset {longest}: cap"):
        declare(name=longest, cap=written)


@given(st.decimals(min_value=0, max_value=1000, places=6))
def test_a_decimal_that_yaml_reads_as_a_float_keeps_its_decimal_value(number: Decimal) -> None:
    assert exact_fraction(float(number)) == Fraction(number)


def test_labels_of_codes_for_no_value_are_known_in_several_languages() -> None:
    """Wrong programs: one that adds up 9, "keine Angabe", as nine children; one that takes every "na" for n/a."""
    labels = "N/A, n.a., NA, Not in universe, Don’t know, keine Angaben, k. A., weiß nicht, Non-réponse, ne sait pas"
    labels += ", NS/NC, No aplica, Não sabe, ignorado, Non risponde, n.v.t., uppgift saknas, vet ikke, nie dotyczy"
    labels += ", nicht befragt, fehlend, Ej tillämpligt"
    assert [
        label for label in [*labels.split(", "), "NA; DK", "DK, NA", "NA - skipped"] if not means_no_value(label)
    ] == []
    amounts = "None, Keine, Sans enfant, Less than 1 year, trabalha na agricultura, Refugee, Non universitario"
    amounts += ", Refuse collectors, na emeryturze, No sabe leer, Not specified retail trade"
    amounts += ", Fehlende Heizung, Trifft nicht zu"  # the latter is also an answer
    assert [label for label in amounts.split(", ") if means_no_value(label)] == []
