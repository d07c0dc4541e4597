"""Finds, rewrites and undoes batch size, workers and accumulation in the places where people store them.

Each script of ``setting_scripts.py`` is written into a folder and run. A setting counts as found if Skyline names the
file that holds it, and if the run's DataLoader, or its accumulated batches, showed that value. Then the change of
``skyline apply`` is written. Only the number may differ. The script runs again, and the setting counts as rewritten if
the second run shows the new value. Finally the change is undone, and the bytes are compared.

No script is timed, so the load of the machine does not matter.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import socket
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine
from result_file import RESULTS, table, write
from setting_scripts import ACCUMULATION, BATCH_SIZE, SCRIPTS, WORKERS, SettingScript

from skyline.analysis.analyse import analyse
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.warm_pool import WarmPool
from skyline.errors import SkylineError
from skyline.rewrite.joint_edits import plan
from skyline.source.text import SourceText, TextEdit
from skyline.source.written_change import WrittenChange
from skyline.trace.profile import Profile
from skyline.whatif.question import Choice, Question

_NAME = "setting_places"
_SETTINGS = ("batch size", "workers", "accumulation")
_QUESTIONS = {
    "batch size": Question(24),
    "workers": Question(None, (Choice("num_workers", "2"),)),
    "accumulation": Question(None, (Choice("grad_accumulation", "2"),)),
}
_BEFORE = (BATCH_SIZE, WORKERS, ACCUMULATION)
_AFTER = {
    "batch size": (24, WORKERS, ACCUMULATION),
    "workers": (BATCH_SIZE, 2, ACCUMULATION),
    "accumulation": (BATCH_SIZE // 2, WORKERS, 2 * ACCUMULATION),
}
"""Batch size, workers and accumulated batches after each change. An optimizer step sees the same number of samples."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting in one place. ``said`` is the place, or the reason if the setting was not written."""

    script: str
    setting: str
    found: bool
    rewritten: bool
    undone: bool
    said: str

    @property
    def words(self) -> str:
        """The cell of the table."""
        if self.rewritten and self.undone:
            return "yes, yes, yes"
        return ", ".join("yes" if each else "no" for each in (self.found, self.rewritten, self.undone))


def main() -> int:
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("--only", help="part of the names of the scripts to try; other rows are kept")
    options = command.parse_args()
    cells: list[Cell] = []
    absent: dict[str, str] = {}
    pool = WarmPool()
    try:
        for script in SCRIPTS:
            if options.only and options.only.lower() not in script.name.lower():
                continue
            lacking = [name for name in script.needs if importlib.util.find_spec(name) is None]
            if lacking:
                absent[script.name] = lacking[0]
                continue
            with tempfile.TemporaryDirectory() as folder:
                cells += _tried(script, Path(folder), pool)
            for cell in cells[-3:]:
                print(
                    f"{cell.script} / {cell.setting}: {cell.words}: {cell.said}", file=sys.stderr, flush=True
                )
    finally:
        pool.close()
    print(_write(cells, absent, kept=bool(options.only)))
    return 0


def _merged(cells: list[Cell]) -> list[Cell]:
    """The cells together with cells from the last result, for scripts that were not tried in this run."""
    now = {cell.script for cell in cells}
    content = json.loads((RESULTS / f"{_NAME}.json").read_text(encoding="utf-8"))["figures"]["cells"]
    every = [*cells, *(Cell(**cell) for cell in content if cell["script"] not in now)]
    order = {script.name: number for number, script in enumerate(SCRIPTS)}
    return sorted(every, key=lambda cell: order[cell.script])


def _tried(script: SettingScript, folder: Path, pool: WarmPool) -> list[Cell]:
    for name, text in {"train.py": script.script, **script.files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    try:
        profile = _run(script, folder, pool)
    except SkylineError as error:
        return [Cell(script.name, setting, False, False, False, error.message) for setting in _SETTINGS]
    return [_cell(script, folder, profile, setting, pool) for setting in _SETTINGS]


def _cell(script: SettingScript, folder: Path, profile: Profile, setting: str, pool: WarmPool) -> Cell:
    if _shown(profile) != _BEFORE:
        return Cell(script.name, setting, False, False, False, f"the run showed {_shown(profile)}")
    planned = plan(analyse(profile), _QUESTIONS[setting], SourceText.read)
    if planned.refused:
        reason = planned.refused[0].reason
        named = not script.written and "command line" in reason
        return Cell(script.name, setting, named, False, False, reason)
    home = os.path.realpath(folder / script.home)
    found = {os.path.realpath(edit.span.file) for edit in planned.edits} == {home}
    said = "; ".join(
        f"{Path(edit.span.file).name}:{edit.span.line} {edit.old_text} -> {edit.new_text}"
        for edit in planned.edits
    )
    before = Path(home).read_bytes()
    numbers = all(_is_number(edit) for edit in planned.edits)
    source = SourceText.read(home)
    if not found or not numbers:
        return Cell(script.name, setting, found, False, False, said)
    change = WrittenChange.of(source, planned.edits)
    source.apply(planned.edits).write_bytes()
    try:
        shown = _shown(_run(script, folder, pool))
    except SkylineError as error:
        shown, said = None, error.message
    now = SourceText.read(home)
    taken_out = change.taken_out(now)
    if taken_out is not None:
        now.apply(taken_out).write_bytes()
    undone = Path(home).read_bytes() == before
    Path(home).write_bytes(before)
    rewritten = shown == _AFTER[setting]
    return Cell(script.name, setting, True, rewritten, undone, said if rewritten else f"{said}; then {shown}")


def _is_number(edit: TextEdit) -> bool:
    return all(re.fullmatch(r"\d+", text) for text in (edit.old_text, edit.new_text))


def _shown(profile: Profile) -> tuple[int | None, int | None, int]:
    """Batch size and workers of the DataLoader of the loop, and the number of batches before each optimizer step."""
    loader = max(profile.loaders, key=lambda each: each.fetches_per_iteration, default=None)
    size, workers = (loader.batch_size, loader.num_workers) if loader else (None, None)
    return size, workers, profile.batch.micro_batches


def _run(script: SettingScript, folder: Path, pool: WarmPool) -> Profile:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        meet = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    request = CaptureRequest(
        folder / "train.py",
        arguments=script.arguments,
        interpreter=sys.executable,
        working_directory=folder,
        device="cpu",
        steps=4,
        settle_s=0.1,
        recorded=1,
        batch_points=0,
        budget_s=0,
        trials=False,
        variables=(("MEET", meet), ("HF_HUB_OFFLINE", "1")),
    )
    return capture(request, progress=lambda _: None, starter=pool.start)


def _write(cells: list[Cell], absent: dict[str, str], *, kept: bool) -> str:
    cells = _merged(cells) if kept else cells
    places = list(dict.fromkeys(cell.script for cell in cells))
    by_cell = {(cell.script, cell.setting): cell for cell in cells}
    rows = [(place, *(by_cell[place, setting].words for setting in _SETTINGS)) for place in places]
    missed = [cell for cell in cells if not (cell.rewritten and cell.undone)]
    done = len(cells) - len(missed)
    summary = f"Each cell says: found, rewritten, undone. {done} of {len(cells)} cells are yes in all three."
    asked = (__doc__ or "").strip()
    body = f"{asked}\n\n{summary}\n\n{table(('place', *_SETTINGS), rows)}\n"
    if missed:
        body += "\nNot written, or not all three, with Skyline's message:\n\n"
        body += "".join(f"- {cell.script}, {cell.setting}: {cell.said}\n" for cell in missed)
    if absent:
        body += "\nNot tried, because a package is absent: "
        body += ", ".join(f"{name} ({package})" for name, package in absent.items()) + ".\n"
    figures = {"cells": [asdict(cell) for cell in cells], "absent": absent}
    return write(_NAME, "Places of settings", Machine.here(), body, figures)


if __name__ == "__main__":
    sys.exit(main())
