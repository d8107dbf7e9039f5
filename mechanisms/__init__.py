"""The mathematics of Stirred: arrays and plain values in, arrays and plain values out.

Here belong mechanisms, samplers and accounting. No Dagster, no DuckDB, no file and no clock: whatever
holds state belongs in `resources`, whatever runs in a release belongs in `assets`.
"""
