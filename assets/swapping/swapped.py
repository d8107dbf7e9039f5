"""The asset `swapped`: make the draw that was charged, and settle it.

Here belongs the stage. The permutation itself is `mechanisms.swapping.permutation`.
"""

import dagster as dg

from assets.charge.drawing import draw_metadata, make_draw
from assets.conventions import DRAW, attributes, lineage, public_table_metadata, table_schema
from assets.release.dataset import described
from assets.release.method import Method
from assets.swapping.cells import SWAPPED
from assets.swapping.draw import SwappingDraw
from assets.swapping.release import SwappingRelease
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Zone
from resources.warehouse import Warehouse

CODE_VERSION = "1"


def build_swapped(method: Method[SwappingRelease, SwappingDraw]) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "swapped"]`."""
    release = method.release

    @dg.asset(
        key=release.key("swapped"),
        deps=[release.dataset_key("cef"), release.key("invariants"), release.key("charge")],
        group_name=release.schema,
        description=_description(release),
        code_version=CODE_VERSION,
        **attributes("swap", Zone.PUBLIC, {"duckdb", "numba"}, crossing=DRAW),
    )
    def swapped(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        draw, entry, version = make_draw(method, warehouse, custody, ledger)
        table = release.public(SWAPPED)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            columns = session.columns(table)
            metadata = public_table_metadata(session, table)
        cef = release.dataset_key("cef")
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={
                **metadata,
                **draw_metadata(release, draw, entry),
                "dagster/column_schema": table_schema(columns, described(release.variables) | _OWN_COLUMNS),
                "dagster/column_lineage": lineage(
                    {name: [(cef, name)] for name in columns if name in release.variables}
                ),
            },
        )

    return swapped


_OWN_COLUMNS = {
    "holding_code": "Number of the combination of holding values",
    "count": "Number of swapped records in the cell",
}


def _description(release: SwappingRelease) -> str:
    design = release.design
    return f"""One draw of the Permutation Swapping Algorithm (Bailie, Gong and Meng, Algorithm 1).

In every stratum, the {design.unit}s equal on {", ".join(design.match) or "nothing (one stratum)"}, each record
is selected with probability p = {design.swap_rate}, anew if exactly one was; the values of
{", ".join(design.swap)} of the selected records are permuted by a derangement drawn uniformly.

The result is kept as the saturated contingency table [n_mhs], which carries neither keys nor an order of
records. The randomness is AES-256-CTR under a key derived for this draw alone; custody is
{release.custody.value}. It refuses to run without the charge for exactly these inputs and parameters."""
