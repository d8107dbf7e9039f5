"""Targeted pair swapping as a method: its hooks of a release, with the texts of `statement.md`."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import dagster as dg

from assets.conventions import StageKind
from assets.pair_swapping.gates import find_pair_problems, find_rate_problems, pair_swapping_gates
from assets.pair_swapping.records import (
    HOUSEHOLD_COLUMNS,
    TRAIT_COLUMNS,
    UNIT,
    SwappedRecords,
    draw_records,
    households_recipes,
    published_tables,
    stored_earlier_version,
    stored_version,
)
from assets.pair_swapping.release import HOUSEHOLDS, SWAPPED, SWAPPED_PERSONS, PairSwappingRelease
from assets.release.columns import describe_columns, title_columns
from assets.release.dataset import CEF
from assets.release.draw import Draw, Inputs, StaleInputError, read_published_version, version_table
from assets.release.gate import Gate
from assets.release.method import CHARGE, Fact, Method, release_hook
from assets.release.plan import Plan
from assets.release.prose import Prose
from assets.release.published import describe_published
from assets.release.stage import build_stage
from assets.release.statement import REFRESHMENT, Accuracy, DataVersion, Parameter, Statement
from assets.tabulation.asset import TABLES, build_tables, tables_gate
from mechanisms.pair_swapping.design import MECHANISM, WEIGHTS, RiskFactors
from mechanisms.pair_swapping.pairing import VERSION
from resources.custody import Custody, compute_commitment
from resources.statements import Table
from resources.warehouse import Recipe, Session

PROSE = Prose(Path(__file__).with_name("statement.md"))

LOSS_SOURCE, WHY = PROSE("loss source"), PROSE("why")


def describe_factors(factors: RiskFactors) -> list[str]:
    """The declared risk factors in words."""
    race, items, always = factors.unique_race, factors.imputed_items, factors.always_selected
    of_items, steps_of_items = items or ("", ())
    steps = [
        *((f"{least} households or more in the block", factor) for least, factor in factors.block_size),
        *([(f"somebody with a {race[0]} that nobody else in the block has", race[1])] if race else []),
        *((f"{least} of the block's households or more imputed", factor) for least, factor in factors.block_imputation),
        *((f"{of_items} of {least} or more", factor) for least, factor in steps_of_items),
    ]
    words = [f"{what}: times {factor}" for what, factor in steps]
    return [*words, *([f"unique in the {always.replace('_', ' ')}: always selected"] if always else [])]


class PairSwapping(Method[PairSwappingRelease, Inputs, SwappedRecords]):
    mechanism = MECHANISM
    version = VERSION
    keeps_verdicts = True
    stages = (HOUSEHOLDS, CHARGE, SWAPPED, TABLES)
    draw_follows = (CEF, HOUSEHOLDS)
    draw_stage = SWAPPED
    drawn_table = SWAPPED
    drawn_words = "swapped records"
    tables = release_hook(published_tables)

    @property
    def drawn_columns(self) -> Mapping[str, str]:
        return describe_columns(self.release.variables) | {"unit": UNIT.description}

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        release = self.release
        return [
            build_stage(
                release,
                HOUSEHOLDS,
                StageKind.COUNTS,
                PROSE("households", design=release.design),
                [CEF],
                partial(households_recipes, release),
                HOUSEHOLD_COLUMNS | TRAIT_COLUMNS,
                version=lambda session, tables, custody: self.records_version(session, custody),
                publishes_version=True,
            ),
            build_tables(
                release,
                [SWAPPED],
                "Products, counted from the swapped records only.",
                self.table_recipes,
                describe_published(published_tables(release)),
            ),
        ]

    def own_gates(self) -> Sequence[Gate[PairSwappingRelease]]:
        return [*pair_swapping_gates(self.release), tables_gate(self.table_recipes)]

    def table_recipes(self, session: Session) -> Mapping[Table, Recipe]:
        units, persons = self.release.public(SWAPPED), self.release.public(SWAPPED_PERSONS)
        recipes: dict[Table, Recipe] = {}
        for product in self.release.declaration.products:
            counted = persons if product.of == "persons" else ""
            names = {"units": units, "persons": counted, "columns": list(product.columns)}
            recipes[self.release.public(product.table)] = ("pair_swapping/product", {}, names)
        return recipes

    def records_version(self, session: Session, custody: Custody) -> str:
        """The keyed version of all tables that a draw reads: the coded households and the CEF."""
        tables = [self.release.confidential(HOUSEHOLDS), *self.release.dataset.cef_tables()]
        return session.content_version(tables, self.release.version_key(custody))

    def charged_tables(self) -> Mapping[str, Sequence[Table]]:
        return {HOUSEHOLDS: [version_table(self.release, HOUSEHOLDS)]}

    def inputs(self, session: Session, custody: Custody) -> Inputs:
        return Inputs({HOUSEHOLDS: read_published_version(session, version_table(self.release, HOUSEHOLDS))})

    def plan(self) -> Plan:
        factors = describe_factors(self.release.design.risk_factors)
        return Plan(
            self.release.specification,
            facts={
                "loss": self.charge_description(),
                "share of each state's households that is selected": str(self.release.design.swap_rate),
                **({"risk factors": "; ".join(factors)} if factors else {}),
            },
        )

    def charge_facts(self, inputs: Inputs) -> dict[str, Fact]:
        return {
            "swap_rate": (str(self.release.design.swap_rate), "Share of each state's households that is selected"),
            "loss": (str(self.release.specification.loss), "The loss: no finite one"),
        }

    def charge_description(self) -> str:
        return f"ε = ∞ ({LOSS_SOURCE}). {WHY}"

    def draw_description(self) -> str:
        return PROSE("draw", design=self.release.design)

    def make(self, session: Session, draw: Draw[Inputs], key: bytes, custody: Custody) -> SwappedRecords:
        # Several gates of a step repeat the same draw.
        made = ("draw", draw.draw_id, compute_commitment(key))
        return session.compute_once(made, lambda: self._make(session, draw, key, custody))

    def _make(self, session: Session, draw: Draw[Inputs], key: bytes, custody: Custody) -> SwappedRecords:
        if self.records_version(session, custody) != draw.inputs.versions[HOUSEHOLDS]:
            raise StaleInputError(
                f"{self.release.schema}: the records have changed since the charge; materialize {HOUSEHOLDS} and "
                "charge again"
            )
        output = draw_records(session, self.release, key)
        problems = [*find_pair_problems(output), *find_rate_problems(output, self.release.design.swap_rate)]
        if problems:
            raise ValueError(f"{self.release.schema}: the pairs are not as declared: {problems[0]}")
        return output

    def version_of(self, draw: Draw[Inputs], output: SwappedRecords) -> str:
        return output.version

    def write(self, session: Session, draw: Draw[Inputs], output: SwappedRecords) -> str:
        for name, table in output.tables.items():
            session.create(self.release.public(name), "warehouse/all", source=table)
        return output.version

    def read_version(self, session: Session, draw: Draw[Inputs]) -> str | None:
        return stored_version(session, self.release)

    def read_earlier_version(self, session: Session, draw: Draw[Inputs]) -> str | None:
        return stored_earlier_version(session, self.release)

    def statement(self, draw: Draw[Inputs], output_version: str) -> Statement:
        design, imputed = self.release.design, self.release.counted_with["imputed"]
        rate = str(design.swap_rate)
        names = title_columns({**self.release.variables, **self.release.person_variables})
        values: dict[str, str | float | tuple[str, ...]] = {
            "Swap rate": float(design.swap_rate),
            "Key variables": tuple(names[name] for name in design.key),
            "Weights of the risks": ", ".join(map(str, WEIGHTS)),
            "Place": tuple(names[name] for name in design.place),
            "Imputed households": f"{imputed['column']}: {', '.join(imputed['values'])}" if imputed else "none marked",
        }
        if factors := describe_factors(design.risk_factors):
            values["Risk factors"] = tuple(factors)
        return Statement(
            mechanism="Targeted pair swapping, as in the 2010 census",
            mechanism_version=str(VERSION),
            method=PROSE("method", rate=rate),
            parameters=tuple(
                Parameter(label, value, PROSE(label), (rate,) if label == "Swap rate" else ())
                for label, value in values.items()
            ),
            loss_source=LOSS_SOURCE,
            accuracy=Accuracy(
                summary=PROSE("accuracy", rate=rate),
                columns=("Figure", "Share"),
                rows=(("Households selected in each state", float(design.swap_rate)),),
                note=PROSE("accuracy, note"),
            ),
            data_versions=(
                DataVersion("confidential records", draw.inputs.versions[HOUSEHOLDS], keyed=True),
                DataVersion("swapped records", output_version, keyed=False),
            ),
            remark=WHY,
            papers=(REFRESHMENT,),
            variables=names,
        )
