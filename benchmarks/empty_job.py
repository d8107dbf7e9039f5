"""A job with as many assets as the `ma1940` release, each of which does nothing: the time that Dagster itself takes."""

import dagster as dg

NAMES = ["cef", "invariants", "charge", "swapped", "tables", "utility", "experiment", "publication"]
NAMES += ["ledger", "composition"]


def _nothing(name: str) -> dg.AssetsDefinition:
    @dg.asset(name=name)
    def nothing() -> None:
        return None

    return nothing


defs = dg.Definitions(
    assets=[_nothing(name) for name in NAMES],
    jobs=[dg.define_asset_job("ma1940__tenure_by_county")],
    executor=dg.in_process_executor,
)
