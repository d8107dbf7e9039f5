"""The stages of permutation swapping: invariants, the swap as one charged draw, utility metrics and tables."""
