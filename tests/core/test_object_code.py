from __future__ import annotations

import importlib.util
import os

import numpy as np
import pytest

from skyline.object_code import NotAlone, ObjectCode

pytest.importorskip("numba")

SOURCE = """
def quotients(values, divisor, flags, found):
    for place in range(len(values)):
        if flags[place]:
            found[place] = values[place] // divisor
    return len(values)


def sorted_copy(values, found):
    kept = [0]
    for value in values:
        kept.append(value)
    kept.sort()
    for place in range(len(values)):
        found[place] = kept[place]
    return 0
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "loops.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("loops", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def quotients(source, tmp_path):
    return lambda: ObjectCode(source.quotients, "inb", "i", tmp_path / "code")


def of(function, divisor, found):
    return function(np.array([7, 8, 9], np.int32), divisor, np.array([True, False, True]), found)


def test_the_file_has_the_loop(quotients):
    assert quotients().load() is None
    answers = []
    for function in (quotients().compile(), quotients().load()):
        found = np.zeros(3, np.int32)
        answers.append((of(function, 2, found), found.tolist()))
    assert answers == [(3, [3, 0, 4])] * 2


def test_a_loop_that_fails_raises_and_works_again_afterwards(quotients):
    function = quotients().compile()
    with pytest.raises(ArithmeticError):
        of(function, 0, np.zeros(3, np.int32))
    assert of(function, 2, np.zeros(3, np.int32)) == 3


def test_an_array_that_cannot_be_written_stays(quotients):
    found = np.zeros(3, np.int32)
    found.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        of(quotients().compile(), 2, found)
    assert not found.any()


def test_a_damaged_file_is_not_loaded(quotients, tmp_path):
    quotients().compile()
    (path,) = (tmp_path / "code").iterdir()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert quotients().load() is None
    path.write_bytes(b"")
    assert quotients().load() is None


def test_a_changed_source_is_compiled_anew_into_the_same_file(quotients, source, tmp_path):
    quotients().compile()
    os.utime(source.__file__, (1, 1))
    assert quotients().load() is None
    quotients().compile()
    assert quotients().load() is not None
    assert len(list((tmp_path / "code").iterdir())) == 1


def test_a_loop_that_allocates_is_refused_and_not_compiled_again(source, tmp_path, monkeypatch):
    code = ObjectCode(source.sorted_copy, "i", "i", tmp_path / "code")
    with pytest.raises(NotAlone):
        code.compile()
    monkeypatch.setattr(code, "compile", None)
    with pytest.raises(NotAlone):
        code.load()


def test_a_folder_that_cannot_be_written_is_no_failure(source, tmp_path):
    (tmp_path / "code").write_text("in the way")
    function = ObjectCode(source.quotients, "inb", "i", tmp_path / "code").compile()
    assert of(function, 2, np.zeros(3, np.int32)) == 3
