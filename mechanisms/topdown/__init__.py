"""TopDown: noisy marginals of every geographic unit, made consistent from the widest level to the finest.

What is counted is in `schema`, with which noise in `allocation` and `design`, which declarations can be met in
`feasibility`, and how measurements become integers that meet them in `least_squares`, `rounding` and `estimation`.
Source: Bailie, Gong and Meng, Section 4 and Algorithm 2.
"""
