"""SafeTab-P as a method, and the parts that it shares with SafeTab-H: their hooks of a release."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import log
from typing import Any, ClassVar, TypeVar

import dagster as dg
import numpy as np

from assets.conventions import preview
from assets.gates.shared import count_problem
from assets.measurement.method import MEASUREMENTS, Batch, BatchedCounts, budget_facts, build_counts, plan_gate
from assets.measurement.parts import PartCounts
from assets.planning.lines import budgets_for_margins
from assets.release.dataset import CEF, Size
from assets.release.draw import Inputs
from assets.release.gate import Gate, ReleaseContext, session_gate
from assets.release.method import CHARGE, PLAN, Fact, release_hook, session_hook, statement_hook
from assets.safetab import measurements
from assets.safetab.counting import (
    COUNT_COLUMNS,
    added_recipe,
    build_regions,
    counts_recipe,
    regions_recipe,
    require_countable_records,
    require_regions,
)
from assets.safetab.measurements import KeptCells
from assets.safetab.plan import parameter_tables, planned_lines, safetab_plan
from assets.safetab.release import AREA_COLUMNS, COUNTS, REGIONS, SafeTabPRelease, SafeTabRelease
from assets.safetab.statement import safetab_statement
from assets.safetab.tables import T1, T2, build_person_tables, person_products, person_table_recipes
from assets.tabulation.asset import TABLES, recipes_gate, tables_gate
from mechanisms.design import LARGEST_BUDGET
from mechanisms.safetab.adaptive import GroupNoise
from mechanisms.safetab.design import MECHANISM_P, VERSION, Measured
from mechanisms.sampling.goodness import FALSE_ALARM, BinCounts, bin_draws, find_misfits
from mechanisms.sampling.noise import Distribution
from mechanisms.sampling.quantiles import Uncapped, quantile
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session

_REGION_COLUMNS = dict(zip(("STATE", "COUNTY", "TRACT", "PLACE", "AIANNH"), AREA_COLUMNS, strict=True))
"""By type of region, the column that identifies regions. The nation is one region."""

IMPOSSIBLE = Fraction(1, 10**31)
"""A probability that counts as 0."""

Context = ReleaseContext[SafeTabPRelease]

R = TypeVar("R", bound=SafeTabRelease)
B = TypeVar("B", bound=Batch)


class SafeTabMethod(BatchedCounts[R, B]):
    """A method that counts records by detailed race and ethnicity, in regions or groups that are public."""

    version = VERSION
    keeps_verdicts = True
    counted_in: ClassVar[str]
    """The stage, and its public table, that lists the regions or groups in which records are counted."""
    plan = release_hook(safetab_plan)
    plan_tables = release_hook(parameter_tables)
    counts_recipe = session_hook(counts_recipe)
    statement = statement_hook(safetab_statement)

    @property
    def part_counts(self) -> PartCounts[R] | None:
        return PartCounts.of(self.release, COUNTS, counts_recipe, added_recipe)

    def fields_for_margins(self, margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        budgets = budgets_for_margins(planned_lines(self.release), margins, LARGEST_BUDGET)
        return {"budgets": budgets, "moe": None}

    def scale_budgets(self, factor: Fraction) -> Mapping[str, Any]:
        return {"budgets": {line.name: factor * line.budget for line in planned_lines(self.release)}, "moe": None}

    def numbers(self, size: Size) -> int:
        """The population groups of all regions; Puerto Rico is among the places of the shared name."""
        lists = self.release.lists
        groups = {(kind.shared_name, level): len(lists.universe(kind, level)) for kind, level in self.release.pairs}
        return sum(
            number * (size.places_of([_REGION_COLUMNS[name]]) if name in _REGION_COLUMNS else 1)
            for (name, _), number in groups.items()
        )

    def counts_version(self, session: Session, custody: Custody) -> str:
        return session.sorted_version(self.counts_table, self.release.version_key(custody))

    def require_countable(self, session: Session, custody: Custody) -> None:
        require_countable_records(session, self.release)

    def charged_tables(self) -> Mapping[str, Sequence[Table]]:
        return {**super().charged_tables(), self.counted_in: [self.release.public(self.counted_in)]}

    def inputs(self, session: Session, custody: Custody) -> Inputs:
        public = session.content_version([self.release.public(self.counted_in)], self.release.version_key(custody))
        return Inputs({**super().inputs(session, custody).versions, self.counted_in: public})

    def charge_facts(self, inputs: Inputs) -> dict[str, Fact]:
        design = self.release.design
        return budget_facts(design, len(design.lines), "one record", "one record", "lines of the charge")


class SafeTabPMethod(SafeTabMethod[SafeTabPRelease, KeptCells]):
    mechanism = MECHANISM_P
    stages = (PLAN, REGIONS, COUNTS, CHARGE, MEASUREMENTS, TABLES)
    publishes_also_from = (PLAN, REGIONS)
    draw_follows = (REGIONS, COUNTS)
    drawn_columns = measurements.COLUMNS
    counted_in = REGIONS
    exact = session_hook(measurements.read_exact_batches)
    stored = session_hook(measurements.read_stored_batches)
    tables = release_hook(person_products)

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        release = self.release
        return [
            build_regions(release),
            build_counts(
                self,
                [CEF],
                "The exact counts of every group by sex and 23 age groups. Cells without persons are left out.",
                COUNT_COLUMNS,
            ),
            build_person_tables(release),
        ]

    def require_chargeable(self, session: Session) -> None:
        if session.columns(self.release.public(REGIONS)):
            require_regions(session, self.release)
            measurements.require_storable(session, self.release)

    def query_names(self) -> Sequence[str]:
        return [line.label for line in self.release.design.measured]

    def distributions(self) -> Mapping[str, Distribution]:
        """None: a cell's noise depends on the detail of its group, so this class defines the hooks that need it."""
        return {}

    def store(self, session: Session, batches: Iterator[KeptCells]) -> None:
        measurements.write_measurements(session, self.release, batches)

    def perturb(self, session: Session, key: bytes) -> Iterator[KeptCells]:
        return measurements.measure_batches(session, self.release, GroupNoise(self.release.design.measured, key))

    def unlikely(self, pairs: Iterable[tuple[KeptCells, KeptCells]]) -> list[str]:
        """The region types and levels whose noise does not fit the declared distributions, by chi-square tests.

        Where suppression might have left out a total, or clipping might have changed a number, the noise does not
        follow its declared distribution. So the tests use only cells whose counts are far above both limits.
        """
        draws: dict[str, BinCounts] = {}
        for exact, noisy in pairs:
            measured, total_only = noisy.measured, noisy.of_totals_only(self.release)
            for noise, rows, name in (
                (measured.total_only, total_only, "totals only"),
                (measured.stage_2, ~total_only, "stage 2"),
            ):
                least = _find_least_tested(self.release, measured, noise, noisy.values[:, 2])
                chosen = rows & (exact.values[:, 4] >= least)
                differences = noisy.values[chosen, 4] - exact.values[chosen, 4]
                draws[f"{measured.label}, {name}"] = bin_draws(differences, noise)
        return find_misfits(draws)

    def further_gates(self) -> Sequence[Gate[SafeTabPRelease]]:
        """The gates of SafeTab-P, which do not depend on whether a draw can be replayed.

        Its stage-1 totals are not stored. So these gates compare the stored measurements with the exact counts, and
        detect a draw that chose details or left out totals by a rule other than the declared one.
        """
        release = self.release
        words, table = "The stored regions are those of the current CEF.", release.public(REGIONS)
        both = [Zone.CONFIDENTIAL, Zone.PUBLIC]
        return [
            plan_gate(self),
            recipes_gate(
                "regions_of_the_cef", REGIONS, words, lambda session: {table: regions_recipe(session, release)}, both
            ),
            session_gate("detail_as_declared", MEASUREMENTS, self._check_details, both),
            session_gate("suppression_as_declared", MEASUREMENTS, self._check_suppression, both),
            tables_gate(lambda session: person_table_recipes(session, release)),
            session_gate("margins_agree", TABLES, self._check_margins),
        ]

    def _check_details(self, session: Session, context: Context) -> list[str]:
        """The detail of every group is one that its count and the noise of its first total make possible."""
        impossible = 0
        for exact in self.exact(session):
            measured = exact.measured
            _, _, detail, cell, count = exact.values.T
            starts = np.flatnonzero(cell == 0)
            totals = np.add.reduceat(count, starts) if len(starts) else count
            adaptive = ~exact.of_totals_only(self.release)[starts]
            most_noise, ends = find_farthest(measured.stage_1), np.array([-np.inf, *measured.thresholds, np.inf])
            least, most = ends[detail[starts]] - totals, ends[detail[starts] + 1] - totals
            impossible += int(np.count_nonzero(adaptive & ((least > most_noise) | (most <= -most_noise))))
        return count_problem(impossible, "groups in another detail than their counts and the thresholds allow")

    def _check_suppression(self, session: Session, context: Context) -> Iterator[str]:
        """No group whose count is far above the cut-off is missing, and the number of empty groups that were kept
        fits the noise."""
        release = self.release
        suppressed = [measured for measured in release.design.measured if measured.cut_off is not None]
        for measured in suppressed:
            assert measured.cut_off is not None
            iterations, least = len(release.universe_of(measured)), measured.cut_off + find_farthest(measured.stage_2)
            missing, empty, kept = session.row(
                "safetab/kept_and_left_out",
                measured.region_and_level | {"iterations": iterations, "least": least},
                counts=self.counts_table,
                measurements=release.public(MEASUREMENTS),
                regions=release.public(REGIONS),
            )
            label = measured.label
            yield from count_problem(missing, f"{label}: groups far above the cut-off that are missing")
            if not _is_binomial(kept, empty, _chances_of_empty(measured), FALSE_ALARM / len(suppressed)):
                yield f"{label}: more or fewer empty groups were kept than fit the noise"

    def _check_margins(self, session: Session, context: Context) -> list[str]:
        """The total of every group in T1 is the sum of its cells in T2."""
        (groups,) = session.row("safetab/disagreeing_margins", t1=self.release.public(T1), t2=self.release.public(T2))
        return count_problem(int(groups), "groups whose total is not the sum of their cells, or of their sexes")

    def charge_description(self) -> str:
        symbol = self.release.design.noise.symbol
        return f"""All region types and levels are charged together, with a line for each. A group's detail is chosen by
a first noisy total, which takes its share of the line's budget and is not published. Budgets are declared for one
person added or removed. The charge is the loss for one person's record changed: twice the sum of the lines' {symbol},
because a change takes one from at most Δ cells and adds one to at most Δ others. Region types of the United States and
of Puerto Rico share a line with the greater of their budgets, because nobody is in both."""

    def draw_description(self) -> str:
        return """For every population group, empty ones too: a noisy total, which says in what detail the group is
published and is kept nowhere; then fresh noise for the total, or for sex by 4, 9 or 23 age groups. Below the states,
totals that are hardly above zero are left out."""

    def draw_metadata(self, session: Session) -> Mapping[str, Any]:
        rows = session.rows("safetab/kept", measurements=self.release.public(MEASUREMENTS))
        groups = [(kind, level, detail, f"{number:,}") for kind, level, detail, number in rows]
        return {"published groups": preview(["region type", "level", "detail", "groups"], groups)}


def _find_least_tested(release: SafeTabPRelease, measured: Measured, noise: Uncapped, detail: np.ndarray) -> np.ndarray:
    """By cell, the least exact count whose noise was neither cut off nor clipped."""
    noisiest = find_farthest(noise)
    least = np.full(len(detail), 0 if release.design.negative_counts else noisiest)
    if measured.cut_off is not None:
        least[detail == 0] = np.maximum(least[detail == 0], measured.cut_off + noisiest)
    return least


def find_farthest(noise: Uncapped) -> int:
    """The least value that the noise reaches with a probability of at most `IMPOSSIBLE`.

    It follows from the distribution, not from σ: the discrete Laplace exceeds 12σ with probability 4 · 10^-8, which
    occurs among many groups.
    """
    return quantile(noise, 1 - IMPOSSIBLE) + 1


def _chances_of_empty(measured: Measured) -> tuple[float, float]:
    """The probabilities that an empty group's total is above the cut-off, and that it is not."""
    assert measured.cut_off is not None
    noise, most = measured.stage_2, find_farthest(measured.stage_2)
    above, below = np.arange(measured.cut_off + 1, most), np.arange(-most + 1, measured.cut_off + 1)
    return float(noise.probabilities(above).sum()), float(noise.probabilities(below).sum())


def _is_binomial(successes: int, trials: int, probabilities: tuple[float, float], false_alarm: float) -> bool:
    """Whether a binomial number is as close to its mean as expected, up to a false-alarm probability (Chernoff's
    bound).

    The probabilities of a success and of a failure are both given, because either may be tiny.
    """
    if trials <= 0:
        return successes == 0
    counts = (successes, trials - successes)
    terms = [(count / trials, expected) for count, expected in zip(counts, probabilities, strict=True) if count]
    if not all(expected for _, expected in terms):
        return False
    return trials * sum(share * log(share / expected) for share, expected in terms) <= log(2 / false_alarm)
