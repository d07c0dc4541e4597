from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from skyline import compiled
from skyline.compiled import Way, loop, run_loops

pytestmark = pytest.mark.xdist_group("numba")


@loop("ix", writes="f")
def scaled(values, factor, doubled):
    for place in range(len(values)):
        doubled[place] = values[place] * factor
    return len(values)


def test_a_loop_is_the_same_both_ways():
    pytest.importorskip("numba")
    values = np.arange(5, dtype=np.int64)
    answers = []
    for way in (Way.AS_WRITTEN, Way.COMPILED):
        written = np.zeros(5)
        with run_loops(way):
            answers.append((scaled(5, values, 0.1, written), written.tolist()))
    assert answers[0] == answers[1]


def test_arrays_that_cannot_be_written_are_read(tmp_path):
    pytest.importorskip("numba")
    values = np.arange(3, dtype=np.int32)
    values.flags.writeable = False
    written = np.zeros(3)
    with run_loops(Way.COMPILED):
        scaled(3, values, 2.0, written)
    assert written.tolist() == [0, 2, 4]


@pytest.mark.parametrize("way", list(Way))
def test_what_is_written_arrives_whatever_the_array_is_like(way):
    pytest.importorskip("numba")
    every_second = np.zeros(6, np.float32)[::2]
    with run_loops(way):
        scaled(3, np.arange(3), 2.0, every_second)
    assert every_second.tolist() == [0, 2, 4]


def test_little_work_imports_nothing_and_much_work_compiles():
    pytest.importorskip("numba")
    program = (
        "import sys, numpy as np\n"
        "from skyline.graph.dependency import topological_order\n"
        "n = 1000\n"
        "before = np.arange(-1, n - 1, dtype=np.int32)\n"
        "edge = np.array([5], np.int32), np.array([3], np.int32)\n"
        "far = np.full(n, -1, np.int32)\n"
        "topological_order(far, *edge)\n"
        "assert 'llvmlite' not in sys.modules\n"
        "far = np.full(600_000, -1, np.int32)\n"
        "topological_order(far, *edge)\n"
        "assert 'llvmlite' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_code_from_the_cache_gives_the_same(tmp_path):
    pytest.importorskip("numba")
    program = (
        "import sys, numpy as np\n"
        "from skyline.compiled import Way, run_loops\n"
        "from skyline.graph import dependency\n"
        "from skyline.simulate import engine\n"
        "edge, far = np.array([5], np.int32), np.full(9, -1, np.int32)\n"
        "one, ends, no = np.zeros(1, np.int32), np.zeros(1), np.zeros(1, bool)\n"
        "with run_loops(Way.COMPILED):\n"
        "    engine._pass(1, one, one, np.zeros(2, np.int32), one, ends, no, ends + 0.1, ends, ends, ends, ends)\n"
        "    without = 'numba' not in sys.modules\n"
        "    print(dependency.topological_order(far, edge, edge - 2).tolist(), ends.tolist())\n"
        "print(without, sum(dependency._kahn._compiled.stats.cache_hits.values()))\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        for _ in range(2)
    ]
    assert runs[0][0] == runs[1][0]
    assert [run[1] for run in runs] == ["False 0", "True 1"]


def test_without_numba_everything_runs_as_written(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(compiled, "_why_not", None)
    fresh = loop("ix", writes="f")(scaled._function)
    written = np.zeros(2)
    assert fresh(10**9, np.array([1, 2]), 2.0, written) == 2
    assert written.tolist() == [2, 4]
    assert "numba" in (compiled.why_not_compiled() or "")
    with run_loops(Way.COMPILED), pytest.raises(ImportError):
        fresh(1, np.array([1, 2]), 2.0, written)


def test_where_no_folder_can_be_written_loops_are_compiled_all_the_same(monkeypatch, tmp_path):
    pytest.importorskip("numba")
    (tmp_path / "skyline").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fresh = loop("ix", writes="f")(scaled._function)
    written = np.zeros(2)
    with run_loops(Way.COMPILED):
        fresh(2, np.array([1, 2]), 2.0, written)
    assert written.tolist() == [2, 4]
