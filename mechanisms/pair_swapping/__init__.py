"""Targeted swapping of pairs, as in the 2010 census: no finite ε bounds it, so it is for comparison only."""
