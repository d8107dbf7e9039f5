"""The names that arguments of commands take, and their completion from the files of declarations alone.

A name is checked where it is used: only the loaded declarations know which releases there are.
"""

from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import CompletionItem

_DECLARATIONS = Path(__file__).parents[1] / "defs"


class DeclaredName(click.ParamType):
    """The name of a dataset, or of a release as `dataset/release`; a text to click."""

    name = "text"

    def __init__(self, *, of_release: bool) -> None:
        self.of_release = of_release

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        names = {name for name in _names() if ("/" in name) == self.of_release and name.startswith(incomplete)}
        return [CompletionItem(name) for name in sorted(names)]


RELEASE, DATASET = DeclaredName(of_release=True), DeclaredName(of_release=False)


def _names() -> Iterator[str]:
    """The names in files that are YAML; others are passed over, as `stirred check` lists them."""
    import yaml

    for path in sorted(_DECLARATIONS.rglob("*.y*ml")):
        try:
            documents = list(yaml.safe_load_all(path.read_text("utf-8")))
        except (OSError, UnicodeError, yaml.YAMLError, ValueError):
            continue
        for document in documents:
            attributes = document.get("attributes") if isinstance(document, dict) else None
            if not isinstance(attributes, dict) or "name" not in attributes:
                continue
            yield (
                f"{attributes['dataset']}/{attributes['name']}" if "dataset" in attributes else str(attributes["name"])
            )
