"""The shared parts of releases without randomness: their tables of counts, their charge of ε = ∞, and their storage."""
