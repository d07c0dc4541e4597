"""The other packages: the conda recipe and the Dev Container feature, next to what pyproject.toml says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from skyline.version import __version__

REPOSITORY = Path(__file__).resolve().parent.parent
FEATURE = REPOSITORY / "packaging-recipes" / "devcontainer" / "src" / "skyline"
INSTALL = FEATURE / "install.sh"


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    text = (REPOSITORY / "packaging-recipes" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    return YAML(typ="safe").load(text)


def project_list(name: str) -> list[str]:
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    (block,) = re.findall(rf"^{name} = \[\n(.*?)^\]", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r'"([^"]+)"', block)


def condition(requirement: str) -> tuple[str, str]:
    """Name and versions of a requirement, without its marker."""
    found = re.fullmatch(r"([\w.-]+?)\s*([<>=!~].*)?", requirement.partition(";")[0].strip())
    assert found, requirement
    return found[1], (found[2] or "").strip()


def test_the_recipe_has_the_version_and_the_dependencies_of_the_wheel(recipe: dict[str, Any]) -> None:
    assert recipe["context"]["version"] == __version__
    run = dict(map(condition, recipe["requirements"]["run"]))
    assert run.pop("python") == ">=3.10"
    assert run == dict(map(condition, project_list("dependencies")))


def test_the_recipe_builds_and_starts_what_the_wheel_does(recipe: dict[str, Any]) -> None:
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    (backend,) = re.findall(r'^requires = \["([^"]+)"\]', text, flags=re.MULTILINE)
    assert condition(backend) in map(condition, recipe["requirements"]["host"])
    (script,) = re.findall(r'^skyline = "([^"]+)"$', text, flags=re.MULTILINE)
    assert recipe["build"]["python"]["entry_points"] == [f"skyline = {script}"]
    folder = REPOSITORY / "packaging-recipes" / "conda" / recipe["source"]["path"]
    assert folder.resolve() == REPOSITORY
    assert (folder / recipe["about"]["license_file"]).is_file()


def test_the_feature_has_the_version_of_the_wheel() -> None:
    feature = json.loads((FEATURE / "devcontainer-feature.json").read_text(encoding="utf-8"))
    assert feature["id"] == FEATURE.name
    assert feature["version"] == __version__
    # The options arrive in the script as variables in capitals.
    script = INSTALL.read_text(encoding="utf-8")
    for option in feature["options"]:
        assert f"${{{option.upper()}:-" in script


def install(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(INSTALL)],
        env={**os.environ, "SKYLINE_PREFIX": str(folder), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def fake_python(tmp_path: Path) -> Path:
    """A Python that makes environments whose pip and skyline only write their arguments down."""
    program = tmp_path / "bin" / "python3"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -c ]; then exit "${OLD:-0}"; fi\n'
        'if [ "$2" = venv ]; then\n'
        '  [ -z "${NO_VENV:-}" ] || exit 1\n'
        '  mkdir -p "$3/bin" && cp "$0" "$3/bin/python"\n'
        '  printf \'#!/bin/sh\\necho skyline "$@"\\n\' > "$3/bin/skyline" && chmod +x "$3/bin/skyline"\n'
        'else echo "$@" > "$SKYLINE_PREFIX/pip"; fi\n'
    )
    program.chmod(0o755)
    return program


@pytest.mark.skipif(sys.platform == "win32", reason="containers run Linux")
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"VERSION": "latest"}, "skyline-profiler"),
        ({"VERSION": "0.1.0"}, "skyline-profiler==0.1.0"),
        ({"VERSION": "0.1.0", "PACKAGE": "/tmp/x.whl"}, "/tmp/x.whl"),
    ],
)
def test_the_feature_installs_what_its_options_say(
    tmp_path: Path, fake_python: Path, options: dict[str, str], wanted: str
) -> None:
    done = install(tmp_path, PATH=f"{fake_python.parent}:/usr/bin:/bin", **options)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "pip").read_text().split()[-1] == wanted
    assert done.stdout.splitlines()[-1] == "skyline --version", "the command is on the path, and starts"
    assert (tmp_path / "bin" / "skyline").is_symlink()


@pytest.mark.skipif(sys.platform == "win32", reason="containers run Linux")
@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"OLD": "1"}, "no Python 3.10 or newer; add the feature"),
        ({"OLD": "1", "PYTHON": "python3"}, 'change the option "python"'),
        ({"NO_VENV": "1"}, "install python3-venv first"),
    ],
)
def test_an_image_that_cannot_have_it_is_told_why(
    tmp_path: Path, fake_python: Path, variables: dict[str, str], told: str
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("mkdir", "cp", "chmod", "ln", "rm", "sh"):
        (tools / name).symlink_to(Path("/bin") / name)
    done = install(tmp_path, PATH=f"{fake_python.parent}:{tools}", **variables)
    assert done.returncode == 1
    assert told in done.stderr
    assert not (tmp_path / "share" / "skyline").exists()
