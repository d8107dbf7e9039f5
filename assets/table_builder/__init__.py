"""The stages that are the table builder's own: counts of a hypercube, their plan, and the tables that are built.

`mechanisms.table_builder` has the mathematics. A hypercube is a release by itself: it has its own draw, charge and
publication, so that another hypercube costs nothing but its own loss.
"""
