"""The page *Plan*."""


def show() -> None:
    """Draw the page."""
