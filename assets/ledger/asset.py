"""The assets `ledger` and `composition`.

They show the ledger's entries, and a population's releases side by side with their composition, in tables with losses
both exact and rounded up to 4 decimals. `comparison` computes the compositions. The charge and the draw write to the
ledger, which is in `resources.ledger`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from functools import partial

import dagster as dg
import pyarrow as pa

from assets.conventions import StageKind, check_result, named, table_schema
from assets.ledger.comparison import Charge, Comparison, compare
from assets.ledger.page import describe_composition, describe_ledger, read_last_replays
from assets.ledger.population import Population
from assets.ledger.remarks import PROSE
from assets.ledger.view import find_budget, list_budgets
from assets.release.contents import describe_records
from assets.release.dataset import DatasetDeclaration
from assets.stages import stage, stage_check
from assets.texts import show_line
from mechanisms.accounting.composition import bun_steinke, canonne_kamath_steinke
from mechanisms.accounting.losses import ConcentratedLoss, Loss, format_loss
from mechanisms.accounting.rounding import DECIMALS
from mechanisms.accounting.specification import DELTA, Total
from resources.chain import GENESIS, RESERVE, Entry
from resources.ledger import Ledger, PopulationError, Reading, of_population
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse

LEDGER_KEY = dg.AssetKey(["ledger"])
LEDGER_GROUP = "ledger"
"""The group of the ledger and of all compositions. They depend on every release, and no release depends on them."""
COMPOSITION = "composition"
_AT_FIRST = dg.AutomationCondition.initial_evaluation() & dg.AutomationCondition.any_deps_match(
    ~dg.AutomationCondition.missing() | dg.AutomationCondition.will_be_requested()
)
WHEN_CHARGED = (
    dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing()) | _AT_FIRST
).with_label("when a release was charged or drawn")
"""Ledger and compositions are updated after every charge and draw of any release, instead of in each release's job,
which would depend on the charges of all other releases, even of releases that were never made. At its first tick, the
sensor updates them with earlier charges."""
_ENTRY = pa.schema([(field.name, pa.int64() if field.name == "sequence" else pa.string()) for field in fields(Entry)])
ENTRIES = Table(Zone.PUBLIC, "ledger", "entries")

ENTRY_COLUMNS = {
    "sequence": "Number of the entry: 1, 2, … without gaps",
    "kind": "reserve: the charge, before anything is drawn; settle: the draw was made; withdraw: it was withdrawn",
    "dataset": "Dataset whose budget is charged",
    "release": "Release that the charge is for",
    "draw_id": "Identifier of the draw: an HMAC of everything it depends on",
    "specification": "DP specification that was charged, as JSON; only in reservations",
    "commitment": "SHA-256 of the draw's key",
    "output_version": "Content hash of the draw's output; only in settlements",
    "recorded_at": "When the entry was recorded, in UTC",
    "previous_hash": "Hash of the entry before",
    "hash": "SHA-256 of all other fields",
    "details": "Population, what the draw is made of, who authorized it, and the run, as JSON",
}

_EXACT = ("rational", "ln", "rho", "delta")

_COMPOSITION: dict[str, tuple[pa.DataType, str]] = {
    "release": (pa.string(), "Name of the release"),
    "entry": (pa.int64(), "Number of the charge in the ledger"),
    "latest": (pa.bool_(), "Whether the release has no later charge; earlier charges count too"),
    "settled": (pa.bool_(), "Whether the draw was made"),
    "domain": (pa.string(), "Who is eligible for protection"),
    "unit": (pa.string(), "Unit whose change the loss bounds"),
    "changes_per_person": (
        pa.int64(),
        "Maximal number of units that a change of one person's characteristics changes",
    ),
    "neighbors": (pa.string(), "bounded: a unit changes; unbounded: a unit is added or removed"),
    "output_premetric": (pa.string(), "How changes of the output's distribution are measured"),
    "invariants": (pa.list_(pa.string()), "Statistics on which all compared data sets agree"),
    "loss": (pa.float64(), "ε or ρ, rounded up; infinite if no finite loss holds"),
    "rational": (pa.string(), "Rational part of ε, exact"),
    "ln": (pa.string(), "Argument of the logarithm in ε, exact"),
    "rho": (pa.string(), "ρ, exact"),
    "delta": (pa.string(), "δ, exact"),
    "epsilon": (pa.float64(), "ε of ρ at δ = conversion_delta by Canonne, Kamath and Steinke, rounded up"),
    "epsilon_bun_steinke": (pa.float64(), "ε of ρ at δ = conversion_delta by Bun and Steinke, rounded up"),
    "conversion_delta": (pa.string(), "δ at which ρ is converted"),
    "charges": (pa.int64(), "Number of charges that the total counts"),
    "left_out": (pa.list_(pa.string()), "Number of charges that the total does not count, with the reasons"),
}
COMPOSITION_COLUMNS = {name: words for name, (_, words) in _COMPOSITION.items()}


def build_ledger(
    charges: Sequence[dg.AssetKey], draws: Sequence[dg.AssetKey], declared: Sequence[Population]
) -> dg.AssetsDefinition:
    """The asset `ledger`, downstream of every charge and draw of the deployment; its page shows declared budgets."""

    @stage(
        LEDGER_KEY,
        LEDGER_GROUP,
        StageKind.LEDGER,
        "All charges, with their randomness and the rest of each cap. The ledger is append-only: each entry "
        "contains the SHA-256 of the previous one, and an anchor beside the keys holds the last. A reservation counts "
        "from before its draw; a settlement records the output of the draw. This asset shows the current ledger, and "
        "fails if an entry was edited, removed or reordered. All times are in UTC; those of last replays are Dagster's "
        "records, not part of the ledger.",
        [*charges, *draws],
        code_version="2",
        kinds={"duckdb", "ledger"},
        automation_condition=WHEN_CHARGED,
    )
    def ledger_asset(context: dg.AssetExecutionContext, warehouse: Warehouse, ledger: Ledger) -> dg.MaterializeResult:
        entries = ledger.examine().require_intact()
        rows = _make_table(ENTRIES, entries)
        with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
            session.create(ENTRIES, "warehouse/all", source=session.register("entries", rows))
            schema = table_schema(session.columns(ENTRIES), ENTRY_COLUMNS)
        head = entries[-1].hash if entries else GENESIS
        return dg.MaterializeResult(
            data_version=dg.DataVersion(head),
            metadata={
                **describe_ledger(entries, declared, read_last_replays(context.instance, draws)),
                # Under Dagster's own name, the columns would stand above everything else.
                "columns": schema,
            },
        )

    return ledger_asset


def build_composition(population: Population) -> dg.AssetsDefinition:
    """The asset `[population, "composition"]`."""
    totals, releases = make_tables(population.name, compare(()))

    @stage(
        dg.AssetKey([population.name, COMPOSITION]),
        LEDGER_GROUP,
        StageKind.COMPOSITION,
        PROSE("composition", population=population, cap=format_loss(population.cap)),
        [LEDGER_KEY],
        code_version="2",
        kinds={"duckdb", "ledger", "matplotlib"},
        automation_condition=WHEN_CHARGED,
    )
    def composition(warehouse: Warehouse, ledger: Ledger) -> dg.MaterializeResult:
        entries = of_population(ledger.examine().require_intact(), population.name)
        budget = list_budgets(entries, [population])[population.name]
        with warehouse.session(writes=Zone.PUBLIC) as session:
            with session.transaction():
                for table, rows in make_tables(population.name, compare(entries)).items():
                    session.create(table, "warehouse/all", source=session.register(table.name, rows))
            columns = session.columns(totals) | session.columns(releases)
            version = session.content_version([totals, releases])
        metadata = {
            **describe_composition(budget, population.cap, population.title),
            "tables": f"{named(totals)}, {named(releases)}",
            # Under Dagster's own name, the columns would stand above everything else.
            "columns": table_schema(columns, COMPOSITION_COLUMNS),
        }
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=metadata)

    return composition


def build_composition_checks(population: Population) -> list[dg.AssetChecksDefinition]:
    """The blocking checks of `composition`: the cap, the chain of the ledger, and the public tables."""
    tables = list(make_tables(population.name, compare(())))
    build = partial(_build_check, dg.AssetKey([population.name, COMPOSITION]))
    return [
        build(
            "within_cap",
            "All charges to the population stay within its cap, and none is infinite unless that is allowed.",
            lambda _, ledger: find_cap_problems(population.datasets[0], ledger.examine()),
        ),
        build("ledger_intact", "No ledger entry was edited, removed or reordered.", lambda _, ledger: ledger.verify()),
        build(
            "shown_as_charged",
            "The tables are those that follow from the current ledger.",
            lambda warehouse, ledger: _find_differences(warehouse, tables, ledger.examine().require_intact()),
        ),
    ]


def build_ledger_checks() -> list[dg.AssetChecksDefinition]:
    """The blocking checks of `ledger`: the chain with its anchor, and the public table."""
    return [
        _build_check(
            LEDGER_KEY,
            "ledger_intact",
            "No entry was edited, removed or reordered, and the ledger ends where the anchor beside the keys does.",
            lambda _, ledger: ledger.verify(),
        ),
        _build_check(
            LEDGER_KEY,
            "shown_as_charged",
            "The table has exactly the entries of the ledger.",
            lambda warehouse, ledger: _find_differences(warehouse, [ENTRIES], ledger.entries()),
        ),
    ]


def _build_check(
    asset: dg.AssetKey, name: str, words: str, find: Callable[[Warehouse, Ledger], Sequence[str]]
) -> dg.AssetChecksDefinition:
    @stage_check(asset, name, words)
    def check(warehouse: Warehouse, ledger: Ledger) -> dg.AssetCheckResult:
        return check_result(name, find(warehouse, ledger))

    return check


def make_tables(population: str, comparison: Comparison) -> dict[Table, pa.Table]:
    """The public tables of a population's composition, with their rows: its totals and its releases."""
    return {
        Table(Zone.PUBLIC, population, COMPOSITION): make_totals_table(comparison.totals),
        Table(Zone.PUBLIC, population, f"{COMPOSITION}_releases"): make_releases_table(comparison.charges),
    }


def make_totals_table(totals: Sequence[Total]) -> pa.Table:
    rows = [
        {
            "unit": total.unit,
            "output_premetric": total.output_premetric,
            **_describe_loss(total.loss),
            "charges": total.releases,
            "left_out": list(total.left_out),
        }
        for total in totals
    ]
    return _make_table_of(["unit", "output_premetric", "loss", *_EXACT, "charges", "left_out"], rows)


def make_releases_table(charges: Iterable[Charge]) -> pa.Table:
    """One row for each charge, from which the totals can be recomputed; `latest` marks one row for each release."""
    names = [name for name in _COMPOSITION if name not in ("charges", "left_out")]
    return _make_table_of(names, [_describe_release(charge) for charge in charges])


def _make_table_of(names: Sequence[str], rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, _COMPOSITION[name][0]) for name in names]))


def _describe_release(charge: Charge) -> dict[str, object]:
    flavor, loss = charge.specification.flavor, charge.specification.loss
    row: dict[str, object] = {
        "release": charge.release,
        "entry": charge.entry.sequence,
        "latest": charge.latest,
        "settled": charge.settled is not None,
        "domain": flavor.domain,
        "unit": flavor.unit,
        "changes_per_person": flavor.changes_per_person,
        "neighbors": flavor.neighbors,
        "output_premetric": flavor.output_premetric,
        "invariants": list(flavor.multiverse),
        **_describe_loss(loss),
    }
    if isinstance(loss, ConcentratedLoss):
        row |= {
            "epsilon": float(canonne_kamath_steinke(loss, DELTA, DECIMALS)),
            "epsilon_bun_steinke": float(bun_steinke(loss, DELTA, DECIMALS)),
            "conversion_delta": str(DELTA),
        }
    return row


def _describe_loss(loss: Loss) -> dict[str, object]:
    exact = loss.as_record()
    return {"loss": float(loss.round_up()), **{name: exact.get(name) for name in _EXACT}}


def find_unlike_tables(
    warehouse: Warehouse, entries: Sequence[Entry], populations: Iterable[str]
) -> tuple[list[str], list[str]]:
    """The public tables that differ from an intact ledger, as sentences: altered tables, and tables that only lag
    behind or are missing although others exist.

    The compositions of all populations are compared. Tables of populations that are not among `populations` may be
    missing.
    """
    altered: list[str] = []
    lagging: list[str] = []
    if not warehouse.holds(Zone.PUBLIC):
        return altered, lagging
    expected = [ENTRIES, *(table for population in populations for table in make_tables(population, compare(())))]
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        found = [*expected, *(table for table in _list_compositions(session) if table not in expected)]
        shown = [table for table in found if session.columns(table)]
        if shown:
            lagging += [f"{table} is not there; {_UPDATE}" for table in expected if table not in shown]
        for table in shown:
            # Compared with the types of columns, because 1 equals 1.0.
            stored, counts = session.arrow("warehouse/all", source=table), range(len(entries), -1, -1)
            count = next((count for count in counts if stored.equals(_make_table(table, entries[:count]))), None)
            name = show_line(str(table))
            if count is None:
                altered.append(f"{name} shows no state that the ledger has had")
            elif count < len(entries):
                remedy = _UPDATE if table in expected else "no declared population brings it up to date"
                lagging.append(f"{name} shows the ledger as of entry {count}; {remedy}")
    return altered, lagging


_UPDATE = "the job budget brings it up to date"


def _list_compositions(session: Session) -> list[Table]:
    """The tables that a composition would have in each schema, except the schemas of releases, whose names join two.
    DuckDB does not list its own schema `main`, which can have tables too."""
    schemas = (schema for schema in {"main", *session.schemas(Zone.PUBLIC)} if schema and "__" not in schema)
    return [table for schema in sorted(schemas) for table in make_tables(schema, compare(()))]


def _make_table(table: Table, entries: Sequence[Entry]) -> pa.Table:
    """The rows of a table for these entries: the ledger's table, or a composition's in its population's schema."""
    if table == ENTRIES:
        return pa.Table.from_pylist([asdict(entry) for entry in entries], schema=_ENTRY)
    return make_tables(table.schema, compare(of_population(entries, table.schema)))[table]


def _find_differences(warehouse: Warehouse, tables: Sequence[Table], entries: Sequence[Entry]) -> list[str]:
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        return [
            f"{table} does not show the current ledger; materialize it again"
            for table in tables
            if not session.columns(table)
            or not session.arrow("warehouse/all", source=table).equals(_make_table(table, entries))
        ]


def find_cap_problems(dataset: DatasetDeclaration, reading: Reading) -> list[str]:
    """The problems if the charges to a dataset's population exceed its cap, or some are infinite although none may be;
    for a public or synthetic dataset, if its records were ever charged as confidential ones."""
    own = [entry for entry in reading.require_intact() if (entry.kind, entry.dataset) == (RESERVE, dataset.name)]
    if own and (dataset.public or dataset.synthetic):
        contents = tuple(content for entry in own for content in entry.parse_details().contents)
        try:
            reading.require_never_confidential(dataset.name, describe_records(dataset, contents))
        except PopulationError as error:
            return [str(error)]
    if dataset.public:
        return []
    budget = find_budget(dataset, reading)
    infinite = [] if dataset.allows_unbounded_releases else budget.comparison.infinite
    return [budget.excess] * bool(budget.excess) + [
        f"{charge.release} was charged {format_loss(charge.loss)} in entry {charge.entry.sequence}, which no cap "
        "bounds, and unbounded_releases: allowed is not declared"
        for charge in infinite
    ]
