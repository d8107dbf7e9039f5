"""The stage `plan` of every kind of release: its charge and accuracy, before data exist."""
