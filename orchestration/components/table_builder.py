"""The component of a release by the table builder: a few lines of YAML become the asset graph of every hypercube.

The YAML fields are in `table_builder_declaration`. What a hypercube must satisfy is in `assets.table_builder.release`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import dagster as dg
import pyarrow as pa

from assets.charge.preflight import PREFLIGHT
from assets.release.columns import Column
from assets.release.dataset import DatasetDeclaration
from assets.release.method import Method
from assets.release.release import DeclarationError
from assets.release.withheld import WithheldRecords
from assets.table_builder.asking import QuestionError, least_variance, read_publication
from assets.table_builder.method import TableBuilderMethod
from assets.table_builder.p_tables import PTableFileError, load_p_table
from assets.table_builder.plan import budgets_for
from assets.table_builder.release import PERSONS, UNITS, Amount, HypercubeRelease, SubTable, is_number
from mechanisms.table_builder.entropy import ImpossibleTableError, Parameters, make
from mechanisms.table_builder.grid_values import PLACES, Grid
from mechanisms.table_builder.hypercube import Hypercube, HypercubeError, Margins, NoiseFamily, Table
from mechanisms.table_builder.p_table import PTable
from orchestration.components.release import COMPONENTS, DeclaresReleases, ReleaseComponent, declared
from orchestration.components.table_builder_declaration import (
    AmountDeclaration,
    GivenPTable,
    HypercubeAttributes,
    HypercubeDeclaration,
    MadePTable,
    TableBuilderDeclaration,
)
from orchestration.environment import PROJECT
from orchestration.planning import plain


@dataclass
class SingleHypercube(ReleaseComponent):
    """One hypercube of a release by the table builder, with the release whose withheld records it counts, if any."""

    withholding: ReleaseComponent | None = None
    among: TableBuilderDeclaration | None = field(default=None, compare=False)
    """The declaration of all hypercubes that are declared together."""

    declared_by = HypercubeDeclaration
    method = TableBuilderMethod

    def release(self, dataset: DatasetDeclaration, published: Path) -> HypercubeRelease:
        withheld = self.withholding.withheld_records(dataset, published) if self.withholding else None
        return build_release(self.declaration, dataset, published, withheld)

    @property
    def type_name(self) -> str:
        return f"{COMPONENTS}.{TableBuilder.__name__}"

    @property
    def tried(self) -> HypercubeAttributes:
        return self._cube

    @property
    def attributes(self) -> TableBuilderDeclaration:
        return self._among

    def with_fields(self, given: Mapping[str, Any]) -> Self:
        """The hypercube with these fields, among the others of its file."""
        # Validated as part of the release, so that errors begin with the release and the field.
        tried = HypercubeDeclaration.model_validate(plain(self.declaration) | {"hypercube": given})
        cube, among = tried.hypercube, self._among
        if cube.swapped != self._cube.swapped:
            raise DeclarationError(
                f"release {self.named}: swapped: declare the hypercube with other records first, and plan it then"
            )
        changed = among.model_copy(
            update={"hypercubes": [cube if each.name == cube.name else each for each in among.hypercubes]}
        )
        (declaration,) = (each for each in changed.each() if each.hypercube is cube)
        return replace(self, declaration=declaration, among=changed)

    @property
    def _cube(self) -> HypercubeAttributes:
        cube: HypercubeAttributes = self.declaration.hypercube
        return cube

    @property
    def _among(self) -> TableBuilderDeclaration:
        assert self.among is not None
        return self.among

    def fields_for_margins(self, method: Method[Any, Any, Any], margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        budgets = budgets_for(method.release, margins)
        total = sum(budgets.values(), Fraction())
        fields: dict[str, Any] = {self._symbol: total}
        if self._cube.margins is not Margins.SUMMED:
            fields["shares"] = [{"by": list(table), "share": each / total} for table, each in budgets.items()]
        return fields

    def scaled(self, method: Method[Any, Any, Any], factor: Fraction) -> Mapping[str, Any]:
        return {self._symbol: factor * method.release.design.budget}

    @property
    def _symbol(self) -> str:
        return "epsilon" if self._cube.rho is None else "rho"


@dataclass
class TableBuilder(DeclaresReleases):
    """Hypercubes of perturbed counts, weighted counts or sums, from which any further table is built."""

    declared_by = TableBuilderDeclaration

    def releases(self, beside: Sequence[DeclaresReleases] = ()) -> Sequence[ReleaseComponent]:
        known = {each.named: each for each in beside if isinstance(each, ReleaseComponent)}
        dataset = self.declaration.dataset
        return [
            SingleHypercube(each, known.get(f"{dataset}/{each.hypercube.swapped}"), self.declaration)
            for each in self.declaration.each()
        ]

    @staticmethod
    def answered(
        folders: Sequence[Mapping[str, Path]], by: Sequence[str], where: Mapping[str, Sequence[str | None]]
    ) -> tuple[list[str], pa.Table]:
        """The names of the hypercubes that answer, and their answer: sums, or means of one by the other.

        Args:
            folders: by name, the folders of the hypercubes that may answer; a second mapping for means.
            by: the variables to tabulate by.
            where: by variable, the categories that count.

        Raises:
            QuestionError: if none can answer.
        """
        answering = []
        for each in folders:
            published = {name: read_publication(folder) for name, folder in each.items()}
            name = least_variance(published, by, where)
            answering.append((name, published[name]))
        names, (first, *rest) = [name for name, _ in answering], [each for _, each in answering]
        if len({name.partition("/")[0] for name in names}) > 1:
            raise QuestionError(f"means are taken of hypercubes of one dataset, not of {' and '.join(names)}")
        return names, first.means(rest[0], by, where) if rest else first.ask(by, where)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions of every hypercube, and the jobs that make all of them and state their prices."""
        beside = context.component_tree.get_all_components(DeclaresReleases)  # type: ignore[type-abstract]
        hypercubes = self.releases(beside)
        dataset = self.declaration.dataset
        own = dg.AssetSelection.key_prefixes(*([dataset, each.declaration.name] for each in hypercubes))
        prices = dg.AssetSelection.assets(*(each.key(PREFLIGHT) for each in hypercubes))
        every = dg.define_asset_job(
            f"{dataset}__{self.declaration.name}",
            selection=own.upstream() - prices,
            description=f"{self.declaration.title}: every hypercube, from the source to its publication, with every "
            "check. Each new draw is authorized by itself.",
        )
        price = dg.define_asset_job(
            f"{PREFLIGHT}__{dataset}__{self.declaration.name}",
            selection=prices.upstream(),
            description=f"{self.declaration.title}: what the next charge of every hypercube would be, and why.",
        )
        return dg.Definitions.merge(
            *(each.build_defs(context) for each in hypercubes), dg.Definitions(jobs=[every, price])
        )


def build_release(
    declaration: HypercubeDeclaration,
    dataset: DatasetDeclaration,
    published: Path,
    withheld: WithheldRecords | None = None,
) -> HypercubeRelease:
    """Build a hypercube's release from its declaration.

    Args:
        declaration: the hypercube, as it is declared.
        dataset: its dataset.
        published: the parent folder of all publications.
        withheld: the records that `swapped` names.

    Raises:
        DeclarationError: if the declaration contradicts itself or the dataset.
    """
    name, cube = f"release {declaration.dataset}/{declaration.name}", declaration.hypercube
    if cube.of == PERSONS and dataset.persons is None:
        raise DeclarationError(f"{name}: of: {dataset.name} has no persons")
    own = dataset.persons.variables if cube.of == PERSONS and dataset.persons else {}
    columns = {**dataset.units.variables, **own}
    if cube.swapped is not None:
        if withheld is None:
            raise DeclarationError(f"{name}: swapped: {dataset.name} has no release {cube.swapped} that is withheld")
        if (withheld.unit == dataset.record_name) != (cube.of == UNITS):
            raise DeclarationError(f"{name}: of: the withheld records of {withheld.name} are {withheld.unit}s")
        columns = dict(withheld.columns)
    for variable in cube.variables:
        if variable not in columns:
            known = ", ".join(columns)
            raise DeclarationError(f"{name}: variables: there is no column {variable} of {cube.of}; there are {known}")
    given = cube.weight or cube.value
    try:
        amount = _amount(given, columns) if given else None
    except ValueError as error:
        raise DeclarationError(f"{name}: {'weight' if cube.weight else 'value'}: {error}") from None
    sizes = {}
    for variable in sorted(cube.variables):
        try:
            sizes[variable] = columns[variable].domain_size
        except ValueError as error:
            raise DeclarationError(f"{name}: variables: {variable}: {error}") from None
    try:
        design = Hypercube(
            sizes,
            cube.epsilon or cube.rho or Fraction(0),
            NoiseFamily.P_TABLE if cube.p_table else NoiseFamily.GAUSSIAN if cube.rho else NoiseFamily.LAPLACE,
            cube.margins,
            _shares(cube),
            cube.cap,
            *((amount.grid.least, amount.grid.most) if amount else (0, 1)),
            _p_table(cube.p_table) if cube.p_table else None,
            cube.consistency,
        )
    except (HypercubeError, PTableFileError) as error:
        raise DeclarationError(f"{name}: {error}") from None
    except ImpossibleTableError as error:
        raise DeclarationError(f"{name}: p_table: {error}") from None
    if cube.record_keys is not None and cube.record_keys not in columns:
        raise DeclarationError(f"{name}: record_keys: there is no column {cube.record_keys} of {cube.of}")
    return HypercubeRelease(
        **declared(declaration, dataset, published),
        design=design,
        of=cube.of,
        variables=tuple(cube.variables),
        amount=amount,
        record_keys=cube.record_keys,
        withheld=withheld,
        impossible=tuple({each: tuple(values) for each, values in zeros.items()} for zeros in cube.structural_zeros),
        delta=cube.delta,
        suppressed_below=cube.suppress_below,
        products=tuple(
            SubTable(each.name, each.title, tuple(each.by), {of: tuple(values) for of, values in each.where.items()})
            for each in cube.products
        ),
    )


def _shares(cube: HypercubeAttributes) -> dict[Table, Fraction]:
    """The declared shares by table, whose variables are in alphabetical order.

    Raises:
        HypercubeError: if a table is there twice.
    """
    shares: dict[Table, Fraction] = {}
    for each in cube.shares:
        table = tuple(sorted(each.by))
        if table in shares:
            raise HypercubeError(f"shares: the table by {', '.join(table)} has two shares")
        shares[table] = each.share
    return shares


def _p_table(given: MadePTable | GivenPTable) -> PTable:
    """The declared p-table.

    Raises:
        ImpossibleTableError: if no p-table satisfies the constraints.
        PTableFileError: if the file holds none.
    """
    if isinstance(given, GivenPTable):
        return load_p_table(PROJECT / given.path, given.form)
    wanted = Parameters(
        given.largest_change, given.variance, given.threshold, given.probability_to_stay, given.monotone
    )
    return make(wanted).table


def _amount(given: AmountDeclaration, columns: dict[str, Column]) -> Amount:
    """The declared amount. Raises ValueError if it does not fit the column or the grid."""
    if given.column not in columns:
        raise ValueError(f"column: there is no column {given.column}; there are {', '.join(columns)}")
    if not is_number(columns[given.column]):
        raise ValueError(f"column: {given.column} is no number")
    grid = Grid(given.grid, given.least, given.most)
    if columns[given.column].nullable and not grid.least <= 0 <= grid.most:
        raise ValueError(f"least: {given.column} may be empty, which counts as 0, so 0 lies within the bounds")
    if (given.grid * 10**PLACES).denominator != 1:
        raise ValueError(f"grid: {given.grid} is not a number with at most {PLACES} decimals")
    return Amount(given.column, grid)
