"""The laboratory: an attacker's gain and a user's loss under several methods, on the same synthetic records.

`records` reads the tracts, and a method's module `laboratory` publishes from them. `attacks` guess in a process of
their own (`process`, which `attacking` starts), which receives only the values of `publication`. `evaluation` alone
compares guesses with the records. The laboratory neither publishes nor charges.
"""
