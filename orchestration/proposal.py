"""First declarations, written from a source file or a declared dataset, for a person to read and change.

A proposal states nothing exactly that depends on single records if it can be avoided: bounds are rounded outwards, and
columns with free text or with one value for each record are left out. Lists of codes are those that occur. They become
public with a release, so a person must compare them with the questionnaire.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from pydantic import ValidationError

from assets.cef.profile import ColumnProfile, Profile
from assets.release.columns import Column, ColumnType, Role
from assets.release.dataset import DatasetDeclaration, Reader
from assets.release.names import COLUMNS_OF_COUNTS, COLUMNS_OF_HYPERCUBES, COLUMNS_OF_SWAPPED
from assets.release.release import DeclarationError

MANY = 100
"""From this many different values on, a number is called continuous."""

MOST_PROPOSED = 30
"""The most values of a variable that a release is proposed to publish."""

_FEW = 10
_PLACE = re.compile(
    r"(^|_)(state|region|province|canton|county|district|municipality|city|town|village|tract|block|zip|postcode|place"
    r"|area|geo\w*|nuts\w*)(_|$|\d)",
    re.IGNORECASE,
)
_KEY = re.compile(r"(^|_)(id|key|serial|serialno|number|nr|mafid|identifier)($|_)|id$", re.IGNORECASE)
_SIZE = re.compile(r"size|persons|members|pop", re.IGNORECASE)


@dataclass
class Proposal:
    """A declaration to be written.

    Attributes:
        columns: for each column: table, name, type, role, domain.
        warnings: what a person must look at, as sentences.
    """

    text: str
    columns: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def propose_dataset(
    name: str,
    reader: Reader,
    units: tuple[Path, Profile],
    persons: tuple[Path, Profile] | None = None,
    *,
    record_name: str = "unit",
    cap: str = "10",
    key: str | None = None,
    unit: str | None = None,
) -> Proposal:
    """Propose the declaration of a dataset.

    Args:
        units: the file with one record for each unit, as it is to be declared, and what it contains.
        persons: the same for the file of persons, if there is one.
        record_name: what a unit is called.
        cap: the cap, as YAML.
        key: the column that identifies a unit; by default, the one that looks like it.
        unit: the column of persons that identifies their unit; by default, the one with the key's name.

    Raises:
        DeclarationError: if no column identifies the units that persons are in, or the declaration would be refused.
    """
    proposal = Proposal("")
    path, found = units
    key = _key(name, "units", found, key, required=persons is not None)
    lines = [
        f"# Proposed from {path.name}{f' and {persons[0].name}' if persons else ''}. Compare every line with the",
        "# questionnaire: the codes below are those that occur, and the bounds are rounded outwards.",
        "type: orchestration.components.Dataset",
        "attributes:",
        f"  name: {name}",
        f"  title: {_text(name.replace('_', ' ').capitalize())}",
        "  description: Where the records come from and what they are.",
        f"  reader: {reader.value}",
        f"  record_name: {_word(record_name)}",
        f"  cap: {cap}                        # the most that all releases together may lose: ε, or {{rho: …}}",
        "  charging: ask                  # a new draw needs an authorization; automatic: it does not",
        "  units:",
        *_table(proposal, "units", path, found, {key: Role.KEY} if key else {}, {}),
    ]
    if persons:
        path, found = persons
        named = [each.name for each in found.columns]
        unit = unit or next((each for each in named if each.casefold() == str(key).casefold()), None)
        if unit not in named:
            raise DeclarationError(
                f"dataset {name}: persons: name the column that identifies the unit with --unit; there are "
                f"{', '.join(named)}"
            )
        assert unit is not None
        taken = {each.name.casefold() for each in units[1].columns}
        renamed = {each: f"person_{each}" for each in named if each.casefold() in taken and each != unit}
        own = _key(name, "persons", found, None, required=False)
        roles = {unit: Role.UNIT} | ({own: Role.KEY} if own and own != unit else {})
        lines += ["  persons:", *_table(proposal, "persons", path, found, roles, renamed)]
    proposal.text = "\n".join(lines) + "\n"
    try:
        DatasetDeclaration.model_validate(yaml.safe_load(proposal.text)["attributes"])
    except (ValueError, yaml.YAMLError) as error:
        said = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise DeclarationError(
            f"dataset {name}: it cannot be proposed from this file: {said.removeprefix('Value error, ')}"
        ) from None
    return proposal


def _key(dataset: str, table: str, found: Profile, given: str | None, *, required: bool) -> str | None:
    possible = [
        each.name for each in found.columns if each.identifies and each.type in (ColumnType.INTEGER, ColumnType.STRING)
    ]
    if given is not None and given not in possible:
        raise DeclarationError(f"dataset {dataset}: {table}: column {given} does not identify each record")
    key = given or next((name for name in possible if _KEY.search(name)), None)
    if key is None and required:
        raise DeclarationError(
            f"dataset {dataset}: {table}: name the column that identifies a record with --key; "
            f"{', '.join(possible) or 'none'} would do"
        )
    return key


def _table(
    proposal: Proposal,
    table: str,
    path: Path,
    found: Profile,
    roles: Mapping[str, Role],
    renamed: Mapping[str, str],
) -> Iterator[str]:
    yield f"    path: {_text(str(path))}"
    yield "    columns:"
    for column in found.columns:
        role = roles.get(column.name)
        if role is None and (why := _left_out(column)):
            yield f"      # {_word(column.name)} is left out: {why}"
            proposal.warnings.append(f"{table}: column {column.name} is left out: {why}.")
            continue
        fields = {"type": column.type.value}
        if role is None and _PLACE.search(column.name):
            role = Role.GEOGRAPHY
        if role is not None:
            fields["role"] = role.value
        domain, concern = ({}, "") if role in (Role.KEY, Role.UNIT) else _domain(column)
        fields |= domain
        if column.present < column.records and role not in (Role.KEY, Role.UNIT):
            fields["nullable"] = "true"
        name = renamed.get(column.name, column.name)
        if role not in (Role.KEY, Role.UNIT) and name.casefold() in COLUMNS_OF_SWAPPED | COLUMNS_OF_COUNTS:
            concern = "; ".join(filter(None, [concern, _RESERVED.format(name)]))
        if name != column.name:
            fields["source"] = _word(column.name)
        written = ", ".join(f"{each}: {value}" for each, value in fields.items())
        yield f"      {_word(name)}: {{{written}}}" + (f"  # {concern}" if concern else "")
        if concern:
            proposal.warnings.append(f"{table}: column {name} is {concern}.")
        proposal.columns.append(
            (table, name, column.type.value, role.value if role else Role.CHARACTERISTIC.value, _shortly(domain))
        )
    for name, stored in found.unfit.items():
        yield f"      # {_word(name)} is left out: it is stored as {stored}, whose text is not exact"
        proposal.warnings.append(f"{table}: column {name} is left out: it is stored as {stored}, which is not exact.")


_RESERVED = (
    "named like a column of Stirred's own tables, and releases may refuse it: give it another name, with source: {}"
)


def _left_out(column: ColumnProfile) -> str:
    if not column.present:
        return "it has no values"
    if column.identifies and column.type in (ColumnType.INTEGER, ColumnType.STRING) and column.records > _FEW:
        return "it identifies every record"
    if column.type is ColumnType.STRING and not column.codes and not column.digits:
        return "it has many different texts, which may identify persons; declare values or a pattern"
    return ""


def _domain(column: ColumnProfile) -> tuple[dict[str, str], str]:
    match column.type:
        case ColumnType.STRING if column.codes:
            return {"values": f"[{', '.join(map(_text, column.codes))}]"}, ""
        case ColumnType.STRING:
            return {"pattern": _text(f"[0-9]{{{column.digits}}}")}, ""
        case ColumnType.INTEGER if 0 < len(column.codes) <= _FEW:
            return {"values": f"[{', '.join(sorted(column.codes, key=int))}]"}, ""
        case ColumnType.INTEGER:
            assert column.lowest is not None
            assert column.highest is not None
            low, high = widened(column.lowest, column.highest)
            concern = "continuous: declare bands, or leave it out of releases" if column.different > MANY else ""
            return {"minimum": str(low), "maximum": str(high)}, concern
        case ColumnType.DECIMAL | ColumnType.DATE:
            return {}, "continuous: declare bands, or leave it out of releases" if column.different > _FEW else ""
    return {}, ""


def widened(lowest: int, highest: int) -> tuple[int, int]:
    """Bounds around a range, rounded outwards to the highest power of ten that is not greater than its length."""
    step = 10 ** (len(str(max(highest - lowest, 1))) - 1)
    return lowest // step * step, (highest // step + 1) * step


def propose_swapping(dataset: DatasetDeclaration, name: str) -> Proposal:
    """Propose a release by permutation swapping: the geography of units is swapped, and few-valued variables published.

    Raises:
        DeclarationError: if the dataset declares no geography, or no variable with few values.
    """
    columns = dataset.units.variables
    usable = {each: column for each, column in columns.items() if each.casefold() not in COLUMNS_OF_SWAPPED}
    places = [each for each, column in usable.items() if column.role is Role.GEOGRAPHY]
    few = [each for each, column in usable.items() if column.role is not Role.GEOGRAPHY and _has_few(column)]
    if not places or not few:
        missing = "geography" if not places else f"variable with at most {MOST_PROPOSED} values"
        raise DeclarationError(f"release {dataset.name}/{name}: units: swapping needs a column that is a {missing}")
    match = [each for each in few if _SIZE.search(each)][:1]
    shown = [each for each in few if each not in match][:2] or match
    left = [each for each in columns if each not in places and each not in {*match, *shown}]
    lines = [
        "type: orchestration.components.PermutationSwapping",
        "attributes:",
        f"  name: {name}",
        f"  dataset: {dataset.name}",
        f"  title: {_text(f'{shown[0]} by {places[0]}'.replace('_', ' ').capitalize())}",
        "  description: What is published, for a reader.",
        f"  match: [{', '.join(map(_word, match))}]               # records are swapped only if they agree on these",
        f"  swap: [{', '.join(map(_word, places))}]               # what moves from record to record",
        "  swap_rate: 1/10                # the share of records that are selected",
        "  # Only these take part besides match and swap. Invariants among them are published exactly.",
        f"  variables: [{', '.join(map(_word, [each for each in shown if each not in match]))}]",
        *([f"  # Left out: {', '.join(left)}"] if left else []),
        "  saturated: false               # true publishes the full cross-tabulation",
        "  products:",
        f"    - name: {proposed_name(f'{shown[0]}_by_{places[0]}')}",
        f"      title: {_text(f'{shown[0]} by {places[0]}'.replace('_', ' ').capitalize())}",
        f"      geography: [{', '.join(map(_word, places))}]",
        f"      dimensions: [{', '.join(map(_word, shown[:1]))}]",
    ]
    return Proposal("\n".join(lines) + "\n")


def propose_tables(dataset: DatasetDeclaration, name: str) -> Proposal:
    """Propose a release by the table builder: counts by the geography and two variables, of persons if there are any.

    Raises:
        DeclarationError: if no variable has a list of few values.
    """
    counted = "persons" if dataset.persons else "units"
    columns = {**dataset.units.variables, **(dataset.persons.variables if dataset.persons else {})}
    usable = [
        each for each, column in columns.items() if each.casefold() not in COLUMNS_OF_HYPERCUBES and _has_few(column)
    ]
    places = [each for each in usable if columns[each].role is Role.GEOGRAPHY][:1]
    # Of persons' tables, variables of persons come first.
    own = dataset.persons.variables if dataset.persons else {}
    others = sorted(
        (each for each in usable if columns[each].role is not Role.GEOGRAPHY), key=lambda each: each not in own
    )
    shown = [*places, *others[:2]]
    if not shown:
        raise DeclarationError(
            f"release {dataset.name}/{name}: variables: a hypercube needs a variable with at most {MOST_PROPOSED} "
            "values"
        )
    product = proposed_name(f"{counted}_by_{shown[0]}")
    title = f"{counted} by {', '.join(shown)}".replace("_", " ").capitalize()
    lines = [
        "type: orchestration.components.TableBuilder",
        "attributes:",
        f"  name: {name}",
        f"  dataset: {dataset.name}",
        f"  title: {_text(title)}",
        "  description: What is published, for a reader.",
        "  hypercubes:                    # each is drawn and charged once, by itself; add another one at any time",
        f"    - name: {counted}",
        f"      of: {counted}",
        f"      variables: [{', '.join(map(_word, shown))}]",
        "      epsilon: 1/2               # for one record added or removed; a change of one record costs twice it",
        "      margins: summed            # fitted measures every margin too",
        "      products:                  # further tables, at no further cost",
        f"        - name: {product}",
        f"          by: [{_word(shown[0])}]",
    ]
    return Proposal("\n".join(lines) + "\n")


def _has_few(column: Column) -> bool:
    try:
        return column.domain_size <= MOST_PROPOSED
    except ValueError:
        return False


def proposed_name(text: str) -> str:
    """A possible name of a dataset or product that is like a text."""
    parts = re.findall(r"[a-z0-9]+", text.casefold())
    return "_".join(parts) if parts and parts[0][0].isalpha() else "_".join(["table", *parts])


def _shortly(domain: Mapping[str, str]) -> str:
    text = ", ".join(value if name == "values" else f"{name} {value}" for name, value in domain.items())
    return text if len(text) <= 60 else f"{text[:59]}…"


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_NOT_TEXT = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def _word(text: str) -> str:
    """A text in YAML, without quotes where none are needed."""
    return text if _PLAIN.fullmatch(text) and text.casefold() not in _NOT_TEXT else _text(text)


def _text(text: str) -> str:
    """A text in YAML, in quotes: a JSON string is a YAML string once it has no letter that YAML folds or refuses."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))
