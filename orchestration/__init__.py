"""The part that Dagster loads, and the only one that knows the datasets and releases.

It holds the one `Definitions` object, the components and the automation. The stages themselves are in `assets`.
"""

import ctypes
import gc
import warnings
from contextlib import suppress

# Dagster uses its own beta features and warns of each a thousand times a run. We see the warnings about our own uses
# during development. The filter matches the words, not the class, so that help needs no Dagster.
warnings.filterwarnings("ignore", message=r".* is currently in beta, and may", module=r"dagster\.")

# About 300,000 loaded objects live as long as the process. With the threshold of Python 3.11, 700, a seventh of the
# loading time goes into garbage collection among them.
gc.set_threshold(50_000, 20, 20)

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

# An array of at least 8 MiB is returned to the system as soon as it is freed, and so is memory for smaller arrays once
# 8 MiB of it are free. By default, the GNU C library raises these limits with the sizes of freed arrays, to 32 and 64
# MiB. With low limits, a tenth of a release's time goes into pages that are returned and taken again. Other libraries
# have no such settings.
with suppress(AttributeError):
    _library = ctypes.CDLL(None)
    _library.mallopt(_M_MMAP_THRESHOLD, 8 << 20)
    _library.mallopt(_M_TRIM_THRESHOLD, 8 << 20)
