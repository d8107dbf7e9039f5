"""Exact sampling: from the bits of a cipher to integers, choices and derangements.

This package holds random streams, and samplers that have exactly the stated distribution, with no rounding. Each
mechanism's package uses the samples.
"""
