"""The publication of a release: its data files, data dictionary and certificate, and their folder.

The tables come from the mechanism's stages, and the gates decide whether they may be published.
"""
