"""Recognizes how a CSV file is written, from its bytes: compression, encoding, separator and quotes.

A dialect is accepted only if the file follows the grammar of `delimited` in it. An ambiguous file is refused, with the
options that would settle it. `notation` recognizes how a file writes numbers and dates.
"""

import codecs
import csv
import re
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice, pairwise
from pathlib import Path

from assets.cef.text_files import (
    LONGEST_ROW,
    MAGIC,
    is_utf_8,
    judge,
    list_characters,
    read_beginning,
    read_bytes,
    read_rows,
    read_text,
    require_text,
)
from assets.cef.validation import Finding, SourceError
from assets.release.dialect import SEPARATORS, UTF_8, Compression, Dialect, parse_dialect
from mechanisms.delimited import Rule
from resources.regular import open_regular

_UTF_32 = "in UTF-32; write it in UTF-8"
_OTHER_FILES = {
    b"PK\x03\x04": "a zip archive, as Excel's workbooks are; export the table as CSV, or unpack it",
    b"PAR1": "a Parquet file; name it .parquet",
    b"BZh": "compressed by bzip2; unpack it, or compress it by gzip or zstd",
    b"\xfd7zXZ": "compressed by xz; unpack it, or compress it by gzip or zstd",
    b"\xd0\xcf\x11\xe0": "a workbook of Excel; export the table as CSV",
    b"<stata_dta>": "a Stata file; name it .dta",
    **{b"$FL2": "an SPSS file; name it .sav", b"$FL3": "an SPSS file; name it .zsav"},
    b"HEADER RECORD***": "a SAS transport file; name it .xpt",
    b"\0" * 12 + b"\xc2\xea\x81\x60": "a SAS file; name it .sas7bdat",
    # As servers send in place of a file, for example to ask for a password.
    **dict.fromkeys((b"<!DOCTYPE html", b"<!doctype html", b"<html"), "a page in HTML; download the file itself"),
    **dict.fromkeys((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), _UTF_32),
}
_LONGEST_MAGIC = max(map(len, _OTHER_FILES))
_MARKS = {codecs.BOM_UTF8: UTF_8, codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}

_USUAL = (
    *("windows-1252", "iso-8859-15", "windows-1250", "iso-8859-2", "iso-8859-16"),
    *("windows-1254", "windows-1257", "windows-1251", "windows-1253"),
)
_OLD = ("cp850", "mac-roman", "cp852", "koi8-r", "cp866", "cp437")
"""The encodings of one byte per character to try, the old ones only if no other is plausible."""

_ALPHABETS = [
    frozenset(letters)
    for letters in (
        *("àâæçéèêëîïôœùûüÿ", "äöüßéèàç", "áéíóúüñçº", "áâãàçéêíóôõúüº", "àèéìíîòóùú", "àéèíïóòúüç"),
        *("åäöéüàæø", "æøåéèêóòôöäü", "áðéíóúýþæö", "äöõüšž", "éèëïöüáóíêâîôûúä"),
        *("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîșțşţ", "çğıöşüâîû"),
        *("āčēģīķļņšūž", "ąčęėįšųūž"),
        "абвгдеёжзийклмнопрстуфхцчшщъыьэюяіїєґў",
        "άαβγδεέζηήθιίϊΐκλμνξοόπρσςτυύϋΰφχψωώ",
    )
]
"""The letters beyond ASCII of European languages. Text in one language uses one alphabet."""

_SIGNS = frozenset("’‘‚“”„«»‹›–—…€£§°ªº·•¡¿²³µ\u00a0")
_BETWEEN_LETTERS = frozenset("’‘·\u00a0–")
_WORD = re.compile(rb"[A-Za-z\x80-\xff]*[\x80-\xff][A-Za-z\x80-\xff]*")
_MOST_WORDS = 20_000

_QUOTING: tuple[dict[str, str], ...] = (
    *({}, {"escape": "backslash"}, {"quote": "none"}),
    *({"quote": "'"}, {"quote": "'", "escape": "backslash"}),
)
_SINGLE_QUOTES, _DOUBLE_QUOTES = (
    re.compile(rb"(?m)(?:^|[,;\t|])'[^'\n]*'(?:[,;\t|]|\r?$)".replace(b"'", quote)) for quote in (b"'", b'"')
)
"""A field in quotes."""
TEXT = "text separated by"
ONE_MORE = (
    "is not a table with a name for each field: every row has one more. R's write.table gives row names no name; use "
    "write.csv, or row.names = FALSE. Decimal commas without quotes, and a separator at the end of each row, look the "
    "same"
)
TITLE = (
    "is not a table from its first line on, which has one text and not the names of the columns; delete what is above "
    "the names"
)
NO_HEADER = (
    "is not a table with a header: its first row has numbers or categories of its columns where names should be. Write "
    "the names into the first row; if it has them, put a letter before those that are numbers"
)
_NUMBER = re.compile(r"[-+]?[.,]?[0-9]+([.,/-][0-9]+)*")
"""A number or a date."""
_ROWS = 1000
"""The number of rows compared with the header."""
_OF_QUOTES = {Rule.STRAY_QUOTE, Rule.TEXT_AFTER_QUOTE, Rule.UNCLOSED_QUOTE, Rule.STRAY_ESCAPE}


def recognize_dialect(path: Path, given: Mapping[str, str]) -> tuple[Dialect, list[str]]:
    """The dialect of a file, except its numbers and dates, and notes on it for a person, as sentences.

    Args:
        given: fields of the dialect that the person knows.

    Raises SourceError if the dialect cannot be recognized, with the options that would settle it.
    """
    dialect, sentences = parse_dialect(given), list[str]()
    if "compression" not in given:
        dialect = dialect.model_copy(update={"compression": _find_compression(path)})
    if "encoding" not in given:
        encoding, sentences = _find_encoding(path, dialect)
        dialect = dialect.model_copy(update={"encoding": encoding})
    require_text(path, dialect)
    dialect = _find_separator(path, dialect, given)
    _refuse_without_header(path, dialect)
    if not dialect.quote_character and "quote" not in given:
        sentences.append(f'{path.name} has quotes (") inside fields, which are read like any other letter')
    return dialect, sentences


def describe_content(path: Path) -> str:
    """The format of a file by its content, with a suitable suffix; empty if unknown. Text is recognized only if it is a
    table."""
    try:
        dialect, _ = recognize_dialect(path, {})
        if _fits(_read_whole_rows(path, dialect), dialect):
            return f"{TEXT} {SEPARATORS[dialect.separator]}; name it .csv"
    except SourceError as error:
        return next((item.rule[3:] for item in error.findings if item.rule[3:] in _OTHER_FILES.values()), "")
    except (OSError, UnicodeError, csv.Error):
        pass
    return ""


def explain_refusal(path: Path, declared: Dialect, refusal: SourceError, *, fixed: bool = False) -> SourceError:
    """The refusal of a file that cannot be read as declared. If the file's dialect differs from the declared one, the
    refusal begins with the difference and, unless the dialect is fixed, the fields that would declare it."""
    try:
        found, _ = recognize_dialect(path, {})
    except (SourceError, OSError, UnicodeError, csv.Error) as error:
        # The actual format of the file explains the refusal; the options that a person would have to settle do not.
        other = [finding for finding in getattr(error, "findings", ()) if finding.rule.startswith("is ")]
        return SourceError([*other, *refusal.findings])
    fields = ["compression", "encoding"]
    if _fits(_read_whole_rows(path, found), found):
        # A file without quoted fields may be a damaged one with quotes.
        fields += ["separator", "quote", "escape"] if found.quote_character else ["separator"]
    differing = {field: getattr(found, field) for field in fields if getattr(found, field) != getattr(declared, field)}
    of_bytes = {*_USUAL, *_OLD, "iso-8859-1"}
    undecided = {found.encoding, declared.encoding} <= of_bytes and not any(
        finding.rule.startswith("not in") for finding in refusal.findings
    )
    if undecided or declared.encoding.startswith(found.encoding):
        differing.pop("encoding", None)
    words = {
        "compression": f"is compressed by {found.compression}" if found.compression != "none" else "is not compressed",
        "encoding": f"is in {found.encoding}",
        "separator": f"is separated by {SEPARATORS[found.separator]}",
        "quote": f"is quoted with {found.quote}",
        "escape": "has quotes after backslashes" if found.escape_character else "has doubled quotes",
    }
    findings = [
        Finding(
            path.name,
            f"{words[field]}; write it as uncompressed text in UTF-8, with commas and double quotes"
            if fixed
            else f"{words[field]}, which `csv: {{{field}: {_in_yaml(value)}}}` declares",
        )
        for field, value in differing.items()
    ]
    # Without the separator, no column has its name.
    left = [finding for finding in refusal.findings if not findings or finding.rows is not None]
    return SourceError([*findings, *left]) if findings else refusal


def _in_yaml(value: str) -> str:
    return value if value.replace("-", "").isalnum() else f"'{value}'" if value != "'" else '"\'"'


def _find_compression(path: Path) -> Compression:
    with open_regular(path) as file:
        first = file.read(_LONGEST_MAGIC)
    _refuse_other_files(path, first)
    return next((compression for magic, compression in MAGIC.items() if first.startswith(magic)), "none")


def _refuse_other_files(path: Path, first: bytes) -> None:
    for magic, what in _OTHER_FILES.items():
        if first.startswith(magic):
            raise _refuse(path, f"is {what}")


def _refuse(path: Path, rule: str) -> SourceError:
    return SourceError([Finding(path.name, rule)])


# Encodings


def _find_encoding(path: Path, dialect: Dialect) -> tuple[str, list[str]]:
    beginning = next(read_bytes(path, dialect.compression), b"")
    _refuse_other_files(path, beginning[:_LONGEST_MAGIC])
    if any(map(beginning.startswith, MAGIC)) and dialect.compression != "none":
        raise _refuse(path, "is compressed twice; unpack it once")
    for mark, encoding in _MARKS.items():
        if beginning.startswith(mark):
            return encoding, []
    for encoding in ("utf-32-le", "utf-32-be"):
        with suppress(UnicodeError):
            if "\0" not in beginning[: len(beginning) // 4 * 4].decode(encoding) and len(beginning) >= 4:
                raise _refuse(path, f"is {_UTF_32}")
    # In UTF-16, one byte of each letter of ASCII is 0.
    first, second = beginning[::2], beginning[1::2]
    for name, zeros, letters in (("utf-16-le", second, first), ("utf-16-be", first, second)):
        if zeros.count(0) > len(zeros) / 2 > letters.count(0):
            return name, []
    if is_utf_8(path, dialect.compression):
        return UTF_8, []
    words = _collect_words(path, dialect)
    readings = _read_plausibly(words, _USUAL) or {
        # Texts of East Asia have no small letters in this reading.
        encoding: reading
        for encoding, reading in _read_plausibly(words, _OLD).items()
        if any(letter.islower() and letter >= "\x80" for word in reading for letter in word)
    }
    if not readings:
        place = _locate(path, dialect, next(iter(words)))
        raise _refuse(
            path,
            f"not in UTF-8, and its letters show no encoding: {place}. Name it, as in --csv "
            "encoding=windows-1252, or write the file in UTF-8: Stirred does not read GB18030, Big5, Shift-JIS, EUC-KR "
            "and other encodings of several bytes a letter",
        )
    encoding, reading = next(iter(readings.items()))
    for other, differently in list(readings.items())[1:]:
        word, byte = next(
            (word, byte)
            for word, *read in zip(words, reading, differently, strict=True)
            for byte, ours, theirs in zip(word, *read, strict=True)
            if ours != theirs
        )
        raise _refuse(
            path,
            f"not in UTF-8, and two readings are possible: {_locate(path, dialect, word)}, where byte {byte:02X} is "
            f"{list_characters(encoding)[byte]} in {encoding} and {list_characters(other)[byte]} in {other}. Say which "
            f"with --csv encoding={encoding} or --csv encoding={other}",
        )
    word = next(iter(words))
    byte = next(each for each in word if each >= 0x80)
    return encoding, [
        f"{path.name} is read as {encoding}: {_locate(path, dialect, word)}, byte {byte:02X} is "
        f"{list_characters(encoding)[byte]}. If it is not, give --csv encoding=…"
    ]


def _collect_words(path: Path, dialect: Dialect) -> dict[bytes, None]:
    """Distinct words with bytes beyond ASCII, in the order of the file. A word is cut where a block ends."""
    words: dict[bytes, None] = {}
    for block in read_bytes(path, dialect.compression):
        words |= dict.fromkeys(_WORD.findall(block))
        if len(words) > _MOST_WORDS:
            break
    return words


def _read_plausibly(words: Mapping[bytes, None], encodings: tuple[str, ...]) -> dict[str, list[str]]:
    """The distinct readings of words that may be text of one language, by encoding."""
    readings: dict[str, list[str]] = {}
    for encoding in encodings:
        characters = list_characters(encoding)
        reading = [codecs.charmap_decode(word, "replace", characters)[0] for word in words]
        letters = {letter for word in reading for letter in word.lower() if letter >= "\x80"} - _SIGNS - {"\u0307"}
        spoken = any(letters <= alphabet for alphabet in _ALPHABETS)
        if spoken and all(map(_is_word, reading)) and reading not in readings.values():
            readings[encoding] = reading
    return readings


def _is_word(text: str) -> bool:
    """Whether no capital letter follows a small one, no sign is between two letters, and one script is used."""
    pairs = list(pairwise(text))
    if any(one.islower() and other.isupper() for one, other in pairs):
        return False
    for one, sign, other in zip(text, text[1:], text[2:], strict=False):
        if one.isalpha() and other.isalpha() and not sign.isalpha() and sign not in _BETWEEN_LETTERS:
            return False
    return (
        len({unicodedata.name(letter, "").split(" ")[0] for letter in text if letter.isalpha() and letter not in "ªºµ"})
        <= 1
    )


def _locate(path: Path, dialect: Dialect, word: bytes) -> str:
    """The line and the field of the first occurrence of a word, with the name of its column if it is in ASCII."""
    lines, tail = 1, b""
    for block in read_bytes(path, dialect.compression):
        text = tail + block
        if (place := text.find(word)) >= 0:
            lines += text.count(b"\n", 0, place)
            line = text[text.rfind(b"\n", 0, place) + 1 :].split(b"\n", 1)[0]
            break
        kept = text.rfind(b"\n") + 1
        lines += text.count(b"\n", 0, kept)
        tail = text[kept:]
    # Every byte is a character of this encoding.
    dialect = _find_separator(path, dialect.model_copy(update={"encoding": "cp437"}), {})
    header = read_beginning(path, dialect).split(b"\n", 1)[0].decode()
    try:
        names, fields = (next(read_rows(text, dialect)) for text in (header, line.decode("cp437")))
        number = next(number for number, field in enumerate(fields) if word.decode("cp437") in field)
    except (csv.Error, StopIteration):
        return f"line {lines:,}"
    name = f", column {names[number]}" if number < len(names) and names[number].isascii() and lines > 1 else ""
    return f"line {lines:,}, field {number + 1}{name}"


# Separator and quotes


def _find_separator(path: Path, dialect: Dialect, given: Mapping[str, str]) -> Dialect:
    """The dialect with its separator and quotes."""
    whole = _read_whole_rows(path, dialect)
    if whole.startswith(b"sep="):
        raise _refuse(path, "is not a table from its first line on, which begins with sep=; delete it")
    # If one field is quoted as a whole, another field with a quote in it is malformed.
    unquoted = not _DOUBLE_QUOTES.search(whole)
    quoting = [each for each in _QUOTING if not each.keys() & given.keys()]
    quoting = [each for each in quoting if unquoted or each != {"quote": "none"}]
    if _SINGLE_QUOTES.search(whole):
        quoting.sort(key=lambda each: each.get("quote") != "'")
    separators = [dialect.separator] if "separator" in given else list(SEPARATORS)
    for fields in quoting:
        tried = [dialect.model_copy(update={"separator": separator, **fields}) for separator in separators]
        fitting = [each for each in tried if _fits(whole, each)]
        if len(fitting) > 1:
            words = " or ".join(SEPARATORS[each.separator] for each in fitting)
            options = " or ".join(f"--csv separator='{each.separator}'" for each in fitting)
            raise _refuse(path, f"separated by {words}, with as many fields in every row. Say which with {options}")
        if fitting:
            return _find_quoting(path, fitting[0], quoting, "escape" in given)
    if b"\n" not in whole and b"\r" in whole:
        raise _refuse(path, "is written with carriage returns alone at the ends of lines; write it with line feeds")
    if whole.startswith(b"#"):
        raise _refuse(path, "is not a table from its first line on, which begins with #; delete it")
    # The names in the header have the separator more often than any other, even if the rows do not fit.
    header = whole.split(b"\n", 1)[0]
    counts = {each: header.count(b"\t" if each == "tab" else each.encode()) for each in separators}
    return dialect.model_copy(update={"separator": max(counts, key=lambda each: counts[each])})


def _refuse_without_header(path: Path, dialect: Dialect) -> None:
    """Raise SourceError if the first row has one name fewer than the other rows have fields, or seems to be a
    record."""
    whole = _read_whole_rows(path, dialect)
    if _fits(whole, dialect):
        if _is_record(*islice(read_rows(whole.decode("utf-8", "replace"), dialect), _ROWS)):
            raise _refuse(path, NO_HEADER)
    else:
        spaced = dialect.model_copy(update={"separator": " "})
        if _fits(whole, spaced):
            raise _refuse(path, "is separated by spaces; write commas, semicolons or tabs")
        if _fits(whole, dialect, more=1) or _fits(whole, spaced, more=1):
            raise _refuse(path, ONE_MORE)
    if _is_title(whole, dialect):
        raise _refuse(path, TITLE)


def _is_title(whole: bytes, dialect: Dialect) -> bool:
    """Whether the first line has one field that is not empty, and a table of several columns follows soon."""
    first, _, rest = whole.partition(b"\n")
    try:
        names = next(read_rows(first.decode("utf-8", "replace"), dialect), [])
    except csv.Error:
        return False
    tried = [dialect.model_copy(update={"separator": separator}) for separator in SEPARATORS]
    below = [b"\n".join(rest.split(b"\n")[lines:]) for lines in range(3)]
    in_table = any(_fits(text, each) for text in below for each in tried) if len(names) == 1 else len(names) > 2
    return sum(map(bool, names)) == 1 and in_table


def _is_record(names: Sequence[str], *rows: Sequence[str]) -> bool:
    """Whether the first row of a table may be a record, and looks like the other records."""
    alike = False
    for name, *values in zip(names, *rows, strict=True):
        present = [value for value in values if value]
        numbers = sum(map(bool, map(_NUMBER.fullmatch, present)))
        is_number, of_numbers = bool(_NUMBER.fullmatch(name)), 2 * numbers > len(present)
        few = 2 * len(set(present)) <= len(present)
        if present and (is_number != of_numbers or (few and not of_numbers and name not in present)):
            return False
        alike |= bool(present) and (is_number or name in present)
    return alike


def _read_whole_rows(path: Path, dialect: Dialect) -> bytes:
    """The beginning of a text, to the end of a line."""
    beginning = read_beginning(path, dialect)
    cut = beginning.rfind(b"\n") + 1 if len(beginning) >= LONGEST_ROW else len(beginning)
    return beginning[:cut] or beginning


def _fits(text: bytes, dialect: Dialect, more: int = 0) -> bool:
    """Whether a text has several columns, and rows with as many fields as the header, or `more` fields more."""
    try:
        names = next(read_rows(text[:LONGEST_ROW].decode("utf-8", "replace"), dialect), [])
    except csv.Error:
        return False
    rows = text.partition(b"\n")[2] if more else text
    return len(names) > 1 and bool(rows) and not judge([rows], len(names) + more, dialect).offenders


def _find_quoting(path: Path, dialect: Dialect, quoting: Sequence[Mapping[str, str]], settled: bool) -> Dialect:
    """The dialect, or one with other quotes if only with these the whole file is well-formed.

    Args:
        settled: whether a person knows how quotes are escaped.
    """
    width = len(next(read_rows(read_beginning(path, dialect).decode("utf-8", "replace"), dialect)))
    for fields in ({}, *quoting):
        tried = dialect.model_copy(update=fields)
        offenders = judge(read_text(path, tried), width, tried).offenders
        if not offenders:
            escaped = tried.model_copy(update={"escape": "backslash"})
            twice = not settled and tried != escaped and any(b"\\\\" in block for block in read_text(path, tried))
            if twice and not judge(read_text(path, escaped), width, escaped).offenders:
                options = "--csv escape=doubled or --csv escape=backslash"
                raise _refuse(path, f"two backslashes in a row may stand for one or for two. Say which with {options}")
            return tried
        if not fields and not {rule for rule, _ in offenders} & _OF_QUOTES:
            break
    return dialect
