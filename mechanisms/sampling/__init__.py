"""Exact sampling: from the bits of a cipher to integers, choices and derangements.

The samplers have exactly the stated distributions, with no rounding.
"""
