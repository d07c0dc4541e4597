from __future__ import annotations

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from skyline.entry_points import EntryPoint, entry_points

ENTRIES = """\
[console_scripts]
extra = extra.main:main

[skyline.whatifs]
# a remark
one = extra.whatifs:ONE
two=extra.whatifs : TABLE.two [fast]

[ skyline.rewrites ]
one = extra.rewrite
"""


def install(folder: Path, name: str, entries: str, kind: str = "dist-info") -> Path:
    info = folder / f"{name.replace('-', '_')}-1.0.{kind}"
    info.mkdir(parents=True)
    (info / ("METADATA" if kind == "dist-info" else "PKG-INFO")).write_text(
        f"Metadata-Version: 2.1\nName: {name}\n"
    )
    (info / "entry_points.txt").write_text(entries)
    return info


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", ["dist-info", "egg-info"])
def test_a_group_is_read_with_its_package(folder: Path, kind: str) -> None:
    install(folder, "skyline-extra", ENTRIES, kind)
    found = [entry for entry in entry_points("skyline.whatifs") if entry.package == "skyline-extra"]
    assert found == [
        EntryPoint("one", "extra.whatifs:ONE", "skyline-extra"),
        EntryPoint("two", "extra.whatifs : TABLE.two [fast]", "skyline-extra"),
    ]


def test_the_package_that_is_imported_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(folder / "old", "Skyline.Extra", "[skyline.whatifs]\nold = extra:OLD\n")
    install(folder / "new", "skyline-extra", "[skyline.whatifs]\nnew = extra:NEW\n")
    monkeypatch.setattr(sys, "path", [str(folder / "new"), str(folder / "old"), *sys.path])
    names = [entry.name for entry in entry_points("skyline.whatifs")]
    assert "new" in names
    assert "old" not in names


@pytest.mark.parametrize("group", ["skyline.predictors", "skyline.gpus", "console_scripts"])
def test_the_same_as_importlib_finds(group: str) -> None:
    theirs = {(entry.name, entry.value) for entry in metadata.entry_points(group=group)}
    assert {(entry.name, entry.value) for entry in entry_points(group)} == theirs
    assert theirs


def test_packages_in_an_archive_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("skyline_extra-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: skyline-extra\n")
        file.writestr("skyline_extra-1.0.dist-info/entry_points.txt", "[skyline.whatifs]\none = extra:ONE\n")
    monkeypatch.syspath_prepend(archive)
    assert EntryPoint("one", "extra:ONE", "skyline-extra") in entry_points("skyline.whatifs")


def test_an_object_inside_a_class_is_loaded() -> None:
    assert EntryPoint("join", "os : path.join [extra]", "").load() is __import__("os").path.join
    assert EntryPoint("os", "os", "").load() is __import__("os")
    with pytest.raises(ValueError, match="names no object"):
        EntryPoint("bad", "os:path join", "").load()
