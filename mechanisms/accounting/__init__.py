"""Protection losses as exact values, DP specifications, and their composition.

`resources.ledger` records the spending; each mechanism's package derives its loss from its parameters.
"""
