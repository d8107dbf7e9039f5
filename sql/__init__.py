"""Every SQL statement of Stirred, a file each, in folders named like the rooms of `assets/`.

Here belong statements only. They are read by name through `resources.statements`, which binds values
and quotes identifiers; no Python code assembles SQL text anywhere else.
"""
