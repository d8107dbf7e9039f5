"""What releases without randomness share: their tables of counts, their charge of ε = ∞, and how they are stored."""
