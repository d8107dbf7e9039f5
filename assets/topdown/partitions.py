"""The partitions of a TopDown release or a DHC with `partitions: state`: one for each state, whose key is its code."""

from assets.release.method import CHARGE, Partitions, Round
from assets.stages import refuse_partition
from assets.topdown.declaration import OF_LEVELS, OF_MEASUREMENTS
from assets.topdown.release import TreeRelease
from assets.topdown.spine import read_states
from mechanisms.topdown.design import level_of_states
from resources.warehouse import Session


def state_partitions(release: TreeRelease) -> Partitions:
    """Those of the stages that each state has in a run of its own. In a redistricting release, each state is measured
    before the levels above it are estimated, and all others after them."""
    of_levels = release.estimates(level_of_states(release.levels)), release.stages_by_state
    stages = {OF_MEASUREMENTS: (CHARGE, release.measured_by_state), OF_LEVELS: of_levels}
    rounds = [Round(name, *stages[name]) for name in release.declaration.rounds]
    return Partitions(f"{release.schema}__states", rounds)


def require_state(session: Session, release: TreeRelease, state: str) -> None:
    """Raise PartitionError if a state is none of the spine, though its code may be among the keys of the partitions:
    anyone who can launch can add some. Whatever makes a state's part asks for this before anything else, in the session
    in which it reads, because each session takes time."""
    if state not in read_states(session, release):
        follows = state_partitions(release).keys_from
        raise refuse_partition(state, f"materialize {follows} again, which makes the keys of the partitions")
