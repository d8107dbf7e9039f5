"""The canonical text of a value, which hashes and seals are computed over."""

import json
from typing import Any


def canonicalize(value: Any) -> bytes:
    """The canonical JSON form of a value, for hashing.

    Raises:
        TypeError: if the value contains anything but text, integers, booleans, None, lists, and mappings with text
            keys.
    """
    _refuse_ambiguous(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _refuse_ambiguous(value: Any, where: str = "value") -> None:
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{where} has a key that is a {type(key).__name__}, not text")
            _refuse_ambiguous(part, f"{where}.{key}")
    elif isinstance(value, list):
        for part in value:
            _refuse_ambiguous(part, f"{where}[]")
    elif not (value is None or isinstance(value, str | int)):
        raise TypeError(f"{where} is a {type(value).__name__}; only text, integers, booleans and None are hashed")
