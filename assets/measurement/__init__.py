"""The shared part of all mechanisms that add noise to exact confidential counts.

- `method`: the pattern, for counts in batches: count, publish a keyed version, charge, add noise, check.
- `grid`: counts that fit into one table whose cells follow from the declaration.
- `declared`: tables whose cells are the combinations of values of declared columns.
- `counts`: the asset of the exact counts.
"""
