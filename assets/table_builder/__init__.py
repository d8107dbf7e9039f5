"""The stages of the table builder: counts of a hypercube, their plan, and the tables that are built.

`mechanisms.table_builder` has the mathematics. Every hypercube is a release with its own draw, charge and publication.
"""
