"""Coarsening: records in places and combinations that are large enough."""
