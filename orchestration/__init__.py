"""The part that Dagster loads, and the only one that knows the datasets and releases.

It holds the one `Definitions` object, the components and the automation. The stages themselves are in `assets`.
"""

import ctypes
import gc
import warnings
from contextlib import suppress

# Dagster warns a thousand times in each run of what it uses itself; what we use is seen when we develop. By the words
# and not by the class, so that help needs no Dagster.
warnings.filterwarnings("ignore", message=r".* is currently in beta, and may", module=r"dagster\.")

# Some 300,000 objects are loaded that live as long as the process. With the 700 of Python 3.11, a seventh of the time
# in which they are loaded goes into looking for garbage among them.
gc.set_threshold(50_000, 20, 20)

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

# An array of at least 8 MiB is given back to the system as soon as it is freed, and so is memory for smaller ones of
# which 8 MiB lie free. Left alone, the GNU C library raises these limits with the arrays that it sees freed, to 32 and
# 64 MiB. With low ones, a tenth of a release's time goes into pages that are given back and taken again. Other
# libraries have no such settings.
with suppress(AttributeError):
    _library = ctypes.CDLL(None)
    _library.mallopt(_M_MMAP_THRESHOLD, 8 << 20)
    _library.mallopt(_M_TRIM_THRESHOLD, 8 << 20)
