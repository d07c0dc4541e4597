"""No file names a path of one machine, or the host of a package registry."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent

# A path in a home or workspace folder of one machine: absolute, so not preceded by more path or by a name.
# Ada is the person in our tests and examples.
MACHINE_PATH = re.compile(
    r"(?<![\w./~$}\])-])"
    r"/(?:root|work|home/(?!ada\b)[a-z][\w.-]*|Users/(?!ada\b)[A-Za-z][\w.-]*)"
    r"(?=[/\s\"'`,;:)]|$)"
)

REGISTRY_HOST = re.compile(
    r"\b(?:files\.pythonhosted|(?:test\.)?pypi|registry\.(?:npmjs|yarnpkg)|download\.pytorch)\.(?:org|com)\b"
)


def texts() -> list[tuple[str, str]]:
    """Each text file of the repository with its name, without this file."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found: list[tuple[str, str]] = []
    for name in filter(None, listed.split("\0")):
        path = REPOSITORY / name
        if not path.is_file() or path == Path(__file__).resolve():
            continue
        content = path.read_bytes()
        if b"\0" not in content:
            found.append((name, content.decode("utf-8", errors="replace")))
    return found


def offences(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {match.group()}"
        for name, text in texts()
        for number, line in enumerate(text.split("\n"), start=1)
        for match in pattern.finditer(line)
    ]


def test_no_path_of_one_machine() -> None:
    found = offences(MACHINE_PATH)
    assert not found, "\n".join(found)


def test_no_registry_host() -> None:
    found = offences(REGISTRY_HOST)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    ['open("/root/train.py")', "see /home/grace/train.py", "cd /work", "/Users/Grace/x", "at /root"],
)
def test_machine_paths_are_recognised(text: str) -> None:
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize(
    "text",
    ["src/root/item.py", "https://example.org/home/index", "~/root/x", "the/root/of", "/home/ada/train.py"],
)
def test_other_paths_are_left_alone(text: str) -> None:
    assert not MACHINE_PATH.search(text)
