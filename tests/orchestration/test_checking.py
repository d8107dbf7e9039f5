"""Every declaration is checked by itself: each problem has its file and line, and none hides another."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from dagster.components.testing import create_defs_folder_sandbox

from assets.release.release import DeclarationError
from orchestration import checking, definitions
from orchestration.checking import Problem, declaration_problems
from orchestration.cli import main

DATASET = """type: orchestration.components.Dataset
attributes:
  name: {name}
  title: A town
  reader: csv
  cap: 10
  units:
    path: units.csv
    columns:
      county: {{type: string, values: [a, b]}}
      size:
        type: integer
        bands:
          small: {{below: 3}}
          large:
            at_least: {large}
"""
RELEASE = """type: orchestration.components.PermutationSwapping
attributes:
  name: {name}
  dataset: {dataset}
  title: Tables
  match: [{match}]
  swap: [county]
  swap_rate: 1/2
"""
LABORATORY = """type: orchestration.components.Laboratory
attributes:
  name: {name}
  dataset: good
  title: Methods
  tier: T1
  methods: {{}}
"""

AFTER_SWAP = """type: orchestration.components.TableBuilder
attributes:
  name: after
  dataset: good
  title: Counts
  hypercubes:
    - {name: counties, swapped: two, variables: [county], epsilon: 1}
"""
REFUSED_DETAIL = """type: orchestration.components.SafeTabDataset
attributes: {name: census, title: A census, cap: {rho: 30}, persons: p.txt, households: h.txt, blocks: b.txt}
---
type: orchestration.components.SafeTabP
attributes: {name: persons, dataset: census, title: Persons, states: [FR]}
---
type: orchestration.components.SafeTabH
attributes: {name: households, dataset: census, title: Households, detail: persons}
"""

FILES = {
    "a_gap": DATASET.format(name="gap", large=4),
    "b_good": DATASET.format(name="good", large=3),
    "c_not_yaml": "type: [\n",
    "d_of_the_gap": RELEASE.format(name="one", dataset="gap", match="size"),
    "e_of_the_good": RELEASE.format(name="two", dataset="good", match="sise"),
    "f_misspelt": RELEASE.format(name="three", dataset="good", match="size").replace("swap_rate", "swaprate"),
    "g_unknown": RELEASE.format(name="four", dataset="nowhere", match="size"),
    "h_good": RELEASE.format(name="five", dataset="good", match="size"),
    "i_of_another": "type: nobody.knows.this\nattributes: {}\n",
}


def test_each_broken_declaration_is_told_with_its_file_and_line_and_hides_no_other(tmp_path: Path) -> None:
    def problems(files: dict[str, str]) -> list[str]:
        with create_defs_folder_sandbox() as sandbox:
            for name, text in files.items():
                (sandbox.defs_folder_path / name).mkdir()
                (sandbox.defs_folder_path / name / "defs.yaml").write_text(text)
            with sandbox.build_component_tree() as tree:
                return [str(problem) for problem in declaration_problems(tree, tmp_path)]

    gap, not_yaml, unknown_column, missing, misspelt, another = problems(FILES)
    assert gap == (
        "a_gap/defs.yaml:13: dataset gap: units.columns.size: bands: there is a gap between small, below 3, and large, "
        "at least 4"
    )
    assert not_yaml.startswith("c_not_yaml/defs.yaml:2: it is not YAML: ")
    assert unknown_column.startswith("e_of_the_good/defs.yaml:6: release good/two: match: there is no column sise; ")
    assert misspelt.startswith("f_misspelt/defs.yaml:8: release good/three: swaprate: ")
    assert missing == "f_misspelt/defs.yaml:3: release good/three: swap_rate: it is missing"
    assert another.startswith("i_of_another/defs.yaml:1: type: it names none of the components, which are ")
    mended = {name: text for name, text in FILES.items() if name[0] in "bgh"}
    (nowhere,) = problems(mended)
    assert nowhere.startswith("g_unknown/defs.yaml:4: release nowhere/four: dataset: ")
    good = {name: mended[name] for name in ("b_good", "h_good")}
    assert problems(good) == []
    (confidential,) = problems(good | {"j": LABORATORY.format(name="six")})
    assert confidential.startswith("j/defs.yaml:4: laboratory good/six: dataset: good is not declared synthetic")
    zcdp = AFTER_SWAP.replace("swapped: two, ", "").replace("epsilon", "rho")
    (uncounted,) = problems(good | {"l": zcdp})
    assert uncounted.startswith(
        "l/defs.yaml:3: release good/after_counties: a charge of ρ = 2.0000 cannot be counted under the cap of ε = 10.0"
    )
    twice, _ = problems(good | {"j": LABORATORY.format(name="five")})
    withheld = FILES["e_of_the_good"] + "  withheld: true\n"
    # The hypercube reads the release, whose problem is in the release's file alone.
    (unknown,) = problems({"b_good": FILES["b_good"], "a_after": AFTER_SWAP, "e": withheld})
    assert unknown.startswith("e/defs.yaml:6: release good/two: match: there is no column sise; ")
    assert twice == "j/defs.yaml:3: release good/five: it is declared in h_good/defs.yaml too"
    refused, depends = problems({"k": REFUSED_DETAIL})
    assert refused.startswith("k/defs.yaml:5: release census/persons: states.0: ")
    assert depends.endswith("census has no release persons by SafeTab-P, or its declaration is refused too")


FORMULAS = """type: orchestration.components.Dataset
attributes:
  name: {name}
  title: "=A town"
  description: "- of people"
  reader: csv
  cap: 10
  units:
    path: "@units.csv"
    columns:
      "=county": {type: string, values: ["=a", "-9", "-9,5", b], title: "+title"}
      tenure:
        type: string
        values:
          own: "@Owned"
          "+rent": Rented - or not
      code: {type: integer, values: {-1: None, 1: One}}
      kind: {type: string, pattern: "-?[0-9]"}
      size:
        source: "-size"
        type: integer
        bands:
          -small: {below: 3}
          large: {at_least: 3}
      title: {type: string, title: "=not a cell", values: {description: "=Sir", Ms: Madam}}
"""


def test_what_a_spreadsheet_takes_for_a_formula_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of columns, codes, labels and bands. It fails if numbers, or texts in no CSV file, are warned of too."""
    with create_defs_folder_sandbox() as sandbox:
        (sandbox.defs_folder_path / "a").mkdir()
        (sandbox.defs_folder_path / "a" / "defs.yaml").write_text(FORMULAS.replace("{name}", "town"))
        with sandbox.build_component_tree() as tree:
            found = declaration_problems(tree, tmp_path)
    assert all(problem.warning for problem in found)
    assert [(problem.line, problem.text.split(": ")[2:][:2][-1].split(" begins")[0]) for problem in found] == [
        (11, "'=county'"),
        (11, "'=a'"),
        (15, "'@Owned'"),
        (16, "'+rent'"),
        (23, "'-small'"),
        (25, "'=Sir'"),
    ]
    monkeypatch.setattr(checking, "declaration_problems", lambda *_: found)
    checked = CliRunner().invoke(main, ["check"])
    assert checked.exit_code == 0, "a warning refuses nothing"
    assert "a/defs.yaml:16: warning: dataset town: units.columns.tenure.values: '+rent' begins with +" in checked.output
    monkeypatch.setattr(checking, "declaration_problems", lambda *_: [*found, Problem("b", 1, "it is wrong")])
    assert CliRunner().invoke(main, ["check"]).exit_code == 1


@pytest.mark.parametrize("name", ["c_not_yaml", "f_misspelt"])
def test_the_definitions_say_first_which_line_of_which_file_keeps_them_from_loading(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails if the UI shows Dagster's own error: all declarations, its own code, and then the problem."""
    with create_defs_folder_sandbox() as sandbox:
        (sandbox.defs_folder_path / name).mkdir()
        (sandbox.defs_folder_path / name / "defs.yaml").write_text(FILES[name])
        with sandbox.build_component_tree() as tree:
            monkeypatch.setattr(definitions, "component_tree", lambda: tree)
            monkeypatch.setattr(definitions, "deployment_folders", lambda: (tmp_path, tmp_path))
            words = f"^the declarations cannot be loaded:\n{name}/defs.yaml:"
            with pytest.raises(DeclarationError, match=words) as told:
                definitions.defs.load_fn.__wrapped__()  # type: ignore[attr-defined]
    assert told.value.__context__ is None, "Dagster shows no other error behind it"
