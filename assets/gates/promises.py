"""Every promise of a swapping release, as a function that finds what breaks it.

Here belongs the evaluation of a promise, on the tables as they are at that moment. The same functions serve
the asset checks and the publication, which asks every one again before it writes a file.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assets.cef.declaration import RecordTable
from assets.cef.validation import cef_problems, row_findings
from assets.charge.draw import describe_draw
from assets.confidentiality import Node, leaks
from assets.invariants.asset import composition_statement, margin_statements
from assets.invariants.records import (
    COMPOSITIONS,
    HOLDING,
    RECORDS,
    SWAPPING,
    cells_version,
    read_contingency,
    stage_records,
    swap_variables,
)
from assets.ledger.asset import cap_problems
from assets.release import SwappingRelease
from assets.swap.asset import SWAPPED, can_replay, make_again, stage_decoded, stage_stored, stored_version
from assets.tabulation.tables import counted, product_names, product_values, saturated_statements
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Fragment, Table, Zone
from resources.warehouse import Session, Warehouse


@dataclass(frozen=True)
class House:
    """A release and what its promises are checked against.

    Attributes:
        release: as declared.
        warehouse: the tables.
        custody: the keys.
        ledger: the charges.
        nodes: the deployment's asset graph, for the walk from confidential data to the publication.
    """

    release: SwappingRelease
    warehouse: Warehouse
    custody: Custody
    ledger: Ledger
    nodes: Mapping[str, Node]


@dataclass(frozen=True)
class Promise:
    """One promise.

    Attributes:
        name: of the check.
        stage: the asset that has to keep it.
        words: the promise as a sentence, for the check's page and the certificate.
        broken: finds what breaks it; each finding in words, with counts and without values.
    """

    name: str
    stage: str
    words: str
    broken: Callable[[House], list[str]]


def promises(release: SwappingRelease) -> tuple[Promise, ...]:
    """All promises of a release, in the order of its stages."""
    kept = [
        Promise("schema_and_keys", "cef", "The CEF has the declared columns, types and keys.", _cef),
        Promise("margins_of_the_cef", "invariants", "The invariants are the margins of the CEF as it is.", _margins),
        Promise("values_in_domain", "invariants", "Every value that occurs lies in its declared domain.", _domains),
        Promise("charge_present", "charge", "The ledger holds the charge for exactly this draw.", _charge),
        Promise("holding_margin_exact", "swapped", "Counts by the holding variables are exact.", _holding),
        Promise("swap_margin_exact", "swapped", "Counts by match and swap variables are exact.", _swapping),
        Promise(
            "stratum_multisets_equal",
            "swapped",
            "Every stratum of the swapped data holds the swap values of the CEF, equally often.",
            _multisets,
        ),
        Promise("record_count", "swapped", "There are as many swapped records as records.", _count),
        Promise("settled", "swapped", "The swapped data are what the ledger settled this draw with.", _settled),
        Promise(
            "products_agree_with_swapped_data",
            "tables",
            "Every product is what the swapped data say, totals included.",
            _products,
        ),
        Promise(
            "products_agree_with_invariants",
            "tables",
            "Every product adds up to the invariants it touches.",
            _products_and_invariants,
        ),
        Promise(
            "confidentiality",
            "tables",
            "Every path from confidential data to the publication passes a charged draw or a declared invariant.",
            _confidentiality,
        ),
        Promise("within_cap", "composition", "All charges to the dataset stay within its cap.", _cap),
        Promise("ledger_intact", "composition", "No ledger entry was edited, removed or reordered.", _ledger),
    ]
    if can_replay(release):
        last = Promise("replay", "swapped", "Making the draw again gives the same swapped data.", _replay)
    else:
        last = Promise("key_gone", "swapped", "The draw's key is no longer kept, so nobody can replay it.", _key_gone)
    kept.insert([promise.name for promise in kept].index("settled") + 1, last)
    return tuple(kept)


def _differing(session: Session, first: Table | Fragment, second: Table | Fragment, columns: list[str]) -> int:
    (rows,) = session.row("gates/differing_rows", first=first, second=second, columns=columns)
    return int(rows)


def _unequal(
    session: Session,
    first: Table | Fragment,
    second: Table | Fragment,
    columns: list[str],
    totals: list[str] | None = None,
    total: str = "",
) -> int:
    (cells,) = session.row(
        "gates/differing_margins",
        {"total": total} if totals else None,
        first=first,
        second=second,
        columns=columns,
        totals=totals or [],
    )
    return int(cells)


def _said(number: int, what: str) -> list[str]:
    return [f"{what}: {number:,}"] if number else []


def _cef(house: House) -> list[str]:
    with house.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        return cef_problems(session, house.release.dataset)


def _margins(house: House) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        records = stage_records(session, release)
        problems = []
        for table, names in margin_statements(release, records).items():
            again = session.stage("again", "invariants/margin", **names)
            problems += _differing_table(session, release.public(table), again)
        if release.has_persons_following:
            again = session.stage("again", "invariants/compositions", **composition_statement(release, records))
            problems += _differing_table(session, release.public(COMPOSITIONS), again)
        if not problems:
            version = cells_version(read_contingency(session, release, records), house.custody.version_key())
            if session.row("charge/records_version", table=release.public(RECORDS)) != (version,):
                problems.append(f"{release.public(RECORDS)} is not the version of the CEF's records")
        return problems


def _differing_table(session: Session, stored: Table, again: Fragment) -> list[str]:
    columns = list(session.columns(stored))
    return _said(_differing(session, stored, again, columns), f"{stored}: differing rows")


def _domains(house: House) -> list[str]:
    release = house.release
    design, variables = release.design, release.variables
    tables = {HOLDING: {name: variables[name] for name in design.holding}}
    tables[SWAPPING] = {name: variables[name] for name in swap_variables(release)}
    if release.has_persons_following:
        tables[COMPOSITIONS] = dict(release.person_variables)
    problems = []
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for name, columns in tables.items():
            table, declared = release.public(name), RecordTable.model_validate({"columns": columns})
            problems += [str(finding) for finding in row_findings(session, table, declared, str(table), Counter())]
    return problems


def _charge(house: House) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = describe_draw(session, release, house.custody)
    entry = house.ledger.reservation(draw.draw_id)
    if entry is None:
        return [f"no ledger entry for draw {draw.draw_id}"]
    if not entry.declared().protects_like(draw.specification):
        return [f"ledger entry {entry.sequence} was made for another DP specification"]
    if (entry.dataset, entry.release) != (release.dataset.name, release.name):
        return [f"ledger entry {entry.sequence} belongs to {entry.dataset}/{entry.release}"]
    return []


def _holding(house: House) -> list[str]:
    # The code stands for the persons of a unit too, which have no column of their own here.
    return _swapped_margin(house, HOLDING, ["holding_code", *house.release.design.holding])


def _swapping(house: House) -> list[str]:
    return _swapped_margin(house, SWAPPING, swap_variables(house.release))


def _swapped_margin(house: House, margin: str, columns: list[str]) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        cells = _unequal(session, release.public(SWAPPED), release.public(margin), columns)
        return _said(cells, f"cells of {release.public(margin)} counted otherwise in the swapped data")


def _multisets(house: House) -> list[str]:
    release = house.release
    columns = swap_variables(release)
    with house.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        records = stage_records(session, release)
        original = session.stage("original", "gates/counts", records=records, columns=columns)
        return _said(_unequal(session, release.public(SWAPPED), original, columns), "differing cells")


def _count(house: House) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        swapped, holding = (session.row("gates/records", table=release.public(name))[0] for name in (SWAPPED, HOLDING))
    return [] if swapped == holding else [f"{swapped:,} swapped records, but {holding:,} records"]


def _replay(house: House) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw = describe_draw(session, release, house.custody)
        if house.ledger.reservation(draw.draw_id) is None:
            return [f"draw {draw.draw_id} is not charged, and so it is not made again"]
        cells = make_again(session, release, draw, house.custody, house.ledger)
        again = stage_decoded(session, release, cells, "again")
        columns = list(session.columns(release.public(SWAPPED)))
        return _said(_differing(session, release.public(SWAPPED), again, columns), "differing cells")


def _settled(house: House) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = describe_draw(session, release, house.custody)
        version = stored_version(session, release, draw)
        # Products read the values, the settlement knows the codes: the one must say what the other does.
        again = stage_stored(session, release, "again")
        columns = list(session.columns(release.public(SWAPPED)))
        shown = _said(_differing(session, release.public(SWAPPED), again, columns), "values that are not the codes'")
    settled = house.ledger.settlement(draw.draw_id)
    if settled is None:
        return [f"draw {draw.draw_id} is not settled"]
    if version != settled.output_version:
        return [f"the swapped data are not those that ledger entry {settled.sequence} settled"]
    return shown


def _products(house: House) -> list[str]:
    release = house.release
    problems = []
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for product in release.products:
            stored, columns = release.public(product.table), list(product.columns)
            records = counted(session, release, product, release.public(SWAPPED))
            names = product_names(product, records)
            again = session.stage("again", "tabulation/product", product_values(product), **names)
            rows = _differing(session, stored, again, [*columns, "count"])
            rows += _unequal(session, stored, records, columns, list(product.totals), product.total_label)
            problems += _said(rows, f"{product.name}: differing cells")
        for table, (name, names) in saturated_statements(release).items():
            again = session.stage("again", name, **names)
            problems += _differing_table(session, release.public(table), again)
    return problems


def _products_and_invariants(house: House) -> list[str]:
    release = house.release
    problems = []
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for product in release.products:
            margins: list[tuple[Table | Fragment, list[str]]] = [
                (counted(session, release, product, release.public(HOLDING)), [*release.design.holding])
            ]
            if product.of == "units":
                margins.append((release.public(SWAPPING), swap_variables(release)))
            for margin, variables in margins:
                shared = [name for name in product.columns if name in (*variables, *release.person_variables)]
                cells = _unequal(
                    session, release.public(product.table), margin, shared, list(product.totals), product.total_label
                )
                problems += _said(cells, f"{product.name}: cells that differ from {margin}")
    return problems


def _cap(house: House) -> list[str]:
    return cap_problems(house.release.dataset, house.ledger)


def _key_gone(house: House) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw_id = describe_draw(session, release, house.custody).draw_id
    return [f"the key of draw {draw_id} is still kept"] if house.custody.keeps(draw_id) else []


def _confidentiality(house: House) -> list[str]:
    return leaks(house.nodes, house.release.key("publication"))


def _ledger(house: House) -> list[str]:
    return list(house.ledger.verify())
