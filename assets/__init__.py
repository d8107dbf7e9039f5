"""The stages of a release as Dagster assets, one room a stage.

A room is thin: it reads tables, calls a mechanism, writes tables, and attaches metadata and checks. The
mathematics belongs in `mechanisms`, what holds state in `resources`, and which releases exist in
`orchestration`.
"""
