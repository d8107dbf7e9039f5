"""Tables from the swapped data: the products a release declares, and the saturated contingency table."""
