"""The command `stirred` where nothing has run yet; with a release, it is tried in `test_swapping`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchestration.cli import main


@pytest.fixture
def stirred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    for name in ("STIRRED_HOME", "STIRRED_PUBLISHED", "DAGSTER_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    return lambda *arguments: CliRunner().invoke(main, arguments)


def test_an_empty_deployment_has_a_status_and_a_budget(stirred: Callable[..., Result], tmp_path: Path) -> None:
    found = json.loads(stirred("status", "--json").stdout)
    assert {each["release"] for each in found["releases"]} >= {"ma1940/tenure_by_county", "two_states/s_dhc"}
    assert not any(each["editions"] or each["published"] or each["last_run"] for each in found["releases"])
    assert {each["left"] == each["cap"].split(" at ")[0][:-2] for each in found["populations"]} == {True}
    shown = stirred("budget")
    assert shown.exit_code == 0
    assert "Ledger, intact" in shown.stdout
    assert not (tmp_path / "stirred_home" / "custody" / "master.key").exists(), "looking makes no key"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["launch", "ma1940/nothing"], 2, "there is no release ma1940/nothing; declared are ma1940/tenure_by_county"),
        (["launch", "ma1940"], 2, "there is no release ma1940;"),
        (["launch"], 2, "Missing argument"),
        (["withdraw", "ma1940/nothing", "--by", "Ada"], 1, "ma1940/nothing"),
        (["verify", "nowhere", "--key", "nowhere"], 1, "nowhere cannot be read"),
        (["restore", "nowhere"], 1, "nowhere"),
        (["unblock", "nothing"], 1, "there is no run nothing"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    stirred: Callable[..., Result], arguments: list[str], code: int, says: str
) -> None:
    found = stirred(*arguments)
    assert found.exit_code == code, found.output
    assert says in found.stderr
    assert "Traceback" not in found.output
