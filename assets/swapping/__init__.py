"""The swap: one draw of the Permutation Swapping Algorithm, under its charge."""
