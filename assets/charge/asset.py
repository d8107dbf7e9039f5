"""The asset `charge`, which reserves the release's loss in the ledger and commits to its randomness, and `preflight`.

Unless the dataset is charged automatically, a new draw needs an authorization that names its loss. If the authorization
is missing, or the charge exceeds the cap, `charge` stops with the price, and its downstream assets do not run.
`preflight` shows the same facts without a charge.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dagster as dg
import pyarrow as pa
from pydantic import Field

from assets.charge.assessment import (
    BY_CURVE,
    NO_REASON,
    NOBODY,
    NOT_PUBLIC_YET,
    Assessment,
    assess,
)
from assets.conventions import DRAW_ID, KEYED, StageKind, group_digits, preview, shorten_digest, table_schema
from assets.ledger.comparison import NOT_RECORDED
from assets.ledger.view import AUTOMATIC, AUTOMATICALLY, FOR_CONTRIBUTOR, describe_contributor
from assets.release.contents import describe_records, forget_sketches
from assets.release.draw import Draw, Inputs
from assets.release.method import Fact, Method
from assets.release.prose import Prose
from assets.release.release import Release
from assets.release.stage import COLUMN_SCHEMA, create_tables, release_stage, store_rows
from assets.release.stage_names import AUTHORIZED_BY_COMMAND, CEF, CHARGE, CHARGED, CHARGED_BY, LOSS, PREFLIGHT
from assets.texts import find_unfit_name, find_unseen, fold_line, show_line
from mechanisms.accounting.composition import warn_of_infinite
from mechanisms.accounting.losses import CurveLoss, format_loss, format_number
from mechanisms.accounting.rounding import LINE_DECIMALS
from resources.chain import NOT_CHARGED, PUBLIC_BECAUSE, Details, Entry
from resources.custody import Custody
from resources.ledger import Ledger, Reading, remaining
from resources.statements import Zone
from resources.warehouse import Recipe, Session, Warehouse

PROSE = Prose(__file__)

_NO_NAMES = frozenset(fold_line(words) for words in ("", NOBODY, NOT_RECORDED, AUTOMATIC, AUTOMATICALLY))
"""Texts that stand for no person in the configuration or on the ledger's page, and so are refused as names."""
_FEWEST_LETTERS, _LONGEST_REASON = 12, 300

_IDENTIFIERS = frozenset({"draw_id", "commitment", "ledger_hash"})


class Authorization(dg.Config):
    """A person's authorization of a charge of exactly this size, for one draw.

    The draw's id limits the decision to these records and parameters. Otherwise, if the loss does not depend on the
    records, the same configuration would authorize every later draw too.
    """

    authorized_loss: str = Field(
        "", description='The loss to be charged, as the refused run or the preflight states it, such as "ε = 3.4012".'
    )
    authorized_draw: str = Field("", description="The beginning of the draw's id, as stated beside the loss.")
    authorized_by: str = Field("", description="The name of the person who authorizes the charge.")
    different_people: str = Field(
        "",
        description="Why these are different people, if the records resemble those of another population: one line.",
    )
    public_because: str = Field(
        "", description="Why the records of a public dataset are public, at its first draw: one line."
    )


def build_charge(method: Method[Any, Any, Any]) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "charge"]`."""
    release = method.release

    @release_stage(
        release,
        CHARGE,
        StageKind.CHARGE,
        PROSE("charge", method=method, dataset=release.dataset, cap=_format_cap(release), terms=_find_terms(release)),
        [CEF, *method.charge_follows],
        kinds={"duckdb", "ledger"},
        code_version="2",
    )
    def charge(
        context: dg.AssetExecutionContext,
        config: Authorization,
        warehouse: Warehouse,
        custody: Custody,
        ledger: Ledger,
    ) -> dg.MaterializeResult:
        ledger.forget_keys()
        forget_sketches(ledger)
        assessment = assess(method, warehouse, custody, ledger)
        require_authorization(assessment, config)
        entry = charge_draw(assessment, config, context.op_execution_context.run_id, ledger)
        draw, table = assessment.draw, release.public(CHARGE)
        facts = charge_facts(method, draw, entry)
        with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
            create_tables(session, {table: charge_recipe(session, facts)})
            schema = table_schema(session.columns(table), {name: words for name, (_, words) in facts.items()})
        method.keep_partitions(context.instance, release.adapt(warehouse), custody)
        parts = [(line.label, format_number(line.loss, LINE_DECIMALS)) for line in draw.specification.lines]
        return dg.MaterializeResult(
            data_version=dg.DataVersion(draw.draw_id),
            metadata={
                LOSS: format_loss(entry.parse_specification().charge),
                CHARGED_BY: show_line(entry.parse_details().authorization.get("run", NOT_RECORDED)),
                **_budget_facts(release, ledger.read(), entry),
                "authorized by": show_line(entry.parse_details().authorization.get("by", NOT_RECORDED)),
                "draw": shorten_digest(draw.draw_id),
                "population": entry.parse_details().population,
                **{
                    name.replace("_", " "): group_digits(str(value)) if name in _IDENTIFIERS else value
                    for name, (value, _) in facts.items()
                },
                COLUMN_SCHEMA: schema,
            }
            | ({"lines": preview(["line", "loss"], parts)} if parts else {}),
        )

    return charge


def build_preflight(method: Method[Any, Any, Any]) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "preflight"]`."""
    release = method.release

    @release_stage(
        release,
        PREFLIGHT,
        StageKind.PLAN,
        "The next charge of this release: the loss, the reason for a new draw, and the rest of the budget. It draws "
        "and charges nothing.",
        [CEF, *method.charge_follows],
        kinds={"duckdb", "ledger"},
        crossing=KEYED,
    )
    def preflight(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        assessment = assess(method, warehouse, custody, ledger)
        version = dg.DataVersion(assessment.draw.draw_id)
        return dg.MaterializeResult(data_version=version, metadata=preflight_metadata(assessment))

    return preflight


def _format_cap(release: Release) -> str:
    return NOT_CHARGED if release.dataset.cap is None else format_loss(release.dataset.cap)


def _find_terms(release: Release) -> str:
    return f" {BY_CURVE}." if isinstance(release.dataset.cap, CurveLoss) else ""


def _budget_facts(release: Release, reading: Reading, entry: Entry) -> dict[str, str]:
    population, cap, details = release.dataset.population, release.dataset.cap, entry.parse_details()
    if cap is None:
        words = details.authorization.get(PUBLIC_BECAUSE) or reading.find_public_words(entry.dataset, details)
        return {CHARGED: NOT_CHARGED, "source": show_line(details.public), "public because": show_line(words)}
    charged, warning = reading.compose(population, cap), warn_of_infinite(reading.count_infinite(population))
    return {
        "charged so far": f"{format_loss(charged)}. {warning}" if warning else format_loss(charged),
        "left of the cap": f"{remaining(charged, cap)} of {format_loss(cap)} (as of this run)",
    }


def preflight_metadata(assessment: Assessment) -> dict[str, Any]:
    facts: dict[str, Any] = {"budget": assessment.budget, DRAW_ID: group_digits(assessment.draw.draw_id)}
    entry = assessment.entry
    if entry is not None and not assessment.refusal:
        return {"decision": f"Already charged in ledger entry {entry.sequence}; running it charges nothing.", **facts}
    if words := describe_contributor(assessment.draw.specification.with_copies(assessment.release.dataset.copies)):
        facts = {FOR_CONTRIBUTOR: words, **facts}
    facts = {"price": assessment.price, "price, exactly": str(assessment.loss), "why new": assessment.reason, **facts}
    if assessment.refusal:
        return {"decision": f"The ledger would refuse it: {assessment.refusal}.", **facts}
    if concern := assessment.resemblance or assessment.unsaid:
        facts["resemblance" if assessment.resemblance else "public"] = concern
    elif assessment.release.dataset.public:
        return {"decision": f"Running it draws with {assessment.price}: {NOT_CHARGED}.", **facts}
    elif not assessment.release.dataset.asks:
        return {"decision": f"Running it charges {assessment.price} automatically.", **facts}
    return {
        "decision": f"Running it needs an authorization of {assessment.price}.",
        **facts,
        "how to authorize": dg.MetadataValue.md(f"```yaml\n{assessment.how_to_authorize()}\n```"),
        AUTHORIZED_BY_COMMAND: assessment.command,
    }


def require_authorization(assessment: Assessment, given: Authorization) -> None:
    """Refuse a charge that the ledger would refuse, or that needs an authorization and has none.

    A draw that is already charged needs no authorization.

    Raises:
        dagster.Failure: with the price in its first sentence, before any draw or charge.
    """
    release = assessment.release
    name = f"{release.dataset.name}/{release.name}"
    if assessment.entry is not None and not assessment.refusal:
        return
    problem, (field, reason) = "", assessment.reason_wanted
    if assessment.refusal:
        problem = f"It is refused: {assessment.refusal}."
    elif given.authorized_loss and not assessment.allows(given.authorized_loss):
        problem = f"The authorization names another loss: {show_line(given.authorized_loss)}."
    elif given.authorized_loss and given.authorized_draw != assessment.draw_name:
        problem = f"The authorization is for another draw: {show_line(given.authorized_draw) or 'none is named'}."
    elif given.authorized_loss and fold_line(given.authorized_by) in _NO_NAMES:
        problem = "The authorization names no person: authorized_by is empty."
    elif given.authorized_loss and (unfit := find_unfit_name(given.authorized_by)):
        problem = f"authorized_by {unfit}."
    elif (release.dataset.asks or field) and not given.authorized_loss:
        problem = "Nobody has authorized it."
    elif field and not _is_reason(getattr(given, field)):
        problem = (
            f"The authorization does not say {reason[1:-1]}: {field} is one line of up to {_LONGEST_REASON} characters "
            f"with {_FEWEST_LETTERS} letters or more."
        )
    if not problem:
        return
    # The ledger keeps a withdrawn draw, but its publication is gone.
    is_new = assessment.entry is None
    charge = f"would charge {assessment.price} to population {assessment.details.population}"
    if assessment.details.public:
        charge = f"would draw with {assessment.price} from public data, which is not charged"
    parts = [
        f"Release {name} {charge}. {problem}",
        *(
            [f"The same people may be charged to two populations: {assessment.resemblance}."]
            if assessment.resemblance
            else []
        ),
        *([f"Nothing confidential is drawn without a charge: {assessment.unsaid}."] if assessment.unsaid else []),
        *([f"Why this is a new draw: {assessment.reason}"] if is_new else []),
        assessment.budget,
        f"Nothing was drawn, and nothing was charged.{' An earlier publication stays unchanged.' if is_new else ''}",
    ]
    if assessment.refusal:
        parts.append("To continue, remove the cause of this refusal, and launch the job again.")
    command = {}
    if not assessment.refusal:
        command = {AUTHORIZED_BY_COMMAND: assessment.command}
        parts.append(
            f"To authorize it, launch the job again with this configuration:\n\n{assessment.how_to_authorize()}\n\n"
            f"or from the command line:\n\n{assessment.command}"
        )
    raise dg.Failure(description="\n".join(parts), metadata=command, allow_retries=False)


def _is_reason(words: str) -> bool:
    words = words.strip()
    letters = sum(map(str.isalpha, words))
    return (
        not find_unseen(words)
        and len(words) <= _LONGEST_REASON
        and letters >= _FEWEST_LETTERS
        and words not in (NO_REASON, NOT_PUBLIC_YET)
    )


def charge_draw(assessment: Assessment, given: Authorization, run_id: str, ledger: Ledger) -> Entry:
    by = given.authorized_by.strip() if given.authorized_loss else AUTOMATIC
    field, _ = assessment.reason_wanted
    reason = {field: getattr(given, field).strip()} if field else {}
    details = replace(assessment.details, authorization={"by": by, "run": run_id, **reason})
    return reserve(assessment.release, assessment.draw, ledger, details)


def reserve(release: Release, draw: Draw[Inputs], ledger: Ledger, details: Details | None = None) -> Entry:
    """Reserve a draw's loss, or return the reservation that the draw already has. Raises errors as `Ledger.reserve`."""
    return ledger.reserve(
        release.dataset.name,
        release.name,
        draw.draw_id,
        draw.specification,
        release.custody,
        release.dataset.cap,
        details or describe_records(release.dataset, made_of=draw.made_of),
        release.dataset.allows_unbounded_releases,
    )


def charge_facts(method: Method[Any, Any, Any], draw: Draw[Inputs], entry: Entry) -> dict[str, Fact]:
    """By column, the row of the public table `charge`."""
    return {
        "draw_id": (draw.draw_id, "Identifier of the draw: an HMAC of everything it depends on"),
        "commitment": (entry.commitment, "SHA-256 of the draw's key"),
        "ledger_entry": (entry.sequence, "Number of the reservation in the ledger"),
        "ledger_hash": (entry.hash, "Hash of the reservation"),
        **method.charge_facts(draw.inputs),
    }


def charge_recipe(session: Session, facts: Mapping[str, Fact]) -> Recipe:
    return store_rows(session, "facts", pa.Table.from_pylist([{name: value for name, (value, _) in facts.items()}]))
