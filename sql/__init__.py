"""Every SQL statement of Stirred, one per file, in folders named like the packages of `assets/`.

`resources.statements` reads statements by name and quotes their identifiers. `resources.warehouse` runs them with bound
values, and puts CREATE in front of a statement whose result is kept. No other Python code assembles SQL.
"""
