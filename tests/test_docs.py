"""The documentation says what the code says: links lead somewhere, messages are quoted right, lists are complete."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from skyline.cli.main import COMMANDS
from skyline.findings.registry import job_rules, rules
from skyline.settings.keys import keys
from skyline.watch.registry import known_rules
from skyline.whatif.registry import whatifs
from skyline_lsp.typescript import METHODS

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [
        *REPOSITORY.glob("*.md"),
        *(REPOSITORY / "docs").rglob("*.md"),
        REPOSITORY / "examples" / "README.md",
        REPOSITORY / "benchmarks" / "README.md",
    ]
)


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    broken: list[str] = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(target)
    assert not broken


def test_the_guide_for_contributors_names_files_that_exist() -> None:
    folders = (
        ".",
        "skyline",
        "lsp/skyline_lsp",
        "tui/skyline_tui",
        "tests",
        "extension",
        "predictors/skyline_predictors",
    )
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w.-]+/[\w./-]*)`", text)
    paths = [name for name in named if not re.search(r"NAME|FOLDER|SKYnnn", name)]
    assert len(paths) > 50
    missing = [name for name in paths if not any((REPOSITORY / folder / name).exists() for folder in folders)]
    assert not missing


def test_the_readme_counts_the_rules() -> None:
    pages = list((REPOSITORY / "docs" / "findings").glob("SKY*.md"))
    assert f"[{len(pages)} rules](docs/findings.md)" in (REPOSITORY / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """A page of the site with its generated sections."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "docs"))
    reference = import_module("reference")
    return lambda name: reference.filled((REPOSITORY / "docs" / name).read_text(encoding="utf-8"))


def test_every_setting_is_documented_and_no_other(filled: Callable[[str], str]) -> None:
    page = filled("settings.md")
    rows = re.findall(r"^\| `([\w.]+)` \| (.+?) \| (.+) \|$", page, flags=re.MULTILINE)
    defaults = {key.name: msgspec.json.decode(msgspec.json.encode(key.default)) for key in keys()}
    assert [name for name, _, _ in rows] == list(defaults)
    shown = {name: None if told == "none" else json.loads(told.strip("`")) for name, told, _ in rows}
    assert shown == defaults
    assert [meaning for _, _, meaning in rows] == [key.meta.description for key in keys()]


def test_every_command_is_documented_with_its_help(filled: Callable[[str], str]) -> None:
    page = filled("commands.md")
    assert re.findall(r"^## `skyline (\w+)`$", page, flags=re.MULTILINE) == list(COMMANDS)
    assert page.count("\nusage: skyline ") == len(COMMANDS)


def test_every_message_is_documented_with_its_types(filled: Callable[[str], str]) -> None:
    page = filled("protocol.md")
    rows = re.findall(r"^\| `([\w/.]+)` \|", page, flags=re.MULTILINE)
    assert rows == [method.name for method in METHODS]
    assert "export interface ProfileReport {" in page


def test_every_what_if_is_listed(filled: Callable[[str], str]) -> None:
    listed = re.findall(r"^\| \[`\w+`\]\((whatifs/\w+\.md)\) \|", filled("what-ifs.md"), flags=re.MULTILINE)
    pages = (REPOSITORY / "docs" / "whatifs").glob("*.md")
    assert sorted(listed) == sorted(f"whatifs/{page.name}" for page in pages)


def test_every_rule_has_its_thresholds(filled: Callable[[str], str]) -> None:
    _, _, section = filled("findings.md").partition("## Thresholds")
    codes = re.findall(r"^\*\*\[(SKY\d+)\]", section, flags=re.MULTILINE)
    assert codes == [rule.code for rule in (*rules(), *job_rules())]


def test_every_rule_over_a_run_is_listed(filled: Callable[[str], str]) -> None:
    _, _, section = filled("watch.md").partition("## Rules")
    listed = re.findall(r"^\| `(\w+)` \|", section.partition("## Actions")[0], flags=re.MULTILINE)
    assert listed == list(known_rules().classes)


def test_held_out_scripts_stand_first_on_the_accuracy_page(filled: Callable[[str], str]) -> None:
    rows = re.findall(
        r"^\| \[(.+?)\]\(.+?\) \| \d+ (.+?) \|.+ of \d+ \|$", filled("accuracy.md"), flags=re.MULTILINE
    )
    assert len({words for _, words in rows}) == 5
    first = {words: title for title, words in reversed(rows)}
    assert all("public scripts" in title for title in first.values())


def test_no_generated_section_is_left_unfilled(filled: Callable[[str], str]) -> None:
    for page in (REPOSITORY / "docs").rglob("*.md"):
        assert "<!-- reference:" not in filled(page.relative_to(REPOSITORY / "docs").as_posix()), page


RULE_PARTS = ["Symptom", "Evidence", "Fix", "When to leave it alone"]


def test_every_rule_has_a_page_and_every_page_a_rule() -> None:
    pages = {path.stem for path in (REPOSITORY / "docs" / "findings").glob("*.md")}
    assert pages == {rule.code for rule in (*rules(), *job_rules())}
    listed = (REPOSITORY / "docs" / "findings.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(SKY\d+)\]\(findings/SKY\d+\.md\) \|", listed, flags=re.MULTILINE) == sorted(
        pages
    )
    for code in pages:
        page = (REPOSITORY / "docs" / "findings" / f"{code}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {code}: "), code
        assert re.findall(r"^\*\*(.+?)\.\*\*", page, flags=re.MULTILINE) == RULE_PARTS, code


WHATIF_HEADINGS = [
    "What it changes",
    "When it applies",
    "How it is predicted",
    "Assumptions",
    "Rewrite",
    "Measured accuracy",
]


def test_every_what_if_has_a_page_and_every_page_a_what_if() -> None:
    folder = REPOSITORY / "docs" / "whatifs"
    pages = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    assert set(pages) == {
        name for name, whatif in whatifs().items() if type(whatif).__module__.startswith("skyline.")
    }
    for name, page in pages.items():
        assert page.startswith(f"# `{name}"), name
        assert re.findall(r"^## (.+)$", page, flags=re.MULTILINE) == WHATIF_HEADINGS, name


@cache
def strings_of_the_code() -> str:
    """Every string in the sources, the changing parts of f-strings as an ellipsis, one a line."""
    found: list[str] = []
    for package in ("skyline", "lsp/skyline_lsp", "tui/skyline_tui"):
        for path in (REPOSITORY / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.JoinedStr):
                    parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                    found.append("".join(map(str, parts)))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return "\n".join(found)


def quoted_messages() -> list[str]:
    page = (REPOSITORY / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    return re.findall(r"^### (.+)$", page, flags=re.MULTILINE)


# All sources are read for these, once.
@pytest.mark.xdist_group("quoted messages")
@pytest.mark.parametrize("message", quoted_messages())
def test_messages_are_quoted_as_they_are(message: str) -> None:
    pattern = r"[^\n]*".join(re.escape(part) for part in message.split("…"))
    assert re.search(pattern, strings_of_the_code())
