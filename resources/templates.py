"""Compiled templates, stored beside Python's own compiled modules: compiling a template takes longer than filling it
in.

The templates and their use are in `statements` and in `assets.release.prose`.
"""

import os
import sys
from hashlib import sha256
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, FileSystemBytecodeCache

FOLDER = Path(__file__).with_name("__pycache__")
"""Users who can write here can replace the code of this package too."""


class _CompiledTemplates(FileSystemBytecodeCache):
    """Compiled templates by their inputs: their name and source, Jinja's version, and the environment's."""

    def __init__(self, version: str) -> None:
        super().__init__(str(FOLDER))
        self._version = version

    def get_source_checksum(self, source: str) -> str:
        return sha256(f"{jinja2.__version__} {self._version} {source}".encode()).hexdigest()

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        # Files of prose have headings of the same name.
        return sha256(f"{name} {filename} {self._version}".encode()).hexdigest()

    def dump_bytecode(self, bucket: Bucket) -> None:
        if not sys.dont_write_bytecode and os.access(FOLDER, os.W_OK):
            super().dump_bytecode(bucket)


def keep_compiled(environment: Path, *texts: str) -> FileSystemBytecodeCache:
    """The cache of compiled templates of a Jinja environment.

    Args:
        environment: the module that makes the environment, because code follows from its settings and filters.
        texts: all templates of an environment without files.
    """
    version = sha256(b"".join([environment.read_bytes(), *(text.encode() for text in texts)]))
    return _CompiledTemplates(version.hexdigest())
