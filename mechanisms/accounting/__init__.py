"""Protection losses as exact values, DP specifications, and their composition.

This package defines losses and how they compose. `resources.ledger` records what was spent; each mechanism's package
derives its loss from its parameters.
"""
