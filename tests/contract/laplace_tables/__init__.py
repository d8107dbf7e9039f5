"""A worked example of a further mechanism: declared tables with discrete Laplace noise.

CONTRIBUTING.md goes through it file by file. In a deployment, `design` would be `mechanisms/laplace_tables/design.py`,
`declaration`, `release` and `method` would be in `assets/laplace_tables/`, and `component` would be
`orchestration/components/laplace_tables.py`. The tests in `tests/contract` run it like every other kind of release.
"""

from tests.contract.laplace_tables.component import LaplaceTables

__all__ = ["LaplaceTables"]
