"""The commands of the pages, word by word, in the deployment that the reader of the tutorial has published.

One process runs all of the program's commands, so that its libraries are loaded once. Commands in `PARSED` start
servers, take hours or need resources that a test lacks; `test_reference` only checks that these parse.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import chdir
from itertools import takewhile
from pathlib import Path

from docs.pictures.__main__ import FOLDER
from orchestration.cli import UNAUTHORIZED

DOCS = FOLDER.parent
PAGES = {path.stem: path for path in (DOCS.parent / "README.md", *DOCS.rglob("*.md"), *DOCS.glob("how-to/*.md"))}
TESTED = {"own-data", "choosing"}
"""Pages whose commands other tests run."""
PARSED = {
    "make ": "sets up the environment; continuous integration does",
    "source ": "the same",
    "stirred explore": "a server",
    "stirred ledger ": "needs a PostgreSQL server; tests/resources/test_ledger_server.py moves a ledger",
    "stirred launch town/tenure --authorize": "the tutorial's own test gives it",
    "stirred launch town/risk": "an hour; tests/assets/laboratory runs a small one",
    "stirred launch two_": "minutes; make showcase makes them",
    "stirred launch survey/": "a minute; one hypercube of survey/tables is launched",
    "stirred launch detailed/": "minutes; make showcase makes them",
    "stirred preflight survey/tables_insurance": "needs the declaration of the page",
    "stirred export registry": "needs a redistricting release",
    "stirred estimate": "the same; tests/assets/topdown/test_bureau.py gives the command",
    "stirred regenerate": "needs a DHC; tests/assets/topdown/dhc/test_dhc_release.py gives the command",
    "stirred plan nation/": "needs the declarations of a nation",
    "stirred launch nation/": "hours, and the records of a nation",
    "stirred unblock 0f6b2c1e-…": "needs a killed run",
    "stirred verify published/town/tenure --key public_key.pem --authority": "needs a time stamp authority",
    "stirred new dataset data/usa_00012.xml": "a file of IPUMS",
    "stirred new dataset data/survey.sav": "a file of SPSS",
}
"""Beginnings of commands that are not run, with the reason."""

_PROGRAM = """
import json, os, sys
from orchestration.cli import main
answers = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    with open("said", "w+") as out, open("warned", "w+") as warned:
        os.dup2(out.fileno(), 1)
        os.dup2(warned.fileno(), 2)
        try:
            code = main(json.loads(line), prog_name="stirred") or 0
        except SystemExit as end:
            code = end.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
        texts = [open(file.name).read() for file in (out, warned)]
    print(json.dumps([code, *texts]), file=answers, flush=True)
"""


DRAW = re.compile(r"\b[0-9a-f]{12,}\b")


def shape(line: str) -> str:
    """A line of output without its alignment, and without the draw, which depends on the deployment's key."""
    return DRAW.sub("#", " ".join(line.split()))


def without_demo(block: str) -> str:
    """The output on a page, as if `make demo`, which is not repeated here, had not made two ledger entries before."""
    return re.sub(r"(?<=ledger entry )\d+", lambda number: str(int(number[0]) - 2), block)


def blocks(page: str, language: str = "sh") -> list[str]:
    """The blocks of a page in one language."""
    text = PAGES[page].read_text("utf-8")
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(f"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def commands(block: str) -> list[str]:
    """The commands of a block without comments; one ends with its line, unless a quote is open or && is last."""
    found: list[str] = []
    for line in block.splitlines():
        if found and (found[-1].count("'") % 2 or found[-1].endswith("&&")):
            found[-1] += f"\n{line}"
        else:
            found.append(line.partition(" #")[0].strip())
    return found


class Program:
    """One process in a project that runs commands of the program one after the other."""

    def __init__(self, project: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            cwd=project, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, words: list[str]) -> tuple[int, str, str]:
        """The exit code of a command, its output, and its warnings."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(words), file=self._process.stdin, flush=True)
        code, said, warned = json.loads(self._process.stdout.readline())
        return code, said, warned

    def end(self) -> None:
        self._process.communicate()


class Office:
    """A reader who follows the how-to pages in a deployment."""

    def __init__(self, project: Path, environment: dict[str, str]) -> None:
        self.project, self.environment = project, environment
        self.places = {place: project.parent / place.strip("/") for place in ("/safe/", "/vault/", "/media/key/")}
        for folder in self.places.values():
            folder.mkdir(parents=True)
        self.given = set[str]()
        self.program = Program(project, environment)

    def types(self, command: str, code: int = 0, folder: str = ".") -> str:
        """Run a command of a page, whose exit code must be `code`; returns its output."""
        self.given.add(command)
        words = shlex.shlex(command, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        first = list(takewhile(lambda word: word[0] not in "|&>", words))
        rest = re.search(r"(?<= )[|>].*", command, re.DOTALL)
        found, said, warned = 0, "", ""
        if first[0] == "stirred":
            found, said, warned = self.program.run([self._place(word) for word in first[1:]])
            line = f"cat {rest[0]}" if rest and not found else ""
        else:
            line = self._place(command)
        if line:
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=self.project / folder, env=self.environment, input=said, text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            found, said = done.returncode, done.stdout
        assert found == code, (command, said, warned)
        return said + warned

    def follows(self, page: str, block: int = 0, folder: str = ".") -> list[str]:
        """Run the commands of a block that are to be run and have not run yet; returns their output."""
        asked = [each for each in commands(blocks(page)[block]) if each not in self.given]
        return [self.types(each, folder=folder) for each in asked if not is_parsed(each)]

    def leaves(self) -> None:
        """Go to a new place, which has only the declarations."""
        for part in ("var", "published"):
            shutil.rmtree(self.project / part)

    def _place(self, text: str) -> str:
        """A text with folders of the test in place of those outside the project."""
        for place, folder in self.places.items():
            text = text.replace(place, f"{folder}/")
        assert not text.startswith("/") or text.startswith(f"{self.project.parent}/"), text
        return text


def is_parsed(command: str) -> bool:
    return command.startswith(tuple(PARSED))


def follow_pages(project: Path, environment: dict[str, str]) -> None:
    """Run the commands of all pages, in an order in which they work.

    Wrong pages: one with a command that is refused, or that needs a step which the page leaves out.
    """
    office = Office(project, environment)
    office.follows("see-the-budget")
    assert "town" in "".join(office.follows("see-the-budget", 1))
    office.follows("several-people")
    shutil.copy(project / "published" / "public_key.pem", project)
    office.follows("verify")
    shutil.copytree(project / "published" / "town" / "tenure", project / "copied")
    shutil.copy(project / "public_key.pem", project / "copied")
    office.follows("verify", 1, "copied")
    office.follows("plan")
    office.follows("plan", 1)
    # A tenth of the sample is launched and asked in the same way.
    sample = project / "orchestration" / "defs" / "survey" / "dataset" / "defs.yaml"
    sample.write_text(re.sub(r"households: \d+", "households: 880", sample.read_text("utf-8")), "utf-8")
    office.types("stirred launch survey/tables_employment")
    asked, *_ = blocks("ask-a-table", "text")
    command, source, heads, *_ = asked.splitlines()
    printed = office.types(command.removeprefix("$ ")).splitlines()
    assert [printed[0], printed[1].split()] == [source, heads.split()]
    office.follows("README", 1)
    office.follows("safetab")
    with chdir(project):
        exec(blocks("ask-a-table", "python")[0], {})
    *back_ups, restore = commands(blocks("back-up")[0])
    for each in back_ups:
        office.types(each)
    office.follows("move", 0)
    office.follows("move", 1)
    office.leaves()
    office.follows("move", 2)
    office.follows("move", 3)
    office.leaves()
    key = project / "var" / "custody" / "master.key"
    key.parent.mkdir(parents=True, mode=0o700)
    shutil.copy(office.places["/media/key/"] / key.name, key)
    office.types(restore)
    # Other records, and the same price.
    town = (project / "data" / "town.csv").read_text("utf-8")
    (project / "data" / "town.csv").write_text(town.replace("owned", "rented", 1), "utf-8")
    (project / "data" / "households.csv").write_text(town.replace("household", "household_id", 1), "utf-8")
    persons = "".join(f"{number},1,{number % 90}\n" for number in range(1, 5001))
    (project / "data" / "persons.csv").write_text(f"household_id,person,age\n{persons}", "utf-8")
    _, preflight, launch = commands(blocks("launch")[0])
    office.types(preflight)
    refused = set(map(shape, office.types(launch, UNAUTHORIZED).splitlines()))
    message = without_demo(blocks("launch", "text")[0])
    shown = [*message.splitlines(), blocks("launch")[1].replace("Ada Lovelace", "<your name>")]
    assert [each for each in shown if shape(each) not in refused] == []
    office.follows("withdraw")
    # Fewer declarations are read faster.
    declarations = project / "orchestration" / "defs"
    census = (declarations / "two_counties" / "dataset" / "defs.yaml").read_text("utf-8")
    shutil.rmtree(declarations)
    (declarations / "census" / "dataset").mkdir(parents=True)
    census = census.replace("name: two_counties", "name: census\n  detailed_codes: true")
    (declarations / "census" / "dataset" / "defs.yaml").write_text(census, "utf-8")
    office.follows("declare-data")
    office.follows("declare-a-release")
    office.program.end()
    shown = {each for page in PAGES.keys() - TESTED for block in blocks(page) for each in commands(block)}
    left = {each for each in shown - office.given if each.startswith("stirred ")}
    assert {each for each in left if not is_parsed(each)} == set()
