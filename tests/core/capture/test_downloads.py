"""Files that a run fetches go to where the script wants them, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skyline.capture.child.sandbox import write_policy
from skyline.capture.downloads import Downloads
from skyline.capture.redactor import Redactor
from skyline.capture.side_effects import read_side_effects

Sandboxed = Callable[..., list[dict[str, Any]]]


def picture(folder: Path) -> dict[str, object]:
    """Everything below a folder: contents, modes and times."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            None if path.is_dir() else (path.read_bytes(), path.lstat().st_mtime_ns),
        )
        for path in sorted(folder.rglob("*"))
    }


def test_a_download_stays_so_that_it_is_not_made_twice(
    folder: Path, sandboxed: Sandboxed, tmp_path: Path
) -> None:
    (folder / "data" / "c.txt").write_text("mine too")
    before = picture(folder)
    effects = sandboxed(
        f"""
        import urllib.request
        os.makedirs("raw", exist_ok=True)
        for name in ("raw/notes.txt", "raw/busy.txt", "raw/changed.txt", "data/c.txt", ".git/hooks/x"):
            os.makedirs(os.path.dirname(name), exist_ok=True)
            urllib.request.urlretrieve({(folder / "notes.txt").as_uri()!r}, name)
            assert open(name).read() == "mine"
        open("raw/changed.txt", "a").write("not as it was fetched")
        """
    )
    assert picture(folder) == before
    scratch = tmp_path / "scratch"
    busy = {str(scratch / "tree" / str(folder / "raw" / "busy.txt").lstrip("/"))}
    downloads = Downloads(scratch, folder)

    downloads.keep(lambda: busy)

    assert (folder / "raw" / "notes.txt").read_text() == "mine"
    assert (folder / "data" / "c.txt").read_text() == "mine too"
    assert downloads.kept == {str(folder / "raw" / "notes.txt")}
    assert set(picture(folder)) - set(before) == {"raw", "raw/notes.txt"}
    listed = {
        (effect.kind, Path(effect.target).name, effect.outcome)
        for effect in read_side_effects(scratch, Redactor.of({}), downloads.kept)
    }
    assert listed >= {("download", "notes.txt", "allowed"), ("download", "c.txt", "redirected")}
    assert {effect["outcome"] for effect in effects} == {"redirected"}

    downloads.keep(set)

    assert (folder / "raw" / "busy.txt").exists()
    assert not (folder / ".git").exists()


def test_what_a_run_says_it_fetched_is_not_trusted(folder: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    inside = scratch / "tree" / str(folder).lstrip("/")
    inside.mkdir(parents=True)
    (inside / "run.sh").write_text("x")
    (inside / "run.sh").chmod(0o777)
    (inside / "away").symlink_to(folder / "out")
    (inside / "link").symlink_to(folder / "notes.txt")
    (folder / "elsewhere").symlink_to(tmp_path)
    (inside / "elsewhere").mkdir()
    (inside / "elsewhere" / "x").write_text("x")
    named = ("run.sh", "link", "away/old/best.pt", "elsewhere/x", "../up", "data")
    rows = [{"path": f"{folder}/{name}", "fetched": True} for name in named]
    (scratch / "fetched.jsonl").write_text("\n".join(map(json.dumps, rows)) + '\n{"path": "/etc/new", "fet')
    before = picture(folder)

    Downloads(scratch, folder).keep(set)

    made = folder / "run.sh"
    assert made.stat().st_mode & 0o111 == 0
    made.unlink()
    assert picture(folder) == before
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("file", "fetches"),
    [
        ("{library}/torch/hub.py", True),
        ("{library}/gdown/download.py", True),
        ("{standard}/urllib/request.py", True),
        ("{library}/mine/gdown/download.py", False),
        ("{standard}/mine/urllib/request.py", False),
        ("/home/ada/gdown/clean.py", False),
        ("/home/ada/tiktoken/torch/hub.py", False),
    ],
)
def test_a_downloader_is_known_by_where_it_is_installed(file: str, fetches: bool) -> None:
    import sysconfig

    paths = sysconfig.get_paths()
    found = file.format(library=paths["purelib"], standard=paths["stdlib"])
    assert write_policy.is_downloader(found) is fetches
