"""Exact sampling: from the bits of a cipher to integers, choices and derangements, with no rounding."""
