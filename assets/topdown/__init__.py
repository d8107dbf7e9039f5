"""The stages of TopDown: spine, invariants, histograms, noisy measurements, estimates, microdata and tables.

Charge, gates and publication are shared by all mechanisms. The mathematics is in `mechanisms.topdown`.
"""
