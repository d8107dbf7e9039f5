"""Server addresses in a deployment's settings. This module imports only light modules."""

from urllib.parse import urlsplit


def is_web_address(text: str) -> bool:
    """Whether a text is an address such as http://host:3000/path with a possible host and port: without user name,
    password, query or fragment, and without characters that Markdown or a terminal would interpret."""
    try:
        parts = urlsplit(text)
        found = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return found and text.isascii() and text.isprintable() and not set("@?#\\<> ") & set(text)
