"""The gates that SafeTab-H adds to those of all releases and of noisy counts."""

import pyarrow as pa

from assets.gates.shared import count_problem, differing_table
from assets.release.gate import Gate, ReleaseContext
from assets.safetab.gates import parameters_gate
from assets.safetab.groups import DetailError, groups_recipe, published_totals
from assets.safetab.households import household_table_recipes, measured_tables, product_of
from assets.safetab.release import GROUPS, SafeTabHRelease
from assets.tabulation.asset import tables_gate
from resources.statements import Zone

Context = ReleaseContext[SafeTabHRelease]


def household_gates(release: SafeTabHRelease) -> list[Gate[SafeTabHRelease]]:
    return [
        parameters_gate(),
        Gate(
            "groups_as_published",
            GROUPS,
            "The groups are exactly the published totals of measured iterations, in the detail that they allow.",
            _groups,
        ),
        tables_gate(lambda session: household_table_recipes(session, release)),
        Gate("groups_complete", "tables", "Every group is in exactly one table of each family.", _complete),
    ]


def _groups(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        try:
            totals = published_totals(session, release, context.custody, context.ledger)
        except DetailError as error:
            return [str(error)]
        return differing_table(session, release.public(GROUPS), groups_recipe(session, release, totals))


def _complete(context: Context) -> list[str]:
    release, problems = context.release, []
    families: dict[str, list[str]] = {}
    for table in measured_tables(release):
        families.setdefault(table.family, []).append(product_of(table))
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for family, names in families.items():
            measured = [
                {"region_type": each.region_type.value, "level": each.level}
                for each in release.design.measured
                if each.family == family
            ]
            (groups,) = session.row(
                "safetab/groups_not_once",
                measured=session.register(f"measured_{family}", pa.Table.from_pylist(measured)),
                groups=release.public(GROUPS),
                tables=[release.public(name) for name in names],
            )
            problems += count_problem(int(groups), f"{family}: groups that are not in exactly one table")
    return problems
