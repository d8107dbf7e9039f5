"""The Demographic and Housing Characteristics File (DHC): TopDown over histograms of a million cells and more, within
the counts of a published redistricting release.

`persons` and `households` have the counts, and `allocation` their noise; `passes` has the steps by which a place's
children are estimated, and `estimation` carries them out on the cells that the parent has.

Sources: the Census Bureau's production code of the 2020 DHC (its configurations of persons and units, strategies,
schemas and constraints), and Bailie, Gong and Meng, Section 4.
"""
