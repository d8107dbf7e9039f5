"""First declarations, written from a source file or a declared dataset, for a person to read and change.

A proposal avoids exact values that depend on single records: bounds are rounded outwards, and columns with free text or
with one value for each record are left out. Lists of codes contain the codes that occur. They become public with a
release, so a person must compare them with the questionnaire. Numbers of unusual rows appear only in the printed
sentences, because readers of the declaration may not be allowed to know them.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import floor
from pathlib import Path

import yaml
from pydantic import ValidationError

from assets.cef.profile import (
    BLANKS,
    FEW,
    MISSING,
    ColumnProfile,
    Profile,
    list_likely_missing,
    split_words,
    tells_persons_apart,
)
from assets.release.columns import Column, ColumnType, Role, title_columns
from assets.release.dataset import DatasetDeclaration, Reader
from assets.release.names import COLUMNS_OF_COUNTS, COLUMNS_OF_HYPERCUBES, COLUMNS_OF_SWAPPED, LONGEST_COLUMN
from assets.release.release import DeclarationError
from assets.texts import LONGEST_TEXT, drop_accents, find_unseen, show_line
from assets.unperturbed.release import RESERVED

MANY = 100
"""The number of different values from which a number is called continuous."""
LARGE_WEIGHT = 100_000
"""The size from which a weight of whole numbers may have implied decimals."""
ALIKE = 4
"""The number of columns from which a sentence that is true of all of them is printed once."""
MOST_PROPOSED = 30
"""The largest number of values of a variable that a release is proposed to publish."""

_CONTINUOUS = "continuous: declare bands, or leave it out of releases"
_RESERVED = "named like a column of Stirred's own tables, and releases may refuse it: give it another name"
_KEYS = {"id", "uid", "uuid", "guid", "key", "serial", "serialno", "number", "nr", "no", "mafid", "identifier"}
_KEY = re.compile(
    r"(hh|household|person|pers|case|record|resp|respondent|unit|dwelling|family|row|member|subject|hid|pid)_?(id|key|nr|no)"
    r"|[hp](id|nr)"
)
"""Words that name keys, and compounds that end in such a word; `paid` is not one."""
_WEIGHT = re.compile(
    r"\w*(weight|wgt|wght|gewicht|poids|peso(?!s$)|elevac|hochrechn|multiplier)\w*|i?pond(i|er\w*)?|vikt|vekt|vaegt|vah[ay]|waga"
    r"|paino\w*|coeff\w*|w?t?wt|\w*wt|wt\w*"
)
_NAMED_WEIGHTS = re.compile(
    r"db0[89]\d|rb0[56]\d|pb0[4-8]\d|rl070|[hm]?v005|fac(tor|\d+)|fac(tor)?_?(exp|pond|hog|viv|per)\w*|fex\w*|expr"
    r"|mult|mlt\w*"
)
"""Complete names of weights, including those of EU-SILC and of Demographic and Health Surveys."""
_LABELED_WEIGHT = re.compile(
    r"(sampl\w+|survey|design|expansion|person|household|individual|longitudinal|cross-sectional|final|base) weight"
    r"|hochrechnungsfaktor|gewichtungsfaktor|ponderation|ponderacion|fa[ck]tor de expans|expansion factor"
)
_RECORD_TYPE = re.compile(r"rec(ord)?_?ty(pe?)?|satzart", re.IGNORECASE)
"""Names of the column that distinguishes households from persons if one file has rows of both."""
_KEYS_OF_SILC = {"DB030", "HB030", "RB030", "PB030"}
_OF_HOUSEHOLD = re.compile("RB040|[RP]X030")
"""EU-SILC's names of the household number in its files of persons."""
_OF_KEYS = (ColumnType.INTEGER, ColumnType.STRING)
_SIZE = re.compile(r"size|persons|members|pop", re.IGNORECASE)


@dataclass
class Proposal:
    """A proposed declaration, with its columns (table, name, type, role, domain), and the points that a person must
    check, as sentences."""

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
    title: str | None = None,
) -> Proposal:
    """Propose the declaration of a dataset from the file with one record for each unit, and optionally one of persons,
    each given as the declared path and its profile. The cap is given as YAML. By default, the key is the column of
    units that looks like one, `unit` is the column of persons with the same name, and the title follows from the name.
    Raises DeclarationError if no column identifies the units of persons, or the declaration would be refused."""
    proposal = Proposal("")
    path, profile = units
    if persons is None and key is None and profile.household:
        tables, record_name = _propose_rectangular(proposal, name, path, profile), "household"
    else:
        shared = [column.name for column in persons[1].columns] if persons else []
        key = _find_key(name, "units", profile, key, shared, required=persons is not None)
        roles = {key: Role.KEY} if key else {}
        tables = ["  units:", *_propose_table(proposal, "units", path, profile, roles, {})]
    sources = " and ".join(dict.fromkeys(file.name for file, _ in filter(None, (units, persons))))
    lines = [
        _comment(f"Proposed from {sources}. Compare every line with the"),
        "# questionnaire: the codes below are the occurring ones, and the bounds are rounded outwards.",
        "type: orchestration.components.Dataset",
        "attributes:",
        f"  name: {name}",
        f"  title: {_quote(title or propose_title(name))}",
        "  description: Where the records come from and what they are.",
        f"  reader: {reader.value}",
        f"  record_name: {_write(record_name)}",
        f"  cap: {cap}                        # the most that all releases together may lose: ε, or {{rho: …}}",
        "  charging: ask                  # a new draw needs an authorization; automatic: it does not",
        *tables,
    ]
    if persons:
        path, profile = persons
        names = [column.name for column in profile.columns]
        same = (column for column in names if column.casefold() == str(key).casefold())
        unit = unit or next(same, None) or next((column for column in names if _OF_HOUSEHOLD.fullmatch(column)), None)
        if unit is None or unit not in names:
            raise DeclarationError(
                f"dataset {name}: persons: name the column that identifies the unit with --unit; there are "
                f"{', '.join(names)}"
            )
        taken = {column.name.casefold() for column in units[1].columns}
        renamed = {column: f"person_{column}" for column in names if column.casefold() in taken and column != unit}
        own = _find_key(name, "persons", profile, None, required=False)
        roles = {unit: Role.UNIT} | ({own: Role.KEY} if own and own != unit else {})
        lines += ["  persons:", *_propose_table(proposal, "persons", path, profile, roles, renamed)]
    proposal.text = "\n".join(lines) + "\n"
    if {role for _, _, _, role, _ in proposal.columns} <= {Role.KEY.value}:
        one = len(profile.columns) == 1 and reader is Reader.CSV
        raise DeclarationError(
            f"dataset {name}: {sources}: "
            + (
                "its one column cannot be declared. If it is text in fields of fixed width, write it as CSV; Stirred "
                "reads such text only with a DDI codebook of IPUMS"
                if one
                else f"no column can be proposed. {' '.join(proposal.warnings)}"
            )
        )
    try:
        DatasetDeclaration.model_validate(yaml.safe_load(proposal.text)["attributes"])
    except (ValueError, yaml.YAMLError) as error:
        reason = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise DeclarationError(
            f"dataset {name}: it cannot be proposed from this file: {reason.removeprefix('Value error, ')}"
        ) from None
    return proposal


def _propose_rectangular(proposal: Proposal, name: str, path: Path, profile: Profile) -> list[str]:
    """The lines of a file of persons that repeats the columns of their households."""
    household, own = profile.household, _find_key(name, "persons", profile, None, required=False)
    roles = ({household[0]: Role.UNIT} if len(household) == 1 else {}) | ({own: Role.KEY} if own else {})
    # A key of several columns is composed of them, so the last one holds no further information.
    columns = [column for column in profile.columns if len(household) == 1 or column.name != household[-1]]
    repeated = {*profile.repeated, *household}.difference(roles)
    # Both places must belong to the household, or both to the person.
    within = {place: of for place, of in profile.within.items() if (place in repeated) == (of in repeated)}
    profile = replace(profile, columns=columns, within=within)
    lines = [*_propose_table(proposal, "persons", path, profile, roles, {})]
    of_units = [column for _, column, *_ in proposal.columns if column in repeated]
    proposal.columns = [("units" if row[1] in of_units else row[0], *row[1:]) for row in proposal.columns]
    proposal.warnings.insert(
        0,
        f"persons: rows with the same {' and '.join(household)} are one household, which has the columns "
        f"{', '.join(of_units)}; columns that differ within a household are those of persons.",
    )
    proposal.warnings += [
        f"persons: column {column} differs within {households:,} of the households only. If it is theirs, make the "
        "rows of each alike, and list it in rectangular."
        for column, households in profile.nearly_repeated.items()
    ]
    rectangular = [f"  rectangular: {{household: {_list(household)}, columns: {_list(of_units)}}}"]
    return [*rectangular, "  persons:", *lines]


def _find_key(
    dataset: str, table: str, profile: Profile, given: str | None, shared: Collection[str] = (), *, required: bool
) -> str | None:
    """The given key, or one that looks like a key. `shared` has the columns of persons: one may identify the unit."""
    possible = [column.name for column in profile.columns if column.identifies and column.type in _OF_KEYS]
    if given is not None and given not in possible:
        found = next((column for column in profile.columns if column.name == given), None)
        reason = _explain_repetition(found) if found else f"there are {', '.join(col.name for col in profile.columns)}"
        what = "does not identify each record" if found else "is not in the file"
        raise DeclarationError(f"dataset {dataset}: {table}: column {given} {what}: {reason}")
    in_both = [name for name in possible if name.casefold() in map(str.casefold, shared)]
    named = [name for name in (*in_both, *possible) if _is_key(name)]
    key = given or next(iter(named), in_both[0] if len(in_both) == 1 else None)
    if key is None and required:
        raise DeclarationError(
            f"dataset {dataset}: {table}: "
            + (
                f"name the column that identifies a record with --key; {', '.join(possible)} would do"
                if possible
                else "no column identifies a record: in each, a value is empty or repeated"
                f"{_name_nearest_key(profile)}. Delete rows that are there twice; or if several columns identify a "
                "record together, such as a cluster and a number in it, write them into one column of both files"
            )
        )
    return key


def _name_nearest_key(profile: Profile) -> str:
    """The column with a name like a key's that has the most different values."""
    named = [column for column in profile.columns if _is_key(column.name)]
    nearest = max(named, key=lambda column: column.different, default=None)
    return f". Of the columns named like a key, {nearest.name}: {_explain_repetition(nearest)}" if nearest else ""


def _explain_repetition(column: ColumnProfile) -> str:
    if column.identifies:
        return f"it has the type {column.type.value}, and keys are integers or strings"
    empty = column.records - column.present
    return f"{_count(column.records)} have {column.different:,} different values, and {empty:,} none"


def _is_key(name: str) -> bool:
    return any(word in _KEYS or _KEY.fullmatch(word) for word in split_words(name)) or name in _KEYS_OF_SILC


def _list_repeated_keys(profile: Profile, roles: Mapping[str, Role]) -> Iterator[Sequence[str]]:
    """The columns that seem to identify a person, but do not identify each record: either they have a name like a key's
    and too many values for codes, or, with the household's key or at each time, they distinguish persons."""
    yield from ([*profile.household, name] for name in profile.persons)
    for column in profile.columns:
        named = _is_key(column.name) and column.type in _OF_KEYS and not column.codes
        if (
            named
            and column.different < column.present
            and column.name not in {*roles, *profile.household, *profile.repeated, *profile.persons}
        ):
            yield [column.name]


def _is_weight(name: str, label: str = "") -> bool:
    return (
        any(_WEIGHT.fullmatch(word) for word in split_words(name))
        or bool(_NAMED_WEIGHTS.fullmatch(name.casefold()))
        or bool(_LABELED_WEIGHT.search(drop_accents(label)))
    )


def _propose_table(
    proposal: Proposal,
    table: str,
    path: Path,
    profile: Profile,
    roles: Mapping[str, Role],
    renamed: Mapping[str, str],
) -> Iterator[str]:
    """The lines of a table; `roles` names the columns that identify a record or its unit."""
    omitted = {
        column.name: why
        for column in profile.columns
        if (why := _explain_omission(column, profile.reasons.get(column.name, ""), _count))
    }
    yield f"    path: {_quote(str(path))}"
    for name, value in profile.fields.items():
        yield f"    {name}: {_quote(value)}"
    if profile.csv:
        yield f"    csv: {{{', '.join(f'{field}: {_write(value)}' for field, value in profile.csv.items())}}}"
    proposal.warnings += profile.sentences
    yield "    columns:"
    said_of = list[tuple[str, str]]()
    for column in profile.columns:
        if _RECORD_TYPE.fullmatch(column.name) and 1 < column.different == len(column.codes):
            said = f"the rows are of several kinds by {column.name}, and each row counts as a record"
            yield f"      {_comment(said)}"
            proposal.warnings.append(f"{table}: {said}: make a file of each kind.")
    for keys in _list_repeated_keys(profile, roles):
        said = (
            f"several rows have the same {' and '.join(keys)}. If they are of one person, losses are for a row and not"
        )
        yield f"      {_comment(said)} for the person"
        proposal.warnings.append(f"{table}: {said} for the person: make a file with one row a person.")
    for column in profile.columns:
        role, domain = roles.get(column.name), dict[str, str]()
        concerns, comments = list[str](), list[str]()
        if role is None and (why := omitted.get(column.name, "")):
            uncounted = _explain_omission(column, profile.reasons.get(column.name, ""), _leave_uncounted)
            yield f"      {_comment(f'{_write(column.name)} is left out: {uncounted}')}"
            said_of.append((column.name, f"left out: {why}."))
            continue
        identifies, name = role is not None, renamed.get(column.name, column.name)
        kind = column.type
        if role is None and column.is_place:
            role, kind = Role.GEOGRAPHY, ColumnType.STRING
        elif role is None and column.has_whole_decimals and not _is_weight(column.name, column.title):
            kind = ColumnType.STRING
        fields = {"type": kind.value} | ({"role": role.value} if role else {})
        if not identifies:
            domain, concerns = _propose_domain(column, kind, _count)
            _, comments = _propose_domain(column, kind, _leave_uncounted)
            if reason := profile.reasons.get(column.name):
                concerns, comments = (
                    [f"text and no number or date, because {reason}", *of] for of in (concerns, comments)
                )
            larger = profile.within.get(column.name)
            if larger is not None and larger not in omitted and larger not in roles:
                domain |= {"within": _write(renamed.get(larger, larger))}
                domain |= _propose_nesting(profile, column, larger) if "values" in domain else {}
            fields |= domain | ({"title": _quote(column.title)} if column.title else {})
            if column.present < column.records and not column.missing:
                fields["nullable"] = "true"
            if name.casefold() in COLUMNS_OF_SWAPPED | COLUMNS_OF_COUNTS:
                for sentences in (concerns, comments):
                    sentences.append(f"{_RESERVED}, with source: {name}")
        if name != column.name:
            fields["source"] = _write(column.name)
        written = ", ".join(f"{field}: {value}" for field, value in fields.items())
        yield f"      {_write(name)}: {{{written}}}" + (f"  {_comment('; '.join(comments))}" if comments else "")
        if concerns:
            said_of.append((name, f"{'; '.join(concerns)}."))
        in_words = ", ".join(value if field == "values" else f"{field} {value}" for field, value in domain.items())
        in_words = in_words if len(in_words) <= 60 else f"{in_words[:59]}…"
        proposal.columns.append((table, name, fields["type"], (role or Role.CHARACTERISTIC).value, in_words))
    for name, why in profile.unfit.items():
        yield f"      {_comment(f'{_write(name)} is left out: {why}')}"
        said_of.append((_write(name), f"left out: {why}."))
    proposal.warnings += (f"{table}: {said}" for said in _tell_once(said_of))


def _tell_once(said_of: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Sentences about columns, each given with the column's name; one sentence if many columns share it."""
    alike: dict[str, list[str]] = {}
    for name, what in said_of:
        alike.setdefault(what, []).append(name)
    for name, what in said_of:
        names = alike[what]
        if len(names) < ALIKE:
            yield f"column {name} is {what}"
        elif name == names[0]:
            yield f"{len(names)} columns ({name}, {names[1]}, …, {names[-1]}) are each {what}"


def _propose_nesting(profile: Profile, column: ColumnProfile, larger: str) -> dict[str, str]:
    """The places that lie in larger ones, with the larger ones, if all codes of both are proposed as read."""
    nesting = profile.nesting.get(column.name, {})
    (above,) = (other for other in profile.columns if other.name == larger)
    listed = set(nesting) == set(above.codes) and sorted(chain(*nesting.values())) == sorted(column.codes)
    if not listed or "values" not in _propose_domain(above, ColumnType.STRING, _leave_uncounted)[0]:
        return {}
    places = (f"{_quote(place)}: [{', '.join(map(_quote, codes))}]" for place, codes in nesting.items())
    return {"nesting": f"{{{', '.join(places)}}}"}


def _explain_omission(column: ColumnProfile, reason: str, count: Callable[[int], str]) -> str:
    """The reason why a column is left out; "" if it is not. `reason` explains why its texts only look like numbers.
    `count` writes a number of rows."""
    if find_unseen(column.name) or len(column.name) > LONGEST_COLUMN:
        return f"its name has over {LONGEST_COLUMN} letters, or one that cannot be seen"
    if not column.present:
        return "it has no values"
    if any(find_unseen(code) or len(code) > LONGEST_TEXT for code in [*column.codes, *column.missing]):
        return f"it has texts of over {LONGEST_TEXT:,} letters, or with line breaks, tabs or others that cannot be seen"
    identifies = column.identifies and column.type in _OF_KEYS and column.records > FEW
    what = "a weight, " * _is_weight(column.name, column.title)
    if column.type is ColumnType.STRING and not column.codes and not column.digits:
        if 2 * column.like_numbers > column.present and (marks := _describe_marks(column, count)):
            return f"{what}text and no number, because of {marks}; write it as a number in the file"
        if reason or not identifies:
            return (
                reason or f"it has {what}many different texts, which may identify persons; declare values or a pattern"
            )
    return "it identifies every record" if identifies else ""


def _describe_marks(column: ColumnProfile, count: Callable[[int], str]) -> str:
    return " and ".join(f"{mark} in {count(rows)}" for mark, rows in column.marks.items())


def _count(rows: int) -> str:
    return f"{rows:,} {'row' if rows == 1 else 'rows'}"


def _leave_uncounted(rows: int) -> str:
    return "some rows"


def _propose_domain(
    column: ColumnProfile, kind: ColumnType, count: Callable[[int], str]
) -> tuple[dict[str, str], list[str]]:
    """The fields of a column's domain as this type, and the points that a person must check, with numbers of rows as
    `count` writes them."""
    domain, concerns, marks = dict[str, str](), list[str](), _describe_marks(column, count)
    weight = _is_weight(column.name, column.title)
    whole_codes = kind is ColumnType.INTEGER and 0 < len(column.codes) <= (len(column.labels) or FEW)
    whole_codes = whole_codes and (bool(column.labels) or not weight)
    if column.labels:
        domain = {"values": _write_labels(kind, column)}
        if column.reasons:
            declared = ", ".join(f"{_quote(code)} ({label})" for code, label in column.reasons.items())
            concerns.append(f"of categories that the file declares as no value, {declared}; list them in null instead")
    elif kind is ColumnType.STRING and column.codes:
        codes = sorted(column.codes, key=int) if column.type is ColumnType.INTEGER else column.codes
        domain = {"values": f"[{', '.join(map(_quote, codes))}]"}
        concerns += (
            [f"text with {BLANKS} in {count(column.marks[BLANKS])}, which is part of the code"]
            if BLANKS in column.marks
            else []
        )
        if words := [code for code in column.codes if code in MISSING]:
            listed = ", ".join(map(_quote, words))
            concerns.append(f"text in which {listed} may stand for no value; if so, move it to null")
        for alike in _list_alike(column.codes):
            concerns.append(f"text in which {', '.join(map(_quote, alike))} may be one category; if so, merge them")
    elif kind is ColumnType.STRING:
        fewest, most = column.digits or (1, 18)
        domain = {"pattern": _quote(f"[0-9]{{{fewest}{f',{most}' * (most > fewest)}}}")}
        if column.type is kind and most <= 18:
            concerns.append("text, because of zeros before numbers; if they are amounts, declare type integer")
    elif whole_codes:
        # -0 is 0.
        domain = {"values": str(sorted(set(map(int, column.codes))))}
        if likely := list_likely_missing(column.codes):
            listed = ", ".join(map(_quote, likely))
            concerns.append(f"a list of codes in which {listed} may stand for no value; if so, move it to null")
    elif column.lowest is not None and column.highest is not None:
        low, high = widen(floor(column.lowest), floor(column.highest))
        domain = {"minimum": str(low), "maximum": str(high)}
    if column.rounded:
        domain = {"rounded": "true"} | domain
        concerns.append(f"rounded to 4 digits, because of {marks or 'floating-point numbers'}")
    if column.missing:
        domain["null"] = f"[{', '.join(map(_quote, column.missing))}]"
        found = ", ".join(
            f"{_quote(code)} ({column.reasons.get(code, count(rows))})" for code, rows in column.missing.items()
        )
        zero = "" if kind is ColumnType.DATE else "; list a code that means 0 in zero instead of null"
        concerns.append(f"taken as no value where it is {found}{zero}")
    if column.named and kind in (ColumnType.INTEGER, ColumnType.DECIMAL):
        found = ", ".join(f"{_quote(code)} ({label})" for code, label in column.named.items())
        concerns.append(f"of numbers, of which the file labels {found}; list those that stand for no value in null")
    if column.frequent:
        found = ", ".join(f"{_quote(code)} ({count(rows)})" for code, rows in column.frequent.items())
        concerns.append(f"of numbers, of which {found} stand apart; list those that stand for no value in null")
    if kind in (ColumnType.INTEGER, ColumnType.DECIMAL) and not whole_codes:
        concerns += [f"a weight that is negative in {count(column.negative)}"] if weight and column.negative else []
        concerns += (
            ["a weight: take its bounds from the design of the survey"] if weight and not column.negative else []
        )
        if weight and kind is ColumnType.INTEGER and (column.highest or 0) >= LARGE_WEIGHT:
            concerns.append(
                "a weight of large whole numbers: if the codebook implies decimals, as six for v005, write the decimal "
                "point in the file, or divide every weighted number"
            )
    if column.has_total:
        concerns.append("an amount that is in one row the sum of all others; if that row is a total, delete it")
    if kind not in (ColumnType.STRING, ColumnType.BOOLEAN):
        many = MANY if kind is ColumnType.INTEGER else FEW
        concerns += [_CONTINUOUS] if column.different > many and not column.labels and not weight else []
    return domain, concerns


def _list_alike(codes: Iterable[str]) -> list[list[str]]:
    """Codes that differ only in blanks, accents, case, or zeros before a number."""
    found: dict[str, list[str]] = {}
    for code in codes:
        alike = " ".join(drop_accents(code).split())
        found.setdefault(alike.lstrip("0") or "0" if alike.isdecimal() else alike, []).append(code)
    return [alike for alike in found.values() if len(alike) > 1]


def _write_labels(kind: ColumnType, column: ColumnProfile) -> str:
    codes = sorted(column.codes, key=int) if column.type is ColumnType.INTEGER else column.codes
    write = str if kind is ColumnType.INTEGER else _quote
    return f"{{{', '.join(f'{write(code)}: {_quote(column.labels[code])}' for code in codes)}}}"


def widen(lowest: int, highest: int) -> tuple[int, int]:
    """Bounds around a range, rounded outwards to the highest power of ten that is not greater than its length."""
    step = 10 ** (len(str(max(highest - lowest, 1))) - 1)
    return lowest // step * step, (highest // step + 1) * step


def propose_swapping(dataset: DatasetDeclaration, name: str) -> Proposal:
    """Propose a release by permutation swapping, which swaps the geography of units and publishes few-valued variables.
    Raises DeclarationError if the dataset declares no geography, or no variable with few values."""
    columns = dataset.units.variables
    usable = {column: declared for column, declared in columns.items() if column.casefold() not in COLUMNS_OF_SWAPPED}
    places = [column for column, declared in usable.items() if declared.role is Role.GEOGRAPHY]
    smallest = _leave_out_larger(usable, places)
    few = [column for column, declared in usable.items() if column not in places and _is_category(column, declared)]
    if not places or not few:
        missing = f"variable with at most {MOST_PROPOSED} values"
        missing += "; for those of persons, use --kind tables" if dataset.persons else ""
        if not places:
            missing = f"geography; declare role: geography in one of {', '.join(few) or ', '.join(columns)}"
        raise DeclarationError(f"release {dataset.name}/{name}: units: swapping needs a column that is a {missing}")
    match = [column for column in few if _SIZE.search(column)][:1]
    published = [column for column in few if column not in match][:2] or match
    others = [column for column in columns if column not in {*places, *match, *published}]
    left_out = f"  # Left out: {', '.join(others)}\n" if others else ""
    words = title_columns(columns)
    title = _quote(propose_title(f"{words[published[0]]} by {words[smallest[0]]}"))
    return Proposal(
        f"""\
type: orchestration.components.PermutationSwapping
attributes:
  name: {name}
  dataset: {dataset.name}
  title: {title}
  description: The content of the tables, for a reader.
  match: {_list(match)}               # records are swapped only if they agree on these
  swap: {_list(places)}               # the values that records exchange
  swap_rate: 1/10                # the probability with which a record is selected
  # Only these take part besides match and swap. Invariants among them are published exactly.
  variables: {_list(column for column in published if column not in match)}
{left_out}  saturated: false               # true publishes the full cross-tabulation
  products:
    - name: {propose_name(f"{published[0]}_by_{smallest[0]}")}
      title: {title}
      geography: {_list(smallest)}
      dimensions: {_list(published[:1])}
"""
    )


def propose_tables(dataset: DatasetDeclaration, name: str) -> Proposal:
    """Propose a release by the table builder: counts by the geography and two variables, of persons if there are any.
    Raises DeclarationError if no variable has a list of few values."""
    found = _find_variables(dataset, COLUMNS_OF_HYPERCUBES)
    counted, variables = found.counted, [*found.places[:1], *found.others[:2]]
    if not variables:
        raise DeclarationError(
            f"release {dataset.name}/{name}: variables: a hypercube needs a variable with at most {MOST_PROPOSED} "
            "values"
        )
    records = counted if counted == "persons" else f"{dataset.record_name}s"
    words = title_columns(found.columns)
    title = _quote(propose_title(f"{records} by {', '.join(words[column] for column in variables)}"))
    return Proposal(
        f"""\
type: orchestration.components.TableBuilder
attributes:
  name: {name}
  dataset: {dataset.name}
  title: {title}
  description: The content of the tables, for a reader.
  hypercubes:                    # each is drawn and charged once, by itself; add another one at any time
    - name: {counted}
      title: {title}
      of: {counted}
      variables: {_list(variables)}
      epsilon: 1/2               # for one record added or removed; a change of one record costs twice as much
      margins: summed            # fitted measures every margin too
      products:                  # further tables, at no further cost
        - name: {propose_name(f"{counted}_by_{variables[0]}")}
          title: {_quote(propose_title(f"{records} by {words[variables[0]]}"))}
          by: {_list(variables[:1])}
""",
        warnings=[
            f"column {column} is a weight: without the field weight, the hypercube counts the records of the sample."
            for column, declared in found.columns.items()
            if declared.type in (ColumnType.INTEGER, ColumnType.DECIMAL) and _is_weight(column, declared.title)
        ],
    )


def propose_coarsening(dataset: DatasetDeclaration, name: str) -> Proposal:
    """Propose a release by coarsening: the smallest geography with the larger ones around it, and few-valued variables.
    Raises DeclarationError if there is no geography, or no such variable."""
    found = _find_variables(dataset, RESERVED)
    if not found.places or not found.others:
        missing = (
            f"variable with at most {MOST_PROPOSED} values" if found.places else "geography; declare role: geography"
        )
        raise DeclarationError(f"release {dataset.name}/{name}: coarsening needs a column that is a {missing}")
    geography = found.places[:1]
    while larger := found.columns[geography[0]].within:
        geography.insert(0, larger)
    key, kept = found.others[:2], found.others[2:4]
    words = title_columns(found.columns)
    title = _quote(propose_title(f"{words[key[0]]} by {words[geography[-1]]}"))
    return Proposal(
        f"""\
type: orchestration.components.Coarsening
attributes:
  name: {name}
  dataset: {dataset.name}
  title: {title}
  description: The content of the records and tables, for a reader.
  of: {found.counted}
  geography: {_list(geography)}    # coarsest first
  place_threshold: 100           # the fewest records of a published place
  key: {_list(key)}    # the variables by which somebody could be recognized
  least: 5                       # the fewest records of a combination of place and key
  kept: {_list(kept)}    # further variables, published as they are
  products:                      # tables; the coarsened records are always published
    - name: {propose_name(f"{key[0]}_by_{geography[-1]}")}
      title: {title}
      of: {found.counted}
      geography: {_list(geography)}
      dimensions: {_list(key[:1])}
"""
    )


def propose_suppression(dataset: DatasetDeclaration, name: str) -> Proposal:
    """Propose a release by suppression: a table of the smallest geography and a variable, or of two variables, and its
    margins. Raises DeclarationError if there are fewer than two columns with few values."""
    found = _find_variables(dataset, RESERVED)
    variables = [*found.places[:1], *found.others][:2]
    if len(variables) < 2:
        raise DeclarationError(
            f"release {dataset.name}/{name}: suppression needs two variables with at most {MOST_PROPOSED} values"
        )
    words = title_columns(found.columns)
    tables = {"_by_".join(reversed(variables)): variables} | {column: [column] for column in variables}

    def describe(named: Sequence[str]) -> str:
        places = [column for column in named if column in found.places]
        others = [column for column in named if column not in found.places]
        kinds = {"geography": places, "dimensions": others}
        return "".join(f"      {kind}: {_list(columns)}\n" for kind, columns in kinds.items() if columns)

    products = "".join(
        f"""\
    - name: {propose_name(table)}
      title: {_quote(propose_title(" by ".join(words[column] for column in reversed(named))))}
      of: {found.counted}
{describe(named)}"""
        for table, named in tables.items()
    )
    return Proposal(
        f"""\
type: orchestration.components.Suppression
attributes:
  name: {name}
  dataset: {dataset.name}
  title: {_quote(propose_title(" by ".join(words[column] for column in reversed(variables))))}
  description: The content of the tables, for a reader.
  of: {found.counted}
  threshold: 5                   # counts from 1 to 4 are suppressed
  width: 3                       # the least width of the interval that all tables leave for a suppressed count
  products:                      # all tables count the same records; a margin is published only as a table
{products}"""
    )


@dataclass
class _Variables:
    """The records that a release counts (persons, if there are any), and the columns that it could publish.

    Attributes:
        counted: persons or units.
        columns: all columns of units and persons.
        places: the geographic columns with few values, without those that others lie in.
        others: the other columns with few values: columns of persons first, then columns with labels.
    """

    counted: str
    columns: Mapping[str, Column]
    places: list[str]
    others: list[str]


def _find_variables(dataset: DatasetDeclaration, reserved: Collection[str]) -> _Variables:
    of_persons = dataset.persons.variables if dataset.persons else {}
    columns = {**dataset.units.variables, **of_persons}
    usable = [
        column
        for column, declared in columns.items()
        if column.casefold() not in reserved and _is_category(column, declared)
    ]
    places = _leave_out_larger(columns, [column for column in usable if columns[column].role is Role.GEOGRAPHY])
    others = [column for column in usable if columns[column].role is not Role.GEOGRAPHY]
    # A column without labels may be a number such as PERNUM.
    others.sort(key=lambda column: (tells_persons_apart(column), column not in of_persons, not columns[column].labels))
    return _Variables("persons" if of_persons else "units", columns, places, others)


def _leave_out_larger(columns: Mapping[str, Column], places: Sequence[str]) -> list[str]:
    """The places without those that contain another one: only a few cells of both would be possible."""
    larger = {columns[place].within for place in places}
    return [place for place in places if place not in larger]


def _is_category(name: str, column: Column) -> bool:
    """Whether the column has few values and is no weight."""
    try:
        return 1 < column.domain_size <= MOST_PROPOSED and (bool(column.labels) or not _is_weight(name, column.title))
    except ValueError:
        return False


def propose_title(text: str) -> str:
    """A title that follows from the name of a dataset or of a file."""
    words = unicodedata.normalize("NFC", " ".join(text.replace("_", " ").split()))
    return words[:1].upper() + words[1:]


def propose_name(text: str) -> str:
    """A valid name of a dataset or product that resembles a text."""
    parts = re.findall(r"[a-z0-9]+", drop_accents(text))
    return "_".join(parts) if parts and parts[0][0].isalpha() else "_".join(["table", *parts])


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_NOT_TEXT = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(map(_write, names))}]"


def _comment(text: str) -> str:
    """A YAML comment. Characters besides a line feed also end a comment, and text after them would be declared."""
    return f"# {show_line(text)}"


def _write(text: str) -> str:
    """A text in YAML, without quotes where none are needed."""
    return text if _PLAIN.fullmatch(text) and text.casefold() not in _NOT_TEXT else _quote(text)


def _quote(text: str) -> str:
    """A text in YAML, in quotes: a JSON string is a YAML string without letters that YAML folds or refuses."""
    return _UNPRINTABLE.sub(lambda letter: f"\\u{ord(letter[0]):04x}", json.dumps(text, ensure_ascii=False))
