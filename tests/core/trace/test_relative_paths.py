"""A copied project speaks of its own files; and a profile names no file outside of its project for an edit."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyline.errors import RewriteRefused, UsageError
from skyline.source.project import check_inside
from skyline.trace import store
from skyline.trace.profile import Profile, SourceFile
from skyline.trace.record import CodeLine

RECORDED = Path(__file__).parents[2] / "data" / "linear.profile.json.gz"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a script in a folder of its own, and a module next to that folder."""
    folder = tmp_path / "original"
    for name in ("pyproject.toml", "train/train.py", "lib/model.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


def profile_in(project: Path) -> Profile:
    """The recorded profile as one of the project's script, with a line of a module and one of a library."""
    script = str(project / "train" / "train.py")
    recorded = json.loads(gzip.decompress(RECORDED.read_bytes()))
    text = json.dumps(recorded).replace("/tmp/project/train.py", script)
    path = project / "moved.json"
    path.write_text(text.replace('"/tmp/project"', json.dumps(str(project))))
    profile = store.load(path)
    path.unlink()
    lines = (
        *profile.trace.lines,
        CodeLine(str(project / "lib" / "model.py"), 3),
        CodeLine("/usr/lib/a.py", 1),
        CodeLine("<string>", 1),
    )
    source = SourceFile(str(project / "lib" / "model.py"), "", "")
    return replace(
        profile,
        sources=(*profile.sources, source),
        trace=replace(profile.trace, lines=lines),
    )


def files_of(profile: Profile) -> set[str]:
    spans = {knob.span.file for knob in profile.knobs.candidates}
    lines = {line.file for line in profile.trace.lines}
    made = {one.created_line.file for one in profile.loaders if one.created_line is not None}
    return {profile.script, *(source.path for source in profile.sources), *spans, *lines, *made}


def test_what_was_saved_comes_back_as_it_was(project: Path) -> None:
    profile = profile_in(project)
    assert store.load(store.save(profile)) == profile


def test_no_path_of_the_project_is_in_the_file(project: Path) -> None:
    text = gzip.decompress(store.save(profile_in(project)).read_bytes()).decode()
    assert str(project) not in text
    assert '"../lib/model.py"' in text
    assert '"/usr/lib/a.py"' in text


def with_absolute_paths(saved: Path, profile: Profile) -> None:
    """As earlier versions saved it."""
    import msgspec

    saved.write_bytes(gzip.compress(msgspec.json.encode(profile)))


@pytest.mark.parametrize("earlier", [False, True])
def test_a_copied_project_speaks_of_its_own_files(project: Path, earlier: bool) -> None:
    profile = profile_in(project)
    saved = store.save(profile)
    if earlier:
        with_absolute_paths(saved, profile)
    copy = project.with_name("copy")
    shutil.copytree(project, copy)
    script = copy / "train" / "train.py"
    for found in (store.load(copy / "train" / ".skyline" / saved.name), load_latest(script)):
        assert found.script == str(script)
        assert found.working_directory == str(copy)
        own = {path for path in files_of(found) if path not in {"/usr/lib/a.py", "<string>"}}
        assert own == {str(script), str(copy / "lib" / "model.py")}
        assert {"/usr/lib/a.py", "<string>"} <= files_of(found)


def load_latest(script: Path) -> Profile:
    latest = store.latest(script)
    assert latest is not None
    return store.load(latest, script)


def test_a_profile_of_another_script_answers_for_none(project: Path) -> None:
    saved = store.save(profile_in(project))
    other = project / "train" / "other.py"
    shutil.copy(saved, saved.with_name(store.name_of(other, "00000000")))
    with pytest.raises(UsageError, match=r"a profile of train.py, not of other.py"):
        load_latest(other)


def test_a_script_whose_name_goes_on_with_a_hyphen_is_another_one(project: Path) -> None:
    saved = store.save(profile_in(project))
    saved.rename(saved.with_name(store.name_of(Path("train-big.py"), "00000000")))
    assert store.latest(project / "train" / "train.py") is None
    assert store.latest(project / "train" / "train-big.py") is not None


def test_a_script_that_climbs_out_of_its_folder_is_refused(project: Path) -> None:
    saved = store.save(profile_in(project))
    document: dict[str, Any] = json.loads(gzip.decompress(saved.read_bytes()))
    saved.write_text(json.dumps({**document, "script": "../../elsewhere.py"}))
    with pytest.raises(UsageError, match="damaged"):
        store.load(saved)


def test_edits_stay_inside_the_project(project: Path, tmp_path: Path) -> None:
    script, outside = project / "train" / "train.py", tmp_path / "elsewhere.py"
    outside.write_text("")
    check_inside(script, [str(script), str(project / "lib" / "model.py")])
    for path in (str(outside), str(project / "train" / ".." / ".." / "elsewhere.py")):
        with pytest.raises(RewriteRefused, match="outside the project"):
            check_inside(script, [path])
    link = project / "lib" / "link.py"
    os.symlink(outside, link)
    with pytest.raises(RewriteRefused, match="outside the project"):
        check_inside(script, [str(link)])
    check_inside(script, [str(outside)], [tmp_path])
