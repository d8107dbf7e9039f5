"""Protection losses as exact values, DP specifications, and what adds up to what.

Here belongs what a loss *is* and how losses compose. The record of what was spent belongs in
`resources.ledger`; how a mechanism's loss follows from its parameters belongs with the mechanism.
"""
