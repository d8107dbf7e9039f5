"""What Dagster loads: the only place that knows which datasets and releases exist.

It holds the one `Definitions` object, the components and the automation. The stages themselves are in `assets`.
"""

import warnings

from dagster import BetaWarning

# Dagster warns a thousand times in each run of what it uses itself; what we use is seen when we develop.
warnings.filterwarnings("ignore", category=BetaWarning, module=r"dagster\.")
