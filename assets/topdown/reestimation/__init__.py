"""Redistricting data estimated anew from published noisy measurements, without reading records or charging budget."""
