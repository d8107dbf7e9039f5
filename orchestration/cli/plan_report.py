"""The work of `plan`: read the fields to try, plan each release of a name, and print the plans."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click
import dagster as dg
import yaml

from assets.charge.assessment import predict_charge
from assets.conventions import ZONE
from assets.gates.shared import all_gates
from assets.planning.asset import format_lines, format_total
from assets.planning.expectation import UnknownError, expectation, format_expectation
from assets.release.method import PLAN, PREFLIGHT
from assets.release.plan import PlanRequest
from assets.texts import unescape_markdown
from orchestration.cli.printing import echo, print_json, print_table
from orchestration.components.release import dataset_of
from orchestration.deployment import Deployment, require_single
from orchestration.planning import PlannedDeclaration, merge_fields, plan_declaration
from orchestration.release_definitions import define_stages
from resources.ledger import LedgerError


def print_plans(release: str, request: PlanRequest, *, as_yaml: bool, as_json: bool) -> None:
    """Print the plan of each release that is declared under a name."""
    deployment = Deployment()
    components = deployment.releases(release)
    if as_yaml or not request.is_empty:
        require_single(release, components)
    datasets = {dataset.name: dataset for dataset in deployment.declared[0]}
    plans = [
        plan_declaration(component, dataset_of(component.declaration, datasets), deployment.published, request)
        for component in components
    ]
    if as_yaml:
        echo(plans[0].text, nl=False)
        return
    if as_json:
        records = [{**_list_stages(plan), "plan": _plan_record(deployment, plan, request.records)} for plan in plans]
        print_json(records[0] if len(records) == 1 else records)
        return
    for plan in plans:
        if len(plans) > 1:
            echo(f"\n{plan.component.named}\n")
        if request.is_empty:
            _print_stages(_list_stages(plan))
        _print_plan(deployment, plan, request.records)


def parse_fields(texts: Sequence[str]) -> dict[str, Any]:
    """The fields to try, from YAML. Raises `click.UsageError` if a text is not a mapping."""
    fields: dict[str, Any] = {}
    for text in texts:
        try:
            mapping = yaml.safe_load(text)
        except yaml.YAMLError:
            mapping = None
        if not isinstance(mapping, dict) or not all(isinstance(name, str) for name in mapping):
            raise click.UsageError(f"--try: {text!r} is not of the form 'FIELD: VALUE'")
        fields = merge_fields(fields, mapping)
    return fields


def parse_margin(text: str) -> tuple[str, str]:
    """A line and its wanted margin. Raises `click.UsageError` if there is no margin."""
    line, equals, number = text.rpartition("=")
    if not equals:
        raise click.UsageError(f"--margin: {text!r} is not of the form LINE=NUMBER")
    return line.strip(), number.strip()


def _plan_record(deployment: Deployment, planned: PlannedDeclaration, records: int | None) -> dict[str, Any]:
    plan = planned.plan
    try:
        expected: dict[str, Any] = expectation(planned.method, records, deployment.machine).record
    except UnknownError as error:
        expected = {"unknown": str(error)}
    left, refusal = _assess(deployment, planned)
    return {
        "total": format_total(plan),
        "exactly": None if plan.loss is None else plan.loss.as_record(),
        "is_bound": plan.is_bound,
        "left": left,
        "refusal": plan.problem or refusal,
        "expected": expected,
        "lines": [asdict(line) for line in plan.lines],
        "facts": dict(plan.facts),
        "tables": {title: {"columns": header, "rows": rows} for title, (header, rows) in plan.tables.items()},
        "curves": [asdict(curve) for curve in plan.curves],
        "defs.yaml": planned.text,
    }


def _assess(deployment: Deployment, planned: PlannedDeclaration) -> tuple[str, str]:
    """The remainder of the cap, and the reason why a charge would be refused."""
    try:
        return predict_charge(planned.method, planned.plan.specification, deployment.ledger.read())
    except LedgerError as error:
        return f"What remains is not known: {error}", ""


def _print_plan(deployment: Deployment, planned: PlannedDeclaration, records: int | None) -> None:
    plan = planned.plan
    if plan.lines:
        print_table("Lines", *format_lines(plan))
        echo()
    for title, cells in plan.tables.items():
        print_table(title, *cells)
        echo()
    print_table("Facts", ["what", ""], plan.facts.items())
    echo()
    expected = format_expectation(planned.method, records, deployment.machine)
    print_table("A launch on this machine", ["what", ""], expected.items())
    left, refusal = _assess(deployment, planned)
    echo(f"\nTotal: {format_total(plan)}")
    echo(left)
    if problem := plan.problem or refusal:
        echo(f"A launch would be refused: {problem}")
    name = planned.component.named
    echo(f"\nThe price, with the records: stirred preflight {name}" if planned.component.charges else "")
    echo("The file that declares it: the same command with --yaml")


def _print_stages(record: dict[str, Any]) -> None:
    print_table("Stages", ["stage", "zone", "what"], [stage.values() for stage in record["stages"]])
    echo()
    print_table("Gates, all before publication", ["stage", "gate", "rule"], [gate.values() for gate in record["gates"]])
    echo()
    tables = [[table["table"], table["title"], ", ".join(table["columns"])] for table in record["tables"]]
    print_table("Tables", ["table", "title", "columns"], tables)
    echo()


def _summarize(description: str) -> str:
    """The first paragraph, with a period instead of the colon before a list."""
    text = unescape_markdown(description.strip().partition("\n\n")[0].replace("\n", " "))
    return f"{text[:-1]}." if text.endswith(":") else text


def _list_stages(planned: PlannedDeclaration) -> dict[str, Any]:
    """The effects of launching a release, from its declaration alone: stages, gates and tables."""
    component, method = planned.component, planned.method
    order = {stage: position for position, stage in enumerate(method.stages)}
    # A launch makes neither of them.
    apart = {PREFLIGHT, *({PLAN} - set(method.stages))}
    specs = [
        spec
        for assets in define_stages(component, method).assets or ()
        if isinstance(assets, dg.AssetsDefinition)
        for spec in assets.specs
        if spec.key.path[-1] not in apart
    ]
    specs.sort(key=lambda spec: order.get(spec.key.path[-1], len(order)))
    stages = [
        {
            "stage": spec.key.path[-1],
            "zone": spec.tags[ZONE],
            "what": _summarize(spec.description or ""),
        }
        for spec in specs
    ]
    gates = [{"stage": gate.stage, "gate": gate.name, "rule": gate.words} for gate in all_gates(method)]
    tables = [
        {"table": table.name, "title": table.title, "columns": [column.name for column in table.columns]}
        for table in (method.tables() if method.release.declaration.charges else [])
    ]
    return {"release": component.named, "stages": stages, "gates": gates, "tables": tables}
