"""What Dagster loads: the only place that knows which datasets and releases exist.

It holds the one `Definitions` object, the components and the automation. The stages themselves are in `assets`.
"""
