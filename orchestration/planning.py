"""Plans: draft declarations, and their charges.

A plan varies the fields of `defs.yaml` themselves, so every plan ends in a `defs.yaml`. The method of a release also
translates a wanted margin of error or a wanted total into fields. Planning reads no record.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from assets.ledger.view import FOR_CONTRIBUTOR, describe_contributor
from assets.release.dataset import DatasetDeclaration
from assets.release.method import Method
from assets.release.numbers import positive_fraction
from assets.release.plan import Line, Plan, PlanRequest
from assets.release.release import DeclarationError, Release
from assets.release.risks import add_risk
from mechanisms.accounting.composition import DoesNotCompose, fits
from mechanisms.accounting.curves import Curve
from mechanisms.accounting.losses import InfiniteLoss, format_loss
from mechanisms.accounting.risks import bound_posterior, compose_charges, find_pairs
from mechanisms.accounting.rounding import format_decimal
from mechanisms.accounting.specification import Specification
from orchestration.components.release import ReleaseComponent

_STAYS = ("name", "dataset")
"""The fields that identify the planned release."""

_WIDTH = 100

_LEAST_TOTAL, _LARGEST_TOTAL = -1, 6 * 900


@dataclass(frozen=True)
class PlannedDeclaration:
    """A planned declaration, the method by which its release would be made, and its plan."""

    component: ReleaseComponent
    method: Method[Any, Any, Any]
    plan: Plan

    @property
    def text(self) -> str:
        fields = "".join(
            # Collections of single values are written on one line, everything else on lines of its own.
            yaml.safe_dump(
                {name: value},
                sort_keys=False,
                allow_unicode=True,
                default_flow_style=None if isinstance(value, Mapping | list) else False,
                width=_WIDTH,
            )
            for name, value in list_given_fields(self.component.attributes).items()
        )
        return f"type: {self.component.type_name}\nattributes:\n{indent(fields, '  ')}"


def plan_declaration(
    component: ReleaseComponent, dataset: DatasetDeclaration, published: Path, request: PlanRequest
) -> PlannedDeclaration:
    """The plan of a release with other fields, wanted margins or a wanted total. Raises DeclarationError if the planned
    declaration is not valid, or no fields meet the request. One sentence names the release, the field and the rule."""

    def refuse(reason: str) -> DeclarationError:
        return DeclarationError(f"release {component.named}: plan: {reason}")

    def make_method(changed: ReleaseComponent) -> Method[Any, Any, Any]:
        method: Method[Any, Any, Any] = changed.method(changed.release(dataset, published))
        return method

    if sum(map(bool, (request.margins, request.total is not None, request.posterior is not None))) > 1:
        raise refuse("give only one of margins, a total and a posterior")
    for field in request.fields:
        if field in _STAYS:
            raise refuse(f"{field}: the plan is for this release, so this field cannot change")
    changed = _with_fields(component, request.fields)
    method = make_method(changed)
    try:
        fields: Mapping[str, Any] = {}
        if request.margins:
            fields = method.fields_for_margins(_parse_margins(request.margins, method.plan_request(request).lines))
        elif request.total is not None:
            fields = method.fields_for_total(_parse_number("total", request.total), request)
        elif request.posterior is not None:
            fields = _fields_for_posterior(
                lambda total: method.fields_for_total(total, request),
                lambda fields: make_method(_with_fields(changed, fields)).plan_request(request),
                _parse_number("posterior", request.posterior),
                _parse_number("prior", request.prior),
            )
        if fields:
            changed = _with_fields(changed, fields)
            method = make_method(changed)
        plan = method.plan_request(request)
    except DeclarationError:
        raise
    except ValueError as error:
        raise refuse(str(error)) from None
    if plan.specification:
        specification = plan.specification.with_copies(dataset.copies)
        words = describe_contributor(specification)
        facts = {**plan.facts, FOR_CONTRIBUTOR: words} if words else plan.facts
        plan = replace(plan, specification=specification, facts=facts)
    plan = replace(plan, problem=plan.problem or find_charge_problem(method.release, plan.specification))
    return PlannedDeclaration(changed, method, add_risk(plan))


def _fields_for_posterior(
    fields_for_total: Callable[[Fraction], Mapping[str, Any]],
    plan_fields: Callable[[Mapping[str, Any]], Plan],
    posterior: Fraction,
    prior: Fraction,
) -> Mapping[str, Any]:
    """The fields with the greatest total, to three digits, at which no attacker with this prior is right more often.
    Raises ValueError if there are none."""
    without = max(prior, 1 - prior)
    if not (0 < prior < 1 and without < posterior < 1):
        raise ValueError(
            f"posterior: with a prior of {format_decimal(prior)}, a guess without the publication is right with "
            f"probability {format_decimal(without)}; give more than that and less than 1"
        )

    def find_risk(fields: Mapping[str, Any]) -> Fraction:
        plan = plan_fields(fields)
        if plan.specification is None:
            raise ValueError("posterior: the charge is not known without the records")
        return Fraction(bound_posterior(Curve(find_pairs(plan.specification, plan.fewest)), prior))

    fields: Mapping[str, Any] = {}
    refusal: ValueError | str = "no total of 0.001 or more keeps it"
    low, high = _LEAST_TOTAL, _LARGEST_TOTAL
    while high - low > 1:
        # Totals of three digits, numbered from 0.001 up.
        middle = (low + high) // 2
        total = Fraction(Decimal((0, tuple(map(int, str(100 + middle % 900))), middle // 900 - 5)))
        try:
            tried = fields_for_total(total)
        except ValueError as error:
            # There may be no fields with so small a total.
            refusal, low = error, middle
            continue
        if find_risk(tried) <= posterior:
            fields, low = tried, middle
        else:
            high = middle
    if not fields:
        raise ValueError(f"posterior: it cannot be kept: {str(refusal).removeprefix('total: ')}")
    return fields


def list_given_fields(declared: BaseModel) -> dict[str, Any]:
    """The given fields of a declaration as values that YAML writes, and that are read as the same declaration."""
    written = declared.model_dump(exclude_unset=True, warnings=False)
    given = {name: getattr(declared, name) for name, value in written.items() if value is not None}
    # The model holds None for a word such as `accepted`, but the word is written.
    return {name: _simplify(written[name] if value is None else value) for name, value in given.items()}


def _simplify(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return list_given_fields(value)
    if isinstance(value, Mapping):
        return {_simplify(name): _simplify(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_simplify(inner) for inner in value]
    if isinstance(value, Enum):
        return value.value
    return _write_number(value) if isinstance(value, Fraction) else value


def _write_number(number: Fraction) -> int | float | str:
    """A number as an integer, a decimal or a fraction, which `exact_fraction` reads as exactly this number."""
    if number.denominator == 1:
        return number.numerator
    decimal = float(number)
    return decimal if Fraction(repr(decimal)) == number else str(number)


def _with_fields(component: ReleaseComponent, fields: Mapping[str, Any]) -> ReleaseComponent:
    """The component with other fields. Raises DeclarationError if the declaration is then not valid."""
    if not fields:
        return component
    declaration = component.declaration
    try:
        return component.with_fields(_apply_changes(list_given_fields(component.draft), fields))
    except ValidationError as error:
        said = str(error.errors(include_url=False)[0]["msg"]).removeprefix("Value error, ")
        named = f"release {declaration.dataset}/{declaration.name}: "
        raise DeclarationError(said if said.startswith("release ") else f"{named}{said}") from None


def merge_fields(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of both; where they contradict each other, those of the second count."""
    both = dict(first)
    for name, value in second.items():
        before = both.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = merge_fields(before, value)
        both[name] = value
    return both


def _apply_changes(declared: Any, changes: Any) -> Any:
    """The declared value with changes: mappings are merged, null removes, and any other value replaces."""
    if not isinstance(changes, Mapping):
        return changes
    merged = dict(declared) if isinstance(declared, Mapping) else {}
    for name, value in changes.items():
        if value is None:
            merged.pop(name, None)
            continue
        merged[name] = _apply_changes(merged.get(name), value)
        if merged[name] == {} != value:
            # The change removed all its fields.
            del merged[name]
    return merged


def _parse_margins(margins: Mapping[str, Any], lines: Iterable[Line]) -> dict[str, Fraction]:
    known = [line.name for line in lines]
    if not known:
        raise ValueError("margins: nothing is measured with noise of its own, so a margin cannot be set")
    for name in margins:
        if name not in known:
            raise ValueError(f"margins: there is no line {name!r}; lines are {', '.join(known)}")
    return {name: _parse_number(f"margins: {name}", margin) for name, margin in margins.items()}


def _parse_number(field: str, value: object) -> Fraction:
    try:
        return positive_fraction(value)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None


def find_charge_problem(release: Release, charge: Specification | None) -> str:
    """The reason why a charge would be refused even without other charges, as a sentence; "" if it would not be, or the
    charge is unknown."""
    try:
        release.require_allowed()
    except DeclarationError as error:
        return str(error)
    if charge is None or release.dataset.cap is None or isinstance(loss := charge.charge, InfiniteLoss):
        return ""
    cap, price = release.dataset.cap, f"release {release.dataset.name}/{release.name}: a charge of {format_loss(loss)}"
    try:
        fit = fits(compose_charges(cap, [charge]), cap)
    except DoesNotCompose as error:
        return f"{price} cannot be counted under the cap of {format_loss(cap)}: {error}"
    return "" if fit else f"{price} does not fit under the cap of {format_loss(cap)}, even without any other charge"
