"""What every release has: the values that stages exchange, and the interface that a mechanism implements.

Nothing here imports a stage. `method` is the interface. `release`, `dataset`, `structure`, `columns` and `numbers`
define declarations. `draw`, `gate`, `published` and `statement` define the values that stages exchange.
"""
