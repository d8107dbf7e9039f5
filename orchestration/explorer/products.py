"""Published tables as described by their data dictionaries, and questions to their files, which are never loaded whole.

A table has places (the columns that locate a row), groups (the columns that describe its population), and numbers: an
estimate with its interval, or a count alone. A table of linear estimates belongs to the table whose numbers it
estimates. The kind of a column follows from the primary key, the labels of values, and the names in the project's
conventions in `datapackage.json`: four for errors, and the endings of linear estimates.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from assets.publication.catalog import find_public
from assets.publication.placement import publications
from orchestration.explorer.reading import ask_files, find_change, find_published
from orchestration.explorer.words import distinguish, join_levels
from resources.regular import read_regular
from resources.statements import SQL, Fragment, quote_literal, render

_FIRST = SQL("explorer/first", "FROM {{ source }} LIMIT $most")

DICTIONARY = "datapackage.json"
ESTIMATE, STANDARD_ERROR, LOWER, UPPER = ERRORS = ("estimate", "standard_error", "lower", "upper")
LINEAR, LINEAR_LOWER, LINEAR_UPPER = OF_LINEAR = ("linear_estimate", "linear_lower", "linear_upper")
"""The endings of the columns of a cell in a table of linear estimates."""
_INTERVALS = "_intervals"
"""The ending of the name of such a table."""
TOTAL = "\ttotal"
"""The choice of a group that stands for all of its values together. A real code may be `total`."""
NO_VALUE = "\t"
"""The code for records without a value. No real code is a tab, but one may be `None` or `null`."""
MOST_VALUES = 5000

_NAMED_BY = {"region_id": "region", "geoid": "name", "iteration_code": "iteration", "cell": "label"}
"""The columns with the names of codes, by the column of the codes."""
_LEVELS = {"region_id": "region_type", "geoid": "level"}
"""The columns with the level of a place, by the column of the place."""
_COUNTS = ("count", "total")
"""The columns of a count, and of a total of a magnitude."""
_MOST_COLUMNS = 8
"""The largest number of identifying columns of a readable table: a larger table is for computing, and shown as a
list."""
_BOUND = Fragment("value_")


@dataclass(frozen=True)
class Field:
    """A column as the dictionary describes it, with labels by value as text; None if values are not listed."""

    name: str
    type: str
    title: str
    description: str
    labels: Mapping[str, str]

    @property
    def words(self) -> str:
        """Its name in words: the title, a short description, or else the name."""
        short = re.sub("^(Number|Standard name) of the (table's )?", "", self.description)
        short = short.split("(")[0].split(";")[0].rstrip(". ")
        words = self.title or (short if 0 < len(short) <= 40 else self.name.replace("_", " "))
        return words[:1].upper() + words[1:]

    def parse(self, text: str) -> Any:
        if self.type == "boolean":
            return text == "True"
        return int(text) if self.type == "integer" else text


@dataclass(frozen=True)
class Product:
    """A published table of the release `dataset/release`. Questions are asked of its Parquet file.

    Attributes:
        level: the column with the level of a place; "" if there is none.
        place, groups: the columns that identify the place and the group of a row.
        wide: the columns of numbers, if a row has the numbers of several groups side by side.
        numbers: the columns of numbers of a long table: the four of the convention, or the count and the total.
        interval: the method of the errors; "" if the dictionary names none.
        linear: the file with the linear estimates of its numbers and their intervals; None if there is none.
        estimated: the numbers that have a linear estimate.
        named: the file of another table with the names of its places; None if the table has them itself, or no table
            has.
    """

    release: str
    name: str
    title: str
    description: str
    file: Path
    files: tuple[Path, ...]
    fields: Mapping[str, Field]
    level: str
    place: tuple[str, ...]
    groups: tuple[str, ...]
    wide: tuple[str, ...]
    numbers: tuple[str, ...]
    interval: str
    linear: Path | None = None
    estimated: frozenset[str] = frozenset()
    named: Path | None = None

    @property
    def has_errors(self) -> bool:
        return ESTIMATE in self.numbers

    @property
    def choices(self) -> tuple[str, ...]:
        """The columns of numbers to choose from."""
        return self.wide or (self.numbers[:1] if self.has_errors else self.numbers)

    @property
    def is_counted(self) -> bool:
        """Whether it has numbers about places, and is not another kind of list."""
        return bool(self.place and self.choices)

    @property
    def place_words(self) -> str:
        """The kind of its places, such as `County`; in a table without geography, the first variable takes their
        place."""
        return "Place" if self.level or len(self.place) != 1 else self.fields[self.place[0]].words

    def find_total_flag(self, group: str) -> str:
        """The column that marks totals over a group; "" if there are none."""
        flag = f"{group}_total"
        return flag if flag in self.fields else ""

    def find_names(self, columns: Sequence[str]) -> list[str]:
        """The columns with the names of the codes in some columns, if there are any."""
        return [name for code in columns if (name := _NAMED_BY.get(code, "")) in self.fields]

    def label(self, column: str, value: Any, names: Mapping[str, str] | None = None) -> str:
        """The label of a value or of its text; without a label, the value itself."""
        text = as_option(value)
        return (names or {}).get(text) or self.fields[column].labels.get(text) or text.replace(NO_VALUE, "no value")

    def match(self, values: Mapping[str, str]) -> dict[str, Any]:
        """The equations for chosen values by column; `TOTAL` stands for all values of a group together."""
        equations: dict[str, Any] = {}
        for column, text in values.items():
            flag = self.find_total_flag(column)
            if text == TOTAL and flag:
                equations[flag] = True
            else:
                value = None if text == NO_VALUE else self.fields[column].parse(text)
                equations |= {column: value, **self.exclude_totals([column])}
        return equations

    def exclude_totals(self, columns: Sequence[str]) -> dict[str, Any]:
        """The equations that leave out the totals over some columns."""
        return {flag: False for column in columns if (flag := self.find_total_flag(column))}

    def list_options(self, column: str, equal: Mapping[str, Any] | None = None) -> dict[str, str]:
        """The values of a column as text among rows with the given values, each with a unique label."""
        labels = self.fields[column].labels
        names = [] if labels else self.find_names([column])
        before = ["depth"] if column == self.level and "depth" in self.fields else []
        rows = self._list_values([*before, column, *names], {**(equal or {}), **self.exclude_totals([column])})
        options = {
            as_option(row[column]): str((row[names[0]] if names else None) or self.label(column, row[column]))
            for row in rows
        }
        in_order = dict.fromkeys([*(value for value in labels if value in options), *options])
        return distinguish({value: options[value] for value in in_order})

    def list_places(self, equal: Mapping[str, Any]) -> dict[str, str]:
        """The places among rows with the given values: their codes joined by /, each with a unique name."""
        columns = [*self.place, *self.find_names(self.place)]
        rows = self._list_values(columns, {**equal, **self.exclude_totals(self.place)})
        unknown = {column for column in self.place if NO_VALUE not in self.fields[column].labels}
        coded = [row for row in rows if None not in [row[column] for column in unknown]]
        return distinguish({self.code_place(row): self.name_place(row) for row in coded})

    def code_place(self, row: Mapping[str, Any]) -> str:
        return "/".join(as_option(row[column]) for column in self.place)

    def name_place(self, row: Mapping[str, Any]) -> str:
        parts = []
        for code in self.place:
            name, field = row.get(_NAMED_BY.get(code, "")), self.fields[code]
            label = str(name or self.label(code, row[code]))
            alone = name or as_option(row[code]) in field.labels or len(self.place) == 1
            parts.append(label if alone else f"{field.words} {label}")
        return ", ".join(parts)

    def read_rows(self, number: str, equal: Mapping[str, Any], most: int) -> list[dict[str, Any]]:
        """At most `most` rows with the given values by column, greatest numbers first."""
        codes = (*self.place, *self.groups)
        columns = dict.fromkeys([number, *self.numbers, *codes, *self.find_names(codes)])
        source = None
        if self.linear and number in self.estimated:
            columns |= dict.fromkeys(OF_LINEAR)
            names: dict[str, Any] = {"columns": [(name, f"{number}_{name}") for name in OF_LINEAR]}
            names |= {"shown": _read(self.file), "beside": _read(self.linear), "place": [self.level, *self.place]}
            source = Fragment(render("explorer/beside", names))
        return self._ask("explorer/rows", most, list(columns), equal, source)

    def read_first(self, most: int) -> list[dict[str, Any]]:
        """Its first rows, in which words stand for empty values."""
        rows = self._ask(_FIRST, most, (), {})
        return [
            {name: self.label(name, None) if value is None else value for name, value in row.items()} for row in rows
        ]

    @property
    def _source(self) -> Fragment:
        if not self.named:
            return _read(self.file)
        own = [self.level, *self.place]
        names = {"shown": _read(self.file), "named": _read(self.named), "place": own}
        return Fragment(render("explorer/named", names | {"names": [_NAMED_BY[code] for code in self.place]}))

    def _list_values(self, columns: Sequence[str], equal: Mapping[str, Any]) -> list[dict[str, Any]]:
        return self._ask("explorer/values", MOST_VALUES, columns, equal)

    def _ask(
        self,
        query: str | SQL,
        most: int,
        columns: Sequence[str],
        equal: Mapping[str, Any],
        source: Fragment | None = None,
    ) -> list[dict[str, Any]]:
        values = {f"{_BOUND}{position}": value for position, value in enumerate(equal.values(), start=1)}
        names: dict[str, Any] = {"columns": list(columns), "equal": list(equal), "equals": _BOUND}
        names["source"] = source or self._source
        return ask_files(lambda session: list(session.arrow(query, {"most": most, **values}, **names).to_pylist()))


def _read(file: Path) -> Fragment:
    return Fragment(f"read_parquet({quote_literal(file)})")


def as_option(value: Any) -> str:
    """A value as text, as an option to choose."""
    return NO_VALUE if value is None else str(value)


@dataclass(frozen=True)
class Publication:
    """The current edition of a release. `problem` is the reason why its tables cannot be shown; "" if they can. If its
    records were public, `public` states that nothing was charged."""

    release: str
    title: str
    products: tuple[Product, ...] = ()
    problem: str = ""
    public: str = ""


def list_publications() -> list[Publication]:
    """All publications, by dataset and release. A folder without a dictionary is left out."""
    folder = find_published()
    dictionaries = {f"{dataset}/{name}": folder / dataset / name / DICTIONARY for dataset, name in publications(folder)}
    return [
        _read_publication(release, dictionary, find_change(dictionary))
        for release, dictionary in dictionaries.items()
        if dictionary.is_file()
    ]


@lru_cache(maxsize=64)
def _read_publication(release: str, dictionary: Path, changed: tuple[int, int]) -> Publication:
    """A publication, read again after each change of its dictionary."""
    described: dict[str, list[dict[str, Any]]] = {}
    try:
        package = json.loads(read_regular(dictionary, through_links=False))
        for resource in package["resources"]:
            described.setdefault(Path(resource["path"]).name.partition(".")[0], []).append(resource)
        if all(resource["path"] == Path(resource["path"]).name for resource in package["resources"]):
            products = _join_linear([_read_product(release, dictionary.parent, *named) for named in described.items()])
            products = _join_names(products)
            products.sort(key=lambda product: (not product.has_errors, not product.is_counted))
            title = str(package.get("title", release))
            return Publication(release, title, tuple(products), public=find_public(package))
        problem = "names a file outside its folder"
    except (OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration) as error:
        problem = f"cannot be read ({type(error).__name__})"
    return Publication(release, release, problem=f"{release}: {DICTIONARY} {problem}. Its tables are not shown.")


def _join_linear(products: Iterable[Product]) -> list[Product]:
    """The tables, each joined with the table of its linear estimates, if there is one, whose files are added to its
    own."""
    named = {product.name: product for product in products}
    for name, product in list(named.items()):
        if other := named.get(f"{name}{_INTERVALS}"):
            cells = [cell for cell in product.wide if all(f"{cell}_{end}" in other.fields for end in OF_LINEAR)]
            if cells:
                files = (*product.files, *other.files)
                named[name] = replace(product, linear=other.file, estimated=frozenset(cells), files=files)
                del named[other.name]
    return list(named.values())


def _join_names(products: Sequence[Product]) -> list[Product]:
    """The tables. Tables of errors have only codes of places, and get names from the first table with a named row for
    each place."""
    with_names = [product for product in products if not product.groups and product.find_names(product.place)]
    having = {(product.level, product.place): product for product in reversed(with_names)}
    found = []
    for product in products:
        other = having.get((product.level, product.place))
        if other and not product.find_names(product.place):
            names = [_NAMED_BY[code] for code in product.place]
            fields = {**product.fields, **{name: other.fields[name] for name in names}}
            product = replace(product, fields=fields, named=other.file)
        found.append(product)
    return found


def _read_product(release: str, folder: Path, name: str, resources: Sequence[Mapping[str, Any]]) -> Product:
    described = next((resource for resource in resources if "schema" in resource), resources[0])
    schema = described.get("schema", {})
    fields = {field.name: field for field in map(_read_field, schema.get("fields", ()))}
    files = tuple(folder / resource["path"] for resource in resources)
    geography = tuple(column for column in described.get("geography", ()) if column in fields)
    key = [column for column in schema.get("primaryKey", ()) if column in fields]
    if geography and not key:
        # The place may be empty, which no column of a primary key is.
        key = [column for column in fields if column not in _COUNTS]
    place = tuple(code for code in _LEVELS if code in fields)[:1]
    level = _LEVELS[place[0]] if place and _LEVELS[place[0]] in fields else ""
    identifying = [column for column in key if fields[column].type != "boolean"]
    if "table_name" in key:
        # A hypercube: its rows have numbers, and its variables are the columns with a mark of totals or with labels.
        identifying = [
            column for column in fields if f"{column}_total" in fields or (column not in key and fields[column].labels)
        ]
    place = place or geography or _guess_place(fields, identifying)
    numbers = tuple(column for column in ERRORS if column in fields) if ESTIMATE in fields else ()
    if not numbers and _COUNTS[0] in fields and len(identifying) <= _MOST_COLUMNS:
        numbers = tuple(column for column in _COUNTS if column in fields)
    integers = (field.name for field in fields.values() if field.type == "integer")
    return Product(
        release=release,
        name=name,
        title=described.get("title", name),
        description=described.get("description", ""),
        file=next(path for path in files if path.suffix == ".parquet"),
        files=files,
        fields=fields,
        level=level,
        place=place if numbers or level else (),
        groups=tuple(column for column in identifying if column not in (*place, level)),
        wide=tuple(column for column in integers if column not in (*key, "depth")) if level and not numbers else (),
        numbers=numbers,
        interval=str(described.get("interval", {}).get("method", "")),
    )


def _read_field(described: Mapping[str, Any]) -> Field:
    labels = {str(value): str(value) for value in described.get("constraints", {}).get("enum", ())}
    for category in described.get("categories", ()):
        labels[str(category["value"])] = join_levels(str(category["label"]))
    for missing in described.get("missingValues", ()):
        labels[NO_VALUE] = str(missing["label"])
    title, description = described.get("title", ""), described.get("description", "")
    return Field(described["name"], described.get("type", "string"), title, description, labels)


def _guess_place(fields: Mapping[str, Field], identifying: Sequence[str]) -> tuple[str, ...]:
    """The columns of places, which are texts: up to the last one with unlabeled values, or else the first."""
    codes = [
        position
        for position, name in enumerate(identifying)
        if fields[name].type == "string" and all(value == label for value, label in fields[name].labels.items())
    ]
    return tuple(identifying[: codes[-1] + 1] if codes else identifying[:1])
