"""TopDown: noisy marginals of every geographic unit, made consistent from the widest level to the finest.

This package holds the mathematics: what is counted (`schema`), with which noise (`allocation`, `design`), which
declarations can be met (`feasibility`), and how measurements become integers that meet them (`least_squares`,
`rounding`, `estimation`). `assets.topdown` handles trees, tables, noise and charges. Source: Bailie, Gong and Meng,
Section 4 and Algorithm 2.
"""
