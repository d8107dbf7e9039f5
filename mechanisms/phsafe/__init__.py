"""PHSafe: counts of persons in households by population group, each with its own noise (Sexton et al., "PHSafe:
Disclosure Avoidance for the 2020 Census Supplemental Demographic and Housing Characteristics File (S-DHC)", 2024).

This package holds the mathematics: the counts (`runs`), their cost (`design`), and the estimation of true counts from
noisy ones (`estimation`). The SQL in `sql/measurement` does the counting.
"""
