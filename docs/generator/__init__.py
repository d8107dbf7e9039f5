"""The parts of the site that follow from the code, made when it is built, so that none can be out of date.

`parts` makes the commands of `stirred` and has the hooks that put all parts into the pages; `fields` makes the fields
of the components.
"""
