"""What comes out of files of others commands no terminal, and is no markup."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from skyline.foreign_text import clean_console, cleaned
from skyline.trace import store
from skyline.trace.profile import Profile

Run = Callable[..., Any]
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


def test_commands_write_by_the_cleaned_ways_alone() -> None:
    folder = Path(__file__).parents[3] / "skyline" / "cli"
    for path in folder.glob("*.py"):
        if path.name != "streams.py":
            text = path.read_text()
            found = [line for line in text.splitlines() if re.match(r"\s+print\(|.*\bConsole\(", line)]
            assert not [line for line in found if "stderr=True" not in line], path.name
