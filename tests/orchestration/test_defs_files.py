"""Files of declarations: text that YAML would read differently is refused with file, line and key."""

from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox

from assets.release.release import DeclarationError
from orchestration import declarations
from orchestration.components import SyntheticCensus
from orchestration.definitions import deployment
from orchestration.defs_files import require_unambiguous, require_unambiguous_text

SYNTHETIC = "orchestration.components.SyntheticCensus"
CENSUS = {"name": "census", "cap": 10, "households": 100, "states": ["10"]}


def _repeat(first: str) -> str:
    lines = (f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]\n" for number in range(1, 11))
    return f"a0: &a0 {first}\n{''.join(lines)}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cap: 1\nname: a\ncap: 2\n", "f.yaml:3: 'cap' is declared twice, first in line 1"),
        ("a:\n  - {x: 1, x: 2}\n", "f.yaml:2: 'x' is declared twice"),
        ("a: 1\n---\nb: 1\n'b': 2\n", "f.yaml:4: 'b' is declared twice, first in line 3"),
        ("yes: 1\ntrue: 2\n", "f.yaml:2: True is declared twice"),
        ("a: &x {b: {c: 1, c: 2}}\nd: *x\n", "f.yaml:1: 'c' is declared twice"),
        ("cap: 010\n", "f.yaml:1: '010' would be read as 8; write a number in decimal digits"),
        ("a:\n  b: {c: 0,5, d: 1}\n", "f.yaml:2: 0,5 is not read as one number: .* write 0.5, with a decimal point"),
        ("a:\n- 1:30\n", "f.yaml:2: '1:30' would be read as 90"),
        ("a: 0x1F\n", "f.yaml:1: '0x1F' would be read as 31"),
        (f"a: {'9' * 5000}\n", r"f.yaml:1: '9+… cannot be read"),
        ("a: [1\n", "f.yaml:2: it is not YAML"),
        ("a: \0", "f.yaml: it is not YAML"),
        ("a: x\t\nb: 1\n", "f.yaml:1: it is not YAML: found character .\\\\t. that cannot start any token"),
        ("a: !!python/name:os.system\n", "f.yaml:1: it is not YAML"),
        ("? [a]\n: 1\n", "f.yaml:1: a key is a single text or number"),
        (f"a:\n {'[' * 50}", "f.yaml:2: more than 50 lists and mappings contain one another"),
        (f"a: {'[' * 100_000}", "f.yaml:1: more than 50 lists and mappings contain one another"),
        ("# nothing yet\n", "f.yaml: it has no declaration"),
        (
            f"type: {SYNTHETIC}\npost_processing: {{assets: [{{attributes: {{tags: {{zone: public}}}}}}]}}\n",
            "f.yaml:2: 'post_processing': a declaration has only",
        ),
        ("type: a.b\nattributes:\n  a: ['{{ env.KEY }}']\n", "f.yaml:1: type: it names none of the components"),
        ("type: Dataset\n", r"type: .*did you mean orchestration.components.Dataset\?"),
        ("type: orchestration.components.Dataset\nattribute: {}\n", r"and attributes .did you mean attributes\?"),
        (f"attributes: &a {{b: '{{% x %}}'}}\ntype: {SYNTHETIC}\nc: *a\n", "f.yaml:3: 'c': a declaration has only"),
        ("a: 1\nb: &b [1, {c: *b}]\n", "f.yaml:2: the alias \\*b refers to itself"),
        # They would be read in no time, and then each of ten billion values checked.
        (_repeat("{a: 1}"), "f.yaml:6: aliases such as \\*a4 stand for too many values"),
        (_repeat("[]"), "f.yaml:6: aliases such as \\*a4 stand for too many values"),
    ],
)
def test_ambiguous_or_unreadable_yaml_is_refused_with_file_line_and_key(text: str, said: str) -> None:
    with pytest.raises(DeclarationError, match=said.replace("[", "\\[")):
        require_unambiguous_text(text, "f.yaml")


def test_a_key_may_occur_in_several_mappings_and_be_overridden_after_a_merge() -> None:
    require_unambiguous_text("a: &x {b: 1}\nc: {<<: *x, b: 2}\nd: *x\n1: e\n'1': f\n---\na: 2020-01-01\n", "f.yaml")


def test_codes_without_labels_are_no_decimal_comma() -> None:
    require_unambiguous_text("a: {1, 2}\nb: {1: one,2: two}\nc: {1: 1,2: 2}\nd: {x: 1, 2}\n", "f.yaml")


def test_a_file_that_dagster_would_ignore_is_refused(tmp_path: Path) -> None:
    """Below or beside another one. Wrong program: loads the deployment without the datasets it declares."""
    for folders, other in (("census/more", "defs.yaml"), ("census/a/b", "defs.yml"), ("census", "component.yaml")):
        (tmp_path / folders).mkdir(parents=True, exist_ok=True)
        (tmp_path / "census" / "defs.yaml").write_text(f"type: {SYNTHETIC}\n")
        (tmp_path / "censuses").mkdir(exist_ok=True)
        (tmp_path / "censuses" / "defs.yaml").write_text(f"type: {SYNTHETIC}\n")
        require_unambiguous(tmp_path)
        (tmp_path / folders / other).write_text(f"type: {SYNTHETIC}\n")
        with pytest.raises(DeclarationError, match=r"census/.*: Dagster reads either this file or .*census/defs\.yaml"):
            require_unambiguous(tmp_path)
        (tmp_path / folders / other).unlink()


def test_all_files_of_this_deployment_are_unambiguous() -> None:
    require_unambiguous(Path(__file__).resolve().parents[2] / "orchestration" / "defs")


def test_a_deployment_does_not_load_with_a_doubled_key_or_a_doubled_name(tmp_path: Path) -> None:
    """Otherwise the second cap would be used, with no sign of the first."""
    with create_defs_folder_sandbox() as sandbox:
        contents = {"type": SYNTHETIC, "attributes": CENSUS}
        folder = sandbox.scaffold_component(
            component_cls=SyntheticCensus, defs_path="census", defs_yaml_contents=contents
        )
        with sandbox.build_component_tree() as tree:
            assert deployment(tree, tmp_path).resolve_asset_graph().has(dg.AssetKey(["census", "cef"]))
        text = yaml.safe_dump(contents, sort_keys=False)
        file = folder / "defs.yaml"
        file.write_text(text + "  cap: 1000\n")
        with (
            sandbox.build_component_tree() as tree,
            pytest.raises(DeclarationError, match=r"census/defs\.yaml:8: 'cap' is declared twice, first in line 4"),
        ):
            deployment(tree, tmp_path)
        file.write_text(f"{text}---\n{text}")
        with (
            sandbox.build_component_tree() as tree,
            pytest.raises(DeclarationError, match="dataset census: name: it is declared more than once"),
        ):
            deployment(tree, tmp_path)


def test_a_folder_without_a_declaration_is_no_deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong program: asks only whether the folder is there, and then fails with an error of Dagster's."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(declarations, "DECLARATIONS", tmp_path)
    with pytest.raises(DeclarationError, match=r"there is no defs\.yaml in a folder of .*; stirred new dataset FILE"):
        declarations.component_tree()
