"""What leaves the context: the data files, the data dictionary, the certificate, and the folder they stand in.

Here belongs how a release is written down and put in place. What is in the tables belongs in `tabulation`;
whether they may leave belongs to the gates.
"""
