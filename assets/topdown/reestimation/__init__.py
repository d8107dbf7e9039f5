"""Redistricting data estimated anew from published noisy measurements: no record is read and nothing is charged."""
