"""The partitions of a TopDown release or a DHC with `partitions: state`: one for each state, whose key is its code."""

from collections.abc import Collection

import dagster as dg

from assets.release.method import Partitions
from assets.topdown.release import TreeRelease
from mechanisms.topdown.design import level_of_states


def state_partitions(release: TreeRelease) -> Partitions:
    """Those of the stages that each state has in a run of its own."""
    keys_from = release.estimates(level_of_states(release.levels))
    return Partitions(f"{release.schema}__states", keys_from, release.stages_by_state)


def keep_keys(context: dg.AssetExecutionContext, release: TreeRelease, states: Collection[str]) -> None:
    """Make the codes of the states the keys of the partitions, and no others."""
    name = state_partitions(release).name
    for state in set(context.instance.get_dynamic_partitions(name)).difference(states):
        context.instance.delete_dynamic_partition(name, state)
    context.instance.add_dynamic_partitions(name, list(states))
