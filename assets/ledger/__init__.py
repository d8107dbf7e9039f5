"""The ledger and its totals as assets: all charges, and their composition for each dataset."""
