from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from skyline import machine_code
from skyline.compiled import Way, loop, run_loops

SUMS = """
import sys
import numpy as np
from skyline.compiled import Way, loop, run_loops


@loop("ifbnx", writes="f")
def sums(places, values, chosen, first, factor, found):
    total = 0.0
    for place in range(first, len(places)):
        if chosen[place]:
            total += values[places[place]] * factor
        found[place] = total
    return len(places)


found = np.zeros(3)
given = np.array([2, 0, 1], np.int32), np.array([0.1, 0.2, 0.3]), np.array([True, False, True])
with run_loops(Way.COMPILED):
    count = sums(3, *given, 0, 3.0, found)
print("numba" in sys.modules, count, found.tolist())
"""
WRITTEN = f"3 {[0.3 * 3.0, 0.3 * 3.0, 0.3 * 3.0 + 0.2 * 3.0]}"


def run(program: Path, cache: Path) -> str:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(
        [sys.executable, str(program)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("numba")
    path = tmp_path_factory.mktemp("program") / "sums.py"
    path.write_text(SUMS)
    return path


@pytest.fixture(scope="module")
def compiled(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of a process that has compiled the loop."""
    cache = tmp_path_factory.mktemp("cache")
    assert run(program, cache) == f"True {WRITTEN}"
    return cache


def kept(folder: Path) -> Path:
    (found,) = folder.glob("skyline/compiled/*.o")
    return found


def test_the_next_process_does_without_numba(program: Path, compiled: Path) -> None:
    assert kept(compiled).stat().st_size > 0
    assert run(program, compiled) == f"False {WRITTEN}"


@pytest.mark.parametrize("part", ["the processor", "the code"])
def test_code_that_does_not_fit_is_not_run(program: Path, compiled: Path, tmp_path: Path, part: str) -> None:
    cache = shutil.copytree(compiled, tmp_path / "cache")
    symbol, made_for, digest, code = kept(cache).read_bytes().split(b"\n", 3)
    made_for, code = (
        (b"another " + made_for, code) if part == "the processor" else (made_for, code[:-1] + b"?")
    )
    kept(cache).write_bytes(b"\n".join((symbol, made_for, digest, code)))
    assert run(program, cache) == f"True {WRITTEN}"


def test_another_text_of_a_function_has_another_file(tmp_path: Path) -> None:
    def first(values: list[int]) -> int:
        return values[0]

    def second(values: list[int]) -> int:
        return values[1]

    second.__name__ = first.__name__
    names = [machine_code.path_of(tmp_path, one, kinds) for one in (first, second) for kinds in ("i", "f")]
    assert len(set(names)) == 4
    assert machine_code.path_of(tmp_path, first, "i") == names[0]


def test_a_loop_that_calls_others_is_compiled_by_numba(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    @loop("i", writes="i")
    def sorted_again(values, found):
        heap = [values[0] for _ in range(1)]
        for place in range(1, len(values)):
            heap.append(values[place])
        heap.sort()
        for place in range(len(heap)):
            found[place] = heap[place]
        return len(heap)

    found = np.zeros(3, np.int32)
    with run_loops(Way.COMPILED):
        assert sorted_again(3, np.array([3, 1, 2], np.int32), found) == 3
    assert found.tolist() == [1, 2, 3]
    assert machine_code.is_refused(kept(tmp_path))
    assert machine_code.loaded(kept(tmp_path), "ii") is None
