"""The wheel, installed into an environment of its own: one top-level package, which works next to a user's own modules.
The environment shares the libraries of this one and needs no network.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.test_pages import fenced

ROOT = Path(__file__).parents[2]
LAYERS = ("assets", "mechanisms", "orchestration", "resources", "sql")
COLLIDING = "assert __name__ == {name!r}\nOURS = True\n"

SCRIPT = """
import assets, mechanisms, orchestration, resources, sql, sys
assert all(each.OURS for each in (assets, mechanisms, orchestration, resources, sql))
import stirred
assert stirred.__file__.startswith(sys.prefix)
deployment = stirred.open({deployment!r})
print(deployment.plan("ma1940/tenure_by_county", largest_stratum=100)["plan"]["total"])
"""


@pytest.fixture(scope="module")
def layout() -> ModuleType:
    spec = spec_from_file_location("wheel_layout", ROOT / "deploy" / "wheel_layout.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheel(layout: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]
    assert (backend["build-backend"], backend["backend-path"]) == (layout.__name__, ["deploy"])
    folder = tmp_path_factory.mktemp("wheel")
    code = f"import wheel_layout; print(wheel_layout.build_wheel({str(folder)!r}))"
    path = os.environ | {"PYTHONPATH": str(ROOT / "deploy")}
    built = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=path, capture_output=True, text=True, check=True)
    return zipfile.ZipFile(folder / built.stdout.splitlines()[-1])


@pytest.mark.prove
def test_the_wheel_has_one_package_with_every_file_of_the_layers(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {name.partition("/")[0] for name in names} == {"stirred", "stirred-0.2.0.dist-info"}
    top = {name.removeprefix("stirred/") for name in names}
    for folder in ("stirred", *LAYERS):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"stirred/{path.relative_to(ROOT)}".removeprefix("stirred/stirred/") in {*names, *top}


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and the folder of a deployment."""

    python: Path
    deployment: Path

    def run(self, *arguments: str, cwd: Path) -> str:
        """The output of a run of Python, without the settings of this process."""
        left_out = ("STIRRED_", "DAGSTER_", "PYTHON")
        ours = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        done = subprocess.run([self.python, *arguments], cwd=cwd, env=ours, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def installed(wheel: zipfile.ZipFile, tmp_path: Path) -> Installed:
    environment, deployment = tmp_path / "environment", tmp_path / "deployment"
    venv.create(environment, with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    wheel.extractall(site)
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    declarations = Path("orchestration", "defs", "ma1940")
    shutil.copytree(ROOT / declarations, deployment / declarations)
    return Installed(environment / "bin" / "python", deployment)


@pytest.mark.deep
def test_the_installed_wheel_draws_and_opens_a_deployment_beside_modules_of_the_same_names(
    installed: Installed, tmp_path: Path
) -> None:
    """A wheel whose layers are found under their own names imports the user's, or hides them from the user."""
    for name in LAYERS:
        (tmp_path / f"{name}.py").write_text(COLLIDING.format(name=name))
    page = "".join(fenced(ROOT / "docs" / "how-to" / "python.md", "python"))
    (tmp_path / "script.py").write_text(SCRIPT.format(deployment=str(installed.deployment)) + page, "utf-8")
    printed = installed.run("script.py", cwd=tmp_path)
    assert printed.startswith("ε = 4.6152")
    assert "not charged: no ledger counts this loss" in printed


@pytest.mark.prove
def test_the_installed_wheel_launches_a_release_and_reads_it(installed: Installed, tmp_path: Path) -> None:
    """Kernels, SQL, templates, settings and the types of components are all found in the wheel."""
    printed = installed.run(str(ROOT / "examples" / "deployment.py"), str(installed.deployment), cwd=tmp_path)
    assert "'ma1940/tenure_by_county': 'ε = 12.4850'" in printed
    assert "ma1940/tenure_by_county, edition 1" in printed
    assert "standard_error" in printed


@pytest.mark.parametrize(
    ("written", "installed"),
    [
        ("from assets.texts import a\n", "from stirred.assets.texts import a\n"),
        ("def f():\n    from mechanisms import a, b\n", "def f():\n    from stirred.mechanisms import a, b\n"),
        ('TEXT = """\nfrom assets import a\n"""\n', None),
        ("from assetsmanager import a\nfrom . import sql\nfrom stirred.noise import b\nimport sqlite3\n", None),
    ],
)
def test_only_imports_from_the_layers_are_rewritten(layout: ModuleType, written: str, installed: str | None) -> None:
    assert layout.rewrite_imports(written) == (installed or written)
    with pytest.raises(ValueError, match="line 1: import names from a layer"):
        layout.rewrite_imports("import assets.texts\n")
