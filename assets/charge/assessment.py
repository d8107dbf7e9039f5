"""The price of a release's next draw: the loss to be charged, why it is a new draw, and whether it may be charged.

The charge and the preflight both use this assessment. The assessment neither draws nor charges.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assets.conventions import SHORT
from assets.ledger.view import find_budget
from assets.release import signature
from assets.release.contents import describe_records, find_content_problems, read_contents, read_sketch_name
from assets.release.dataset import CEF, DatasetDeclaration
from assets.release.draw import Draw, Inputs, StaleInputError
from assets.release.method import CHARGE, Method
from assets.release.release import Release
from assets.texts import describe_public, show_line
from mechanisms.accounting.losses import CurveLoss, InfiniteLoss, Loss, format_loss
from mechanisms.accounting.specification import Specification
from resources.chain import (
    DIFFERENT_PEOPLE,
    PUBLIC_BECAUSE,
    RESERVE,
    WITHDRAW,
    Details,
    Entry,
    canonicalize,
    find,
)
from resources.custody import Custody
from resources.ledger import CapExceeded, Ledger, LedgerError, PopulationError, Reading, remaining, require_population
from resources.statements import Zone
from resources.warehouse import Warehouse

NOBODY = "<your name>"
NO_REASON = "<why these are different people>"
NOT_PUBLIC_YET = "<why these records are public>"

BY_CURVE = "A cap by the curve is no guarantee if this budget was chosen after a look at noisy results"

_LONGEST = 80
"""The most letters of a parameter's value in a sentence."""


@dataclass(frozen=True)
class Assessment:
    """The consequences of a charge for a release's next draw.

    Attributes:
        details: the details of the reservation, without an authorization.
        entry: the reservation that the draw already has, or None.
        reason: why the draw is a new one, as a sentence.
        budget: the population's charges and remaining budget, before and after a new charge, as a sentence.
        refusal: why the ledger would refuse the charge, or ""; for a charged draw, that it was withdrawn, if it was.
        resemblance: why the ledger would refuse the charge unless the authorization states that these are different
            people, or "".
        unsaid: why the ledger would refuse the charge unless the authorization states why the records are public, or
            "".
    """

    release: Release
    draw: Draw[Inputs]
    details: Details
    entry: Entry | None
    reason: str
    budget: str
    refusal: str
    resemblance: str = ""
    unsaid: str = ""

    @property
    def loss(self) -> Loss:
        return self.draw.specification.charge

    @property
    def price(self) -> str:
        """The loss to be charged, rounded up: the text that authorizes it."""
        return format_loss(self.loss)

    @property
    def draw_name(self) -> str:
        return self.draw.draw_id[:SHORT]

    @property
    def reason_wanted(self) -> tuple[str, str]:
        """The field of an authorization that must give a reason, and a placeholder for it; empty if no reason is
        needed."""
        if self.unsaid:
            return PUBLIC_BECAUSE, NOT_PUBLIC_YET
        return (DIFFERENT_PEOPLE, NO_REASON) if self.resemblance else ("", "")

    def allows(self, authorized_loss: str) -> bool:
        """Whether a text names the loss to be charged: as stated, with or without its symbol, or as an exact value."""
        given = "".join(authorized_loss.split())
        bare = self.price.removeprefix(f"{self.loss.symbol} = ")
        exact = str(self.loss)
        names = (self.price, bare, exact, f"{self.loss.symbol} = {exact}")
        return given in {"".join(name.split()) for name in names}

    @property
    def command(self) -> str:
        name = f"{self.release.dataset.name}/{self.release.name}"
        field, reason = self.reason_wanted
        words = f' --{field.replace("_", "-")} "{reason}"' if field else ""
        return f'stirred launch {name} --authorize "{self.price}" --draw {self.draw_name} --by "{NOBODY}"{words}'

    def how_to_authorize(self) -> str:
        fields = {"authorized_loss": self.price, "authorized_draw": self.draw_name, "authorized_by": NOBODY}
        field, reason = self.reason_wanted
        fields |= {field: reason} if field else {}
        lines = [f'      {name}: "{value}"' for name, value in fields.items()]
        return "\n".join(["ops:", f"  {'__'.join(self.release.key(CHARGE).path)}:", "    config:", *lines])


def assess(method: Method[Any, Any, Any], warehouse: Warehouse, custody: Custody, ledger: Ledger) -> Assessment:
    """Assess the release's next draw.

    Args:
        warehouse: the warehouse. The confidential zone is read for the version of the CEF.

    Raises:
        SealError: if a table that the charge depends on is missing or was altered.
        StaleInputError: if the stored CEF is not the one that was read from the source, or a new draw would depend on
            records that were read by an earlier version of Stirred, which made no sketch of them.
        LedgerError: if the ledger is not intact, or lacks the charge of a published edition.
    """
    release = method.release
    with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        method.hold_charged(session)
        if problems := find_content_problems(session, custody, release.dataset):
            raise StaleInputError(f"{problems[0]}. Nothing was drawn, and nothing was charged.")
        method.require_chargeable(session)
        draw = method.describe(session, custody)
        contents = read_contents(session, custody, release.dataset)
        sketch = read_sketch_name(session, custody, release.dataset)
    dataset = release.dataset
    details = describe_records(dataset, contents, draw.made_of, sketch)
    editions = signature.list_signed(release.published, signature.public_key(custody))
    reading = ledger.read()
    if set_back := signature.find_set_back(editions, reading.require_intact()):
        raise LedgerError(f"{set_back[0]}. Nothing was drawn, and nothing was charged. See docs/how-to/lost-key.md")
    entry, refusal, resemblance, unsaid = reading.find_reservation(draw.draw_id), "", "", ""
    if entry is None and not sketch and not dataset.reader.built_in:
        raise StaleInputError(
            f"{dataset.name}: the records were read by an earlier version of Stirred, which cannot recognize records "
            f"charged to another population; materialize {CEF} again. Nothing was drawn, and nothing was charged."
        )
    try:
        reading.require_never_confidential(dataset.name, details)
        if entry:
            require_population(entry, details.population)
        else:
            unbounded = dataset.allows_unbounded_releases
            reading.require_chargeable(dataset.name, release.name, draw.specification, dataset.cap, details, unbounded)
            # Refused before the charge, because the draw could not be published.
            refusal = release.find_name_problem(custody, reading.entries) or _find_foreign_key(release, custody)
            resemblance = ledger.find_resemblance(reading, dataset.name, details)
            if dataset.public:
                refusal, resemblance = refusal or resemblance, ""
                if not reading.find_public_words(dataset.name, details):
                    unsaid = (
                        f"the records are declared public, from {show_line(details.public)}, without a reason so far"
                    )
    except CapExceeded as error:
        refusal = f"the charge{error.verdict}"
    except PopulationError as error:
        refusal = str(error)
    if entry and (withdrawn := reading.find_withdrawal(draw.draw_id)):
        refusal = (
            f"the draw was withdrawn in ledger entry {withdrawn.sequence} and is never made again; a release under a "
            "new name is a new draw"
        )
    charge = None if entry or refusal else draw.specification
    budget = _describe_budget(dataset, reading, charge)
    reason = explain_why_new(release, details, reading.entries)
    return Assessment(release, draw, details, entry, reason, budget, refusal, resemblance, unsaid)


def _find_foreign_key(release: Release, custody: Custody) -> str:
    problem = signature.find_foreign_key(release.published, signature.public_key(custody))
    return f"{problem}. {signature.OF_ANOTHER_KEY}" if problem else ""


def predict_budget(
    dataset: DatasetDeclaration, release: str, charge: Specification | None, reading: Reading
) -> tuple[str, str]:
    """The rest of the population's cap after a new charge, and why the ledger would refuse the charge, as sentences.

    Args:
        charge: the loss to be charged; None if it is unknown.
        reading: the ledger. LedgerError is raised if it is not intact.

    Returns:
        The charges and the remaining budget, before the charge and, if it would not be refused, after it; and the
        refusal, or "".
    """
    refusal = ""
    if dataset.cap is None:
        return _describe_budget(dataset, reading, charge), refusal
    if charge and isinstance(loss := charge.charge, InfiniteLoss):
        if not dataset.allows_unbounded_releases:
            refusal = f"a charge of {format_loss(loss)} fits under no cap, and dataset {dataset.name} does not allow it"
    elif charge:
        try:
            reading.require_fit(dataset.population, f"{dataset.name}/{release}", charge, dataset.cap)
        except CapExceeded as error:
            refusal = f"a charge of {format_loss(charge.charge)}{error.verdict}"
    return _describe_budget(dataset, reading, None if refusal else charge), refusal


def predict_charge(method: Method[Any, Any, Any], charge: Specification | None, reading: Reading) -> tuple[str, str]:
    """As `predict_budget`, for a release's declaration; if it is charged already, no further charge is predicted."""
    release = method.release
    if entry := find_charged(method, reading.entries):
        budget, _ = predict_budget(release.dataset, release.name, None, reading)
        return f"{describe_charged(entry)} {budget}", ""
    return predict_budget(release.dataset, release.name, charge, reading)


def describe_charged(entry: Entry) -> str:
    """A sentence that a declaration is charged in an entry of `find_charged`."""
    return (
        f"It is charged already, in entry {entry.sequence} of the ledger: with the same records, a launch makes the "
        "same draw, and charges nothing more."
    )


def _describe_budget(dataset: DatasetDeclaration, reading: Reading, charge: Specification | None) -> str:
    if dataset.cap is None:
        return f"{describe_public(dataset.source)}."
    population, cap, budget = dataset.population, dataset.cap, find_budget(dataset, reading)
    if budget.total is None:
        return f"What population {population} has been charged cannot be counted under the cap: {budget.problem}."
    words = (
        f"Population {population} has been charged {format_loss(budget.total)} of its cap of {format_loss(cap)}; "
        f"{budget.left} remains"
    )
    if charge is None:
        return f"{words}. {budget.warning}".rstrip()
    if isinstance(charge.charge, InfiniteLoss):
        words = f"{words}. This charge is infinite, and no cap bounds it: it is recorded beside these."
        return f"{words} {budget.warning}".rstrip()
    after = reading.compose(population, cap, also=[charge])
    condition = f"{BY_CURVE}. " if isinstance(cap, CurveLoss) else ""
    return f"{words} before this charge and {remaining(after, cap)} after it. {condition}{budget.warning}".rstrip()


def find_charged(method: Method[Any, Any, Any], entries: Sequence[Entry]) -> Entry | None:
    """The release's latest reservation for the present declaration, for any records, that was not withdrawn. As long as
    the records are also the same, another launch charges nothing."""
    own, declared = (
        (method.release.dataset.name, method.release.name),
        json.loads(canonicalize(method.describe_declared())),
    )
    for entry in reversed(entries):
        if (
            entry.kind == RESERVE
            and (entry.dataset, entry.release) == own
            and not find(entries, WITHDRAW, entry.draw_id)
        ):
            charged = entry.parse_details().draw
            if declared == {name: charged.get(name) for name in declared}:
                return entry
    return None


def explain_why_new(release: Release, details: Details, entries: Sequence[Entry]) -> str:
    """Why the draw is none of the charged ones, as a sentence."""
    reserved = [entry for entry in entries if entry.kind == RESERVE and entry.dataset == release.dataset.name]
    own = [entry for entry in reserved if entry.release == release.name]
    if not own:
        alike = [entry for entry in reserved if details.draw and dict(entry.parse_details().draw) == dict(details.draw)]
        if alike:
            return (
                f"The release has the same parameters and records as {alike[-1].release} (ledger entry "
                f"{alike[-1].sequence}), but another name, which makes a new draw with its own noise."
            )
        return "It is the first draw of this release."
    latest = own[-1]
    before = latest.parse_details()
    if not before.draw:
        return (
            f"Ledger entry {latest.sequence} does not record what the draw before was made of, so changes are unknown."
        )
    changes = list(_changes(before.draw, details.draw))
    if not changes:
        return f"Nothing that ledger entry {latest.sequence} records has changed, but the keys under custody have."
    return f"Since ledger entry {latest.sequence}, {'; '.join(changes)}."


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if before.get("mechanism") != now["mechanism"]:
        yield f"the mechanism changed from {before.get('mechanism')} to {now['mechanism']}"
    if before.get("version") != now["version"]:
        yield f"the version of the mechanism changed from {before.get('version')} to {now['version']}"
    rules = list(_differences(before.get("parameters", {}), now["parameters"]))
    for name, old, new in rules:
        yield f"parameter {name} changed from {old} to {new}"
    inputs = before.get("inputs", {})
    changed = sorted(name for name in now["inputs"] if inputs.get(name) != now["inputs"][name])
    if changed:
        # Versions of inputs also depend on rules such as recodes, so under other rules they do not show which it was.
        otherwise = ", or are recoded or counted differently" if rules else ""
        yield f"the records changed{otherwise} (changed input{'s' * (len(changed) > 1)}: {', '.join(changed)})"


def _differences(before: Any, now: Any, name: str = "") -> Iterator[tuple[str, str, str]]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in sorted(before.keys() | now.keys()):
            yield from _differences(before.get(key), now.get(key), f"{name}.{key}" if name else key)
    elif before != now:
        yield name, _short(before), _short(now)


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = show_line(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
