"""The hooks that MkDocs calls while it builds the site.

The generated parts of pages are filled in. `CONTRIBUTING.md` and `CHANGELOG.md`, which people look for in the project's
folder, become pages of the site too.
"""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs.generator.parts import fill_in

ADDED_PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
"""Pages of the site that are files in the project's folder."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that lie in the project's folder; their links to `docs/` become links within the site."""
    root = Path(config.docs_dir).parent
    for page, name in ADDED_PAGES.items():
        text = (root / name).read_text("utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Fill in the generated parts of a page."""
    return fill_in(markdown)
