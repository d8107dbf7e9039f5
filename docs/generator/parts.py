"""The generated parts of pages. A line that holds nothing but `{{ made: NAME }}` stands for one of them."""

import re
from collections.abc import Callable, Mapping

from docs.generator.commands import commands_page
from docs.generator.fields import components_page

PARTS: Mapping[str, Callable[[], str]] = {"commands": commands_page, "components": components_page}
"""What each part is made by."""

PLACE = re.compile(r"^\{\{ made: (\w+) \}\}$", re.MULTILINE)
"""The line that stands for a part."""


def filled_in(markdown: str) -> str:
    """A page with its generated parts.

    Raises:
        KeyError: if the page names a part that there is not.
    """
    return PLACE.sub(lambda place: PARTS[place[1]](), markdown)
