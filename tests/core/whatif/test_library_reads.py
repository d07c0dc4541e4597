"""Reads of numbers in a trace: those of libraries stay, as the Python functions around them tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skyline.graph.python_frames import frames, in_library
from skyline.trace.kineto.reader import read
from skyline.whatif.catalogue.host.remove_sync import own_waits
from skyline.whatif.composition import detected_in
from skyline.whatif.recorded import recorded
from skyline.whatif.registry import whatifs

TRACE = Path(__file__).parents[2] / "data" / "tiny_gpu.trace.json"


@pytest.fixture
def within(tmp_path):
    """The trace with Python functions around each ``item``, the outermost first."""

    def made(*names):
        written = json.loads(TRACE.read_text(encoding="utf-8"))
        reads = [event for event in written["traceEvents"] if event["name"] == "aten::item"]
        for read_at in reads:
            for depth, name in enumerate(names):
                begin, end = read_at["ts"] - 10 + depth, read_at["ts"] + read_at["dur"] + 5 - depth
                written["traceEvents"].append(
                    {"ph": "X", "cat": "python_function", "name": name, "pid": 1, "tid": 1, "ts": begin,
                     "dur": end - begin, "args": {"Python id": 1_000 + depth}}
                )  # fmt: skip
        path = tmp_path / "made.json"
        path.write_text(json.dumps(written), encoding="utf-8")
        return recorded(read(path))

    return made


@pytest.mark.parametrize(
    ("names", "stays"),
    [
        ((), False),
        (("train.py(10): main",), False),
        (("train.py(10): main", "torch/_tensor.py(900): __format__"), False),
        (("train.py(10): main", "logging/__init__.py(380): getMessage"), False),
        (("train.py(10): main", "<built-in method item of Tensor object at 0x7f>"), False),
        (("train.py(10): main", "torch/nn/utils/clip_grad.py(20): clip_grad_norm_"), True),
        (("train.py(10): main", "torch/optim/adam.py(400): step", "torch/_tensor.py(900): __float__"), True),
        (("train.py(10): main", "/env/lib/python3.11/site-packages/lightning/loop.py(3): run"), True),
        (
            ("/env/lib/python3.11/site-packages/lightning/loop.py(3): run", "model.py(5): training_step"),
            False,
        ),
    ],
)
def test_reads_of_libraries_stay(within, names, stays):
    subject = within(*names)
    assert (len(own_waits(subject, subject.graph)) == 0) is stays
    found = detected_in(subject, whatifs()["remove_sync"])
    assert found.applicable is not stays
    assert not stays or "does not wait" in found.reason


def test_functions_are_told_by_their_file(within):
    subject = within("train.py(10): main", "torch/optim/adam.py(400): step", "<built-in method item>")
    trace = subject.recording.trace
    named = {trace.name_of(int(row)) for row in frames(trace, lambda file: True)}
    assert named == {"train.py(10): main", "torch/optim/adam.py(400): step"}
    assert {trace.name_of(int(row)) for row in frames(trace, in_library)} == {
        "torch/optim/adam.py(400): step"
    }
