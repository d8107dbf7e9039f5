"""Suppression: cells of linked tables that are left out, so that no other cell gives them away."""
