"""The examples are what they claim to be: ordinary training scripts that know nothing of Skyline."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from skyline.capture.batch_way import run_with
from skyline.source.batch_size import find
from skyline.source.knob import KnobKind
from skyline.source.text import SourceText

REPOSITORY = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))
KNOBS = {
    "image_classifier.py": (32, KnobKind.ARGPARSE_DEFAULT),
    "recommender.py": (512, KnobKind.DATACLASS_FIELD),
    "small_gpt.py": (16, KnobKind.CONSTANT),
}


def test_the_examples_are_the_ones_described() -> None:
    assert {path.name for path in EXAMPLES} == set(KNOBS)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_nothing_but_torch_is_needed(example: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(example.read_bytes())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).partition(".")[0])
    assert imported - sys.stdlib_module_names == {"torch"}
    assert "skyline" not in example.read_text(encoding="utf-8").lower()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_batch_size_is_where_the_readme_says(example: Path) -> None:
    knob = find(SourceText.read(example), (), lambda _: None).best
    assert knob is not None
    assert (knob.value, knob.kind) == KNOBS[example.name]


@pytest.mark.capture
@pytest.mark.usefixtures("brief_start")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_it_trains_under_plain_python(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    from interleaved import HandTimed, TimedScript

    # Unchanged but for its batch size, so that a step is short.
    source = SourceText.read(example)
    knob = find(source, (), lambda _: None).best
    assert knob is not None
    changed, _ = run_with(knob, 4, (), {str(example): source.text})
    copy = tmp_path / example.name
    copy.write_text(changed[str(example)], encoding="utf-8")
    # It takes some steps under the stopwatch, which knows nothing of Skyline, or this raises.
    HandTimed(TimedScript(copy)).close()
