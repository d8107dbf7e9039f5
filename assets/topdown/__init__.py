"""Redistricting data by TopDown: every stage of such a release but charge, gates and publication, which all share.

Here belong the stages and what connects them with the context. The mathematics belongs in `mechanisms.topdown`.
"""
