"""Which files are the person's."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.capture.child.user_code import is_user_file


def written(folder: Path) -> str:
    folder.mkdir(parents=True)
    path = folder / "code.py"
    path.write_text("x = 1\n")
    return str(path)


def test_code_of_the_compiler_is_not_the_persons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    assert not is_user_file(written(tmp_path / "cache" / "ab"))
    assert not is_user_file(written(tmp_path / "torchinductor_somebody" / "ab"))
    assert is_user_file(written(tmp_path / "cached"))


def test_installed_packages_are_not_the_persons(tmp_path: Path) -> None:
    assert not is_user_file(written(tmp_path / "site-packages" / "package"))
    assert not is_user_file("<string>")
    assert not is_user_file(str(tmp_path / "missing.py"))
