"""In-process runs that know the whole repository, as runs of a deployment do.

This is the only module of the project that imports a private part of Dagster. In a run that `dg launch` starts,
`context.repository_def` returns the repository. In one that `execute_in_process` starts it does not, and Dagster 1.13
has no public way to set it: its `InMemoryJob` returns None for the repository. This module makes it return one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob


@contextmanager
def known(repository: dg.RepositoryDefinition) -> Iterator[None]:
    """Give this repository to all runs that `execute_in_process` starts in this context."""
    with patch.object(InMemoryJob, "get_repository_definition", lambda job: repository):
        yield
