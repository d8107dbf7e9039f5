"""The mathematics of the table builder: hypercubes, their noise and its loss, and tables that are built from them."""
