"""Exact sampling: from the bits of a cipher to integers, choices and derangements.

Here belong random streams and samplers whose output distribution is the stated one, with no rounding. What a
mechanism does with a sample belongs with the mechanism.
"""
