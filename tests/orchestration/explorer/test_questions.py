"""Claims about the answers of the explorer to questions about published moments."""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from streamlit.testing.v1 import AppTest

from assets.table_builder.release import TABLES
from orchestration.explorer import questions
from orchestration.explorer.settings import VARIABLE, Settings
from tests.contract.kinds import to_publication
from tests.deployments import households, members
from tests.table_builder_deployments import STATISTICS, hypercube_deployment


def page() -> None:
    import streamlit

    from orchestration.explorer.questions import show_answer

    show_answer(streamlit.container(), "village/tables_sizes_moments", {}, {})


def test_no_answer_follows_from_an_altered_file_while_it_is_altered_or_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: keeps the files it read until the checksums have another time, and reports smaller errors of files
    that were put back and verify again."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    cube = {"units": households(), "persons": members(households()), "tested": 2}
    deployment = hypercube_deployment(tmp_path / "release", STATISTICS, **cube)
    deployment.reach(*to_publication(deployment.context.method))
    settings = Settings(str(tmp_path), str(deployment.release.published), str(tmp_path), "", (), 1)
    monkeypatch.setenv(VARIABLE, settings.as_text())

    def ask() -> tuple[list[str], list[str]]:
        test = AppTest.from_function(page, default_timeout=600).run()
        assert not test.exception
        return [each.value.to_csv() for each in test.table], [each.value for each in test.error]

    due = ask()
    questions._read.cache_clear()
    file = deployment.release.folder / f"{TABLES}.parquet"
    signed, table = file.read_bytes(), pq.read_table(file)
    budgets = pa.array(["1000000"] * len(table))
    pq.write_table(table.set_column(table.column_names.index("budget"), "budget", budgets), file)
    answers, (error,) = ask()
    assert not answers
    assert "was altered" in error
    file.write_bytes(signed)
    assert ask() == due != ([], [])
