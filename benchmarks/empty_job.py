"""A job with as many assets as the `ma1940` release, all empty: the time that Dagster itself takes."""

import dagster as dg

NAMES = ["cef", "invariants", "charge", "swapped", "tables", "utility", "experiment", "publication"]
NAMES += ["ledger", "composition"]


def do_nothing() -> None:
    pass


defs = dg.Definitions(
    assets=[dg.asset(name=name)(do_nothing) for name in NAMES],
    jobs=[dg.define_asset_job("ma1940__tenure_by_county")],
    executor=dg.in_process_executor,
)
