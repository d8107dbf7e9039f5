"""The stages of releases as Dagster assets.

Stages are thin: they read tables, call a mechanism, write tables, and attach metadata and checks. Stages that all
mechanisms share have packages of their own; the other stages are in the package of their mechanism. The mathematics is
in `mechanisms`, the resources are in `resources`, and the deployment's releases are declared in `orchestration`.
"""
