"""The pictures of the documentation that follow from the code: `make pictures` draws those that are not up to date.

A picture is computed as a list of shapes first, and its file carries that list, so that a test finds a stale file
without comparing pixels. Charts of results are drawn where the results are computed.
"""
