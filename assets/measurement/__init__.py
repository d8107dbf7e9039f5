"""Exact confidential counts plus noise: what all mechanisms share that work so.

`method` holds the pattern, by batches of counts: count, publish a keyed version, charge, add noise, check. `grid` is
for counts that fit into one table whose cells the declaration determines, `declared` for cells that are combinations
of declared columns' values, and `counts` for the asset of the exact counts.
"""
