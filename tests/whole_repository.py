"""In-process runs that know the whole repository they are in, as those of a deployment do.

This is the only module of the project that imports a private part of Dagster. A run that `dg launch` starts knows its
repository, and `context.repository_def` gives it; one that `execute_in_process` starts does not, and Dagster 1.13 has
no public way to tell it. Its `InMemoryJob` answers None when it is asked for the repository; here it answers with one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob


@contextmanager
def known(repository: dg.RepositoryDefinition) -> Iterator[None]:
    """Runs that `execute_in_process` starts meanwhile belong to the repository."""
    with patch.object(InMemoryJob, "get_repository_definition", lambda job: repository):
        yield
