"""The stage `plan` of every kind of release: what it would charge and how exact it would be, before data exist."""
