"""The prose linter: proselint with the rules of this folder, over pages, docstrings, comments and messages.

``counts.txt`` holds the number of findings that each file may still have. A file with more fails. ``--lower`` stores
the lower numbers of files that improved. Allowances of removed files go to new ones, so that a module can move.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proselint.checks import __register__ as BUILT_IN
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, types
from proselint.registry.checks.engine import Fancy
from proselint.tools import LintFile

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).resolve().parent
REPOSITORY = FOLDER.parents[1]
COUNTS = FOLDER / "counts.txt"
OWN = "house"
PRODUCT = ("skyline/", "lsp/", "tui/", "predictors/")
LEFT_OUT = (
    "tests/data/",
    "benchmarks/results/",
    "benchmarks/ground_truth_models/",
    "benchmarks/lookup_scripts/",
    "benchmarks/memory_models/",
    "examples/",
    "extension/e2e/scripts/",
    "tests/e2e/gpu/scripts/",
)
_MESSAGE_WORDS = 3


@dataclass(frozen=True, slots=True)
class Remark:
    """One finding of the linter."""

    file: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.message}"


def register() -> None:
    """Make the checks of proselint and those of this folder known to its registry."""
    CheckRegistry().register_many((*BUILT_IN, *_own()))


def prose_of(name: str, text: str) -> str:
    """The prose of a file, each word on its line: everything else is blank."""
    if name.endswith(".md"):
        return _prose_of_page(text)
    if name.endswith(".py"):
        return _prose_of_python(text, messages=name.startswith(PRODUCT))
    return _prose_of_comments(text)


def remarks(name: str, text: str) -> list[Remark]:
    """All findings in one file."""
    prose = prose_of(name, text)
    if not prose.strip():
        return []
    checked = LintFile(name, prose)
    found = [one.check_result for one in checked.lint({"max_errors": sys.maxsize, "checks": _enabled()})]
    return [
        Remark(name, _line_of(checked.content, one.span), one.check_path, " ".join(one.message.split()))
        for one in found
        if re.search(r"[A-Za-z]", checked.content[slice(*one.span)])
    ]


def _line_of(content: str, span: tuple[int, int]) -> int:
    """The line on which the words of a match begin; the content begins with an empty line."""
    words = content[slice(*span)]
    return content.count("\n", 0, span[0] + len(words) - len(words.lstrip()))


def files() -> dict[str, str]:
    """Every page, Python and TypeScript file that is, or would be, in the repository, with its text."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", "*.md", "*.py", "*.ts"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = [name for name in listed.split("\0") if name and not name.startswith(LEFT_OUT)]
    paths = {name: REPOSITORY / name for name in names if not name.endswith(".generated.ts")}
    return {name: path.read_text(encoding="utf-8") for name, path in paths.items() if path.is_file()}


def allowances() -> dict[str, int]:
    """The number of findings that each file may have."""
    lines = COUNTS.read_text(encoding="utf-8").splitlines()
    return {name: int(count) for count, _, name in (line.partition(" ") for line in lines)}


def beyond(found: dict[str, int], allowed: dict[str, int]) -> list[str]:
    """The files with more findings than allowed; allowances of removed files cover new ones."""
    spare = sum(count for name, count in allowed.items() if name not in found)
    new = [name for name in found if name not in allowed]
    covered = sum(found[name] for name in new) <= spare
    return [
        name
        for name, count in found.items()
        if count > allowed.get(name, 0) and not (covered and name in new)
    ]


def lowered(found: dict[str, int], allowed: dict[str, int]) -> dict[str, int]:
    """The new allowances: never more than before, except for new files that removed ones cover."""
    failing = set(beyond(found, allowed))
    return {
        name: min(count, allowed.get(name, count))
        for name, count in found.items()
        if count and (name in allowed or name not in failing)
    }


def main() -> int:
    """Lint; 1 where a file has more findings than allowed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", help="print all findings of these files, allowed ones included")
    parser.add_argument("--lower", action="store_true", help="store the counts of files that improved")
    options = parser.parse_args()
    register()
    found = {name: remarks(name, text) for name, text in files().items()}
    counts = {name: len(one) for name, one in found.items()}
    if options.paths:
        chosen = [one for name in found for one in found[name] if name.startswith(tuple(options.paths))]
        print("\n".join(map(str, chosen)))
        return 0
    allowed = allowances() if COUNTS.exists() else counts
    failing = beyond(counts, allowed)
    for name in failing:
        print("\n".join(map(str, found[name])))
        print(f"{name}: {counts[name]} findings, {allowed.get(name, 0)} allowed")
    if options.lower:
        stored = lowered(counts, allowed)
        COUNTS.write_text(
            "".join(f"{count} {name}\n" for name, count in sorted(stored.items())), encoding="utf-8"
        )
    print(f"prose: {sum(counts.values())} findings in {len(counts)} files, {sum(allowed.values())} allowed")
    return 1 if failing else 0


def _rules() -> dict[str, Any]:
    return tomllib.loads((FOLDER / "rules.toml").read_text(encoding="utf-8"))


def _enabled() -> dict[str, bool]:
    return dict.fromkeys((OWN, *_rules()["checks"]), True)


def _own() -> tuple[Check, ...]:
    return tuple(
        Check(
            check_type=types.ExistenceSimple(pattern=rule["pattern"].replace(" ", r"\s+")),
            engine=Fancy(),
            path=f"{OWN}.{rule['name']}",
            message=rule["message"].replace("{", "{{").replace("}", "}}"),
        )
        for rule in _rules()["rule"]
    )


def _prose_of_page(text: str) -> str:
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        opened = re.match(r"\s*(```+|~~~+)", line)
        if opened and (not fence or opened[1].startswith(fence)):
            fence = "" if fence else opened[1]
            kept.append("")
        else:
            kept.append("" if fence else _plain(line))
    return "\n".join(kept)


def _plain(line: str) -> str:
    """Without code and the targets of links; signs that part words, as of headings and tables, stay."""
    line = re.sub(r"``?[^`]*``?", "`x`", line)
    line = re.sub(r"\]\([^)]*\)", "]", line)
    return f"{line} #" if line.startswith("#") else line


def _prose_of_python(text: str, *, messages: bool) -> str:
    kept = [""] * (text.count("\n") + 2)
    for line, part in (*_comments(text), *_strings(text, messages=messages)):
        for offset, words in enumerate(part.split("\n")):
            at = min(line + offset, len(kept) - 1)
            kept[at] = "; ".join(filter(None, (kept[at], _plain(words).strip())))
    return "\n".join(kept[1:])


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not re.match(
            r"#\s*(?:noqa|pyright|type|fmt|ruff)\b|#!", token.string
        ):
            yield token.start[0], token.string.lstrip("#")


def _strings(text: str, *, messages: bool) -> Iterator[tuple[int, str]]:
    tree = ast.parse(text)
    documents = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(words)) if id(node) in documents:
                yield node.lineno, words
            case ast.Constant(value=str(words)) if messages and id(node) not in inside and _is_message(words):
                yield node.lineno, words.replace("\n", " ")
            case ast.JoinedStr() if messages:
                parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                words = "".join(map(str, parts)).replace("\n", " ")
                if _is_message(words):
                    yield node.lineno, words
            case _:
                pass


def _is_message(words: str) -> bool:
    return len(re.findall(r"[A-Za-z]{2,}", words)) >= _MESSAGE_WORDS and " " in words.strip()


def _prose_of_comments(text: str) -> str:
    kept = [""] * (text.count("\n") + 1)
    for comment in re.finditer(r"(?<![:\"'`])//(.*)$|/\*(.*?)\*/", text, flags=re.MULTILINE | re.DOTALL):
        first = text.count("\n", 0, comment.start())
        for offset, words in enumerate((comment[1] or comment[2] or "").split("\n")):
            kept[first + offset] = _plain(words.strip().lstrip("*"))
    return "\n".join(kept)


if __name__ == "__main__":
    sys.exit(main())
