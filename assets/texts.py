"""The characters that a text may have which a person gives, and how any text is shown.

A declaration, an authorization and a withdrawal refuse what cannot be seen. Entries and files of earlier versions may
have it, and those of others too. A page, a table or a message therefore shows every text by `show_line` or
`show_lines`, and escapes its own marks besides: `assets.conventions` for Markdown, a template for HTML.
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
"""What Unicode has among letters and symbols, and a page shows as a space or as nothing."""

_JOINERS = frozenset("\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}")
"""Formats that Persian, Malayalam and other scripts cannot be written without. They move no other letter."""


FORMULA_SIGNS = "=+-@"
SIGNED_NUMBER = re.compile(r"[+-][0-9]+([.,][0-9]+)?", re.ASCII)


def find_unseen(text: str, besides: str = "") -> str:
    """The first character of a text that cannot be seen, and is none of `besides`; "" if there is none."""
    if text.isprintable() and _BLANK.isdisjoint(text):
        return ""
    return next((letter for letter in dict.fromkeys(text) if letter not in besides and _is_unseen(letter)), "")


def find_unfit_name(text: str) -> str:
    """Why a text, without spaces at its ends, is no name of a person in the ledger; "" if it can be one."""
    name = text.strip()
    if unseen := find_unseen(name):
        return f"has the character U+{ord(unseen):04X}, and a name is one line of plain text"
    if len(name) > LONGEST_LINE:
        return f"has at most {LONGEST_LINE} letters, and not {len(name):,}"
    return "" if any(map(str.isalnum, name)) else "has no letter"


def fold_line(text: str) -> str:
    """A text as a reader takes it: without differences of case, spaces, the width of letters, marks and what joins
    them."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    words = "".join(letter for letter in folded if letter not in _JOINERS and unicodedata.category(letter) != "Mn")
    return " ".join(words.split())


def show_line(text: str) -> str:
    """A text on one line: a space for each line break, and � for each other character that cannot be seen."""
    return _replace_unseen(text, "")


def show_lines(text: str) -> str:
    """A text as `show_line` shows it, but with its line breaks and tabs."""
    return _replace_unseen(text, "\n\t")


def unescape_markdown(text: str) -> str:
    """A text as it was before `assets.conventions.escape_markdown`, to be shown where nothing reads Markdown."""
    return _ESCAPED.sub(r"\1", text)


def read_description(result: str) -> str:
    """The description of a check's result as lines, to be shown where nothing reads Markdown."""
    return unescape_markdown(result).replace(LINE_BREAK, "\n")


LINE_BREAK = "  \n"
"""The end of a line in Markdown."""

_ESCAPED = re.compile(r"\\([\\\[\]_*`<>|#~&$.)=+-])")


def describe_public(source: str) -> str:
    """That nothing was charged for public data, and where they come from, without a full stop."""
    return f"{NOT_CHARGED[:1].upper()}{NOT_CHARGED[1:]}: {show_line(source)}"


def suggest(name: str, known: Iterable[str]) -> str:
    """The known name that a misspelled one resembles, as a remark behind it; nothing if it resembles none."""
    return "".join(f" (did you mean {other}?)" for other in get_close_matches(name, known, 1))


def is_formula(text: str) -> bool:
    """Whether a spreadsheet that opens a file with this text takes it for a formula; a number is none."""
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
    """A text in small letters without their accents, as Unicode decomposes them: `Région` is `region`."""
    letters = unicodedata.normalize("NFKD", text.casefold().translate(_SPELLED))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
