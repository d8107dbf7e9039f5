"""The laboratory: what an attacker learns, and what a user loses, by several methods on the same synthetic records.

`records` reads the tracts, and a method's module `laboratory` publishes from them. `attacks` guess in a process of
their own (`process`, which `attacking` starts), to which only `publication` gives anything. `evaluation` alone compares
guesses with the records. Nothing here is published or charged.
"""
