"""The names that commands take as arguments, their completion from the files of declarations alone, and the command
`completion`.

A name is checked where it is used, because only the loaded declarations tell which releases exist.
"""

from collections.abc import Iterator

import click
from click.shell_completion import CompletionItem, get_completion_class

from resources.project import DECLARATIONS, list_files
from resources.regular import read_regular


class DeclaredName(click.ParamType):
    """The name of a dataset, or of a release as `dataset/release`; a text to click."""

    name = "text"

    def __init__(self, *, of_release: bool) -> None:
        self.of_release = of_release

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        names = {name for name in list_declared_names() if ("/" in name) == self.of_release}
        return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


RELEASE, DATASET = DeclaredName(of_release=True), DeclaredName(of_release=False)


def list_declared_names() -> Iterator[str]:
    """The names in the files of declarations, without the further names of releases that are declared together. A file
    that is not YAML is skipped: `stirred check` reports it."""
    import yaml

    for path in list_files(DECLARATIONS):
        try:
            text = read_regular(path).decode("utf-8")
            documents = list(yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        except (OSError, UnicodeError, yaml.YAMLError, ValueError):
            continue
        for document in documents:
            attributes = document.get("attributes") if isinstance(document, dict) else None
            if isinstance(attributes, dict) and "name" in attributes:
                name = str(attributes["name"])
                yield f"{attributes['dataset']}/{name}" if "dataset" in attributes else name


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands in a shell. It also completes options and releases.

    For bash, put `source <(stirred completion bash)` into ~/.bashrc.
    """
    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(complete(context.find_root().command, {}, "stirred", "_STIRRED_COMPLETE").source())
