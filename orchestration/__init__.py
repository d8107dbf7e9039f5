"""What Dagster loads: the only place that knows which datasets and releases exist.

Here belong the one `Definitions` object, the components, and the automation. How a stage works belongs in
`assets`.
"""
