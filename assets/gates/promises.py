"""Every promise of a swapping release, as a function that finds what breaks it.

Here belongs the evaluation of a promise, on the tables as they are at that moment. The same functions serve
the asset checks and the publication, which asks every one again before it writes a file.
"""

from collections.abc import Callable
from dataclasses import dataclass

from assets.cef.validation import cef_findings
from assets.charge.draw import describe_draw
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
from assets.swap.asset import SWAPPED, can_replay, make_again, stage_decoded, stored_version
from assets.tabulation.tables import SATURATED, counted, product_names, product_values
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Fragment, Table, Zone
from resources.warehouse import Session, Warehouse


@dataclass(frozen=True)
class House:
    """A release and the resources its promises are checked against."""

    release: SwappingRelease
    warehouse: Warehouse
    custody: Custody
    ledger: Ledger


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
        Promise("schema_and_keys", "cef", "The CEF has the declared columns, types, domains and keys.", _cef),
        Promise("margins_of_the_cef", "invariants", "The invariants are the margins of the CEF as it is.", _margins),
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
        Promise("within_cap", "composition", "All charges to the dataset stay within its cap.", _cap),
        Promise("ledger_intact", "composition", "No ledger entry was edited, removed or reordered.", _ledger),
    ]
    if can_replay(release):
        replay = Promise("replay", "swapped", "Making the draw again gives the same swapped data.", _replay)
        kept.insert([promise.name for promise in kept].index("record_count") + 1, replay)
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
        return [str(finding) for finding in cef_findings(session, house.release.dataset)]


def _margins(house: House) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        records = stage_records(session, release)
        problems = []
        for table in (HOLDING, SWAPPING):
            stored = release.public(table)
            own = ("holding_code", "swap_code", "stratum", "count")
            columns = [name for name in session.columns(stored) if name not in own]
            counts = session.stage("counts", "gates/counts", records=records, columns=columns)
            problems += _said(_differing(session, stored, counts, [*columns, "count"]), f"{stored}: differing rows")
        version = cells_version(read_contingency(session, release, records), house.custody.version_key())
        if session.row("charge/records_version", table=release.public(RECORDS)) != (version,):
            problems.append(f"{release.public(RECORDS)} is not the version of the CEF's records")
        if release.has_persons_following and release.dataset.persons:
            problems += _compositions(session, release)
        return problems


def _compositions(session: Session, release: SwappingRelease) -> list[str]:
    persons = list(release.person_variables)
    listed = session.stage(
        "listed", "tabulation/persons", units=release.public(HOLDING), persons=release.public(COMPOSITIONS)
    )
    actual = session.stage("actual", "gates/counts", records=release.dataset.cef_tables()[1], columns=persons)
    return _said(
        _unequal(session, listed, actual, persons), "combinations of persons counted otherwise than in the CEF"
    )


def _charge(house: House) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = describe_draw(session, release, house.custody)
    entry = house.ledger.reservation(draw.draw_id)
    if entry is None:
        return [f"no ledger entry for draw {draw.draw_id}"]
    if entry.declared() != draw.specification:
        return [f"ledger entry {entry.sequence} was made for another DP specification"]
    if (entry.dataset, entry.release) != (release.dataset.name, release.name):
        return [f"ledger entry {entry.sequence} belongs to {entry.dataset}/{entry.release}"]
    return []


def _holding(house: House) -> list[str]:
    return _swapped_margin(house, HOLDING, list(house.release.design.holding))


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
        again = stage_decoded(session, release, make_again(session, release, draw, house.custody), "again")
        columns = list(session.columns(release.public(SWAPPED)))
        return _said(_differing(session, release.public(SWAPPED), again, columns), "differing cells")


def _settled(house: House) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = describe_draw(session, release, house.custody)
        version = stored_version(session, release, draw)
    settled = house.ledger.settlement(draw.draw_id)
    if settled is None:
        return [f"draw {draw.draw_id} is not settled"]
    if version != settled.output_version:
        return [f"the swapped data are not those that ledger entry {settled.sequence} settled"]
    return []


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
        columns = list(release.variables)
        rows = _differing(session, release.public(SATURATED), release.public(SWAPPED), [*columns, "count"])
        problems += _said(rows, f"{SATURATED}: differing cells")
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


def _ledger(house: House) -> list[str]:
    return list(house.ledger.verify())
