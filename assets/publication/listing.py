"""The list of all publications as a page, and the addresses of published files.

A deployment may serve the folder of publications, with any web server that serves files. If it says under which
address (`STIRRED_PUBLISHED_URL`), the UI links to the files there; otherwise it shows their paths below that folder.
"""

import re
from html import escape
from pathlib import Path
from urllib.parse import quote

import dagster as dg

from assets.conventions import escape_markdown
from assets.publication.placement import place_file, publications
from assets.release.release import Release

LISTING = "index.html"
_OURS = re.compile(r"[a-z0-9_]+/[a-z0-9_]+")
"""What the names of a dataset and a release are made of."""


def link(release: Release, name: str = "") -> dg.MetadataValue:
    """A published file, or the folder: a link if publications are served, otherwise its path below their folder.

    The link is shown as the name of the file: an address or a whole path is too long for the page, and would be cut.
    """
    path = "/".join((release.dataset.name, release.name, name))
    if release.address:
        address = f"{release.address.rstrip('/')}/{quote(path)}"
        return dg.MetadataValue.md(f"[{escape_markdown(name or release.name)}](<{address}>)")
    return dg.MetadataValue.path(path)


def write_listing(published: Path) -> None:
    """Write the page that lists all publications, with a link to each certificate.

    Raises:
        OSError: if it cannot be written.
    """
    lines = [
        f'<li><a href="{quote(path)}/certificate.html">{escape(path)}</a> (<a href="{quote(path)}/">files</a>)</li>'
        for path in map("/".join, publications(published))
        # Somebody else may have put a folder here, under a name that is no text at all.
        if _OURS.fullmatch(path)
    ]
    page = ["<!doctype html>", '<html lang="en">', '<meta charset="utf-8">', "<title>Publications</title>"]
    unsigned = "<p>This list is not signed. Each publication is: check it with the public key.</p>"
    page += ['<meta name="viewport" content="width=device-width">', "<h1>Publications</h1>", unsigned]
    page += ["<ul>", *lines, "</ul>"]
    place_file(published / LISTING, "\n".join([*page, "</html>", ""]).encode())
