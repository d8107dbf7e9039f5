"""Requirements of every kind of release, with any mechanism."""

import json
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dagster as dg
import duckdb
import pyarrow.parquet as pq
import pytest
import yaml
from frictionless import validate
from markupsafe import escape
from pydantic import ValidationError

from assets.gates.shared import all_gates
from assets.measurement.method import NoisyCounts
from assets.publication.listing import write_listing
from assets.publication.registry import (
    RegistryError,
    RegistryRecord,
    describe_deployment,
    list_placeholders,
    to_yaml,
)
from assets.release.gate import Gate, ReleaseContext
from assets.release.method import CHARGE, Method
from assets.release.published import ERRORS
from assets.release.release import DeclarationError
from assets.unperturbed.method import UnperturbedCounts
from mechanisms.accounting.losses import ConcentratedLoss, InfiniteLoss, format_loss
from resources.custody import Custody, CustodyMode
from resources.statements import Zone
from tests.attacker import hashes_shown, on_disk
from tests.contract.kinds import KINDS, Kind, before_draw, to_publication
from tests.contract.laplace_tables.method import LaplaceMethod
from tests.deployments import SHOWN, UNITS, Deployment, refuses_to_publish
from tests.depth import deep_cases, quick_cases
from tests.docs.warehouse import METHODS, tables_of, undescribed
from tests.gates import executes, failing
from tests.whole_repository import known

SHARED = {"schema_and_keys", "as_read", "charge_present", "settled", "confidentiality", "within_cap", "ledger_intact"}
"""The gates of every release; a draw that can be replayed has `replay` too, and any other `key_gone`."""

HIS_KEY = "00" * 32

QUICK = "laplace tables"
"""The kind with quick tests; the others have their own tests, too."""


WITHOUT_NOISE = ("swapping", "pair swapping", "coarsening", "suppression")
"""Kinds that add no noise to counts."""

IN_CI = ("swapping", "topdown")
"""The kinds that CI tests in addition to the quick one. Others have their own tests, and `make prove` tests them
here."""


def mark(name: str) -> list[pytest.MarkDecorator]:
    return [] if name == QUICK else [pytest.mark.deep if name in IN_CI else pytest.mark.prove]


@pytest.fixture(params=[pytest.param(name, marks=mark(name)) for name in KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def of_records(kind: Kind) -> Kind:
    """A kind that is made from records alone."""
    if kind is KINDS["dhc"]:
        pytest.skip("it stops before: the redistricting data are published from other records")
    return kind


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Folders of published releases, by the identity of their kind: made once, and copied."""
    return {}


@pytest.fixture
def published(
    kind: Kind, releases: dict[int, Path], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> Deployment[Any]:
    """A published release, in a copy that a test may alter."""
    if id(kind) not in releases:
        root = releases[id(kind)] = tmp_path_factory.mktemp("published") / "release"
        made = kind.build(root)
        made.reach(*to_publication(made.context.method))
    copied = tmp_path / "release"
    shutil.copytree(releases[id(kind)], copied)
    return kind.build(copied)


def run(deployment: Deployment[Any]) -> None:
    """Run the stages of a publication, all of whose checks must pass."""
    result = deployment.run(*to_publication(deployment.context.method), checks=True)
    assert all(each.passed for each in result.get_asset_check_evaluations())


@deep_cases(0)
def test_made_again_it_has_the_same_files_and_costs_nothing(published: Deployment[Any]) -> None:
    files, ledger = published.published(), published.ledger
    run(published)
    assert published.published() == files != {}
    assert published.ledger == ledger
    assert [entry.kind for entry in ledger] == ["reserve", "settle"]


@pytest.mark.prove
def test_the_order_of_declarations_changes_neither_draw_nor_charge(published: Deployment[Any], kind: Kind) -> None:
    ledger, draw = published.ledger, drawn(published)
    reordered = kind.build(published.root, **with_paths(kind.reordered, published.root))
    run(reordered)
    assert reordered.ledger == ledger
    assert drawn(reordered) == draw


@quick_cases(0)
@deep_cases(1)
def test_confidential_input_that_changed_after_the_charge_is_not_drawn_from(kind: Kind, tmp_path: Path) -> None:
    deployment = kind.build(tmp_path / "release")
    method = deployment.context.method
    deployment.reach(*before_draw(method))
    executes(kind.later_change, zone="confidential")(deployment)
    assert "changed since" in deployment.refusal(method.draw_stage)
    assert [entry.kind for entry in deployment.ledger] == ["reserve"]


@deep_cases(0)
def test_nothing_is_charged_that_was_counted_from_earlier_records(of_records: Kind, tmp_path: Path) -> None:
    root = tmp_path / "release"
    earlier = of_records.build(root)
    counted = before_draw(earlier.context.method)[:-1]
    earlier.reach(*counted)
    public = earlier.context.warehouse.path(Zone.PUBLIC)
    shutil.copy(public, tmp_path / "public.duckdb")
    later = of_records.build(root, guess=1)
    later.run(*counted)
    with later.opened() as connection:
        connection.execute(f"ATTACH '{tmp_path / 'public.duckdb'}' AS earlier (READ_ONLY)")
        for (table,) in connection.execute("SHOW TABLES").fetchall():
            connection.execute(f'DELETE FROM "{table}"')
            connection.execute(f'INSERT INTO "{table}" FROM earlier.{later.release.schema}."{table}"')
    assert "not those that the stage wrote from the current records and declaration" in later.refusal(CHARGE)
    shutil.copy(tmp_path / "public.duckdb", public)
    assert "the stored records are not those that were read from the source" in later.refusal(CHARGE)
    assert "the stored records are not those that were read from the source" in later.refusal("preflight")
    later.run(*counted)
    assert later.ledger == ()
    later.run(CHARGE)
    assert [entry.kind for entry in later.ledger] == ["reserve"]


@deep_cases(1)
@pytest.mark.deep
def test_nothing_is_charged_that_was_counted_with_other_parameters_or_from_other_records_than_it_says(
    of_records: Kind, tmp_path: Path
) -> None:
    root = tmp_path / "release"
    earlier = of_records.build(root)
    method = earlier.context.method
    counted = before_draw(method)[:-1]
    earlier.run(*counted)
    with patch.object(type(method.release), "counted_with", property(lambda self: {"other": "parameters"})):
        assert "wrote from the current records and declaration" in earlier.refusal(CHARGE)
    public = earlier.context.warehouse.path(Zone.PUBLIC)
    shutil.copy(public, tmp_path / "earlier.duckdb")
    later = of_records.build(root, guess=1)
    later.run(*counted)
    # The counts of the later records are to be taken for those of the earlier ones.
    shutil.copy(tmp_path / "earlier.duckdb", public)
    stages = [stage for stage in counted if stage != "cef"]
    if not later.run(*stages, raise_on_error=False, checks=False).success:
        # A stage that reads the counts of another one refuses them, so that there is nothing to be taken.
        assert "wrote from the current records and declaration" in later.refusal(*stages)
        assert later.ledger == ()
        return
    shutil.copy(public, tmp_path / "mixed.duckdb")
    of_records.build(root).run("cef")
    shutil.copy(tmp_path / "mixed.duckdb", public)
    assert "wrote from the current records and declaration" in earlier.refusal(CHARGE)
    assert earlier.ledger == ()


@deep_cases(1)
def test_a_settled_draw_that_would_come_out_differently_changes_nothing(
    published: Deployment[Any], kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(published.context.method, UnperturbedCounts):
        pytest.skip("without randomness, it comes out the same under any key")
    executes(kind.tampering)(published)
    altered = drawn(published)
    monkeypatch.setattr(Custody, "open_key", lambda *_: bytes(32))
    refusal = published.refusal(published.context.method.draw_stage)
    assert "than the one that was settled; if this software was changed" in refusal
    assert drawn(published) == altered


@deep_cases(1)
def test_over_the_cap_nothing_is_charged_drawn_or_published(kind: Kind, tmp_path: Path) -> None:
    if kind.small_cap is None:
        pytest.skip("no cap bounds it; what its dataset must allow is tested in tests/assets/pair_swapping")
    deployment = kind.build(tmp_path / "release", dataset={"cap": kind.small_cap})
    said = deployment.refusal(*to_publication(deployment.context.method))
    assert "does not fit under the cap" in said
    assert deployment.ledger == ()
    assert deployment.published() == {}
    with deployment.opened() as connection:
        tables = {row[0] for row in connection.execute("SHOW TABLES").fetchall()}
    assert deployment.context.method.drawn_table not in tables


@quick_cases(0)
@deep_cases(1)
def test_an_ephemeral_key_draws_only_as_committed_and_is_gone_after_the_draw(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind is KINDS["dhc"]:
        pytest.skip("its draw begins with levels, which is tested in tests/assets/topdown/dhc")
    deployment = kind.build(tmp_path / "release", custody="ephemeral")
    method = deployment.context.method
    deployment.run(*before_draw(method))
    (file,) = tmp_path.glob("release/custody/ephemeral/*.key")
    committed = file.read_text()
    file.write_text("00" * 32)
    assert "not the one that its charge committed to" in deployment.refusal(method.draw_stage)
    assert [entry.kind for entry in deployment.ledger] == ["reserve"]
    file.write_text(committed)
    right = type(method).write
    with monkeypatch.context() as patch:
        patch.setattr(type(method), "write", lambda *given: right(*given)[::-1])
        assert "the stored output differs from the draw" in deployment.refusal(method.draw_stage)
    assert [entry.kind for entry in deployment.ledger] == ["reserve"]
    assert file.read_text() == committed
    deployment.run(*(stage for stage in to_publication(method) if stage not in before_draw(method)))
    draw_id = deployment.ledger[0].draw_id
    assert deployment.published()
    assert deployment.context.custody.list_keys() == set()
    (key_gone,) = (gate for gate in all_gates(deployment.context.method) if gate.name == "key_gone")
    assert failing(deployment) == set()
    custody, ledger = deployment.context.custody, deployment.context.ledger
    custody.commit(draw_id, CustodyMode.EPHEMERAL)
    assert failing(deployment) == {"key_gone"}
    custody.forget(draw_id)
    charged = deployment.ledger[0].parse_specification()
    # The key of a draw that can still be made belongs there. Once it is settled, the gate of every release deletes it.
    ledger.reserve("elsewhere", "another", "0" * 64, charged, CustodyMode.EPHEMERAL, None, unbounded_releases=True)
    assert key_gone.problems(replace(deployment.context)) == []
    ledger.settle("0" * 64, "v1")
    custody.commit("0" * 64, CustodyMode.EPHEMERAL)
    assert key_gone.problems(replace(deployment.context)) == []
    assert custody.list_keys() == set()
    with monkeypatch.context() as patch:
        patch.setattr(Custody, "forget", lambda custody, draw_id: None)
        custody.commit("0" * 64, CustodyMode.EPHEMERAL)
        assert key_gone.problems(replace(deployment.context)) == [f"the key of draw {'0' * 64} still exists"]


@deep_cases(1)
def test_an_altered_draw_fails_its_gates_and_is_not_published(published: Deployment[Any], kind: Kind) -> None:
    executes(kind.tampering)(published)
    found = failing(published)
    assert {"settled", "replay"} <= found
    refuses_to_publish(published, found, "")


@pytest.mark.prove
def test_no_gate_calls_a_macro_of_the_public_zone(published: Deployment[Any]) -> None:
    """Sessions do not look for macros: here are some with the names of all of DuckDB's functions, in all schemas."""
    with published.opened() as connection:
        names = connection.execute(
            "SELECT DISTINCT function_name, function_type LIKE 'table%' FROM duckdb_functions() "
            "WHERE regexp_full_match(function_name, '\\w+')"
        ).fetchall()
        schemas = connection.execute(
            "SELECT schema_name FROM duckdb_schemas() WHERE database_name = 'public'"
        ).fetchall()
        made = 0
        for (schema,), (name, is_table), parameters in product(schemas, names, ("", "x", "x, y", "x, y, z")):
            with suppress(duckdb.Error):
                body = "TABLE SELECT 'forged' AS forged" if is_table else "'forged'"
                connection.execute(f'CREATE MACRO public."{schema}"."{name}"({parameters}) AS {body}')
                made += 1
    assert made > 1_000
    assert failing(published) == set()
    run(published)


def test_the_page_of_the_warehouse_describes_every_table(published: Deployment[Any]) -> None:
    _, package, *inner = type(published.context.method).__module__.split(".")
    mechanism = "dhc" if "dhc" in inner else package
    if mechanism not in METHODS:
        pytest.skip("a kind that only the tests have")
    tables = tables_of(published)
    assert len(tables) > 10
    assert undescribed(tables, mechanism) == []


def test_every_estimate_has_its_errors_and_the_method_of_its_interval(published: Deployment[Any]) -> None:
    """In files, dictionary and certificate. Without a method, no table has all columns of errors."""
    method = published.context.method
    folder = published.root / "published" / method.release.dataset.name / method.release.name
    package = json.loads((folder / "datapackage.json").read_text())
    certificate = json.loads((folder / "certificate.json").read_text())
    page = unescape((folder / "certificate.html").read_text())
    stated = {each["path"]: each["interval"] for each in certificate["products"]}
    for each in package["resources"]:
        columns = pq.read_schema(folder / f"{each['name'].removesuffix('-parquet')}.parquet").names
        assert bool(stated[each["path"]]) == set(columns).issuperset(ERRORS)
        assert each.get("interval", {}).get("method", "") == stated[each["path"]]
        if not stated[each["path"]]:
            continue
        assert each["interval"]["confidence"] == 0.9
        # A standard error may be empty, so the certificate does not mention it.
        first, *others = each["interval"]["method"]
        assert f"each estimate has a 90% interval: {first.lower()}{''.join(others)}" in page
        rows = pq.read_table(folder / f"{each['name'].removesuffix('-parquet')}.parquet").to_pylist()
        assert rows
        for row in rows:
            error, lower, upper = (row[name] for name in ERRORS[1:])
            assert error is None or error >= 0
            assert lower is upper is None or lower <= upper


def test_the_catalog_has_every_publication_with_its_loss_and_links_to_its_files(published: Deployment[Any]) -> None:
    """The links work in object storage too, where a folder's address leads nowhere. The page has no script and loads no
    other page."""
    page = (published.root / "published" / "index.html").read_text()
    for folder in published.root.glob("published/*/*/"):
        certificate = json.loads((folder / "certificate.json").read_text())
        path = f"{certificate['dataset']['name']}/{certificate['release']['name']}"
        article = page[page.index(f'<article id="{path}">') :].partition("</article>")[0]
        assert escape(certificate["release"]["title"]) in article
        if certificate["release"]["name"] == published.release.name:
            assert format_loss(published.ledger[0].parse_specification().charge) in article
        assert all(escape(words) in article for words in certificate["invariants"]["held_fixed"])
        assert all(f'href="{path}/{file["path"]}"' in article for file in certificate["products"])
    links = re.findall('href="([^"]+)"', page)
    assert all((published.root / "published" / link).is_file() for link in links)
    assert "<script" not in page
    assert not re.search("(src|url|import)[=(\"' ]+http", page)
    catalog = json.loads((published.root / "published" / "datapackage.json").read_text())
    for package in catalog["resources"]:
        content = (published.root / "published" / package["path"]).read_bytes()
        assert package["hash"] == f"sha256:{sha256(content).hexdigest()}"
    assert len(catalog["resources"]) == page.count("<article")
    assert validate(str(published.root / "published" / "datapackage.json")).valid
    dcat = json.loads((published.root / "published" / "dcat.jsonld").read_text())
    assert [each["@id"] for each in dcat["dcat:dataset"]] == [package["path"] for package in catalog["resources"]]
    for file in (file for each in dcat["dcat:dataset"] for file in each["dcat:distribution"]):
        content = (published.root / "published" / file["dcat:downloadURL"]["@id"]).read_bytes()
        assert file["spdx:checksum"]["spdx:checksumValue"]["@value"] == sha256(content).hexdigest()


def test_the_catalog_links_the_editions_that_are_there(published: Deployment[Any]) -> None:
    """A withdrawn or unpublished edition has no link, because a link to the folder of editions would be broken."""
    folder = next(published.root.glob("published/*/*/certificate.json")).parent
    certificate = json.loads((folder / "certificate.json").read_text())
    (first,) = certificate["edition"]["all"]
    others = [first | {"number": 2, "withdrawn": 9}, first | {"number": 3}, first | {"number": 4}]
    shutil.copytree(folder, folder / "editions" / "1")
    (folder / "certificate.json").write_text(
        json.dumps(certificate | {"edition": {"number": 4, "all": [first, *others]}})
    )
    write_listing(published.root / "published")
    page = (published.root / "published" / "index.html").read_text()
    editions = page.partition("<summary>Editions: 4")[2].partition("</details>")[0]
    path = f"{certificate['dataset']['name']}/{certificate['release']['name']}"
    assert re.findall('href="([^"]+)"', editions) == [f"{path}/certificate.html", f"{path}/editions/1/certificate.html"]
    assert re.findall("withdrawn in ledger entry 9|not published|current", editions) == [
        "current",
        "not published",
        "withdrawn in ledger entry 9",
    ]


def test_a_certificate_is_a_record_of_the_registry_of_deployments(published: Deployment[Any]) -> None:
    """A record that states less than was charged, or the wrong variant, is worse than none."""
    (path,) = list(published.root.glob("published/*/*/certificate.json"))[:1]
    certificate = json.loads(path.read_text())
    charged = published.ledger[0].parse_specification().charge
    if isinstance(charged, InfiniteLoss):
        with pytest.raises(RegistryError, match="no deployment of differential privacy"):
            describe_deployment(certificate)
        return
    record = describe_deployment(certificate)
    loss, variant = record.deployment.privacy_loss.privacy_parameters, record.deployment.dp_variant
    if isinstance(charged, ConcentratedLoss):
        assert (variant.variant_name, set(loss)) == ("Zero-concentrated DP", {"rho"})
        assert charged.rho <= Fraction(str(loss["rho"])) < charged.rho + Fraction(1, 1000)
    else:
        assert (variant.variant_name, "delta" in loss) in {("Pure DP", False), ("Approximate DP", True)}
        assert f"ε = {loss['epsilon']:.4f}" in format_loss(charged)
    assert all(words in variant.unprotected_quantities for words in certificate["invariants"]["held_fixed"])
    text = to_yaml(record)
    assert yaml.safe_load(text) == record.model_dump()
    assert len(list_placeholders(record)) == text.count("<fill in: ") > 8
    certificate["loss"]["delta"] = {"value": 1 / 3, "exact": "1/3"}
    (*_, delta) = describe_deployment(certificate).deployment.privacy_loss.privacy_parameters.values()
    assert Fraction(1, 3) <= Fraction(str(delta)) < Fraction(1, 3) + Fraction(1, 10**15)
    for field, value in (("surprise", 1), ("dp_variant", {"variant_name": "Nearly DP"})):
        with pytest.raises(ValidationError):
            RegistryRecord.model_validate(
                {"url_slug": "a", "deployment": record.model_dump()["deployment"] | {field: value}}
            )


def test_a_plan_states_what_was_charged(published: Deployment[Any]) -> None:
    """For a swap, b is the certificate's value, which is published by then."""
    charged = published.ledger[0].parse_specification()
    plan = published.context.method.plan()
    assert plan.loss == charged.charge
    assert plan.specification is not None
    assert plan.specification.protects_like(charged)
    assert not plan.is_bound


def test_every_shared_gate_is_there_and_blocks(published: Deployment[Any]) -> None:
    gates = {gate.name for gate in all_gates(published.context.method)}
    assert gates >= SHARED | {"replay"}
    graph = published.definitions.resolve_asset_graph()
    checks = {key.name: graph.get_check_spec(key) for key in graph.asset_check_keys}
    assert all(checks[name].blocking for name in gates)
    assert "files_as_published" in checks


@quick_cases(0)
@deep_cases(1)
def test_the_gates_of_a_stage_are_one_step_and_each_can_be_launched_alone(published: Deployment[Any]) -> None:
    release, method = published.release, published.context.method
    own = [gate for gate in all_gates(method) if gate.stage == method.draw_stage]
    assert len(own) > 1
    steps = {f"{release.schema}__{gate.stage}__gates" for gate in own}

    def launched(gates: Sequence[Gate[Any]]) -> tuple[set[str], set[str]]:
        """The steps, and the checks that they evaluated."""
        keys = [dg.AssetCheckKey(release.key(gate.stage), gate.name) for gate in gates]
        job = dg.define_asset_job("some", dg.AssetSelection.checks(*keys))
        repository = dg.Definitions.merge(published.definitions, dg.Definitions(jobs=[job])).get_repository_def()
        with known(repository):
            result = repository.get_job("some").execute_in_process(instance=published.instance)
        evaluations = result.get_asset_check_evaluations()
        assert all(evaluation.passed for evaluation in evaluations)
        began = {str(event.step_key) for event in result.all_events if event.is_step_start}
        return began, {evaluation.check_name for evaluation in evaluations}

    assert launched(own) == (steps, {gate.name for gate in own})
    for gate in own:
        assert launched([gate]) == (steps, {gate.name})


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_who_knows_all_records_but_one_cannot_tell_guesses_apart(kind: Kind, tmp_path: Path) -> None:
    """The attacker runs the deployment up to the charge on each guess, with a different key.

    The hashes shared by these runs and the true run must be the same for all guesses. With the custody, the attacker
    can tell the guesses apart.
    """
    victim = on_disk(kind.build(tmp_path / "victim", guess=1))
    run(victim)
    shown = hashes_shown(victim)
    common = [shown & imitated(kind, tmp_path / f"guess {guess}", guess) for guess in (0, 1)]
    assert common[0] == common[1]
    draw = {victim.ledger[0].draw_id}
    custody = victim.root / "custody"
    assert draw <= imitated(kind, tmp_path / "true", 1, custody) & shown
    assert not draw & imitated(kind, tmp_path / "false", 0, custody)


def imitated(kind: Kind, root: Path, guess: int, custody: Path | None = None) -> set[str]:
    """The hashes that the attacker's own deployment shows before the draw."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIRRED_TEST_MASTER_KEY", (custody / "master.key").read_text().strip() if custody else HIS_KEY)
        deployment = kind.build(root, guess=guess)
        deployment.run(*before_draw(deployment.context.method), checks=True)
    return hashes_shown(deployment)


def drawn(deployment: Deployment[Any]) -> list[Any]:
    """The stored output of the draw."""
    with deployment.opened() as connection:
        return connection.execute(f"FROM {deployment.context.method.drawn_table} ORDER BY ALL").fetchall()


def with_paths(changes: Any, root: Path) -> dict[str, Any]:
    """Declarations whose source files lie below a folder."""
    if "dataset" not in changes:
        return dict(changes)
    units = changes["dataset"]["units"]
    return {**changes, "dataset": {"units": {**units, "path": str(root / units["path"])}}}


@pytest.mark.prove
def test_a_release_without_invariants_says_so_and_rests_on_none(tmp_path: Path) -> None:
    deployment = laplace(tmp_path)
    deployment.run(*to_publication(deployment.context.method), *SHOWN, checks=True)
    certificate = json.loads(deployment.published()["certificate.json"])
    page = deployment.published()["certificate.html"].decode()
    assert certificate["invariants"]["held_fixed"] == []
    assert "equally many households" in certificate["invariants"]["note"]
    assert certificate["loss"]["meaning"].startswith("If two possible data sets differ in k households")
    assert "agree on every invariant" not in page
    assert "this release has no invariants" in page
    composition = deployment.instance.get_latest_materialization_event(deployment.key("composition"))
    assert composition is not None
    shown = str(composition.asset_materialization)
    assert "agree on every invariant" not in shown


# A mechanism that leaves something out.


class Forgetful(LaplaceMethod):
    """A method that adds no gate of its own, not even those of its base."""

    def further_gates(self) -> Sequence[Gate[Any]]:  # type: ignore[misc]
        return []

    def own_gates(self) -> Sequence[Gate[Any]]:  # type: ignore[misc]
        return []


@pytest.mark.prove
def test_a_method_without_gates_of_its_own_is_published_past_all_shared_ones_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = KINDS["laplace tables"]
    monkeypatch.setattr("tests.contract.laplace_tables.component.LaplaceTables.method", Forgetful)
    deployment = kind.build(tmp_path / "release")
    run(deployment)
    assert {gate.name for gate in all_gates(deployment.context.method)} == SHARED | {"replay"}
    certificate = deployment.published()["certificate.json"].decode()
    assert all(f'"name": "{name}"' in certificate for name in SHARED | {"replay"})
    executes(kind.tampering)(deployment)
    refuses_to_publish(deployment, {"settled", "replay"}, "")


@quick_cases(0)
def test_in_one_step_a_gate_that_fails_or_breaks_leaves_the_others_evaluated_and_the_run_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: an error ends the step before the later gates, or is ignored."""

    def breaks(context: ReleaseContext[Any]) -> list[str]:
        raise KeyError("no error that anybody thought of")

    draw = LaplaceMethod.draw_stage
    broken, failing_too = Gate[Any]("breaks", draw, "", breaks), Gate[Any]("fails", draw, "", lambda context: ["so"])
    for number, (further, failed) in enumerate((([broken], set()), ([broken, failing_too], {"fails"}))):
        monkeypatch.setattr(LaplaceMethod, "further_gates", lambda self, further=further: further)
        deployment = KINDS["laplace tables"].build(tmp_path / str(number))
        method = deployment.context.method
        result = deployment.run(*to_publication(method), raise_on_error=False)
        of_stage = {gate.name for gate in all_gates(method) if gate.stage == draw} - {"breaks"}
        found = {each.check_name: each.passed for each in result.get_asset_check_evaluations()}
        assert of_stage <= set(found)
        assert {name for name, passed in found.items() if not passed} == failed
        assert not result.success
        assert deployment.executed(result) & {"publication", *method.stages[method.stages.index(draw) + 1 :]} == set()
        assert deployment.published() == {}


@deep_cases(3)
@pytest.mark.parametrize(
    "kind",
    [pytest.param(name, marks=mark(name)) for name in KINDS if name not in WITHOUT_NOISE],
    indirect=True,
)
@pytest.mark.parametrize("altered", [False, True])
def test_the_test_of_the_noise_reads_the_version_that_the_settled_output_has(
    published: Deployment[Any], kind: Kind, altered: bool
) -> None:
    """Because the gates `settled` and `replay` take it over."""
    method = published.context.method
    assert isinstance(method, NoisyCounts)
    if altered:
        executes(kind.tampering)(published)
    with published.context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw = method.describe(session, published.context.custody)
        version = method.read_version(session, draw)
        assert version == method.check_noise(session)[1]
    settled = published.context.ledger.read().find_settlement(draw.draw_id)
    assert settled is not None
    assert (version == settled.output_version) is not altered


@pytest.mark.parametrize(
    ("gate", "complaint"),
    [
        (Gate("nowhere", "tabulated", "", lambda context: []), "gate nowhere: there is no stage tabulated"),
        (Gate("settled", "noisy_measurements", "", lambda context: []), "2 gates called settled"),
    ],
    ids=["of no stage", "in the place of a shared one"],
)
def test_a_gate_that_would_not_be_checked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: Gate[Any], complaint: str
) -> None:
    monkeypatch.setattr(LaplaceMethod, "further_gates", lambda self: [gate])
    with pytest.raises(ValueError, match=complaint):
        KINDS["laplace tables"].build(tmp_path / "release")


def laplace(root: Path, **changes: Any) -> Deployment[Any]:
    return KINDS["laplace tables"].build(root, **changes)


def with_units(root: Path, columns: dict[str, Any]) -> dict[str, Any]:
    return {"units": {"path": str(root / "units.csv"), "columns": columns}}


@pytest.mark.prove
def test_another_domain_is_another_draw(tmp_path: Path) -> None:
    """This holds even if no record has the values that differ, because equal draw ids would show it."""
    one = laplace(tmp_path)
    run(one)
    sizes = {"type": "integer", "values": [1, 2, 3, 4, 5]}
    other = laplace(tmp_path, dataset=with_units(tmp_path, {**UNITS, "size": sizes}))
    run(other)
    assert [entry.kind for entry in other.ledger] == ["reserve", "settle"] * 2


@pytest.mark.parametrize("name", ["count", "Cell"])
def test_a_column_with_a_name_of_the_counts_own_is_refused(tmp_path: Path, name: str) -> None:
    columns = {"serial": UNITS["serial"], name: {"type": "integer", "values": [100, 200]}}
    products = [{"name": "by_it", "dimensions": [name], "epsilon": 1}]
    with pytest.raises(DeclarationError, match=f"column {name} has a name that"):
        laplace(tmp_path, dataset=with_units(tmp_path, columns), products=products)


def test_a_huge_domain_is_refused_without_being_listed(tmp_path: Path) -> None:
    columns = {**UNITS, "size": {"type": "integer", "minimum": 0, "maximum": 10**12}}
    with pytest.raises(DeclarationError, match="1,000,000,000,001 cells"):
        laplace(
            tmp_path,
            dataset=with_units(tmp_path, columns),
            products=[{"name": "by_size", "dimensions": ["size"], "epsilon": 1}],
        )


@pytest.mark.deep
def test_noise_that_cannot_be_stored_is_refused_before_the_charge(tmp_path: Path) -> None:
    products = [{"name": "by_size", "dimensions": ["size"], "epsilon": "1/100000000000"}]
    deployment = laplace(tmp_path, products=products)
    assert "the variance of the noise is too large" in deployment.refusal(*before_draw(deployment.context.method))
    assert deployment.ledger == ()


@pytest.mark.deep
def test_two_queries_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would share one stream of noise, drawn from the distribution of the last."""
    queries = LaplaceMethod.queries
    monkeypatch.setattr(LaplaceMethod, "queries", lambda self: [replace(query, name="x") for query in queries(self)])
    deployment = laplace(tmp_path)
    with pytest.raises(DeclarationError, match="two queries have the same name"):
        assert deployment.context.method.measured
    assert "grid_complete" in deployment.refusal(*before_draw(deployment.context.method))
    assert deployment.ledger == ()


def test_stages_that_a_method_forgets_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The charge and the draw are stages of every release: their gates have nowhere else to be."""
    monkeypatch.setattr(LaplaceMethod, "stages", tuple(stage for stage in LaplaceMethod.stages if stage != CHARGE))
    with pytest.raises(ValueError, match="there is no stage charge"):
        KINDS["laplace tables"].build(tmp_path / "release")


def test_no_mechanism_can_name_its_draws_or_its_output_differently() -> None:
    """The names rest on one function, which is final."""
    assert all("describe" not in vars(cls) and "stored_version" not in vars(cls) for cls in _subclasses(Method))


def _subclasses(cls: type) -> set[type]:
    return {cls_ for direct in cls.__subclasses__() for cls_ in ({direct} | _subclasses(direct))}
