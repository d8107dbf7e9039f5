"""What the site shows of the code itself, made when it is built, so that no page of it can be out of date.

`parts` makes the commands of `stirred` and puts all parts into the pages, `fields` makes the fields of the components,
and `hooks` is what MkDocs calls.
"""
