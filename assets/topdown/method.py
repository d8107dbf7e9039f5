"""TopDown as a method: its hooks for charge, draw, gates and publication."""

import hmac
from collections.abc import Mapping, Sequence
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg

from assets.conventions import list_some, preview
from assets.measurement.method import MEASUREMENTS, GridError, NoisyCounts, build_counts
from assets.measurement.parts import PartCounts
from assets.release.dataset import CEF, Size
from assets.release.draw import Draw, Inputs
from assets.release.method import CHARGE, Fact, Partitions, release_hook, session_hook, statement_hook
from assets.release.microdata import Microdata
from assets.release.seal import compute_content
from assets.release.statement import Accuracy, Parameter
from assets.release.verdicts import Verdicts
from assets.tabulation.asset import TABLES
from assets.topdown.accuracy import build_accuracy
from assets.topdown.drawing import Drawing, find_wrong_noise
from assets.topdown.estimated import build_estimates
from assets.topdown.estimation import read_spreads
from assets.topdown.gates import topdown_gates
from assets.topdown.histograms import added_recipe, histograms_recipe, part_recipe, require_possible
from assets.topdown.intervals import build_intervals
from assets.topdown.invariants import build_invariants, require_feasible
from assets.topdown.measured import REPEATED, build_measured, find_repeated, keep_charged, take_states
from assets.topdown.measurements import COLUMNS, compute_stored_version, find_unmeasured, store_measurements
from assets.topdown.partitions import state_partitions
from assets.topdown.plan import allocations_for, scale_allocations, topdown_plan
from assets.topdown.published import list_microdata, published_tables
from assets.topdown.reading import list_scopes
from assets.topdown.records import build_microdata
from assets.topdown.release import (
    ESTIMATES,
    HISTOGRAMS,
    INFORMATION,
    INTERVALS,
    INTERVALS_OF_STATES,
    INVARIANTS,
    LINEAR,
    MEASUREMENTS_OF_STATES,
    MICRODATA,
    OCCUPANCY,
    PLACES,
    RECORDS,
    REPLICATES,
    SPINE,
    TEXTS,
    UNCERTAINTY,
    SpineError,
    TopDownRelease,
)
from assets.topdown.replicates import TopDownReplication, build_replicates
from assets.topdown.spine import build_spine, count_places, read_states
from assets.topdown.statement import LEANING, name_leaning, state_gain, topdown_statement
from assets.topdown.sums import store_sums
from assets.topdown.tables import build_redistricting
from assets.topdown.uncertainty import build_uncertainty, describe_errors
from mechanisms.accounting.rounding import LINE_DECIMALS
from mechanisms.topdown.design import MECHANISM, SCHEMAS, VERSION, level_of_states, words
from mechanisms.topdown.redistricting import REDISTRICTING
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse


class TopDownMethod(NoisyCounts[TopDownRelease, Drawing]):
    mechanism = MECHANISM
    version = VERSION
    counts_stage = HISTOGRAMS
    charge_follows = (HISTOGRAMS, INVARIANTS)
    draws_in_parts = True
    keeps_verdicts = True
    estimation = ("Estimation", "Types first", "Totals first", LEANING)
    drawn_columns = COLUMNS
    further_gates = release_hook(topdown_gates)
    plan = release_hook(topdown_plan)
    tables = release_hook(published_tables)
    statement = statement_hook(topdown_statement)
    counts_recipe = session_hook(histograms_recipe)
    require_chargeable = session_hook(require_feasible)
    find_unmeasured = session_hook(find_unmeasured)
    check_noise = session_hook(find_wrong_noise)

    def fields_for_margins(self, margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        return allocations_for(self.release.design, margins)

    def scale_budgets(self, factor: Fraction) -> Mapping[str, Any]:
        return scale_allocations(self.release.design, factor)

    def __init__(self, release: TopDownRelease) -> None:
        super().__init__(release)
        self.draw_follows = (HISTOGRAMS, *([MEASUREMENTS_OF_STATES] if release.partitioned else []))
        self.publishes_also_from = (
            MICRODATA,
            *([INTERVALS] if release.design.full else []),
            *([UNCERTAINTY] if release.declaration.replicates else []),
        )

    @property
    def stages(self) -> Sequence[str]:
        levels = [self.release.estimates(level) for level in self.release.levels]
        if self.release.has_intervals_by_state:
            levels.insert(levels.index(self.release.estimates(level_of_states(self.release.levels))) + 1, LINEAR)
        levels = [INFORMATION, *levels, OCCUPANCY] if self.release.design.full else levels
        levels += [ESTIMATES] if self.release.in_parts else []
        levels += [RECORDS] if self.release.partitioned else []
        errors = [INTERVALS] if self.release.design.full else []
        errors = [INTERVALS_OF_STATES, *errors] if self.release.has_intervals_by_state else errors
        errors += [REPLICATES, UNCERTAINTY] if self.release.declaration.replicates else []
        before = [SPINE, HISTOGRAMS, INVARIANTS, CHARGE, *self.release.measured_by_state]
        return [*before, MEASUREMENTS, *levels, MICRODATA, TABLES, *errors]

    @property
    def part_counts(self) -> PartCounts[TopDownRelease] | None:
        return PartCounts.of(self.release, HISTOGRAMS, part_recipe, added_recipe)

    @property
    def partitions(self) -> Partitions | None:
        return state_partitions(self.release) if self.release.partitioned else None

    def keep_partitions(self, instance: dg.DagsterInstance, warehouse: Warehouse, custody: Custody) -> None:
        if self.partitions:
            self.partitions.keep_keys(instance, keep_charged(self, warehouse, custody))

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        release = self.release
        cells = " and ".join(f"{schema.size:,} cells of {name}" for name, schema in SCHEMAS.items())
        counted = f"The exact counts of every {words(release.finest)}: {cells}, without zeros."
        return [
            build_spine(release),
            build_counts(self, [CEF, SPINE], counted, reads=[Zone.PUBLIC]),
            build_invariants(self),
            *([build_measured(self)] if release.partitioned else []),
            *build_estimates(release),
            *build_microdata(self),
            build_redistricting(release),
            build_accuracy(release),
            *(build_intervals(release) if release.design.full else []),
            *([self._build_replicates(), build_uncertainty(release)] if release.declaration.replicates else []),
        ]

    def _build_replicates(self) -> dg.AssetsDefinition:
        replicates, finest = self.release.declaration.replicates, words(self.release.finest)
        text = TEXTS("replicates", replicates=replicates, finest=finest)
        return build_replicates(TopDownReplication(self.release), text, self.release.estimated)

    @property
    def microdata(self) -> Microdata:
        return list_microdata(self.release)

    def counts_version(self, session: Session, custody: Custody) -> str:
        return session.sorted_version(self.counts_table, self.release.version_key(custody))

    def require_countable(self, session: Session, custody: Custody) -> None:
        require_possible(session, self.release)

    def perturb(self, session: Session, key: bytes) -> Drawing:
        return Drawing(self.release, session, key)

    def in_parts(self, draw: Draw[Inputs], output: Drawing, folder: Path, custody: Custody) -> Drawing:
        release = self.release
        taken = take_states(output.session, custody, release, draw.draw_id) if release.partitioned else {}
        return output.in_parts(draw.draw_id, folder, custody, taken)

    def version_of(self, draw: Draw[Inputs], output: Drawing) -> str:
        return output.compute_version()

    def repeat(
        self,
        session: Session,
        draw: Draw[Inputs],
        key: bytes,
        custody: Custody,
        verdicts: Verdicts | None,
        commitment: str,
    ) -> str:
        def holds(state: str, answers: str) -> bool:
            return verdicts is not None and verdicts.of_part(state).holds(REPEATED, draw.draw_id, commitment, answers)

        drawing, partitioned = self.make(session, draw, key, custody), self.release.partitioned
        known = find_repeated(session, custody, self.release, draw.draw_id, holds) if partitioned else {}
        return drawing.compute_version(known)

    def write(self, session: Session, draw: Draw[Inputs], output: Drawing) -> str:
        store_measurements(session, self.release, output.files)
        store_sums(session, output.custody, self.release, output.account, output.sums)
        return output.version

    def read_version(self, session: Session, draw: Draw[Inputs]) -> str | None:
        if self.release.partitioned and not session.tables(Zone.PUBLIC, self.release.schema).get(MEASUREMENTS):
            # The measurements were stored before partitions were declared.
            return None
        try:
            return compute_stored_version(session, self.release)
        except (GridError, SpineError):
            return None

    def charged_tables(self) -> Mapping[str, Sequence[Table]]:
        return {**super().charged_tables(), INVARIANTS: self._places}

    def inputs(self, session: Session, custody: Custody) -> Inputs:
        # The seal of these tables covers the same content, so a session computes it once.
        content = compute_content(session, custody, self.release.schema, INVARIANTS, self._places)
        places = hmac.new(self.release.version_key(custody), content.encode(), sha256).hexdigest()
        return Inputs({**super().inputs(session, custody).versions, PLACES: places})

    def find_unmade(self, session: Session) -> Sequence[str]:
        """With partitions, also lists states with a missing table."""
        release, own = self.release, list[str]()
        if release.partitioned:
            stored, states = session.tables(Zone.PUBLIC, release.schema), read_states(session, release)
            due = {(scope.state, scope.table(release).name) for scope in list_scopes(release, states) if scope.state}
            names = (MEASUREMENTS, *release.made_by_state)
            due |= {(state, release.of_state(name, state)) for state in states for name in names}
            missing = sorted({state for state, name in due if name not in stored})
            words = f"Of {len(states):,} states, {len(missing):,} are not wholly made: {list_some(missing)}."
            own = [words] if missing else []
        return [*own, *super().find_unmade(session)]

    @property
    def _places(self) -> list[Table]:
        return [self.release.public(SPINE), self.release.public(INVARIANTS)]

    def numbers(self, size: Size) -> int:
        finest = self.release.spine[self.release.finest]
        places = {
            # The number of prefixes does not follow from the columns; it is at most the number of finest places.
            level: size.places_of(finest.columns if code.prefix else code.columns)
            for level, code in self.release.spine.items()
        }
        return sum(measured.marginal.size * places[measured.level] for measured in self.release.design.measured)

    @property
    def replicates(self) -> int:
        return self.release.declaration.replicates

    def charge_facts(self, inputs: Inputs) -> dict[str, Fact]:
        design = self.release.design
        loss, changes = design.loss, "Loss for any change of one person's record"
        return {
            "output_premetric": (loss.output_premetric, "How the loss is measured"),
            "rho": (str(loss), f"{changes}, exact; this is charged"),
            "rho_rounded_up": (float(loss.round_up()), f"{changes}, rounded up"),
            "persons_rho": (str(design.persons), "ρ of the measurements of persons, exact"),
            "units_rho": (
                str(design.units),
                "ρ of the measurements of units for a change of one unit, exact; a move may change two units",
            ),
            "lines": (len(design.measured), "Number of measured combinations of histogram, level and query"),
        }

    def charge_description(self) -> str:
        return TEXTS("charge")

    def draw_description(self) -> str:
        return TEXTS("draw", levels=len(self.release.levels))

    def draw_metadata(self, session: Session) -> Mapping[str, Any]:
        places = count_places(session, self.release)
        answers = {query: places[query.level] * query.marginal.size for query in self.release.design.measured}
        rows = []
        for query in answers:
            rho, deviation = str(query.loss.round_up(LINE_DECIMALS)), f"{float(query.variance) ** 0.5:,.2f}"
            rows.append((f"{query.histogram}, {words(query.level)}", query.query, rho, deviation))
        return {"answers": f"{sum(answers.values()):,}", "measured": preview(["histogram", "query", "ρ", "σ"], rows)}

    def models(self, session: Session, custody: Custody) -> Sequence[Parameter]:
        release, spreads = self.release, read_spreads(session, custody, self.release)
        gain = [state_gain(release, count_places(session, release))] if release.design.full else []
        return [*gain, *([name_leaning(release, spreads)] if spreads else [])]

    def errors(self, session: Session) -> Accuracy | None:
        declared = self.release.declaration.replicates
        return describe_errors(session, self.release, declared, REDISTRICTING) if declared else None
