"""How Hypothesis runs here: the same examples every time, and no deadline, because the first one may wait for numba."""

from hypothesis import settings

settings.register_profile("exact", deadline=None, derandomize=True)
settings.load_profile("exact")
