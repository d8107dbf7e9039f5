"""The parts common to all releases: the values that stages exchange, and the interface that a mechanism implements.

This package imports no shared stage. `method` is the interface, and `stage` makes the assets. `release`, `dataset`,
`columns` and `numbers` define declarations. `draw`, `gate`, `published` and `statement` define the values that stages
exchange. `seal` and `contents` prove what is stored.
"""
