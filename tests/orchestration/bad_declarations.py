"""Bad declarations of every kind, generated: a valid declaration with one field replaced by something impossible.

`BAD` lists them. Each names the field that its refusal must name. `refusal` loads one as a deployment does, from YAML
to the asset graph, without running anything.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import yaml
from pydantic import ValidationError

from assets.release.release import DeclarationError
from orchestration.components import (
    CensusDataset,
    Dataset,
    PairSwapping2010,
    PermutationSwapping,
    PHSafe,
    PpmfDataset,
    PublisherSettings,
    PumsDataset,
    SafeTabDataset,
    SafeTabH,
    SafeTabP,
    SyntheticCensus,
    SyntheticSurvey,
    TopDown,
)
from orchestration.defs_files import require_unambiguous_text

Path_ = tuple[str | int, ...]

_UNITS = {
    "path": "units.csv",
    "columns": {
        "serial": {"type": "integer", "role": "key"},
        "region": {"type": "string", "role": "geography", "values": ["N", "S"]},
        "county": {"type": "string", "role": "geography", "pattern": "[A-C]"},
        "town": {
            "type": "string",
            "role": "geography",
            "values": ["a", "b"],
            "within": "region",
            "nesting": {"N": ["a", "b"]},
        },
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "rent": {"type": "decimal", "minimum": 0, "maximum": 9},
        "built": {"type": "date", "minimum": "1900-01-01", "maximum": "2020-01-01"},
        "maybe": {"type": "integer", "values": [1, 2], "nullable": True},
        "band": {
            "source": "size",
            "type": "integer",
            "bands": {"1": {"below": 2}, "2 to 4": {"at_least": 2, "below": 5}, "5 or more": {"at_least": 5}},
        },
        "side": {"source": "region", "type": "string", "merge": {"Up": ["N"]}, "everything_else": "Down"},
        "rooms": {"type": "integer", "minimum": 1, "maximum": 6, "top_coded": True},
    },
}
_PERSONS = {
    "path": "persons.csv",
    "columns": {
        "household": {"type": "integer", "role": "unit"},
        "age": {"type": "integer", "minimum": 0, "maximum": 115},
    },
}
RECODE = {"type": "integer", "bands": {"few": {"below": 3}, "many": {"at_least": 3}}}
_LISTS = Path(__file__).parents[1] / "data" / "safetab_toy"
_QUERIES = {"US": {"detailed": 1}, "Block": {"total": "1/2", "detailed": "1/2"}}

VALID: dict[type[Any], dict[str, Any]] = {
    Dataset: {
        "name": "town",
        "title": "A town",
        "reader": "csv",
        "record_name": "household",
        "cap": 10,
        "units": _UNITS,
        "persons": _PERSONS,
    },
    CensusDataset: {
        "name": "town",
        "title": "A town",
        "cap": {"rho": 10},
        "format": "csv",
        "persons": "persons.csv",
        "units": "units.csv",
        "geo": "geo.csv",
    },
    SafeTabDataset: {
        "name": "town",
        "title": "A town",
        "cap": {"rho": 10},
        "persons": "person-records.txt",
        "households": "household-records.txt",
        "blocks": "GRF-C.txt",
    },
    PpmfDataset: {
        "name": "ppmf",
        "title": "Persons",
        "source": "The Bureau",
        "product": "dhc",
        "records": "persons",
        "path": "ppmf.csv",
    },
    PumsDataset: {
        "name": "pums",
        "title": "A sample",
        "source": "The Bureau",
        "housing": "psam_h.csv",
        "persons": "psam_p.csv",
    },
    SafeTabP: {
        "name": "persons",
        "dataset": "detailed",
        "title": "Detailed groups",
        "states": ["10"],
        "lists": str(_LISTS),
        "noise": "zcdp",
        "budgets": {"TRACT 2": "1/5", "USA 1": 1},
        "moe": {"STATE 2": 5},
        "thresholds": {"TRACT 2": [10, 20, 30]},
        "stage_1_share": "1/10",
        "zero_suppression_chance": "0.9999",
        "negative_counts": True,
        "max_race_codes": 8,
        "delta": "1e-10",
    },
    SafeTabH: {
        "name": "households",
        "dataset": "detailed",
        "title": "Detailed groups",
        "detail": "persons",
        "budgets": {"TRACT 2 T3": "1/5", "USA 1 T4": 1},
        "moe": {"TRACT 2 T4": 5},
        "thresholds": {"TRACT 2 T3": [10, 20, 30], "TRACT 2 T4": [10]},
        "delta": "1e-10",
    },
    SyntheticCensus: {"name": "town", "cap": {"epsilon": 10, "delta": "1e-10"}, "households": 100, "states": ["10"]},
    SyntheticSurvey: {
        "name": "panel",
        "cap": 10,
        "households": 100,
        "states": ["10"],
        "waves": 3,
        "weight_places": 1,
        "design": {"low_income": {"sampling_rate": "1/20", "response_rate": "3/4", "retention_rate": 1}},
    },
    PublisherSettings: {
        "authority": "Office of Statistics",
        "contact": "data@statistics.example",
        "license": "CC-BY-4.0",
        "license_url": "https://creativecommons.org/licenses/by/4.0/",
        "agency": "OFFICE.STATS",
        "formats": ["px", "sdmx"],
    },
    PermutationSwapping: {
        "name": "tables",
        "dataset": "village",
        "title": "Tables",
        "match": ["size"],
        "swap": ["county"],
        "swap_rate": "1/2",
        "products": [{"name": "one", "geography": ["county"], "dimensions": ["size"], "totals": ["size"]}],
        "experiment": {"product": "one", "swap_rates": ["1/3"], "draws": 2},
    },
    PairSwapping2010: {
        "name": "tables",
        "dataset": "census",
        "title": "Tables",
        "key": ["HHRACE", "HHT"],
        "swap_rate": "1/25",
        "imputed": {"column": "HHT2", "values": ["12"]},
        "risk_factors": {"unique_race": {"factor": 2}, "always_selected": "county"},
        "products": [{"name": "one", "geography": ["TABBLK"], "dimensions": ["TEN"]}],
    },
    PHSafe: {
        "name": "tables",
        "dataset": "census",
        "title": "Tables",
        "states": ["10"],
        "runs": {
            "PH1_num": {"truncation": 4, "budget": {"nation_*": "1/50"}, "moe": {"state_*": 100}},
            "PH1_denom": {"budget": {"nation_*": "1/20"}},
        },
        "delta": "1e-10",
    },
    TopDown: {
        "name": "tables",
        "dataset": "census",
        "title": "Tables",
        "spine": {"US": [], "Block": ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]},
        "invariants": {"population": "US"},
        "persons": {"rho": 1, "levels": {"US": "1/2", "Block": "1/2"}, "queries": _QUERIES},
        "units": {
            "rho": 1,
            "levels": {"US": "1/2", "Block": "1/2"},
            "queries": {"US": {"detailed": 1}, "Block": {"detailed": 1}},
        },
        "delta": "1e-10",
        "processes": 1,
        "replicates": 25,
    },
}
"""A valid declaration of each kind."""


@dataclass(frozen=True)
class Bad:
    """One bad declaration.

    Attributes:
        kind: the component.
        field: the field that the refusal must name.
        attributes: the attributes of the component.
        text: the YAML of the attributes, if it cannot be written from them.
    """

    kind: type[Any]
    field: str
    attributes: dict[str, Any]
    text: str = ""

    @property
    def yaml(self) -> str:
        """The attributes as YAML."""
        return self.text or yaml.safe_dump(self.attributes, sort_keys=False)

    @property
    def names(self) -> str:
        """The name in the refusal: the dataset, or the dataset and the release, as far as the name is given."""
        if self.kind is PublisherSettings:
            return "publisher of all releases"
        releases = PermutationSwapping | PairSwapping2010 | PHSafe | SafeTabP | SafeTabH | TopDown
        field = "dataset" if issubclass(self.kind, releases) else "name"
        kind = "release" if field == "dataset" else "dataset"
        name = self.attributes.get(field)
        known = isinstance(name, str) and name.isprintable() and len(name) <= 60
        return f"{kind} {name}" if known else f"{kind} "


NOT_NUMBERS: Sequence[Any] = (
    None, True, "", "half", "-1", "+1", "1/0", "0/0", "1/-2", "½", "１", "1,5", "1_000", " 1", "1e308", "1e-308",
    "9" * 300, "1/" + "9" * 5000, "0." + "0" * 5000 + "1", "NaN", float("nan"), float("inf"), float("-inf"), -1, -0.5,
    1e308, 10**308, 10**4000, 5e-324, 1e-308, [], [1], {}, {"a": 1},
)  # fmt: skip
"""Values that are not exact numbers within bounds, for any field."""

NOT_INTEGERS: Sequence[Any] = (
    None, True, "1", "", 1.5, float("nan"), float("inf"), -1, 10**19, -(10**4000), [], {}, 1e308,
)  # fmt: skip

NOT_NAMES: Sequence[Any] = (
    None, 1, True, "", "A", "a__b", "a_", "_a", "1a", "a b", "a-b", "a/b", "../a", "a.b", "ä", "a\n", "a\0", "\ud800",
    "a" * 61, "a" * 250, [], {"a": 1},
)  # fmt: skip

NOT_TEXTS: Sequence[Any] = (None, 1, [], {}, "\0", "\ud800", "a\x1b[0m")

NOT_PATTERNS: Sequence[Any] = (
    "a)|(?:b", "(a", "a)", "[a", "a\\", "*", "a{1001}", "(?=a)", "\\1", "(a{1000}){1000}", "\\Qa",
    "a" * 1001, "\ud800", 1, ["a"], "(?i", "a**", ")(",
)  # fmt: skip

NUMBERS: dict[type[Any], dict[Path_, Sequence[Any]]] = {
    Dataset: {("cap",): (0, "0.0", *NOT_NUMBERS), ("cap", "rho"): (0,)},
    CensusDataset: {("cap", "rho"): (0, *NOT_NUMBERS)},
    SafeTabDataset: {("cap", "rho"): (0, *NOT_NUMBERS)},
    SyntheticCensus: {
        ("cap", "epsilon"): (0, *NOT_NUMBERS),
        ("cap", "delta"): (0, 1, "1e-101", "1e-999", "0." + "9" * 101, *NOT_NUMBERS),
        ("households",): (0, 200_000_001, *NOT_INTEGERS),
        ("seed",): (2**63, *NOT_INTEGERS),
    },
    SyntheticSurvey: {
        ("cap",): (0, *NOT_NUMBERS),
        ("households",): (0, 1, 200_000_001, *NOT_INTEGERS),
        ("seed",): (2**63, *NOT_INTEGERS),
        ("waves",): (0, 13, *NOT_INTEGERS),
        ("weight_places",): (5, *NOT_INTEGERS),
        ("design", "low_income", "sampling_rate"): (0, 2, "1.5", "1/1000001", *NOT_NUMBERS),
        ("design", "low_income", "response_rate"): (0, "3/2", *NOT_NUMBERS),
        ("design", "low_income", "retention_rate"): (0, "1.01", *NOT_NUMBERS),
    },
    PermutationSwapping: {
        ("swap_rate",): (0, 1, 2, "1.5", "1/1000000001", 0.30000000000000004, *NOT_NUMBERS),
        ("experiment", "swap_rates", 0): (0, 1, *NOT_NUMBERS),
        ("experiment", "draws"): (0, 1001, *NOT_INTEGERS),
    },
    PairSwapping2010: {
        ("swap_rate",): (0, 1, 2, "1.5", "1/1000000001", *NOT_NUMBERS),
        ("risk_factors", "unique_race", "factor"): (65, "1/65", *NOT_NUMBERS),
    },
    PHSafe: {
        ("runs", "PH1_num", "budget", "nation_*"): (1001, "1/1000000000001", *NOT_NUMBERS),
        ("runs", "PH1_num", "moe", "state_*"): (0, "0.000001", 10**9, *NOT_NUMBERS),
        ("runs", "PH1_num", "truncation"): (0, 100_000, *NOT_INTEGERS),
        ("delta",): (0, 1, "1e-101", *NOT_NUMBERS),
    },
    SafeTabP: {
        ("budgets", "TRACT 2"): (1001, "1/1000000000001", *NOT_NUMBERS),
        ("moe", "STATE 2"): (0, "0.000001", 10**9, *NOT_NUMBERS),
        ("stage_1_share",): (0, 1, 2, "1/1000000000001", *NOT_NUMBERS),
        ("zero_suppression_chance",): (1, 2, *NOT_NUMBERS),
        ("max_race_codes",): (0, 9, *NOT_INTEGERS),
        ("delta",): (0, 1, "1e-101", *NOT_NUMBERS),
    },
    SafeTabH: {
        ("budgets", "TRACT 2 T3"): (1001, "1/1000000000001", *NOT_NUMBERS),
        ("moe", "TRACT 2 T4"): (0, "0.000001", 10**9, *NOT_NUMBERS),
        ("delta",): (0, 1, "1e-101", *NOT_NUMBERS),
    },
    TopDown: {
        ("persons", "rho"): (0, 1001, "1/100000000000", *NOT_NUMBERS),
        ("units", "rho"): (0, 1001, "1/100000000000"),
        ("persons", "levels", "US"): (0, 1, 2, *NOT_NUMBERS),
        ("persons", "queries", "Block", "total"): (0, 1, "1/3", *NOT_NUMBERS),
        ("spine",): tuple(
            {"US": [], "Some": {"prefix": prefix}, "Block": ["TABBLK"]} for prefix in (0, 256, *NOT_INTEGERS)
        ),
        ("delta",): (0, 1, "1e-101", *NOT_NUMBERS),
        ("processes",): (257, *NOT_INTEGERS),
        ("replicates",): (1, 201, *NOT_INTEGERS),
    },
}
"""By kind and field, values that are not numbers for it."""

OTHERS: dict[type[Any], dict[Path_, Sequence[Any]]] = {
    Dataset: {
        ("name",): (
            *NOT_NAMES,
            "information_schema", "main", "pg_catalog", "temp", "system", "ledger", "confidential", "public",
            "preflight",
        ),
        ("title",): ("", *NOT_TEXTS),
        ("description",): NOT_TEXTS[1:],
        ("reader",): ("excel", "synthetic_census", "pipe_separated", None, 1),
        ("record_name",): ("", "person", *NOT_TEXTS),
        ("synthetic",): ("perhaps", None, 3),
        ("population",): (*NOT_NAMES[1:], "ledger", "information_schema"),
        ("charging",): ("free", 1, True, [], ""),
        ("unbounded_releases",): ("perhaps", 1, True, [], ""),
        ("copies",): (0, 1001, "2", 2.5, True, None, [], {}),
        ("units", "columns", "origin"): ({"type": "integer", "role": "donor"}, {"type": "string", "role": "donor"}),
        ("units", "columns", "size", "depends_on_persons"): ("perhaps", 3),
        ("persons", "columns", "age", "depends_on_persons"): ("perhaps", 3),
        ("cap",): ({"rho": 1, "epsilon": 1}, {"epsilon": 1}, {"delta": "1e-10"}, {"sigma": 1}, {"rho": None}),
        ("unknown",): (1,),
        ("units",): (None, [], {}, {"path": "a.csv", "columns": {}}),
        ("units", "csv"): (
            *("csv", [], {"separator": "#"}, {"separator": "\t"}, {"encoding": "utf-7"}, {"encoding": "\0"}),
            *({"quote": "x"}, {"escape": "%"}, {"compression": "zip"}, {"decimal": ";"}, {"dates": "DD.MM.YY"}),
            {"thousands": "."},
        ),
        ("units", "path"): ("", None, 1, "a" * 256, "/".join(["a" * 200] * 25), "\0", "{{ env.A", "{{ 1 / 0 }}"),
        ("units", "geography_path"): ("", "a" * 256),
        ("units", "codebook"): ("", "a" * 256, "a.xml"),
        ("units", "record_type"): (3, "H"),
        ("units", "columns", ""): ({"type": "boolean"},),
        ("units", "columns", "a" * 121): ({"type": "boolean"},),
        ("units", "columns", "a\nb"): ({"type": "boolean"},),
        ("units", "columns", "SIZE"): ({"type": "boolean"},),
        ("units", "columns", "age"): ({"type": "boolean"},),
        ("units", "columns", "key"): ({"type": "integer", "role": "key"},),
        ("units", "columns", "unit"): ({"type": "integer", "role": "unit"},),
        ("units", "columns", "size", "type"): ("int", None, 3, "string", "boolean", "float"),
        ("units", "columns", "size", "role"): ("id", None, 3),
        ("units", "columns", "size", "source"): ("", "\0", "a" * 121, 3),
        ("units", "columns", "size", "nullable"): ("perhaps", None, 3),
        ("units", "columns", "size", "zero"): ([99],),
        ("units", "columns", "size", "within"): ("region",),
        ("units", "columns", "county", "within"): ("county", "size", "nowhere", "", 3),
        ("units", "columns", "county", "nesting"): ({"N": ["A"]},),
        ("units", "columns", "region", "within"): ("town",),
        ("units", "columns", "town", "nesting"): (
            {"N": ["a"]}, {"N": ["a", "b"], "S": ["b"]}, {"N": ["a", "b", "c"]}, {"W": ["a", "b"]}, {1: ["a", "b"]},
            {"N": []}, {}, ["a", "b"], "N", {"N": "a"}, {"N": [None]},
        ),
        ("units", "columns", "town", "nullable"): (True,),
        ("units", "columns", "size", "rounded"): (True, "perhaps", 3),
        ("units", "columns", "size", None): ("NA", 9, [True], [9.5], [None], ["9", 9]),
        ("units", "columns", "maybe", "null"): ([2], [""] * 2),
        ("units", "columns", "side", "null"): (["N"],),
        ("units", "columns", "built", "zero"): (["never"],),
        ("units", "columns", "serial", "null"): (["0"],),
        ("units", "columns", "size", "minimum"): (
            10, None, True, "1", 1.5, 10**18, -(10**18), 10**4000, "1e3", float("nan"), [1], {"a": 1},
        ),
        ("units", "columns", "size", "maximum"): (0, 10**18, 1e308),
        ("units", "columns", "size", "values"): ([1],),
        ("units", "columns", "maybe", "values"): (
            [], {}, "1,2", [1, 1], ["1"], [1.5], [None], [True], [[1]], {1: 2}, {1: None}, [10**18], [10**4000],
        ),
        ("units", "columns", "region", "values"): ([1], ["N", "N"], [True], ["\0"], ["\ud800"], {"N": "\ud800"}),
        ("units", "columns", "rent", "minimum"): (10, "1e3", 1e-308, 1e308, "0.00001", 10**15, float("inf"), True),
        ("units", "columns", "built", "minimum"): ("2021-01-01", "0000-01-01", "2000-02-30", "1.1.2000", 2000, 1e3),
        ("units", "columns", "county", "pattern"): NOT_PATTERNS,
        ("units", "columns", "size", "pattern"): ("[0-9]",),
        ("units", "columns", "band", "type"): ("string", "boolean", "date"),
        ("units", "columns", "band", "role"): ("key", "unit"),
        ("units", "columns", "band", "bands"): (
            None, {}, [], "0-4", 5, {1: {"below": 5}}, {"": {"below": 5}}, {"a": None}, {"a": 5}, {"a": {}},
            {"a": {"from": 5}}, {"a": {"below": None}}, {"\ud800": {"below": 5}}, {"a\0": {"below": 5}},
            {str(n): {"at_least": n, "below": n + 1} for n in range(1001)},
            # a gap, an overlap, two that are open on the same side, and the same band twice
            {"a": {"below": 5}, "b": {"at_least": 6}}, {"a": {"below": 6}, "b": {"at_least": 5}},
            {"a": {"below": 5}, "b": {"below": 7}}, {"a": {"at_least": 5}, "b": {"at_least": 7}},
            {"a": {"at_least": 1, "below": 5}, "b": {"at_least": 1, "below": 5}},
        ),
        ("units", "columns", "band", "bands", "2 to 4"): (
            {"at_least": 5, "below": 5}, {"at_least": 5, "below": 2}, {"at_least": 2}, {"below": 5}, {},
        ),
        ("units", "columns", "band", "bands", "2 to 4", "at_least"): (
            1, 3, None, True, "2", 2.0, 2.5, "2.5", 10**18, 10**4000, float("nan"), [2], {"a": 2}, "1940-01-01",
        ),
        ("units", "columns", "band", "bands", "2 to 4", "below"): (4, 6, 1, "5", 5.5, True, [5]),
        ("units", "columns", "band", "merge"): ({"a": [1]},),
        ("units", "columns", "band", "values"): ([1],),
        ("units", "columns", "band", "minimum"): (0,),
        ("units", "columns", "band", "top_coded"): (True, "perhaps", None),
        ("units", "columns", "band", "everything_else"): ("others",),
        ("units", "columns", "band", "width"): (5,),
        ("units", "columns", "side", "type"): ("integer", "decimal", "date", "boolean"),
        ("units", "columns", "side", "role"): ("key", "unit"),
        ("units", "columns", "side", "merge"): (
            None, {}, [], "N", {"Up": []}, {"Up": "N"}, {"Up": None}, {"Up": {"N": 1}}, {1: ["N"]}, {"": ["N"]},
            {"Up": ["N"], "Top": ["N"]}, {"Up": ["N", "N"]}, {"Up": [1]}, {"Up": [None]}, {"Up": [["N"]]},
            {"Up": [True]}, {"Up": ["\0"]}, {"\ud800": ["N"]},
        ),
        ("units", "columns", "side", "everything_else"): ("", 1, True, ["Down"], {"Down": []}, "\0"),
        ("units", "columns", "side", "pattern"): ("N|S",),
        ("units", "columns", "side", "values"): (["N", "S"],),
        ("units", "columns", "side", "bottom_coded"): (True,),
        ("units", "columns", "rooms", "top_coded"): ("perhaps", None, 3, [True]),
        ("units", "columns", "rooms", "maximum"): (None, 0),
        ("units", "columns", "rooms", "bottom_coded"): ("perhaps", None),
        ("units", "columns", "region", "top_coded"): (True,),
        ("units", "columns", "region", "bottom_coded"): (True,),
        ("units", "columns", "rent", "merge"): ({"a": [1]},),
        ("units", "columns", "maybe", "bottom_coded"): (True,),
        ("units", "columns", "serial", "bands"): ({"a": {"below": 5}},),
        ("persons", "columns", "household", "merge"): ({"a": [1]},),
        ("persons", "columns", "household", "type"): ("string", "date"),
        ("persons", "columns", "household", "role"): ("key", "geography"),
        ("persons", "columns", "household", "nullable"): (True,),
        ("persons", "path"): (None,),
    },
    CensusDataset: {
        ("name",): NOT_NAMES,
        ("population",): ("The_People", 1),
        ("charging",): ("free",),
        ("format",): ("ma1940", None, 1),
        ("persons",): ("", None, 1, "a" * 256, "{{ env", "\0"),
        ("group_quarters_types",): ("perhaps", None, 3),
        ("detailed_codes",): ("perhaps", None, 3),
        ("dhc",): ("perhaps", None, 3),
        ("recoded_units",): (
            None, 1, [], {"TEN": RECODE}, {"ten": RECODE}, {"": RECODE}, {"A": {}}, {"A": RECODE, "a": RECODE},
            {"A": {"type": "integer", "minimum": 0, "maximum": 9}}, {"A": RECODE | {"role": "key"}},
        ),
        ("recoded_persons",): (
            [], {"HHT": RECODE}, {"A": RECODE | {"merge": {"a": [1]}}},
        ),
        ("place_names",): (["Kent"], {10: "Delaware"}, {"10": 1}, {"": "Kent"}, {"10": ""}, "Kent", None),
        ("unknown",): (1,),
    },
    SafeTabDataset: {
        ("name",): NOT_NAMES,
        ("population",): ("The_People", 1),
        ("charging",): ("free",),
        ("title",): ("", *NOT_TEXTS),
        ("synthetic",): ("perhaps", None),
        **{(file,): ("", 1, [], "a" * 256, "{{ env", "\0") for file in ("persons", "households", "blocks")},
        ("place_names",): (["Kent"], None),
        ("format",): ("csv",),
    },
    PpmfDataset: {
        ("name",): NOT_NAMES,
        ("title",): ("", *NOT_TEXTS),
        ("source",): ("", " ", *NOT_TEXTS),
        ("product",): ("sf1", None, 1),
        ("records",): ("households", None, 1),
        ("path",): ("", None, 1, "a" * 256, "{{ env", "\0"),
        ("csv",): ({"separator": "x"}, [], 1),
        **{(field,): (value,) for field, value in {"cap": 1, "public": False, "synthetic": True}.items()},
    },
    PumsDataset: {
        ("source",): ("", " ", *NOT_TEXTS),
        ("housing",): ("", None, 1),
        ("persons",): ("", None, 1),
        ("state",): ("STATEFIP", None, 1),
        ("cap",): (1,),
    },
    SyntheticCensus: {
        ("name",): NOT_NAMES,
        ("population",): ("The_People", "a" * 61),
        ("charging",): ("free",),
        ("states",): ([], None, "10", [10], ["10", "10"], ["03"], ["a" * 5000], [None], [["10"]]),
        ("title",): NOT_TEXTS,
        ("synthetic",): (False,),
        ("detailed_codes",): ("perhaps", None, 3),
        ("dhc",): ("perhaps", None, 3),
        ("recoded_units",): ({"A": RECODE}, {"A": RECODE | {"source": "QAGE"}}, {"RTYPE": RECODE}),
        ("recoded_persons",): ({"A": RECODE}, {"A": RECODE | {"source": "FINAL_POP"}}),
    },
    SyntheticSurvey: {
        ("name",): NOT_NAMES,
        ("population",): ("The_People", "a" * 61),
        ("charging",): ("free",),
        ("states",): ([], None, "10", [10], ["10", "10"], ["03"], ["a" * 5000], [None], [["10"]]),
        ("title",): NOT_TEXTS,
        ("synthetic",): (False,),
        ("design",): (
            None, [], "simple", {"urban": {}}, {"other": {"sampling_rate": 1, "response_rate": 1}},
        ),
        ("recoded_units",): (
            {"A": RECODE}, {"A": RECODE | {"source": "age"}}, {"tenure": RECODE}, {"TENURE": RECODE}, {"sex": RECODE},
            {"A": {"type": "integer", "minimum": 0, "maximum": 9}},
        ),
        ("recoded_persons",): ({"A": RECODE}, {"A": RECODE | {"source": "household_size"}}, {"income_3": RECODE}),
    },
    PublisherSettings: {
        ("authority",): ("", "two\nlines", "a" * 301, *NOT_TEXTS[1:]),
        ("contact",): ("", "two\nlines", 1),
        ("license",): ("", "any license", 4, "a" * 101),
        ("license_url",): ("", "example.org", "javascript:alert(1)", "https://a b", 1),
        ("agency",): ("", "1A", "A B", "A..B", "Ä", None, "a" * 101),
        ("formats",): (["csv"], "px", None, [1]),
        ("office",): ("Office",),
    },
    PermutationSwapping: {
        ("name",): (*NOT_NAMES, "certificate", "editions"),
        ("dataset",): (None, 1, "nowhere", "", "\0"),
        ("title",): ("", *NOT_TEXTS),
        ("custody",): ("burnt", None, 1),
        ("schedule",): ("often", "", "60 * * * *", "@reboot", 5, "0 0 30 2 *"),
        ("watch_source",): ("perhaps", None),
        ("formats",): (["xml"], "px", [None]),
        ("unit",): ("dwelling", "", 1),
        ("match",): (["county"], ["nothing"], ["size", "size"], ["serial"], ["maybe"], None, "size", [1]),
        ("swap",): ([], ["nothing"], ["county", "county"], ["serial"], None, "county", ["size"]),
        ("variables",): (["nothing"], ["size", "size"], "size", [1], ["serial"]),
        ("swap_rate",): (
            {"by": None}, {"by": []}, {"by": [{}]}, {"by": [{"rate": 0}]}, {"by": [{"rate": "1/2", "when": None}]},
            {"by": [{"rate": "1/2", "when": {"tenure": "own"}}]}, {"by": [{"rate": "1/2", "when": {"size": 99}}]},
            {"by": [{"rate": "1/2", "at_most": 3}]}, {"by": [{"rate": "1/2"}], "epsilon": 3}, {"epsilon": 0},
            {"epsilon": "NaN"}, {"epsilon": None}, {"by": [{"rate": "1/2"}] * 1001},
        ),
        ("risk",): ({"cases": [{"rate": "1/2"}]}, {"cases": []}, {}, "high", [], 1),
        ("exempt",): (
            None, [], "size", {"size": 99}, {"size": "1"}, {"size": None}, {"size": []}, {"county": 1}, {"nothing": 1},
        ),
        ("second_stir",): (
            {"swap_rate": "1/3"}, {"match": []}, {"match": ["size"], "swap_rate": "1/3"}, {"match": ["nothing"]},
            "twice",
        ),
        ("noise_before",): (None, [], {"size": "1/2"}, {"nothing": "1/2"}, {"rooms": 1}, {"rooms": 0}, {"rooms": None}),
        ("withheld",): ("perhaps", None, 1, True),
        ("saturated",): ("perhaps", None, 1),
        ("publishes_unique_records",): ("yes", -1, 2, "1e308", 1e-308, [], True),
        ("products", 0, "name"): (*NOT_NAMES, "saturated", "certificate", "datapackage", "sha256sums"),
        ("products", 0, "geography"): (["nothing"], ["size"], None, "county", ["serial"]),
        ("products", 0, "totals"): (["tenure"], ["size", "size"], ["nothing"], None, list("abcdefg")),
        ("products", 0, "of"): ("everything", None),
        ("products", 0, "zeros"): ("perhaps", None),
        ("products", 0, "source"): ("cef", None),
        ("products", 0, "total_label"): ("All",),
        ("experiment", "product"): ("nothing", None),
        ("experiment", "swap_rates"): ([], None, ["1/3", "1/3"], [f"1/{n}" for n in range(2, 103)]),
    },
    PairSwapping2010: {
        ("name",): NOT_NAMES,
        ("dataset",): ("village", "nowhere"),
        ("risk_factors", "always_selected"): ("state", 1, True, []),
        ("risk_factors", "block_size"): ([{"at_least": 0, "factor": 1}], [{"at_least": 2}], [3], 3, "2: 1/2"),
        ("risk_factors", "block_imputation"): ([{"at_least": 2, "factor": 1}], [{"at_least": "half", "factor": 1}]),
        ("key",): ([], None, "HHT", ["nothing"], ["TABBLK"], ["MAFID"], ["QAGE"], ["HHT", "HHT"], [1]),
        ("imputed",): (1, [], {"column": "HHT"}, {"values": ["1"]}),
        ("imputed", "column"): ("nothing", "TABBLK", "MAFID", 1, None),
        ("imputed", "values"): ([], None, "1", [1], ["99"]),
        ("products",): (None, "one", [{"name": "one"}], [{"name": "one", "dimensions": ["QAGE"]}]),
        ("products", 0, "name"): ("swapped", "swapped_persons", "certificate", *NOT_NAMES),
        ("products", 0, "totals"): (["TEN"],),
    },
    PHSafe: {
        ("name",): NOT_NAMES,
        ("dataset",): ("village", "nowhere"),
        ("states",): ([], None, "10", [10], ["10", "10"], ["03"], ["1"], ["10", "72"], ["06"], [None]),
        ("noise",): ("white", None, 1),
        ("runs",): (None, "all", {}, [], {"PH9": {}}, {"PH2": {"budget": {"nation_*": 1}}}, 1),
        ("runs", "PH1_denom", "truncation"): (3,),
        ("runs", "PH1_num", "budget", "county_*"): (1,),
        ("runs", "PH1_num", "moe", "nation_*"): (100,),
        ("runs", "PH1_num", "sigma"): (1,),
        ("products",): (["PH9"], ["PH1", "PH1"], ["PH2"], "PH1", None, [1]),
        ("interval",): ("longest", None),
        ("measurement_format",): ("tab", None, 1),
        ("private",): ("perhaps", None),
    },
    SafeTabP: {
        ("name",): NOT_NAMES,
        ("dataset",): ("village", "nowhere", "census"),
        ("states",): (
            [], None, "10", [10], ["10", "10"], ["03"], ["1"], ["06"], [None], ["10", "72"], ["72"], ["10", "06"],
        ),
        ("lists",): ("", None, 1, [], "nowhere", "\0", "a" * 256),
        ("noise",): ("white", None, 1),
        ("budgets",): (
            None, "produktion", [], 1, {"TRACT": 1}, {"TRACT 3": 1}, {"tract 2": 1}, {"TRACT 2 T3": 1},
            {"PR-TRACT 2": 1}, {"STATE 2": 1}, {"TRACT 2": "1/1000000000"}, {"": 1}, {"TRACT 2\n": 1},
        ),
        ("moe",): (
            None, [], 1, "production", {"TRACT 2": 5}, {"STATE 9": 5}, {"PR-STATE 2": 5}, {"STATE 2 T4": 5},
            {"STATE": 5},
        ),
        ("thresholds",): (
            None, "produktion", [], 1, {"TRACT 2": [1, 2]}, {"TRACT 2": [3, 2, 1]}, {"TRACT 2": [1, 2, 3, 4]},
            {"TRACT 2": [1.5, 2, 3]}, {"TRACT 2": ["1", 2, 3]}, {"TRACT 2": 3}, {"TRACT 2": []}, {"TRACT": [1, 2, 3]},
            {"TRACT 2 T3": [1, 2, 3]}, {"TRACT 2": [1, 2, 10**10]}, {"TRACT 2": [True, 2, 3]}, {"TRACT 2": None},
        ),
        ("negative_counts",): ("perhaps", None, 3),
        ("households",): (True,),
    },
    SafeTabH: {
        ("name",): NOT_NAMES,
        ("dataset",): ("nowhere",),
        ("detail",): ("nobody", "households", *NOT_NAMES),
        ("states",): (["10"],),
        ("noise",): ("white", None, 1),
        ("budgets",): (
            None, "produktion", {"TRACT 2": 1}, {"TRACT 2 T5": 1}, {"TRACT 2 T1": 1}, {"PR-TRACT 2 T3": 1},
            {"TRACT 2 T4": 1}, {"TRACT 2 T3": "1/1000000000"},
        ),
        ("moe",): (None, [], {"TRACT 2 T3": 5}, {"TRACT 2": 5}, {"PR-STATE 2 T3": 5}),
        ("thresholds",): (
            None, "produktion", {"TRACT 2": [1]}, {"TRACT 2 T4": [1, 2, 3]}, {"TRACT 2 T3": [1]},
            {"TRACT 2 T3": [3, 2, 1]}, {"TRACT 2 T4": []}, {"TRACT 2 T4": 5},
        ),
        ("negative_counts",): ("perhaps", None, 3),
    },
    TopDown: {
        ("name",): NOT_NAMES,
        ("dataset",): ("village", "nowhere"),
        ("partitions",): ("state", "states", "State", True, 1, []),
        ("spine",): (
            None, "produktion", {}, [], {"US": []}, {"US": ["TABBLKST"], "Block": ["TABBLK"]},
            {"US": [], "Block": []}, {"US": [], "Block": ["TABBLK", "nothing"]}, {"US": [], "Block": ["HHT"]},
            {"US": [], "us": ["TABBLKST"], "Block": ["TABBLK"]},
            {"US": [], "US_made": ["TABBLKST"], "Block": ["TABBLK"]},
            {"US": [], "State_SEAL": ["TABBLKST"], "Block": ["TABBLK"]},
            {"US": [], "a" * 41: ["TABBLKST"], "Block": ["TABBLK"]}, {"US": [], "a b": ["TABBLKST"]},
            {"US": [], **{f"L{n}": {"prefix": n} for n in range(1, 20)}, "Block": ["TABBLK"]}, {"US": [], "Block": 3},
            {"US": [], "Block": {"prefix": 2}}, {"US": [], "Block": None}, {"US": [], "ä": ["TABBLK"]},
        ),
        ("invariants",): ("produktion", {"people": "US"}, {"population": "State"}, {"housing_units": "US"}, [], None),
        ("persons",): ("produktion", None, [], "production"),
        ("persons", "levels"): ({"US": 1}, {"US": "1/2", "State": "1/2"}, None, [], {}),
        ("persons", "queries"): ({"US": {"detailed": 1}}, None, [], {"US": {"total": 1}, "Block": {"detailed": 1}}),
        ("persons", "queries", "Block"): (
            {"total": 1}, {"income": 1}, {"detailed": "1/100000", "total": "99999/100000"}, None,
            {"detailed": "1/2", "hispanic * hispanic": "1/2"}, {},
        ),
        ("total_first",): (["State"], ["US"], "US", [1]),
        ("estimation",): ("none", 1),
        ("types_first",): ("Nation", 1),
        ("lean_on_housing_units",): (1, "yes"),
        ("products",): (["P9"], ["P1", "P1"], ["housing_units"], "P1", None),
    },
}  # fmt: skip
"""By kind and field, other impossible values."""


def _changed(attributes: dict[str, Any], path: Path_, value: Any) -> dict[str, Any]:
    changed = deepcopy(attributes)
    place: Any = changed
    for key in path[:-1]:
        if not isinstance(place[key], dict | list):
            place[key] = {}
        place = place[key]
    place[path[-1]] = value
    return changed


@cache
def make_bad(kind: type[Any]) -> tuple[Bad, ...]:
    """All bad declarations of a kind. They are not made as this module is imported, which every test process does."""
    return tuple(_generate(kind))


def _generate(kind: type[Any]) -> Iterator[Bad]:
    attributes = VALID[kind]
    for fields in (NUMBERS, OTHERS):
        for path, values in fields.get(kind, {}).items():
            for value in values:
                yield Bad(kind, str(path[0]), _changed(attributes, path, value))
    text = yaml.safe_dump(attributes, sort_keys=False)
    for field in attributes:
        doubled = text + yaml.safe_dump({field: attributes[field]}, sort_keys=False)
        yield Bad(kind, field, attributes, doubled)
    required = kind.get_model_cls().model_json_schema().get("required", [])
    for field in attributes:
        if field in required:
            yield Bad(kind, field, {name: value for name, value in attributes.items() if name != field})


def _datasets(root: Path) -> list[Any]:
    village = VALID[Dataset] | {"name": "village", "synthetic": True}
    census = VALID[SyntheticCensus] | {"name": "census"}
    return [
        Dataset.resolve_from_yaml(yaml.safe_dump(village)),
        SyntheticCensus.resolve_from_yaml(yaml.safe_dump(census)),
        SyntheticCensus.resolve_from_yaml(yaml.safe_dump(census | {"name": "detailed", "detailed_codes": True})),
        SafeTabP.resolve_from_yaml(yaml.safe_dump(VALID[SafeTabP])),
    ]


def load(bad: Bad, root: Path) -> dg.Definitions:
    """Load a declaration as a deployment does: the file, the fields, and the asset graph."""
    require_unambiguous_text(bad.yaml, f"{root}/defs.yaml")
    component = bad.kind.resolve_from_yaml(bad.yaml)
    declared = _datasets(root)
    tree = SimpleNamespace(get_all_components=lambda kind: [each for each in declared if isinstance(each, kind)])
    context = cast(dg.ComponentLoadContext, SimpleNamespace(project_root=root, component_tree=tree))
    return component.build_defs(context)


def refusal(bad: Bad, root: Path) -> str | None:
    """The message of the refusal; None if the declaration is accepted.

    Raises:
        Exception: any other error than a refusal.
    """
    try:
        load(bad, root)
    except ValidationError as error:
        found = error.errors(include_url=False)
        assert len(found) == 1, f"{len(found)} errors: {[each['msg'] for each in found]}"
        return str(found[0]["msg"])
    except DeclarationError as error:
        return str(error)
    return None
