"""The Permutation Swapping Algorithm (PSA): the permutation, its loss, and its DP specification.

Here belongs the mathematics of Bailie, Gong and Meng, Section 3 and Appendices E and F. Tables, keys and charges belong
elsewhere.
"""
