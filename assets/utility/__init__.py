"""How far the swapped data are from the confidential ones: figures and pictures that stay in the house.

Here belongs what compares with the truth, and so is never published. What is published belongs in
`publication`.
"""
