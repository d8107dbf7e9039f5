"""PHSafe: counts of persons in households by population group, each with its own noise (Sexton et al., "PHSafe:
Disclosure Avoidance for the 2020 Census Supplemental Demographic and Housing Characteristics File (S-DHC)", 2024).

This package holds the mathematics: what is counted (`runs`), at what cost (`design`), and what the noisy counts say
about the true ones (`estimation`). The SQL in `sql/measurement` does the counting.
"""
