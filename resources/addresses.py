"""Addresses of servers that a deployment's settings name. Nothing heavy is imported here."""

from urllib.parse import urlsplit


def is_web_address(text: str) -> bool:
    """Whether a text is an address such as http://host:3000/path with a possible host and port, and nothing else: no
    name, password, query or fragment, and nothing that Markdown or a terminal could take for more."""
    try:
        parts = urlsplit(text)
        found = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return found and text.isascii() and text.isprintable() and not set("@?#\\<> ") & set(text)
