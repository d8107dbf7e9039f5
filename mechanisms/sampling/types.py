"""Names for the arrays that samplers exchange."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]
Indices: TypeAlias = NDArray[np.int32]
