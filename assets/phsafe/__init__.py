"""The stages of PHSafe: truncated join, exact counts, noisy measurements, post-processing and finished tables.

The SQL in `sql/phsafe` defines what each run counts (universes, cells, iterations), under the names of
`mechanisms.phsafe.runs`.
"""
