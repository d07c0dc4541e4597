"""Saved profiles that are damaged, or made to hurt: refused in plain words, or shown without an error."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from skyline.analysis.analyse import analyse
from skyline.browser.following import FileFollower
from skyline.browser.subject import ShownProfile
from skyline.errors import UsageError
from skyline.report import html
from skyline.report.build import profile_report, whatif_report
from skyline.report.pages.profile import SavedPlaces, profile_page
from skyline.report.terminal import print_document
from skyline.trace import store

RECORDED = Path(__file__).parents[2] / "data" / "linear.profile.json.gz"
DOCUMENT: dict[str, Any] = {
    **json.loads(gzip.decompress(RECORDED.read_bytes())),
    "iteration": {
        "meaning": "one step",
        "boundary": "optimizer step",
        "optimizer_steps": 1.0,
        "backward_passes": 1.0,
        "batches": 1.0,
    },
    "power": {
        "source": "RAPL",
        "of": "both",
        "joules": 1.0,
        "mean_watts": 9.0,
        "iterations": 3,
        "window_s": 1.0,
    },
    "parallel": {
        "name": "DistributedDataParallel",
        "backend": "gloo",
        "world_size": 2,
        "bucket_cap_mb": 25.0,
        "gradient_as_bucket_view": False,
        "static_graph": False,
        "find_unused_parameters": False,
        "gradient_bytes": 8708,
    },
    "calls": [{"name": "item", "per_iteration": 1.0, "options": {"device": "cpu"}}],
}
Step = str | int
Place = tuple[Step, ...]


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


HOSTILE = (0, -1, 1e308, -1e308, 2**63, 10**9, "", "NaN", "x" * 70_000, [], {}, None, [[[[]]]])


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every value of the document; of a list its first entry."""
    yield place
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value[:1]):
            yield from places(inner, (*place, index))


def with_value(document: Any, place: Place, value: Any) -> Any:
    if not place:
        return value
    first, *rest = place
    changed = document.copy()
    changed[first] = with_value(document[first], tuple(rest), value)
    return changed


def show(path: Path) -> None:
    """Do with a profile the work of ``show`` and ``whatif``."""
    analysis = analyse(store.load(path))
    report, answers = profile_report(analysis), whatif_report(analysis, None)
    print_document(
        profile_page(report, answers, base=None, saved=SavedPlaces(path, None)),
        Console(file=io.StringIO(), width=100),
    )
    html.render(analysis)


def test_the_document_itself_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "whole.profile.json.gz"
    path.write_text(json.dumps(DOCUMENT))
    show(path)


@given(place=st.sampled_from(list(places(DOCUMENT))), value=st.sampled_from(HOSTILE))
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_values_are_refused_or_shown(tmp_path: Path, place: Place, value: Any) -> None:
    """Any error but the project's own fails this."""
    path = tmp_path / "damaged.profile.json.gz"
    path.write_text(json.dumps(with_value(DOCUMENT, place, value)))
    with suppress(UsageError):
        show(path)


# Each of them made `show` or `whatif` fail with an error of Python's.
FORMERLY_FATAL: tuple[tuple[Place, Any], ...] = (
    (("environment", "torch"), "NaN"),
    (("times", "steps_ms"), []),
    (("times", "steps_ms", 0), 0),
    (("trace", "modules"), []),
    (("trace", "records"), []),
    (("trace", "records", 0, "iteration"), 2**63),
    (("trace", "records", 0, "line"), 2**63),
    (("trace", "records", 0, "module"), 10**9),
    (("trace", "records", 0, "duration_us"), -1e308),
    (("trace", "allocations", 0, "size_bytes"), 2**63),
    (("batch_size",), 0),
    (("trials", 0, "choices", "batch_size"), -3),
    (("optimizers", 0, "steps_per_iteration"), -1),
    (("loaders", 0, "num_workers"), 2**63),
    (("created",), "yesterday"),
)


@pytest.mark.parametrize(
    ("place", "value"), FORMERLY_FATAL, ids=[".".join(map(str, p)) for p, _ in FORMERLY_FATAL]
)
def test_values_that_no_run_gives(tmp_path: Path, place: Place, value: Any) -> None:
    path = tmp_path / "damaged.profile.json.gz"
    path.write_text(json.dumps(with_value(DOCUMENT, place, value)))
    with pytest.raises(UsageError, match="damaged") as raised:
        store.load(path)
    assert raised.value.hint == "Profile the script again."


@pytest.mark.parametrize("at", ["notes", "unknown", "trace"])
def test_values_within_values(tmp_path: Path, at: str) -> None:
    path = tmp_path / "deep.profile.json.gz"
    path.write_text(json.dumps({**DOCUMENT, at: "HERE"}).replace('"HERE"', nested(100_000)))
    with pytest.raises(UsageError, match="damaged"):
        store.load(path)


def bomb(path: Path, size_mb: int = 160) -> None:
    """A profile that goes on and on, packed to a thousandth of its size."""
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(b'{"schema":"skyline.capture/2","notes":["')
        for _ in range(size_mb):
            file.write(b" " * (1 << 20))


def test_a_file_that_unpacks_to_very_much_is_refused_early(tmp_path: Path) -> None:
    path = tmp_path / "bomb.profile.json.gz"
    bomb(path)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(UsageError, match=r"cannot be read: it is larger than 80 MB"):
        store.load(path)


def test_pipes_and_links_to_nowhere_are_no_profiles(tmp_path: Path) -> None:
    folder = tmp_path / store.FOLDER
    folder.mkdir()
    os.mkfifo(folder / "train-00000000.profile.json.gz")
    os.symlink("nowhere", folder / "train-11111111.profile.json.gz")
    assert store.latest(tmp_path / "train.py") is None
    with pytest.raises(UsageError, match="it is a named pipe, not a regular file"):
        store.load(folder / "train-00000000.profile.json.gz")


def test_following_goes_on_after_a_damaged_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says what is wrong, and shows the next profile that is whole."""
    monkeypatch.setattr("skyline.browser.following._LOOK_EVERY_S", 0.01)
    folder, script, subject = tmp_path / store.FOLDER, tmp_path / "train.py", ShownProfile()
    script.write_text("")
    folder.mkdir()
    (folder / "train-00000000.profile.json.gz").write_text(json.dumps({**DOCUMENT, "batch_size": 0}))
    follower = FileFollower(script, subject, None)
    follower.start()
    try:
        rest = threading.Event()
        while not subject.news.status and not rest.wait(0.01) and follower_lives():
            pass
        assert "damaged" in subject.news.status
        whole = folder / "train-11111111.profile.json.gz"
        partial = whole.with_suffix(".part")
        partial.write_text(json.dumps(DOCUMENT))
        os.utime(partial, (2e9, 2e9))
        partial.replace(whole)
        while subject.shown is None and not rest.wait(0.01) and follower_lives():
            pass
        assert subject.shown is not None
    finally:
        follower.close()


def follower_lives() -> bool:
    return any(thread.name == "following" for thread in threading.enumerate())
