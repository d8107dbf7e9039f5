"""The partitions of a TopDown release or a DHC with `partitions: state`: one for each state, whose key is its code."""

from collections.abc import Collection

import dagster as dg

from assets.measurement.method import MEASUREMENTS
from assets.release.method import Partitions, Round
from assets.topdown.declaration import OF_INFORMATION, OF_LEVELS
from assets.topdown.release import INFORMATION_OF_STATES, TreeRelease
from mechanisms.topdown.design import level_of_states


def state_partitions(release: TreeRelease) -> Partitions:
    """Those of the stages that each state has in a run of its own. With full estimation, there is a round before that
    of the levels: what is measured in a state is put together before the levels above are estimated."""
    of_levels = release.estimates(level_of_states(release.levels)), release.stages_by_state
    stages = {OF_INFORMATION: (MEASUREMENTS, [INFORMATION_OF_STATES]), OF_LEVELS: of_levels}
    return Partitions(f"{release.schema}__states", [Round(name, *stages[name]) for name in release.rounds])


def keep_keys(instance: dg.DagsterInstance, release: TreeRelease, states: Collection[str]) -> None:
    """Make the codes of the states the keys of the partitions, and no others."""
    name = state_partitions(release).name
    for state in set(instance.get_dynamic_partitions(name)).difference(states):
        instance.delete_dynamic_partition(name, state)
    instance.add_dynamic_partitions(name, list(states))
