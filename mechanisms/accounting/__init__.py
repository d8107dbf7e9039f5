"""Protection losses as exact values, DP specifications, and their composition.

`resources.ledger` records what was spent; each mechanism's package derives its loss from its parameters.
"""
