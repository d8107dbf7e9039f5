"""The pictures of the documentation that are generated from the code: `make pictures` draws those that are out of date.

A picture is first computed as a list of shapes. Its file contains that list, so that a test finds a stale file without
comparing pixels. Charts of results are drawn in the modules that compute the results.
"""
