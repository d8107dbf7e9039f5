"""The commands of the how-to pages, word by word, in the deployment that the reader of the tutorial has published.

One process runs all of the program's commands, so that its libraries are loaded once. Commands in `PARSED` start
servers, take hours or need what a test does not have; of these, `test_reference` only checks that they can be given.
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

PAGES = FOLDER.parent / "how-to"
PARSED = {
    "make ": "sets up the environment; continuous integration does",
    "stirred explore": "a server",
    "stirred ledger ": "needs a PostgreSQL server; tests/resources/test_ledger_server.py moves a ledger",
    "stirred launch town/risk": "an hour; tests/assets/laboratory runs a small one",
    "stirred plan nation/": "needs the declarations of a nation",
    "stirred launch nation/": "hours, and the records of a nation",
    "stirred unblock 0f6b2c1e-…": "needs a killed run; tests/orchestration has one",
    "stirred verify published/town/tenure --key public_key.pem --authority": "needs a time stamp authority",
    "stirred new dataset data/usa_00012.xml": "a file of IPUMS",
    "stirred new dataset data/survey.sav": "a file of SPSS",
}
"""Beginnings of commands, with the reason why they are not run."""

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


def blocks(page: str, language: str = "sh") -> list[str]:
    """The blocks of a how-to page in one language."""
    text = (PAGES / f"{page}.md").read_text("utf-8")
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(f"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def commands(block: str) -> list[str]:
    """The commands of a block; one ends with its line, unless a quote is open or && is last."""
    found: list[str] = []
    for line in block.splitlines():
        if found and (found[-1].count("'") % 2 or found[-1].endswith("&&")):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found


class Office:
    """Someone who follows the how-to pages in a deployment."""

    def __init__(self, project: Path, environment: dict[str, str]) -> None:
        self.project, self.environment = project, environment
        self.safe, self.medium = project.parent / "safe", project.parent / "key"
        self.safe.mkdir()
        self.medium.mkdir()
        self.given = set[str]()
        self.program = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            cwd=project, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def types(self, command: str, code: int = 0, folder: str = ".", given: str = "") -> str:
        """Give a command of a page, or what is `given` in its place; its exit code must be `code`. Returns what it
        prints."""
        self.given.add(command)
        words = shlex.shlex(given or command, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        first = list(takewhile(lambda word: word[0] not in "|&>", words))
        rest = re.search(r"(?<= )[|>].*", command, re.DOTALL)
        found, said, warned = 0, "", ""
        if first[0] == "stirred":
            found, said, warned = self._run([self._place(word) for word in first[1:]])
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
        """Give the commands of a block that are run and were not given yet; returns what they print."""
        asked = [each for each in commands(blocks(page)[block]) if each not in self.given]
        return [self.types(each, folder=folder) for each in asked if not is_parsed(each)]

    def leaves(self) -> None:
        """Go to a new place, which has the declarations alone."""
        for part in ("var", "published"):
            shutil.rmtree(self.project / part)

    def ends(self) -> None:
        self.program.communicate()

    def _place(self, text: str) -> str:
        return text.replace("/safe/", f"{self.safe}/").replace("/media/key/", f"{self.medium}/")

    def _run(self, words: list[str]) -> tuple[int, str, str]:
        assert self.program.stdin
        assert self.program.stdout
        print(json.dumps(words), file=self.program.stdin, flush=True)
        code, said, warned = json.loads(self.program.stdout.readline())
        return code, said, warned


def is_parsed(command: str) -> bool:
    return command.startswith(tuple(PARSED))


def follow_pages(project: Path, environment: dict[str, str]) -> None:
    """Give the commands of all pages, in an order in which they work.

    Wrong pages: one with a command that is refused, or that needs a step which the page leaves out.
    """
    office = Office(project, environment)
    launch = blocks("launch")
    check, preflight, again = commands(launch[0])
    town = (project / "data" / "town.csv").read_text("utf-8")
    (project / "data" / "households.csv").write_text(town.replace("household", "household_id", 1), "utf-8")
    # Other records, and the same price.
    (project / "data" / "town.csv").write_text(town.replace("owned", "rented", 1), "utf-8")
    (project / "data" / "persons.csv").write_text(
        "household_id,person,age\n" + "".join(f"{n},1,{n % 90}\n" for n in range(1, 5001))
    )
    office.types(check)
    office.types(preflight)
    refused = office.types(again, UNAUTHORIZED)
    shapes = set(map(shape, refused.splitlines()))
    assert [each for each in blocks("launch", "text")[0].splitlines() if shape(each) not in shapes] == [], refused
    line = next(each for each in refused.splitlines() if "--authorize" in each).strip()
    line = line.replace("<your name>", "Ada Lovelace")
    assert shape(line) == shape(launch[1])
    office.types(launch[1].strip(), given=line)
    office.follows("see-the-budget")
    assert "town" in "".join(office.follows("see-the-budget", 1))
    office.follows("audit")
    office.follows("several-people")
    shutil.copy(project / "published" / "public_key.pem", project)
    office.follows("verify")
    shutil.copytree(project / "published" / "town" / "tenure", project / "copied")
    shutil.copy(project / "public_key.pem", project / "copied")
    office.follows("verify", 1, "copied")
    office.follows("plan")
    office.follows("plan", 1)
    office.follows("declare-data")
    declarations = project / "orchestration" / "defs"
    (declarations / "census" / "dataset").mkdir(parents=True)
    census = (declarations / "two_counties" / "dataset" / "defs.yaml").read_text("utf-8")
    (declarations / "census" / "dataset" / "defs.yaml").write_text(
        census.replace("name: two_counties", "name: census"), "utf-8"
    )
    office.follows("declare-a-release")
    office.types("stirred launch survey/tables_employment")
    asked, *_ = blocks("ask-a-table", "text")
    command, source, heads, *_ = asked.splitlines()
    printed = office.types(command.removeprefix("$ ")).splitlines()
    assert [printed[0], printed[1].split()] == [source, heads.split()]
    with chdir(project):
        exec(blocks("ask-a-table", "python")[0], {})
    back_up, again, restore = commands(blocks("back-up")[0])
    key = project / "var" / "custody" / "master.key"
    office.types(back_up)
    office.types(again)
    office.follows("move", 0)
    office.follows("move", 1)
    office.leaves()
    office.follows("move", 2)
    office.types("stirred restore /safe/move")
    office.types("stirred audit")
    office.follows("install", 2)
    held = key.read_bytes()
    office.leaves()
    key.parent.mkdir(parents=True, mode=0o700)
    key.touch(mode=0o600)
    key.write_bytes(held)
    office.types(restore)
    office.follows("withdraw")
    office.ends()
    shown = {each for path in PAGES.glob("*.md") for block in blocks(path.stem) for each in commands(block)}
    left = {each for each in shown - office.given if each.startswith("stirred ")}
    assert {each for each in left if not is_parsed(each)} == set()
