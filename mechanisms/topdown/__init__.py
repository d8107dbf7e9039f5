"""TopDown: noisy marginals of every geographic unit, made consistent from the widest level to the finest.

Here belongs the mathematics: what is counted (`schema`), with which noise (`production`), what declarations can be
met (`feasibility`), and how measurements become integers that meet them (`least_squares`, `rounding`, `estimation`).
Trees, tables, noise and charges belong elsewhere. Source: Bailie, Gong and Meng, Section 4 and Algorithm 2.
"""
