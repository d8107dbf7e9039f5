"""What holds state: the warehouse (DuckDB), the custody of keys, the budget ledger.

Here belongs everything that survives a run. What a mechanism computes belongs in `mechanisms`; what a
stage of a release does with these belongs in `assets`.
"""
