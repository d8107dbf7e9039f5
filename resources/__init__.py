"""Everything that keeps state between runs: the warehouse (DuckDB), the custody of keys, and the budget ledger.

The mathematics is in `mechanisms`. The stages that use these resources are in `assets`.
"""
