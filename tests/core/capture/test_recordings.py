"""A run is recorded in full and then lightly, and the two become one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.errors import CaptureImpossible
from skyline.trace.profile import Profile
from skyline.trace.record import Phase, RecordKind

pytestmark = pytest.mark.capture

SYMBOLS = """
import sys
import torch

weight = torch.randn(32, 8, requires_grad=True)
bias = torch.zeros(8, requires_grad=True)
optimizer = torch.optim.SGD([weight, bias], lr=0.01)
for step in range(int(sys.argv[1])):
    x = torch.randn(16, 32)
    y = x @ weight
    y = y + bias
    if step % 2:
        y = y * 0.5
    loss = (y ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MOST_CALLS = """
import time
import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1000):
    for number in range(280_000): abs(number)
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""


def operators(profile: Profile, path: Path) -> dict[str, set[str]]:
    """Forward operators by the text of their line."""
    texts = path.read_text().splitlines()
    found: dict[str, set[str]] = {}
    trace = profile.trace
    for record in trace.records:
        if record.kind is RecordKind.OPERATOR and record.phase is Phase.FORWARD:
            found.setdefault(texts[trace.lines[record.line].line - 1].strip(), set()).add(record.name)
    return found


def test_symbols_have_their_lines_and_shapes(
    script: Callable[..., Path], run: Callable[..., Profile]
) -> None:
    path = script(SYMBOLS)
    profile = run(path, "100000")
    found = operators(profile, path)
    assert "aten::matmul" in found["y = x @ weight"]
    assert "aten::add" in found["y = y + bias"]
    assert "aten::mul" in found["y = y * 0.5"]
    product = next(record for record in profile.trace.records if record.name == "aten::matmul")
    assert profile.trace.shapes[product.shape].inputs == ((16, 32), (32, 8))
    assert product.flops == 2 * 16 * 32 * 8
    last = profile.trace.iterations[-1]
    assert profile.trace.allocations
    assert all(last.start_us <= one.time_us <= last.end_us for one in profile.trace.allocations)


@pytest.mark.parametrize(("iterations", "recorded"), [(6, 2), (7, 1)])
def test_a_script_that_ends_while_it_is_recorded_keeps_what_there_is(
    script: Callable[..., Path], run: Callable[..., Profile], iterations: int, recorded: int
) -> None:
    """One warms up, two are timed, two recorded in full; then one leads in, and the light ones follow."""
    profile = run(script(SYMBOLS), str(iterations), warmup=1, steps=1)
    assert len(profile.recorded_ms) == len(profile.trace.iterations) == recorded
    assert profile.trace.shapes
    assert profile.memory.parameter_bytes == (32 * 8 + 8) * 4


def test_an_iteration_of_very_many_calls_is_recorded_once(
    script: Callable[..., Path], run: Callable[..., Profile]
) -> None:
    profile = run(script(MOST_CALLS), warmup=1, steps=1)
    assert len(profile.recorded_ms) == 1
    line = max(profile.trace.records, key=lambda record: record.duration_us).line
    assert profile.trace.lines[line].line == 8


FAILING_PROFILER = """
import torch

failing = {failing}
stop, stopped = torch.profiler.profile.stop, []

def stop_or_fail(self):
    stop(self)
    stopped.append(self)
    if len(stopped) in failing:
        raise IndexError("Argument passed to at() was not in the map.")

torch.profiler.profile.stop = stop_or_fail
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("failing", [{1}, {2}])
def test_a_profiler_that_fails_once_is_asked_again(
    script: Callable[..., Path], run: Callable[..., Profile], failing: set[int]
) -> None:
    profile = run(script(FAILING_PROFILER.replace("{failing}", str(failing))))
    assert {record.name for record in profile.trace.records} >= {"aten::linear"}
    assert profile.trace.allocations


def test_a_profiler_that_never_works_is_not_blamed_on_the_script(
    script: Callable[..., Path], run: Callable[..., Profile]
) -> None:
    with pytest.raises(CaptureImpossible, match="profiler failed to return its recording") as raised:
        run(script(FAILING_PROFILER.replace("{failing}", "range(10)")))
    assert "was not in the map" in raised.value.message


def test_a_span_left_open_ends_with_its_recording() -> None:
    import torch

    from skyline.capture.child.recording.recorder import Recorder

    recorder = Recorder("cpu", 1)
    recorder.start()
    span = torch.autograd.profiler.record_function("epoch")
    span.__enter__()
    opened = span.record
    recorder.mark()
    recorder.stop()
    # Its end under the next recording would be noted where the events of this one were.
    assert span.record is not opened
    span.__exit__(None, None, None)
    assert recorder.read(None, {})["iterations"]


ADVISED = """
import warnings
import torch

begin = torch.profiler.profile.start

def start(profiler):
    warnings.warn("Warning: Profiler clears events at the end of each cycle. Only the current cycle is reported.")
    begin(profiler)

torch.profiler.profile.start = start
warnings.simplefilter("always")
"""
"""A profiler that gives the advice of PyTorch 2.10 and 2.11 at its first start; later versions keep it for a second."""


def test_the_profilers_advice_about_cycles_is_not_shown(
    script: Callable[..., Path], run: Callable[..., Profile]
) -> None:
    profile = run(script(ADVISED + SYMBOLS), "1000")
    assert profile.trace.records
    assert "Profiler clears events" not in profile.output_tail
