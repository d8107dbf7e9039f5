"""SafeTab-P and SafeTab-H: counts by detailed race and ethnicity group, in a detail that the group's size determines.

This package holds the mathematics: the groups (`lists`), the cells measured in each detail (`details`), the cost
(`design`), SafeTab-P's choice of detail (`adaptive`), and the accuracy that a budget buys (`planning`). The SQL in
`sql/safetab` does the counting. Source: the Census Bureau's specifications and production configurations of SafeTab-P
5.0.0 and SafeTab-H 3.0.0.
"""
