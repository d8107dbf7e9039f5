"""The shared part of all mechanisms that add noise to exact confidential counts: `method` has the pattern, and `grid`
is for counts that fit into one table whose cells follow from the declaration."""
