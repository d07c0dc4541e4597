"""The package as it is installed: what is in it, how much, and that its server runs. ``SKYLINE_VSIX`` names it."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import subprocess
import sys
import zipfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from packaging.markers import Marker
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]
LIBS = "extension/bundled/libs/"
MOST_BYTES = 10_000_000
MOST_FILES = 1500
UNWANTED = (
    "*.pyc",
    "*.map",
    "*/__pycache__/*",
    "*/tests/*",
    *(
        f"{LIBS}{name}/*"
        for name in ("skyline_tui", "textual", "numpy", "numpy.libs", "markdown_it", "platformdirs")
    ),
    *(f"*.dist-info/{name}" for name in ("RECORD", "INSTALLER", "WHEEL", "REQUESTED", "direct_url.json")),
)


@pytest.fixture(scope="module")
def package() -> zipfile.ZipFile:
    return zipfile.ZipFile(os.environ["SKYLINE_VSIX"])


@pytest.fixture(scope="module")
def installed(package: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    package.extractall(folder)
    return folder / "extension"


def command(installed: Path, *arguments: str) -> list[str]:
    """The copy in the package, run without anything of this environment but the NumPy of ``surroundings``."""
    return [
        sys.executable,
        "-S",
        "-B",
        str(installed / "bundled" / "run_skyline.py"),
        "--bundled",
        *arguments,
    ]


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    lonely = tmp_path_factory.mktemp("lonely")
    site = Path(np.__file__).parent.parent
    for name in ("numpy", "numpy.libs"):
        if (site / name).exists():
            (lonely / name).symlink_to(site / name)
    return {**os.environ, "PYTHONPATH": str(lonely)}


def test_it_is_small(package: zipfile.ZipFile) -> None:
    assert package.filename is not None
    assert os.path.getsize(package.filename) <= MOST_BYTES
    assert len(package.namelist()) <= MOST_FILES


def test_it_holds_nothing_that_the_server_does_not_need(package: zipfile.ZipFile) -> None:
    names = package.namelist()
    assert [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in UNWANTED)] == []
    assert {name.split("/")[2] for name in names if name.startswith("extension/bundled/")} == {
        "libs",
        "interpreter_fit.py",
        "probe.py",
        "run_skyline.py",
    }


def test_every_distribution_is_there_once_and_as_pinned(package: zipfile.ZipFile) -> None:
    found = sorted(
        {match[1] for name in package.namelist() if (match := re.match(rf"{LIBS}([^/]+)\.dist-info/", name))}
    )
    versions = {
        canonicalize_name(name): version for name, _, version in (one.rpartition("-") for one in found)
    }
    assert len(versions) == len(found)
    assert versions.pop("skyline-profiler")
    pinned: dict[str, str] = {}
    for line in (REPOSITORY / "requirements" / "constraints.txt").read_text(encoding="utf-8").splitlines():
        text, _, marker = line.partition(" ; ")
        if "==" in text and (not marker or Marker(marker).evaluate({"python_version": "3.10"})):
            pinned[canonicalize_name(text.partition("==")[0])] = text.partition("==")[2]
    assert {"pygls", "msgspec", "psutil", "rich"} <= set(versions)
    assert versions == {name: pinned[name] for name in versions}


def test_compiled_parts_are_there_for_every_python(package: zipfile.ZipFile) -> None:
    pythons: defaultdict[str, set[str]] = defaultdict(set)
    for name in package.namelist():
        if match := re.fullmatch(rf"{LIBS}(.+?)\.(?:cpython-(\d+)-[^/]+|(abi3))\.so", name):
            pythons[match[1]].add(match[2] or match[3])
    all_of_them = {"310", "311", "312", "313", "314"}
    assert pythons.pop("msgspec/_core") == all_of_them
    assert [found for name, found in pythons.items() if name.startswith("psutil/")] == [{"abi3"}]


def test_it_is_for_one_platform(package: zipfile.ZipFile) -> None:
    manifest = package.read("extension.vsixmanifest").decode()
    assert re.search(r'TargetPlatform="(linux|darwin)-(x64|arm64)"', manifest)


def test_its_page_has_no_link_that_the_store_cannot_follow(package: zipfile.ZipFile) -> None:
    page = package.read("extension/readme.md").decode()
    links = re.findall(r"!?\[[^\]]*\]\(([^)\s]+)\)", page)
    assert links
    assert [link for link in links if not link.startswith("https://") or "/../" in link] == []


def test_its_server_answers(installed: Path, surroundings: dict[str, str]) -> None:
    def message(method: str, params: object, number: int | None = None) -> bytes:
        body = {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}
        text = json.dumps(body if number is None else {**body, "id": number}).encode()
        return b"Content-Length: %d\r\n\r\n%s" % (len(text), text)

    asked = message("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, 1)
    asked += message("initialized", {}) + message("shutdown", None, 2) + message("exit", None)
    ended = subprocess.run(
        command(installed, "lsp"),
        input=asked,
        capture_output=True,
        env=surroundings,
        cwd=installed,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    assert b'"executeCommandProvider"' in ended.stdout
    assert b'"skyline.showReport"' in ended.stdout


@pytest.mark.parametrize("format", ["html", "json", "speedscope", "perfetto"])
def test_it_writes_reports(
    installed: Path, surroundings: dict[str, str], tmp_path: Path, format: str
) -> None:
    profile = REPOSITORY / "tests" / "data" / "linear.profile.json.gz"
    target = tmp_path / "report"
    exported = command(installed, "export", str(profile), "--format", format, "-o", str(target))
    subprocess.run(exported, env=surroundings, cwd=tmp_path, timeout=120, check=True)
    written = target.read_bytes()
    assert written
    if format == "html":
        assert b'<span class="kn">import</span>' in written or b'class="k' in written


def test_the_terminal_interface_is_refused_in_words(installed: Path, surroundings: dict[str, str]) -> None:
    ended = subprocess.run(
        command(installed, "tui"), capture_output=True, text=True, env=surroundings, timeout=120, check=False
    )
    assert ended.returncode == 3
    assert "pip install skyline-profiler" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_its_doctor_finds_nothing_wrong_with_it(
    installed: Path, surroundings: dict[str, str], tmp_path: Path
) -> None:
    ended = subprocess.run(
        command(installed, "doctor", "--json", "-"),
        capture_output=True,
        text=True,
        env=surroundings,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    checks = {check["name"]: check for check in json.loads(ended.stdout)["checks"]}
    assert checks["front ends"]["verdict"] == "warning"
    assert {checks[name]["verdict"] for name in ("skyline", "import name")} == {"ok"}
