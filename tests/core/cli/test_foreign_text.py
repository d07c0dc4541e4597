"""Text from foreign files neither commands the terminal nor is markup."""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from skyline.foreign_text import clean_console, cleaned
from skyline.ledger.ledger import Conditions, Ledger, LedgerEntry, Predicted, VerificationStatus
from skyline.trace import store
from skyline.trace.profile import Profile

Run = Callable[..., Any]
DATA = Path(__file__).parents[2] / "data"
TITLE = "\x1b]0;gone\x07"
HOSTILE = f"{TITLE}\x1b[2J\x9b31m\u202e[bold]x[/bold][link=https://example.org]y[/link]\r\x08"
PLAIN = "]0;gone[2J31m[bold]x[/bold][link=https://example.org]y[/link]"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def test_what_is_left_of_a_text() -> None:
    assert cleaned(HOSTILE) == PLAIN
    assert cleaned("a\tb\nü→±±\U0001f600") == "a\tb\nü→±±\U0001f600"


def test_a_console_with_colours_of_its_own() -> None:
    page = io.StringIO()
    console = clean_console(file=page, force_terminal=True, color_system="standard", width=200)
    console.print(Text(HOSTILE, style="red"))
    assert page.getvalue() == f"\x1b[31m{PLAIN}\x1b[0m\n"


@pytest.fixture
def hostile(saved: Path) -> Path:
    """A profile in which every name and note that is shown is hostile."""
    profile = store.load(saved)
    trace = replace(
        profile.trace,
        records=tuple(replace(one, name=f"{one.name}{HOSTILE}") for one in profile.trace.records),
        lines=tuple(replace(one, function=HOSTILE) for one in profile.trace.lines),
        modules=tuple(f"{one}{HOSTILE}" for one in profile.trace.modules),
    )
    environment = replace(
        profile.environment,
        device=replace(profile.environment.device, name=HOSTILE),
        platform=HOSTILE,
        python=HOSTILE,
    )
    sources = tuple(
        replace(one, text="\n".join(line + f"  # {HOSTILE[:-2]}" for line in one.text.split("\n")))
        for one in profile.sources
    )
    changed: Profile = replace(
        profile,
        id="00000000",
        trace=trace,
        environment=environment,
        sources=sources,
        arguments=(HOSTILE,),
        notes=(HOSTILE,),
        output_tail=HOSTILE,
        warmup_reason=HOSTILE,
    )
    return store.save(changed)


@pytest.mark.parametrize("command", ["show", "whatif", "show --line 5"])
def test_no_command_of_a_profile_reaches_the_terminal(skyline: Run, hostile: Path, command: str) -> None:
    name, *options = command.split()
    ran = skyline(name, *options, str(hostile))
    assert ran.code == 0
    assert "2J" in ran.out + ran.err
    assert not CONTROL.search(ran.out + ran.err)


def test_no_command_in_an_error(skyline: Run, tmp_path: Path) -> None:
    path = tmp_path / f"a{HOSTILE.replace('/', '')}.profile.json"
    path.write_text("{}")
    ran = skyline("show", str(path))
    assert ran.code == 2
    assert "is not a profile of this version" in ran.err
    assert not CONTROL.search(ran.out + ran.err)


def quiet(ran: Any) -> str:
    """The output of a command: it holds the hostile text and no command to the terminal."""
    written = ran.out + ran.err
    assert "2J" in written
    assert not CONTROL.search(written)
    return written


def test_no_command_in_a_comparison(skyline: Run, saved: Path, hostile: Path) -> None:
    quiet(skyline("diff", str(saved), str(hostile)))


def test_no_command_in_a_change(
    skyline: Run, hostile: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines around a change are those of the file; a program that reads the diff gets them as they are."""
    monkeypatch.setattr("skyline.cli.streams.sys.stdout.isatty", lambda: True)
    text = "\n".join(
        f"{line}  # {HOSTILE[:-2]}" if line.strip() else line for line in script.read_text().split("\n")
    )
    script.write_text(text)
    profile = store.load(hostile)
    sources = tuple(replace(one, text=text) for one in profile.sources)
    store.save(
        replace(profile, id="11111111", sources=sources, arguments=(), created="2099-01-01T00:00:00+00:00")
    )
    ran = skyline("apply", "--diff", str(script), "batch_size=64")
    quiet(ran)


def test_no_command_in_the_ledger(skyline: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKYLINE_DATA_DIR", str(tmp_path / "data"))
    machine = Conditions(HOSTILE, 4, 2, HOSTILE, "2.6.0", "3.11.2")
    predicted = Predicted(
        baseline_ms=100.0,
        iteration_ms=90.0,
        low_ms=85.0,
        high_ms=95.0,
        speedup=1.1,
        baseline_peak_bytes=2e3,
        peak_bytes=1e3,
        semantics="exact",
        extrapolated=False,
        assumptions_digest="d2",
    )
    Ledger().write(
        LedgerEntry(
            id="id1",
            created="2026-01-02T03:04:05+00:00",
            changed="2026-01-02T03:04:05+00:00",
            status=VerificationStatus.OPEN,
            script=f"/{HOSTILE}/train.py",
            sources_digest="d1",
            whatif=HOSTILE,
            question=HOSTILE,
            profile_id="a1",
            skyline=HOSTILE,
            machine=machine,
            predicted=predicted,
        )
    )
    quiet(skyline("ledger"))


@pytest.mark.parametrize("command", [("show",), ("whatif",), ("ranks",)])
def test_no_command_in_a_trace(skyline: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    """Names of kernels, hosts and operators, and of the file itself."""
    folder = tmp_path / f"traces{HOSTILE.replace('/', '')}"
    folder.mkdir()
    for rank in range(2):
        trace = json.loads((DATA / "tiny_gpu.trace.json").read_text())
        for event in trace["traceEvents"]:
            if event.get("ph") == "X" and not event["name"].startswith("ProfilerStep"):
                event["name"] += HOSTILE
        properties = [{"id": 0, "name": f"GPU{HOSTILE}", "computeMajor": 8, "computeMinor": 0}]
        facts = {"distributedInfo": {"rank": rank, "world_size": 2}, "deviceProperties": properties}
        (folder / f"rank{rank}.json").write_text(json.dumps({**trace, **facts}))
    place = folder if command == ("ranks",) else folder / "rank0.json"
    quiet(skyline(*command, str(place)))


def test_front_ends_write_by_the_cleaned_ways_alone() -> None:
    """``print`` and rich's own console send what they are given to the terminal."""
    root = Path(__file__).parents[3]
    own = {root / "skyline" / "cli" / "streams.py", root / "skyline" / "foreign_text.py"}
    # Programs of their own, whose output is read by Skyline, and tools of developers.
    apart = ("capture/child/", "calibrate/child/", "skyline_predictors/", "typescript.py")
    for folder in ("skyline", "lsp/skyline_lsp", "tui/skyline_tui", "predictors"):
        for path in sorted((root / folder).rglob("*.py")):
            if path in own or any(part in str(path) for part in apart):
                continue
            found = [
                node
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Call) and _writes(node.func)
            ]
            assert not found, f"{path}: line {found[0].lineno}"


def _writes(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in ("print", "Console")
    if not isinstance(function, ast.Attribute):
        return False
    stream = function.value
    return (
        function.attr in ("write", "writelines")
        and isinstance(stream, ast.Attribute)
        and stream.attr in ("stdout", "stderr", "__stdout__", "__stderr__")
    )
