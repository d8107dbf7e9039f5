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

    def __init__(self, *, release_hook: bool) -> None:
        self.release_hook = release_hook

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        names = {name for name in declared_names() if ("/" in name) == self.release_hook}
        return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


RELEASE, DATASET = DeclaredName(release_hook=True), DeclaredName(release_hook=False)


def declared_names() -> Iterator[str]:
    """The names of datasets and releases in the files of declarations.

    A file that is not YAML is passed over: `stirred check` names it. Releases that are declared together have further
    names, which are not among them.
    """
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
