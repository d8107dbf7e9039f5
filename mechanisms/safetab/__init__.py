"""SafeTab-P and SafeTab-H: counts by detailed race and ethnicity group, in a detail that the group's size determines.

This package holds the mathematics: which groups there are (`lists`), which cells are measured in which detail
(`details`), at what cost (`design`), how SafeTab-P chooses the detail (`adaptive`), and what a budget buys
(`planning`). The SQL in `sql/safetab` does the counting. Source: the Census Bureau's specifications and production
configurations of SafeTab-P 5.0.0 and SafeTab-H 3.0.0.
"""
