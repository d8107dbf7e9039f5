"""What every kind of release has: the values that stages exchange, and the interface that a mechanism fills in.

Nothing here imports a stage. `method` is the interface; `release`, `dataset`, `columns` and `numbers` hold what is
declared; `draw`, `gate`, `published` and `statement` are what stages hand to each other.
"""
