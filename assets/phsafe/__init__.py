"""Noisy measurements of PHSafe: the confidential counts that noise is added to, and what truncation costs.

Here belong the stages between the CEF and the measurements. Which run counts what is said in `sql/measurement`
(universes, cells, iterations) under the names of `mechanisms.phsafe.runs`.
"""
