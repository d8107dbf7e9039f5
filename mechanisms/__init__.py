"""The mathematics of Stirred: arrays and plain values in, arrays and plain values out.

This package holds mechanisms, samplers and accounting. It uses no Dagster, no DuckDB, no file and no clock:
`resources` holds state, and `assets` defines what runs in a release.
"""
