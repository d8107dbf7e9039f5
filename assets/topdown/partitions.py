"""The partitions of a TopDown or DHC release with `partitions: state`: one per state, with the state's code as its
key."""

from assets.release.method import CHARGE, Partitions, Round
from assets.stages import refuse_partition
from assets.topdown.declaration import OF_LEVELS, OF_MEASUREMENTS
from assets.topdown.release import TreeRelease
from assets.topdown.spine import read_states
from mechanisms.topdown.design import level_of_states
from resources.warehouse import Session


def state_partitions(release: TreeRelease) -> Partitions:
    """The partitions of the stages in which each state has its own run. In a redistricting release, the first round
    measures each state before the levels above it are estimated; the other round follows those levels."""
    of_levels = release.estimates(level_of_states(release.levels)), release.stages_by_state
    stages = {OF_MEASUREMENTS: (CHARGE, release.measured_by_state), OF_LEVELS: of_levels}
    rounds = [Round(name, *stages[name]) for name in release.declaration.rounds]
    return Partitions(f"{release.schema}__states", rounds)


def require_state(session: Session, release: TreeRelease, state: str) -> None:
    """Raise PartitionError if a state is not in the spine. Its code may still be among the keys of the partitions,
    because anyone who can launch runs can add keys. Code that makes a state's part calls this first, in the session in
    which it reads, because each session takes time."""
    if state not in read_states(session, release):
        follows = state_partitions(release).keys_from
        raise refuse_partition(state, f"materialize {follows} again, which makes the keys of the partitions")
