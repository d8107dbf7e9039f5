"""The ledger and its totals as assets: what was charged, and what it comes to for each dataset."""
