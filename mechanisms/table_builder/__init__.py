"""The mathematics of the table builder: hypercubes, their noise and its loss, and tables that are built from them.

Arrays and plain values in and out; it imports no Dagster, DuckDB or file.
"""
