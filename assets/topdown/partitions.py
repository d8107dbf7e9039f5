"""The partitions of a TopDown release or a DHC with `partitions: state`: one for each state, whose key is its code."""

import dagster as dg

from assets.release.method import CHARGE, Partitions, Round
from assets.stages import read_partition
from assets.topdown.declaration import OF_LEVELS, OF_MEASUREMENTS
from assets.topdown.release import TreeRelease
from assets.topdown.spine import read_states
from mechanisms.topdown.design import level_of_states
from resources.statements import Zone
from resources.warehouse import Warehouse


def state_partitions(release: TreeRelease) -> Partitions:
    """Those of the stages that each state has in a run of its own. In a redistricting release, each state is measured
    before the levels above it are estimated, and all others after them."""
    of_levels = release.estimates(level_of_states(release.levels)), release.stages_by_state
    stages = {OF_MEASUREMENTS: (CHARGE, release.measured_by_state), OF_LEVELS: of_levels}
    rounds = [Round(name, *stages[name]) for name in release.declaration.rounds]
    return Partitions(f"{release.schema}__states", rounds)


def read_state(context: dg.AssetExecutionContext, warehouse: Warehouse, release: TreeRelease) -> str:
    """The code of the state that a run makes. Raises PartitionError if it is none of the spine, though it may be among
    the keys of the partitions: anyone who can launch can add some."""
    with release.adapt(warehouse).session(reads=[Zone.PUBLIC]) as session:
        states = read_states(session, release)
    remedy = f"materialize {state_partitions(release).keys_from} again, which makes the keys of the partitions"
    return read_partition(context, states, remedy)
