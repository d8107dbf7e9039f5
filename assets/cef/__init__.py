"""From a source to the census edited file (CEF): the validated confidential microdata of one dataset.

This package reads a source, validates every row, and writes the tables as an asset. The declaration of a dataset is in
`assets.release.dataset`.
"""
