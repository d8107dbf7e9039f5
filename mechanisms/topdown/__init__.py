"""TopDown: noisy marginals of every geographic unit, made consistent from the widest level to the finest.

`schema` has the counts, `allocation` and `design` their noise, `feasibility` the declarations that can be met, and
`least_squares`, `rounding` and `estimation` turn measurements into integers that meet them. Source: Bailie, Gong and
Meng, Section 4 and Algorithm 2.
"""
