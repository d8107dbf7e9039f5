"""The Permutation Swapping Algorithm (PSA): the permutation, its loss, and its DP specification. Source: Bailie, Gong
and Meng, Section 3 and Appendices E and F."""
