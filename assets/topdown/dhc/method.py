"""The DHC as a method: its hooks for charge, draw, gates and publication."""

import hmac
from collections.abc import Mapping, Sequence
from fractions import Fraction
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import dagster as dg

from assets.cef.dhc import register_codes
from assets.conventions import preview
from assets.measurement.method import MEASUREMENTS, GridError, NoisyCounts, build_counts
from assets.measurement.parts import PartCounts
from assets.release.dataset import CEF
from assets.release.draw import Draw, Inputs, StaleInputError
from assets.release.method import CHARGE, Fact, Partitions, release_hook, session_hook, statement_hook
from assets.release.microdata import Microdata
from assets.release.release import Release
from assets.release.seal import compute_content
from assets.release.statement import Accuracy
from assets.tabulation.asset import TABLES
from assets.topdown.dhc.accuracy import build_dhc_accuracy
from assets.topdown.dhc.gates import dhc_gates
from assets.topdown.dhc.given import build_facilities, build_redistricting, require_feasible
from assets.topdown.dhc.intervals import build_dhc_intervals
from assets.topdown.dhc.levels import build_level, find_wrong_levels, missing_estimates
from assets.topdown.dhc.measurements import (
    COLUMNS,
    Drawing,
    compute_stored_version,
    find_unmeasured,
    find_wrong_noise,
)
from assets.topdown.dhc.plan import dhc_plan, scale_allocations
from assets.topdown.dhc.products import build_dhc_tables, build_filled, build_microdata
from assets.topdown.dhc.published import published_tables
from assets.topdown.dhc.recount import list_microdata
from assets.topdown.dhc.release import ESTIMATES, FACILITIES, HISTOGRAMS, MICRODATA, REDISTRICTING, TEXTS, DHCRelease
from assets.topdown.dhc.replicates import DHCReplication
from assets.topdown.dhc.statement import dhc_statement
from assets.topdown.dhc.uncertainty import build_dhc_uncertainty, list_first_tables
from assets.topdown.histograms import added_recipe
from assets.topdown.partitions import state_partitions
from assets.topdown.plan import allocations_for
from assets.topdown.release import INTERVALS, PLACES, REPLICATES, SPINE, UNCERTAINTY, SpineError
from assets.topdown.replicates import build_replicates
from assets.topdown.spine import build_spine, place_by_code, placement, read_tree
from assets.topdown.uncertainty import describe_errors
from mechanisms.refusal import RefusedError
from mechanisms.topdown.design import words
from mechanisms.topdown.dhc.design import MECHANISM, SCHEMAS, VERSION
from resources.custody import Custody
from resources.parts import store_parts
from resources.statements import Table, Zone
from resources.warehouse import Recipe, Session


class ImpossibleRecordsError(RefusedError, ValueError):
    """The CEF contains records that no cell counts. The message gives their number."""


class DHCMethod(NoisyCounts[DHCRelease, Drawing]):
    mechanism = MECHANISM
    version = VERSION
    counts_stage = HISTOGRAMS
    charge_follows = (HISTOGRAMS, FACILITIES, REDISTRICTING)
    draws_in_parts = True
    keeps_verdicts = True
    drawn_columns = COLUMNS
    further_gates = release_hook(dhc_gates)
    plan = release_hook(dhc_plan)
    tables = release_hook(published_tables)
    statement = statement_hook(dhc_statement)
    counts_recipe = session_hook(lambda session, release: histograms_recipe(session, release))
    find_unmeasured = session_hook(find_unmeasured)
    check_noise = session_hook(find_wrong_noise)

    def __init__(self, release: DHCRelease) -> None:
        super().__init__(release)
        self.draw_follows = (HISTOGRAMS, self._levels[-1])
        self.publishes_also_from = (SPINE, FACILITIES, *self._errors)

    @property
    def part_counts(self) -> PartCounts[DHCRelease] | None:
        return PartCounts.of(self.release, HISTOGRAMS, part_recipe, added_recipe)

    @property
    def _levels(self) -> Sequence[str]:
        return [self.release.estimates(level) for level in self.release.levels]

    @property
    def stages(self) -> Sequence[str]:
        before = (SPINE, FACILITIES, REDISTRICTING, HISTOGRAMS, CHARGE)
        replicates = [REPLICATES] if self.release.declaration.replicates else []
        return [*before, *self._levels, MEASUREMENTS, ESTIMATES, MICRODATA, TABLES, *replicates, *self._errors]

    @property
    def _errors(self) -> Sequence[str]:
        release = self.release
        return [
            *([UNCERTAINTY] if release.declaration.replicates else []),
            *([INTERVALS] if release.design.complete else []),
        ]

    @property
    def reads_publications_of(self) -> Sequence[Release]:
        return [self.release.redistricting]

    def fields_for_margins(self, margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        return allocations_for(self.release.design, margins)

    def scale_budgets(self, factor: Fraction) -> Mapping[str, Any]:
        return scale_allocations(self.release.design, factor)

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        release = self.release
        cells = ", ".join(f"{schema.size:,} cells of {name}" for name, schema in SCHEMAS.items())
        counted = f"The exact counts of every {words(release.finest)}: {cells}, without zeros."
        return [
            build_spine(release),
            build_facilities(release),
            build_redistricting(release),
            build_counts(self, [CEF, SPINE], counted, reads=[Zone.PUBLIC]),
            *(build_level(self, release, depth) for depth in range(len(release.levels))),
            build_filled(release),
            build_microdata(release),
            build_dhc_tables(release),
            build_dhc_accuracy(release),
            *(self._build_errors() if release.declaration.replicates else []),
            *([build_dhc_intervals(release)] if release.design.complete else []),
        ]

    def _build_errors(self) -> Sequence[dg.AssetsDefinition]:
        replicates, finest = self.release.declaration.replicates, words(self.release.finest)
        text = TEXTS("replicates", replicates=replicates, finest=finest, name=self.release.redistricting.name)
        return build_replicates(DHCReplication(self.release), text, ESTIMATES), build_dhc_uncertainty(self.release)

    @property
    def microdata(self) -> Microdata:
        return list_microdata(self.release)

    def counts_version(self, session: Session, custody: Custody) -> str:
        return session.sorted_version(self.counts_table, self.release.version_key(custody))

    def require_countable(self, session: Session, custody: Custody) -> None:
        (uncounted,) = session.row("dhc/uncounted", counts=self.counts_table)
        if uncounted:
            raise ImpossibleRecordsError(
                f"{self.release.schema}: {uncounted:,} records of the CEF have codes that no cell counts"
            )

    def require_chargeable(self, session: Session) -> None:
        require_feasible(session, self.release, read_tree(session, self.release).places(self.release.finest))

    def perturb(self, session: Session, key: bytes) -> Drawing:
        return Drawing(self.release, session, key)

    def in_parts(self, draw: Draw[Inputs], output: Drawing, folder: Path, custody: Custody) -> Drawing:
        # The settled answers must be those behind the estimates, because an ephemeral key cannot make answers again.
        wrong, _ = find_wrong_levels(output.session, custody, self.release, draw.draw_id)
        if wrong:
            raise StaleInputError(missing_estimates(self.release, wrong[0]))
        return output.in_parts(folder)

    def version_of(self, draw: Draw[Inputs], output: Drawing) -> str:
        return output.compute_version()

    def write(self, session: Session, draw: Draw[Inputs], output: Drawing) -> str:
        store_parts(session, self.release.public(MEASUREMENTS), output.files)
        return output.version

    def read_version(self, session: Session, draw: Draw[Inputs]) -> str | None:
        try:
            return compute_stored_version(session, self.release)
        except (GridError, SpineError):
            return None

    def charged_tables(self) -> Mapping[str, Sequence[Table]]:
        release = self.release
        return {
            **super().charged_tables(),
            FACILITIES: [release.public(SPINE), release.public(FACILITIES)],
            REDISTRICTING: [release.public(REDISTRICTING)],
        }

    def inputs(self, session: Session, custody: Custody) -> Inputs:
        schema, charged = self.release.schema, self.charged_tables().items()
        parts = [(stage, tables) for stage, tables in charged if stage != self.counts_stage]
        contents = "".join(compute_content(session, custody, schema, *part) for part in parts)
        places = hmac.new(self.release.version_key(custody), contents.encode(), sha256).hexdigest()
        return Inputs({**super().inputs(session, custody).versions, PLACES: places})

    @property
    def partitions(self) -> Partitions | None:
        return state_partitions(self.release) if self.release.partitioned else None

    @property
    def replicates(self) -> int:
        return self.release.declaration.replicates

    @property
    def in_pieces(self) -> bool:
        """Replicates and intervals read whole levels."""
        return not self.replicates and not self.release.design.complete

    def charge_facts(self, inputs: Inputs) -> dict[str, Fact]:
        design = self.release.design
        loss, changes = design.loss, "Loss for any change of one person's record"
        return {
            "output_premetric": (loss.output_premetric, "How the loss is measured"),
            "rho": (str(loss), f"{changes}, exact; this is charged"),
            "rho_rounded_up": (float(loss.round_up()), f"{changes}, rounded up"),
            **{
                f"{histogram}_rho": (
                    str(design.allocations[histogram].loss),
                    f"ρ of the measurements of {histogram} for one record that changes, exact; "
                    f"{design.of_histogram(histogram)} is charged",
                )
                for histogram in SCHEMAS
            },
            "lines": (len(design.measured), "Number of measured combinations of histogram, level and query"),
        }

    def charge_description(self) -> str:
        return TEXTS("charge")

    def draw_description(self) -> str:
        return TEXTS("draw", levels=len(self.release.levels))

    def draw_metadata(self, session: Session) -> Mapping[str, Any]:
        rows = session.rows("dhc/answers_by_level", measurements=self.release.public(MEASUREMENTS))
        counted = {(histogram, level): (places, answers) for histogram, level, places, answers in rows}
        shown = [
            (histogram, words(level), *(f"{number:,}" for number in counted[histogram, level]))
            for histogram, level in product(SCHEMAS, self.release.levels)
            if (histogram, level) in counted
        ]
        answers = sum(number for _, number in counted.values())
        return {"answers": f"{answers:,}", "measured": preview(["histogram", "level", "places", "answers"], shown)}

    def errors(self, session: Session) -> Accuracy | None:
        release, declared = self.release, self.release.declaration.replicates
        return describe_errors(session, release, declared, list_first_tables(release), TEXTS) if declared else None


def histograms_recipe(session: Session, release: DHCRelease) -> Recipe:
    return _count_placed(session, *placement(session, release))


def part_recipe(session: Session, release: DHCRelease) -> Recipe:
    """The recipe of the histograms of a partition, for `added_recipe`."""
    return _count_placed(session, *place_by_code(session, release))


def _count_placed(session: Session, values: Mapping[str, Any], names: Mapping[str, Any]) -> Recipe:
    placed = session.stage("placed_units", "topdown/placed_units", values, **names)
    return (
        "dhc/histograms",
        {"names": list(SCHEMAS)},
        {
            "units": placed,
            "persons": names["persons"],
            "carried": ["number"],
            **register_codes(session),
            "histograms": [(name, [vars(part) for part in schema.attributes]) for name, schema in SCHEMAS.items()],
        },
    )
