"""The characters permitted in texts that people enter, and the display of any text.

Declarations, authorizations and withdrawals refuse invisible characters. Entries and files of earlier versions, or from
other sources, may contain them. So pages, tables and messages show every text by `show_line` or `show_lines`, and also
escape their own markup: `assets.conventions` for Markdown, a template for HTML.
"""

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches

from resources.chain import NOT_CHARGED

LONGEST_LINE = 300
"""The most letters of a name that goes into the ledger or a certificate."""

LONGEST_TEXT = 10_000
"""The most letters of any text in a declaration."""

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of control characters and line breaks, of formats such as a change of the writing direction, and
of halves of characters."""

_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that Unicode classifies as letters or symbols, but pages show as a space or not at all."""

_JOINERS = frozenset("\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}")
"""Format characters that Persian, Malayalam and other scripts require. They do not move other letters."""


FORMULA_SIGNS = "=+-@"
SIGNED_NUMBER = re.compile(r"[+-][0-9]+([.,][0-9]+)?", re.ASCII)


def find_unseen(text: str, besides: str = "") -> str:
    """The first invisible character of a text, except those in `besides`; "" if there is none."""
    if text.isprintable() and _BLANK.isdisjoint(text):
        return ""
    return next((letter for letter in dict.fromkeys(text) if letter not in besides and _is_unseen(letter)), "")


def find_unfit_name(text: str) -> str:
    """Why a text, without spaces at its ends, cannot be a person's name in the ledger; "" if it can."""
    name = text.strip()
    if unseen := find_unseen(name):
        return f"has the character U+{ord(unseen):04X}, and a name is one line of plain text"
    if len(name) > LONGEST_LINE:
        return f"has at most {LONGEST_LINE} letters, and not {len(name):,}"
    return "" if any(map(str.isalnum, name)) else "has no letter"


def fold_line(text: str) -> str:
    """A text as readers perceive it: without differences in case, spaces, letter width, marks and joiners."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    words = "".join(letter for letter in folded if letter not in _JOINERS and unicodedata.category(letter) != "Mn")
    return " ".join(words.split())


def show_line(text: str) -> str:
    """A text on one line, with a space for each line break and � for each other invisible character."""
    return _replace_unseen(text, "")


def show_lines(text: str) -> str:
    """Like `show_line`, but with the text's line breaks and tabs."""
    return _replace_unseen(text, "\n\t")


def unescape_markdown(text: str) -> str:
    """A text as it was before `assets.conventions.escape_markdown`, for output that is not Markdown."""
    return _ESCAPED.sub(r"\1", text)


def read_description(result: str) -> str:
    """The description of a check's result as lines, for output that is not Markdown."""
    return unescape_markdown(result).replace(LINE_BREAK, "\n")


LINE_BREAK = "  \n"
"""The end of a line in Markdown."""

_ESCAPED = re.compile(r"\\([\\\[\]_*`<>|#~&$.)=+-])")


def describe_public(source: str) -> str:
    """A clause that reports, without a full stop, that public data are not charged, and their source."""
    return f"{NOT_CHARGED[:1].upper()}{NOT_CHARGED[1:]}: {show_line(source)}"


def suggest(name: str, known: Iterable[str]) -> str:
    """A remark to append to a misspelled name, with the known name that it abbreviates or resembles; "" if there is
    none."""
    names = sorted(known)
    abbreviated = [other for other in names if len(name) > 1 and other.startswith(name)]
    return "".join(f" (did you mean {other}?)" for other in [*abbreviated, *get_close_matches(name, names, 1, 0.7)][:1])


def is_formula(text: str) -> bool:
    """Whether a spreadsheet that opens a file with this text reads it as a formula; numbers are not formulas."""
    return text[:1] in FORMULA_SIGNS and bool(text) and not SIGNED_NUMBER.fullmatch(text)


def _replace_unseen(text: str, besides: str) -> str:
    if not find_unseen(text, besides):
        return text
    unseen = {letter for letter in set(text) - set(besides) if _is_unseen(letter)}
    return text.translate({ord(letter): " " if letter.isspace() else "�" for letter in unseen})


def _is_unseen(letter: str) -> bool:
    return letter in _BLANK or (unicodedata.category(letter) in _UNSEEN and letter not in _JOINERS)


_SPELLED = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})
"""Latin letters that Unicode does not decompose."""


def drop_accents(text: str) -> str:
    """A text in lowercase without accents, as Unicode decomposes them: `Région` becomes `region`."""
    letters = unicodedata.normalize("NFKD", text.casefold().translate(_SPELLED))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
