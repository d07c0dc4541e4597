"""The content of a wheel, and that the lists which must agree do."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

# The wheel is built once.
pytestmark = pytest.mark.xdist_group("wheel")

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("skyline", "skyline_lsp", "skyline_tui", "skyline_predictors")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("skyline_profiler-*.whl")
    return zipfile.ZipFile(path)


def test_a_wheel_installs_our_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    top = {name.split("/")[0] for name in wheel.namelist()}
    metadata = {name for name in top if name.endswith(".dist-info")}
    assert len(metadata) == 1
    assert top - metadata <= set(PACKAGES)
    assert {"skyline", "skyline_lsp", "skyline_tui"} <= top


def test_every_package_is_typed(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for package in {name.split("/")[0] for name in names} & set(PACKAGES):
        assert f"{package}/py.typed" in names


def test_files_that_are_not_python_come_along(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for folder in ("report", "browser"):
        for source in REPOSITORY.glob(f"skyline/{folder}/**/*"):
            if source.is_file() and source.suffix not in {".py", ".pyc"}:
                assert source.relative_to(REPOSITORY).as_posix() in names
    assert {"skyline/predict/prices.json", "skyline_predictors/data_sheets.json"} <= names
    assert "skyline/browser/static/served-page.js" in names
    assert any(name.startswith("skyline/report/") and name.endswith((".html", ".j2")) for name in names)


def test_tests_and_caches_stay_out(wheel: zipfile.ZipFile) -> None:
    assert not [name for name in wheel.namelist() if "__pycache__" in name or "/tests/" in name]


def test_the_licence_and_the_command_are_declared(wheel: zipfile.ZipFile) -> None:
    by_name = {name.split("/", 1)[1]: name for name in wheel.namelist() if ".dist-info/" in name}
    assert "licenses/LICENSE" in by_name
    assert b"skyline = skyline.cli.main:main" in wheel.read(by_name["entry_points.txt"])
    assert b"License-Expression: Apache-2.0" in wheel.read(by_name["METADATA"])


def test_torch_is_never_installed_unasked(wheel: zipfile.ZipFile) -> None:
    (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    requirements = re.findall(r"^Requires-Dist: (.+)$", wheel.read(metadata).decode(), flags=re.MULTILINE)
    assert requirements
    assert all("extra ==" in line for line in requirements if re.match(r"torch\b", line))


def test_requirements_mirror_the_development_group() -> None:
    project = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    (group,) = re.findall(r"^dev = \[\n(.*?)^\]", project, flags=re.MULTILINE | re.DOTALL)
    listed = (REPOSITORY / "requirements" / "dev.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in listed if line and not line.startswith("#")] == re.findall(r'"([^"]+)"', group)


def test_what_is_installed_for_a_demo_is_pinned() -> None:
    def distribution(requirement: str) -> str:
        return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower().replace("_", "-")

    def lines(name: str) -> list[str]:
        text = (REPOSITORY / "requirements" / name).read_text(encoding="utf-8")
        return [line for line in text.splitlines() if line and not line.startswith("#")]

    pins = lines("constraints.txt")
    form = re.compile(r'[a-z0-9.-]+==[\w.]+( ; python_version [<>=]+ "3\.\d+")?')
    assert [line for line in pins if not form.fullmatch(line)] == []
    project = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    (dependencies,) = re.findall(r"^dependencies = \[\n(.*?)^\]", project, flags=re.MULTILINE | re.DOTALL)
    wanted = [*re.findall(r'"([^"]+)"', dependencies), *lines("dev.txt"), "torch"]
    assert {distribution(line) for line in wanted} <= {distribution(line) for line in pins}


def test_the_documentation_tools_are_pinned_as_everything_else() -> None:
    def pins(name: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for line in (REPOSITORY / "requirements" / name).read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                distribution, version = line.partition(" ;")[0].split("==")
                found.setdefault(distribution, set()).add(version)
        return found

    everything = pins("constraints.txt")
    for distribution, versions in pins("docs.txt").items():
        assert everything.get(distribution, versions) == versions, distribution
