"""Suppression: omitting cells of linked tables, so that the other cells do not reveal them."""
