"""What the site shows of the code itself, made when it is built, so that no page of it can be out of date.

`fields` shows the fields of the components, and `commands` the commands of `stirred`. `parts` puts them into the pages,
and `hooks` is what MkDocs calls.
"""
