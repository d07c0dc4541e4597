"""The prose linter reads prose only, finds what the rules name, and lets no file get worse."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(REPOSITORY / "docs" / "style"))
        linter = import_module("prose")
    linter.register()
    return linter


def test_code_of_a_page_is_not_read(prose: ModuleType) -> None:
    page = (
        "# Title\n\nSee `reckoned` and [text](reckoned.md).\n\n```python\nreckoned\n```\n\nIt is reckoned.\n"
    )
    assert [(one.line, one.rule) for one in prose.remarks("page.md", page)] == [(9, "house.reckoned")]


def test_docstrings_comments_and_messages_are_read(prose: ModuleType) -> None:
    module = (
        '"""What is reckoned."""\n\nreckoned = 1  # made anew\n\n\n'
        'def f(x: str) -> str:\n    return f"{x} is kept away here"\n'
    )
    found = [(one.line, one.rule) for one in prose.remarks("skyline/module.py", module)]
    assert found == [
        (1, "house.clause-subject"),
        (1, "house.reckoned"),
        (3, "house.anew"),
        (7, "house.kept-away"),
    ]


def test_messages_of_tests_are_not_read(prose: ModuleType) -> None:
    assert not prose.remarks("tests/test_x.py", 'x = "it is reckoned here"\n')


def test_comments_of_typescript_are_read(prose: ModuleType) -> None:
    text = 'const url = "https://x.org/reckoned";\n// Made anew.\n/** Text.\n * It is foretold. */\n'
    assert [one.line for one in prose.remarks("extension/src/x.ts", text)] == [2, 4]


@pytest.mark.parametrize(
    "text",
    [
        "What if the batch grew?",
        "How much is it?",
        "What-ifs are changes.",
        "The what-ifs.",
        "## What it changes\n\nIt is so.",
    ],
)
def test_questions_and_headings_are_allowed(prose: ModuleType, text: str) -> None:
    assert not prose.remarks("page.md", f"{text}\n")


@pytest.mark.parametrize(
    "text",
    [
        "What it measures is the time.",
        "It runs. Whether it fits is not known.",
        "a line of\nyours, which is read: lines of yours",
        "the same of the others",
        "a dearer line",
        "the script as it\nstands",
        "it holds the figure against another",
    ],
)
def test_each_construction_is_found_over_line_ends(prose: ModuleType, text: str) -> None:
    assert prose.remarks("page.md", f"{text}\n")


def test_a_file_may_not_get_worse(prose: ModuleType) -> None:
    allowed = {"a.py": 2, "b.py": 1}
    assert prose.beyond({"a.py": 2, "b.py": 1, "c.py": 0}, allowed) == []
    assert prose.beyond({"a.py": 3, "b.py": 0}, allowed) == ["a.py"]
    assert prose.beyond({"a.py": 2, "b.py": 1, "new.py": 1}, allowed) == ["new.py"]


def test_a_module_that_moves_takes_its_allowance_along(prose: ModuleType) -> None:
    allowed = {"a.py": 2, "b.py": 1}
    moved = {"moved.py": 2, "b.py": 1}
    assert prose.beyond(moved, allowed) == []
    assert prose.lowered(moved, allowed) == moved
    assert prose.beyond({"moved.py": 3, "b.py": 1}, allowed) == ["moved.py"]


def test_allowances_only_go_down(prose: ModuleType) -> None:
    assert prose.lowered({"a.py": 1, "b.py": 5, "c.py": 1}, {"a.py": 2, "b.py": 1}) == {"a.py": 1, "b.py": 1}
