"""Every SQL statement of Stirred, a file each, in folders named like the rooms of `assets/`.

Here belong statements only. They are read by name through `resources.statements`, which binds values
and quotes identifiers. `resources.warehouse` puts CREATE before a statement whose result is kept; no other
Python code assembles SQL.
"""
