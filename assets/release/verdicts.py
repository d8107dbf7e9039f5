"""The verdicts of gates that a run has already reached, so that its publication need not reach them again.

A gate may keep a verdict only if it follows from values that the gate can name at little cost, and that cannot stay the
same when the verdict changes. The replay of a draw follows from the draw id, which covers the exact counts and the
parameters, from the commitment to the key, and from the version of the output that the replay gave. Whoever relies on a
kept verdict must therefore have found those values again: the draw id from the sealed tables, the settled version in
the ledger, and the commitment by opening the key. That the stored tables still have the content that these values name
is the matter of other gates (`settled`, `counts_as_charged`), which keep no verdicts and are evaluated every time.

A gate names the values of what it has read itself, not of what should be there. A table that was altered while a gate
read it, and is restored afterwards, has therefore no verdict.

Verdicts are kept in memory, for the process and for one run of it: nobody can write one into a database, and the code
that reached it is the code that relies on it. Only that a gate found no problem is kept.
"""

from collections import OrderedDict
from threading import Lock

_RUNS_KEPT = 8


class Verdicts:
    """The verdicts that a run has reached; none at first, and none ever outside a run."""

    def __init__(self, *, in_a_run: bool = False) -> None:
        self.in_a_run = in_a_run
        self._kept: set[tuple[str | None, ...]] = set()

    def holds(self, *basis: str | None) -> bool:
        """Whether a gate found no problem on this basis: its name, and the values that its verdict follows from."""
        return None not in basis and basis in self._kept

    def keep(self, *basis: str | None) -> None:
        """Keep that a gate found no problem on this basis. Without a value in it, nothing is kept."""
        if self.in_a_run and None not in basis:
            self._kept.add(basis)


_runs: OrderedDict[str, Verdicts] = OrderedDict()
_lock = Lock()


def verdicts_of(run_id: str) -> Verdicts:
    """The verdicts of a run in this process. Those of the last few runs are kept."""
    with _lock:
        found = _runs.pop(run_id, None) or Verdicts(in_a_run=True)
        _runs[run_id] = found
        while len(_runs) > _RUNS_KEPT:
            _runs.popitem(last=False)
        return found
