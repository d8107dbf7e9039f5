"""The tutorial, command by command, in a copy of the project, on the page's own file and with its numbers; and likewise
on a file as spreadsheets write it. One process runs all of the program's commands.
"""

import csv
import os
import random
import re
import shlex
import shutil
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.pictures.__main__ import FOLDER
from orchestration.cli import UNAUTHORIZED
from tests.docs.how_to import Program, follow_pages, shape, without_demo

ROOT = FOLDER.parents[1]
PAGE = ROOT / "docs" / "tutorial" / "own-data.md"
PARTS = (
    "assets",
    "mechanisms",
    "orchestration",
    "resources",
    "sql",
    "dagster.yaml",
    "pyproject.toml",
    "workspace.yaml",
)

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks() -> list[tuple[str, str]]:
    """The blocks of the page in their order: sh, yaml or text, each with its content."""
    return BLOCK.findall(PAGE.read_text("utf-8"))


def commands(block: str) -> Iterator[str]:
    """The commands of a block: its lines, except that a document in it belongs to its command."""
    lines = iter(block.splitlines())
    for line in lines:
        if "<<'END'" in line:
            line = "\n".join([line, *iter(lambda: next(lines), "END"), "END"])
        yield line


class Reader:
    """A reader who follows the page in a copy of the project, without its own declarations, which take seconds to load.

    Args:
        folder: where the copy is made.
        asks: whether the first launch is refused until it is authorized.

    The pages that follow the tutorial are followed with all declarations.
    """

    def __init__(self, folder: Path, *, asks: bool = True) -> None:
        self.asks = asks
        self.project = folder / "project"
        self.project.mkdir()
        for part in PARTS:
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy2
            copy(ROOT / part, self.project / part)
        self.others = folder / "others"
        (self.project / "orchestration" / "defs").rename(self.others)
        (self.project / "orchestration" / "defs").mkdir()
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("STIRRED_", "DAGSTER_"))}
        self.environment = ours | {"PYTHONPATH": str(self.project)}
        self.program = Program(self.project, self.environment)
        self.said = ""
        self.refusal = ""
        self.proposed: dict[str, Any] = {}
        self.tried = Counter[str]()

    def reads(self, language: str, block: str) -> None:
        """Follow a block of the page: run its commands, correct a file, or compare the output."""
        if language == "sh":
            self.said = ""
            for command in commands(block):
                self.types(command)
        elif language == "yaml":
            path = self.project / block.splitlines()[0].removeprefix("# ")
            proposed = self.proposed[path.parent.name] = yaml.safe_load(path.read_text("utf-8"))["attributes"]
            assert proposed.keys() >= yaml.safe_load(block)["attributes"].keys()
            path.write_text(block, "utf-8")
        else:
            shapes = {shape(line) for line in self.said.splitlines()}
            shown = without_demo(block).splitlines()
            assert [line for line in shown if shape(line) not in shapes] == [], self.said

    def types(self, command: str) -> None:
        """Run a command of the page, as a reader would: with the reader's draw and name."""
        if command.startswith(("make ", "source ")):
            # Continuous integration runs `make`, and this test's path has the programs that `source` would add.
            return
        if "--authorize" in command:
            given = next(line for line in self.refusal.splitlines() if "--authorize" in line)
            assert shape(given) == shape(command)
            command = given
        refused = self.asks and command.startswith("stirred launch") and not self.tried["launch"]
        command = command.replace("<your name>", "Ada Lovelace")
        if command.startswith("stirred "):
            code, *texts = self.program.run(shlex.split(command)[1:])
            printed = "".join(texts)
        else:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.project, env=self.environment, text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            code, printed = done.returncode, done.stdout
        assert code == (UNAUTHORIZED if refused else 0), printed
        self.said += printed
        self.refusal = printed if refused else self.refusal
        words = command.split()
        self.tried[words[1] if words[0] == "stirred" else words[0]] += 1

    def published(self, release: str = "town/tenure") -> bool:
        """Whether there is a certificate."""
        return (self.project / "published" / release / "certificate.html").exists()


def test_the_installed_command_is_the_one_that_is_tried() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert scripts == {"stirred": "stirred.__main__:main"}


@pytest.mark.deep
def test_the_tutorial_and_the_how_to_pages_work_as_they_are_written(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    for language, block in blocks():
        if "withdraw" in block:
            copied = tmp_path / "office" / "project"
            shutil.copytree(reader.project, copied)
            shutil.copytree(reader.others, copied / "orchestration" / "defs", dirs_exist_ok=True)
            follow_pages(copied, reader.environment | {"PYTHONPATH": str(copied)})
        reader.reads(language, block)
        assert reader.published() == (reader.tried["launch"] >= 2 and not reader.tried["withdraw"])
    reader.program.end()
    assert (reader.proposed["tenure"]["match"], reader.proposed["tenure"]["swap"]) == (["size"], ["district"])
    tried = {"new": 2, "check": 1, "plan": 1, "preflight": 1, "launch": 3, "verify": 1, "budget": 1, "withdraw": 1}
    assert reader.tried == Counter(tried | {"mkdir": 1, "python3": 1, "ls": 1, "cat": 1, "rm": 1})
    assert not (reader.project / "orchestration" / "defs" / "town").exists()


MESSY = """\
# orchestration/defs/enquete/dataset/defs.yaml
type: orchestration.components.Dataset
attributes:
  name: enquete
  title: Enquête
  description: Made up for a test.
  reader: csv
  record_name: person
  cap: 10000
  charging: automatic
  units:
    path: data/enquete.csv
    csv: {separator: ";", encoding: windows-1252, decimal: ",", dates: DD/MM/YYYY}
    columns:
      région: {type: string, role: geography, values: [Bretagne, Île-de-France]}
      code: {type: string, values: ["01", "1", "10"]}
      génération: {source: naissance, type: date, bands: {avant: {below: 1970-04-01}, après: {at_least: 1970-04-01}}}
      revenu: {type: decimal, minimum: 0, maximum: 100, null: [NA, "99999999"]}
"""
HYPERCUBES = """\
# orchestration/defs/enquete/tables/defs.yaml
type: orchestration.components.TableBuilder
attributes:
  name: tables
  dataset: enquete
  title: Persons and incomes
  description: Made up for a test.
  hypercubes:
    - name: incomes
      of: units
      variables: [région, code, génération]
      value: {column: revenu, grid: 1/2, most: 100}
      epsilon: 5000
"""
"""The noise has the scale 1/25 in steps of 1/2, so that one of 12 cells differs with a probability below 1e-9."""


@pytest.mark.prove
def test_a_file_as_spreadsheets_write_it_becomes_a_certificate(tmp_path: Path) -> None:
    """Semicolons, Windows-1252, decimal commas, days first, two codes for no income, and a first column without a name.

    The sums are exact. Wrong programs: one that takes 1 for 01, 4 March for 3 April, or 99999999 for an income.
    """
    reader, draw, sums = Reader(tmp_path, asks=False), random.Random(1), Counter[tuple[str, ...]]()
    (reader.project / "data").mkdir()
    with (reader.project / "data" / "enquete.csv").open("w", encoding="cp1252", newline="") as file:
        rows = csv.writer(file, delimiter=";", quoting=csv.QUOTE_NONNUMERIC)
        rows.writerow(["", "région", "code", "naissance", "revenu"])
        for number in range(600):
            place, code = draw.choice(["Bretagne", "Île-de-France"]), draw.choice(["01", "1", "10"])
            day, year, halves = draw.choice(["03/04", "04/03", "28/02"]), draw.choice([1969, 1970]), draw.randrange(201)
            income = draw.choice(["NA", "99999999", f"{halves // 2},{halves % 2 * 5}"])
            rows.writerow([str(number + 1), place, code, f"{day}/{year}", income])
            born = "après" if (day, year) == ("03/04", 1970) else "avant"
            sums[place, code, born] += halves if "," in income else 0
    reader.types("stirred new dataset data/enquete.csv --record-name person")
    assert 'column "" is left out: it has no name' in reader.said
    reader.reads("yaml", MESSY)
    proposed, declared = reader.proposed["dataset"]["units"], yaml.safe_load(MESSY)["attributes"]["units"]
    assert proposed["csv"] == declared["csv"]
    codes = [columns["revenu"].get(None) for columns in (proposed["columns"], declared["columns"])]
    assert codes == [["NA", "99999999"]] * 2, "null is a key that YAML reads as None"
    reader.types("stirred new release enquete --kind tables --name tables")
    reader.reads("yaml", HYPERCUBES)
    reader.types("stirred launch enquete/tables")
    reader.program.end()
    assert reader.published("enquete/tables_incomes")
    with (reader.project / "published" / "enquete" / "tables_incomes" / "hypercube.csv").open(newline="") as file:
        found = {
            (row["région"], row["code"], row["génération"]): float(row["estimate"]) * 2 for row in csv.DictReader(file)
        }
    assert found == sums
