"""The risk that a loss means, in words and as a chart. `mechanisms.accounting.risks` computes it."""

from dataclasses import replace

from assets.release.plan import Curve, Plan
from mechanisms.accounting.risks import FALSE_POSITIVE_RATES, Risk, assess_risk
from mechanisms.accounting.rounding import format_decimal
from mechanisms.accounting.specification import Flavor

BY_CURVE, RISK = "charged, by the exact curve", "risk"


def add_risk(plan: Plan) -> Plan:
    """The plan with the risk of its charge, unless it has no charge or an unbounded one."""
    specification = plan.specification
    risk = assess_risk(specification, plan.fewest) if specification else None
    if specification is None or risk is None:
        return plan
    facts = {BY_CURVE: format_epsilon(risk)} if risk.is_tighter and plan.fewest == 1 else {}
    facts[RISK] = describe_risk(risk, specification.flavor, plan.fewest)
    return replace(plan, facts={**plan.facts, **facts}, curves=(*plan.curves, _draw_trade_off(risk)))


def format_epsilon(risk: Risk) -> str:
    return f"ε = {risk.epsilon} at δ = {format_decimal(risk.delta)}; {risk.by_conversion} by conversion"


def describe_risk(risk: Risk, flavor: Flavor, fewest: int = 1) -> str:
    """Two sentences: the best guess between two values, and the best tests for one of them. With copies, the values are
    the values of one record, because the attacker may know the person's other records."""
    held = len(flavor.multiverse)
    unit = flavor.unit if flavor.copies == 1 else "record"
    values = f"values of one {unit}" if fewest == 1 else f"versions of {fewest} {unit}s"
    invariants = "the invariant (which is" if held == 1 else f"all {held} invariants (which are"
    agree = f", agreeing on {invariants} not protected)," if held else ""
    tests = "; ".join(
        f"{'one that does so' if number else 'A test that wrongly reports a value'} in {float(rate):.1%} of cases "
        f"detects it in {float(power):.2%} at most"
        for number, (rate, power) in enumerate(zip(FALSE_POSITIVE_RATES, risk.powers, strict=True))
    )
    return (
        f"An attacker who knows every other record and is left with two equally likely {values}{agree} picks the true "
        f"one with probability {risk.posterior:.4f} at most, instead of 0.5. {tests}."
    )


def _draw_trade_off(risk: Risk) -> Curve:
    return Curve(
        "What the best test of one value finds",
        "false-positive rate",
        "largest true-positive rate",
        {
            "with the publication": risk.trade_off,
            "without it": [(rate, rate) for rate, _ in risk.trade_off],
        },
        [
            (f"at {float(rate):g}", float(rate), float(power))
            for rate, power in zip(FALSE_POSITIVE_RATES, risk.powers, strict=True)
        ],
        log_x=True,
    )
