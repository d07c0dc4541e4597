"""Which files are the person's, and on which of their lines a frame stands."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from skyline.capture.child.user_code import is_user_file, line_number


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


def handled() -> None:
    try:
        raise ValueError
    except ValueError as error:
        print(error)


def test_an_instruction_without_a_line_belongs_to_the_line_before_it() -> None:
    # Python gives such an instruction to the entry into a handler; a sampling thread may see a frame there.
    code = handled.__code__
    lines = list(code.co_lines())
    bare = next(index for index, (start, _, line) in enumerate(lines) if start and line is None)
    before = max(line for _, _, line in lines[:bare] if line)
    assert line_number(SimpleNamespace(f_lineno=None, f_lasti=lines[bare][0], f_code=code)) == before
    assert line_number(SimpleNamespace(f_lineno=None, f_lasti=-1, f_code=code)) == code.co_firstlineno
    assert line_number(SimpleNamespace(f_lineno=7, f_lasti=0, f_code=code)) == 7
