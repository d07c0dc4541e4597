"""Modules stay small: one idea each."""

from __future__ import annotations

import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
HARD_LIMIT = 500


def modules() -> list[Path]:
    """Every Python and TypeScript file that is, or would be, in the repository; test data and generated ones aside."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", "*.py", "*.ts"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    written = [name for name in listed.split("\0") if name and not name.endswith(".generated.ts")]
    paths = [REPOSITORY / name for name in written if not name.startswith("tests/data/")]
    return [path for path in paths if path.is_file()]


def line_count(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def test_the_listing_sees_the_repository() -> None:
    listed = set(modules())
    assert Path(__file__).resolve() in listed
    assert REPOSITORY / "skyline" / "interval.py" in listed


def test_no_module_is_over_the_hard_limit() -> None:
    sizes = {path.relative_to(REPOSITORY).as_posix(): line_count(path) for path in modules()}
    too_long = {name: size for name, size in sizes.items() if size > HARD_LIMIT}
    assert not too_long, f"split these, none may pass {HARD_LIMIT} lines: {too_long}"
