"""A drag, an apply and an undo through the real server, on files of every awkward sort: byte for byte as before."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.report import protocol
from skyline.report.schema import EstimateReport, ProfileReport
from skyline.source.batch_size import find
from skyline.source.text import SourceText
from skyline.trace import store
from skyline.trace.profile import Profile, SourceFile
from skyline.trace.trial import Choices, batch_trials
from skyline_tui.client import Server

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LOADER = "loader = DataLoader(data, batch_size=16)\nfor batch in loader:\n    loss.backward()\n    optimizer.step()\n"
AWKWARD = {
    "crlf.py": LOADER.replace("\n", "\r\n").encode(),
    "cr_only.py": LOADER.replace("\n", "\r").encode(),
    "mixed_newlines.py": LOADER.replace("\n", "\r\n", 1).encode(),
    "byte_order_mark.py": b"\xef\xbb\xbf" + LOADER.encode(),
    "latin_1.py": "# -*- coding: latin-1 -*-\nname = 'é'; ".encode("latin-1") + LOADER.encode("latin-1"),
    "astral_before.py": ("name = '𝔹é'; " + LOADER).encode(),
    "tabs.py": LOADER.replace("    ", "\t").encode(),
    "form_feed.py": ("x = 1\n\f\n" + LOADER).encode(),
    "no_final_newline.py": LOADER.rstrip("\n").encode(),
    "wrapped.py": LOADER.replace(
        "data, batch_size=16", "\n    data,\n    batch_size=16,  # per step\n"
    ).encode(),
    "underscored.py": LOADER.replace("16", "1_6").encode(),
    "hexadecimal.py": LOADER.replace("16", "0x10").encode(),
    "argparse_default.py": (
        "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('-b', '--batch-size', default=16, type=int)\nargs = p.parse_args()\n"
        + LOADER.replace("16", "args.batch_size")
    ).encode(),
    "dataclass_field.py": (
        "from dataclasses import dataclass\n@dataclass\nclass Config:\n    batch_size: int = 16\nconfig = Config()\n"
        + LOADER.replace("16", "config.batch_size")
    ).encode(),
    "dict_entry.py": (
        "cfg = {'batch_size': 16, 'lr': 16}\n" + LOADER.replace("16", "cfg['batch_size']")
    ).encode(),
}


def profiled(profile: Profile, script: Path) -> Profile:
    """The measured figures of the fixture, as if they were this script's."""
    text = SourceText.read(script)
    knobs = find(text, (), lambda _: None)
    assert knobs.best is not None, script.name
    size = knobs.best.value
    trials = tuple(
        replace(trial, choices=Choices(batch_size=round(other * size / 16)))
        for other, trial in batch_trials(profile.trials).items()
    )
    source = SourceFile(str(script.resolve()), "", text.text)
    return replace(
        profile,
        script=str(script),
        arguments=(),
        sources=(source,),
        knobs=knobs,
        batch_size=size,
        trials=trials,
    )


@pytest.fixture
def scripts(tmp_path: Path) -> list[Path]:
    for name, data in AWKWARD.items():
        (tmp_path / name).write_bytes(data)
    for example in EXAMPLES.glob("*.py"):
        (tmp_path / example.name).write_bytes(example.read_bytes())
    return sorted(tmp_path.glob("*.py"))


async def test_every_file_is_as_before_after_drag_apply_and_undo(
    scripts: list[Path], tmp_path: Path, recorded_profile: Profile
) -> None:
    for script in scripts:
        store.save(profiled(recorded_profile, script))
    server = Server(lambda message: None, {"profile": {"onSave": "never"}})
    await server.start(tmp_path)
    try:
        for script in scripts:
            await _drag_apply_undo(server, script)
    finally:
        await server.stop()


async def _saved_profile(server: Server, uri: str) -> ProfileReport:
    """The first question has the server look for what was saved; it answers once that is read."""
    for _ in range(200):
        report = await server.request_if_any(protocol.PROFILE, protocol.UriParams(uri), ProfileReport | None)
        if report is not None:
            return report
        await asyncio.sleep(0.05)
    raise AssertionError(f"no saved profile of {uri} was found")


async def _drag_apply_undo(server: Server, script: Path) -> None:
    before, uri = script.read_bytes(), script.as_uri()
    report = await _saved_profile(server, uri)
    size = report.batch_size.value
    assert size is not None
    for dragged in (size + 1, size * 2, size * 3):
        question = protocol.QuestionParams(uri, batchSize=dragged)
        answer = await server.request(protocol.SIMULATE, question, EstimateReport)
        assert answer.applicable, (script.name, answer.reason)
        assert answer.batch_size == dragged
    assert script.read_bytes() == before, script.name

    question = protocol.QuestionParams(uri, batchSize=size * 3)
    preview = await server.request(protocol.PREVIEW, question, protocol.PreviewResult)
    assert len(preview.edits) == 1, (script.name, preview.refused)
    applied = await server.request(protocol.APPLY, question, protocol.ApplyResult)
    assert applied.applied, (script.name, applied.reason)
    after = script.read_bytes()
    assert after != before, script.name
    # Nothing but the literal is another: what stands before it and after it is untouched.
    start = next(index for index, (old, new) in enumerate(zip(before, after, strict=False)) if old != new)
    tail = len(before) - start - 8
    assert before[-tail:] == after[-tail:], script.name

    undone = await server.request(protocol.REVERT, protocol.UriParams(uri), protocol.ApplyResult)
    assert undone.applied, (script.name, undone.reason)
    assert script.read_bytes() == before, script.name
