"""Text for the explorer's pages: literal names and labels, and numbers in a readable form."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from assets.texts import show_line

_MARKS = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~$:^&])")
_REPLACED = re.compile(r"(?<=:)(?=//|material/|streamlit:)|(?<=www)(?=\.)|(?=@)|(?<=[-<>~])(?=[-=>])", re.IGNORECASE)
"""The places where Streamlit makes links, pictures and arrows out of text after it has removed the escapes."""
ON_GRID = (
    "A quantile is a step of the declared grid. Where both ends of its interval are the same, no other step lies in it."
)
"""The note for readers of quantiles with intervals."""
_JOINER = "\N{WORD JOINER}"


def escape(text: Any) -> str:
    """A text that Streamlit shows literally, although it takes its texts for Markdown: a publication's text must
    neither look like the page's own nor make the browser fetch a picture. No line breaks beside an equals sign."""
    words = " ".join(show_line(str(text)).split()).replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    return _MARKS.sub(r"\\\1", _REPLACED.sub(_JOINER, words))


def distinguish(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels by value; a label that several values share is followed by the value."""
    times = Counter(labels.values())
    return {value: label if times[label] == 1 else f"{label} ({value})" for value, label in labels.items()}


def join_levels(label: str) -> str:
    """A label that lists its containing cells, in words: `!!Total:!!One race` is `Total: One race`."""
    if "!!" not in label:
        return label
    return ": ".join(part.strip(": ") for part in label.split("!!") if part.strip(": "))


def format_figure(value: Any) -> str:
    """A number with commas, and with two decimals if it is not whole; a dash for a missing or infinite one."""
    if isinstance(value, bool | str):
        return str(value)
    if value is None or not math.isfinite(value):
        return "–"
    whole = isinstance(value, int) or value == int(value)
    return f"{int(value):,}" if whole else f"{value:,.2f}"
