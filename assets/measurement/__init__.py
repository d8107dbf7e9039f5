"""The shared part of all mechanisms that add noise to exact confidential counts.

- `method`: the pattern: count, publish a keyed version, charge, add noise, check; and the asset of the exact counts.
- `grid`: counts that fit into one table whose cells follow from the declaration.
"""
