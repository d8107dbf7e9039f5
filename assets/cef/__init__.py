"""From a source to the census edited file (CEF): the validated confidential microdata of one dataset.

Here belong how a dataset is declared, how its source is read, what every row must satisfy, and the asset
that writes the tables. What is computed from the CEF belongs in the rooms after this one.
"""
