"""Iterations of a script on other threads and under autocast, computed by the process that ran it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.capture import iteration_trials
from skyline.capture.align_trials import _bare_ms, iteration_trial
from skyline.capture.child_process import ScriptEnded
from skyline.capture.events import Ended, StepRow
from skyline.capture.iteration_trials import _plan
from skyline.trace.iteration_trial import IterationTrial
from skyline.trace.phase import Phase
from skyline.trace.profile import BareTimes, Profile
from skyline.trace.record import IterationMark, Record, RecordKind, Trace
from skyline.whatif.cost.tried_iterations import tried_iterations

pytestmark = pytest.mark.capture

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(1)
{before}
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range({steps}):
    optimizer.zero_grad()
    result = model(torch.ones(16, 64))
    {within}
    result.float().square().mean().backward()
    optimizer.step()
"""

Run = Callable[..., Profile]


def script(folder: Path, *, before: str = "", within: str = "pass", steps: int = 100_000) -> Path:
    path = folder / "train.py"
    path.write_text(
        textwrap.dedent(SCRIPT.format(before=before, within=within, steps=steps)), encoding="utf-8"
    )
    return path


def tried(run: Run, path: Path) -> Profile:
    profile = run(path, trials=True, warmup=2, steps=3, settle_s=0.1)
    if "avx512f" not in profile.environment.cpu_features:
        pytest.skip("bfloat16 is tried on CPUs with AVX-512 only")
    return profile


def undisturbed(profile: Profile) -> Profile:
    """As if the script had been timed to take what it took in its trials, however busy this machine is."""
    standing: dict[int | None, IterationTrial] = {}
    for trial in profile.iteration_trials:
        standing.setdefault(trial.batch_size, trial)

    def as_tried(times: BareTimes, batch_size: int | None) -> BareTimes:
        took_ms = standing[batch_size].took_us / 1e3
        return replace(times, steps_ms=(took_ms,) * len(times.steps_ms))

    points = [
        replace(point, times=as_tried(point.times, point.batch_size))
        for point in profile.points
        if point.batch_size in standing
    ]
    return replace(profile, times=as_tried(profile.times, None), points=tuple(points))


def test_all_manners_are_tried_and_their_operators_told_again(run: Run, tmp_path: Path) -> None:
    profile = tried(run, script(tmp_path))
    threads = profile.environment.intraop_threads
    others = {threads, 1 if threads > 1 else profile.environment.cpu_count}
    manners = [(one.threads, one.number_format) for one in profile.iteration_trials]
    assert manners[0] == (threads, "")
    assert set(manners) == {(each, kind) for each in others for kind in ("", "bfloat16")}
    for trial in profile.iteration_trials:
        names = {work.name for work in trial.works}
        assert {"aten::linear", "aten::relu", "AddmmBackward0"} <= names
        # Under autocast the gradients of weights that were cast come back in float32.
        assert ("ToCopyBackward0" in names) == bool(trial.number_format)
        assert all(work.took_us > 0 for work in trial.works)
    found = tried_iterations(undisturbed(profile))
    assert found is not None
    assert set(found.times_us) == set(manners)


def test_what_does_not_run_under_autocast_is_tried_on_other_threads(run: Run, tmp_path: Path) -> None:
    refuses = 'assert result.dtype is torch.float32, "must not be narrow"'
    profile = tried(run, script(tmp_path, within=refuses))
    assert {one.number_format for one in profile.iteration_trials} == {""}


def test_a_script_that_is_over_is_run_again(run: Run, tmp_path: Path) -> None:
    # It ends amid the first manners; a fresh run has the iterations for all.
    profile = tried(run, script(tmp_path, steps=60))
    assert len({one.number_format for one in profile.iteration_trials}) == 2


def test_a_script_of_few_iterations_is_left_alone(run: Run, tmp_path: Path) -> None:
    assert run(script(tmp_path, steps=14), trials=True, settle_s=0.1).iteration_trials == ()


def test_compiled_scripts_are_left_alone(run: Run, tmp_path: Path) -> None:
    compiled = "model = torch.compile(model, backend='eager')"
    path = script(tmp_path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("optimizer = ", f"{compiled}\noptimizer = ", 1), encoding="utf-8")
    assert run(path, trials=True, warmup=2, steps=3, settle_s=0.1).iteration_trials == ()


def trace(*times: float, python: float = 0.0, extra: int = -1) -> Trace:
    """An iteration for each of the times, of one operator; that at ``extra`` has another as well."""
    records: list[Record] = []
    marks: list[IterationMark] = []
    for number, took in enumerate(times):
        start = 1_000.0 * number
        records.append(Record("aten::mm", RecordKind.OPERATOR, Phase.FORWARD, "main", number, start, took))
        records.append(
            Record("python", RecordKind.PYTHON, Phase.FORWARD, "main", number, start + took, python or 1.0)
        )
        if number == extra:
            records.append(
                Record("aten::sum", RecordKind.OPERATOR, Phase.OTHER, "main", number, start + 500, 9.0)
            )
        marks.append(IterationMark(number, start, start + 1_000))
    return Trace(tuple(marks), (), (), tuple(records))


def row(step_ms: float) -> StepRow:
    return StepRow(step_ms, 0.0, 0.0, 0.0, 1, 1)


def test_a_work_takes_the_lower_middle_of_all_its_times() -> None:
    [work] = iteration_trial(1, "", [trace(100.0, 900.0), trace(120.0, 110.0)], []).works
    assert work.took_us == 110.0


def test_an_iteration_that_does_more_than_most_does_not_count() -> None:
    trial = iteration_trial(1, "", [trace(100.0, 300.0, 100.0, extra=1)], [])
    assert [(work.name, work.took_us) for work in trial.works] == [("aten::mm", 100.0)]


def test_of_two_unlike_iterations_that_which_takes_what_bare_ones_do_counts() -> None:
    # The rest of the data is a batch of fewer samples, made in fewer calls; bare iterations take 0.3 ms.
    both = trace(100.0, 300.0, extra=1)
    bare = [row(0.31), row(0.3), row(0.1)]
    trial = iteration_trial(1, "", [both], bare)
    assert [work.name for work in trial.works] == ["aten::mm", "aten::sum"]
    assert [work.name for work in iteration_trial(1, "", [both], [row(0.1)]).works] == ["aten::mm"]


def test_what_recording_took_is_no_part_of_it() -> None:
    one = trace(100.0)
    noted = replace(one, records=tuple(replace(each, recording_us=40.0) for each in one.records))
    [work] = iteration_trial(1, "", [noted], []).works
    assert work.took_us == 60.0


def test_the_bare_iterations_say_how_long_a_part_is() -> None:
    trial = iteration_trial(1, "", [trace(100.0, python=60.0)], [row(0.12), row(5.0), row(0.12)])
    assert trial.works[0].took_us == pytest.approx(75.0)
    assert trial.python_us[Phase.FORWARD] == pytest.approx(45.0)
    # Something else must have been under way.
    assert iteration_trial(1, "", [trace(100.0)], [row(50.0)]).works[0].took_us == pytest.approx(125.0)


def test_the_longer_an_iteration_is_the_fewer_are_tried() -> None:
    short, long = _plan(trace(100.0), 20.0, 7.0, 2), _plan(trace(100.0), 300.0, 7.0, 2)
    assert short is not None
    assert long is not None
    assert long.iterations < short.iterations
    assert _plan(trace(100.0), 5_000.0, 7.0, 2) is None
    many = trace(100.0)
    assert _plan(replace(many, records=many.records * 50_000), 20.0, 7.0, 2) is None


def test_parts_together_are_a_typical_iteration() -> None:
    # Loading and computing are slow in turns: no part's middle is what it has in the middle of all iterations.
    rows = [StepRow(10.0, data, 0.0, 0.0, 1, 1) for data in (0.0, 0.0, 0.0, 8.0, 9.0)]
    assert sum(_bare_ms(rows).values()) == pytest.approx(10.0)


def test_other_batch_sizes_are_tried_in_the_same_manners(run: Run, tmp_path: Path) -> None:
    source = """
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        torch.manual_seed(1)
        data = TensorDataset(torch.randn(4096, 64), torch.randn(4096, 4))
        model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for epoch in range(10_000):
            for inputs, wanted in DataLoader(data, batch_size=16):
                optimizer.zero_grad()
                (model(inputs) - wanted).square().mean().backward()
                optimizer.step()
    """
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    profile = run(path, batch_points=3, warmup=2, steps=3, settle_s=0.1)
    manners = {
        size: [(one.threads, one.number_format) for one in profile.iteration_trials if one.batch_size == size]
        for size in (None, 4, 64)
    }
    assert len(manners[None]) >= 2
    assert manners[None] == manners[4] == manners[64]
    found = tried_iterations(undisturbed(profile))
    assert found is not None
    assert sorted(found.elsewhere_us) == [0.25, 4.0]


def test_a_script_that_ends_amid_a_recording_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    recordings = [trace(100.0), replace(trace(), records=trace(100.0).records)]

    def record(child: object, iterations: int) -> Trace:
        return recordings.pop(0)

    def run_for(child: object, iterations: int) -> tuple[StepRow, ...]:
        if not recordings:
            raise ScriptEnded(Ended(30, 1, 30, 30))
        return (row(0.1),) * iterations

    monkeypatch.setattr(iteration_trials, "record_lightly", record)
    monkeypatch.setattr(iteration_trials, "run_bare", run_for)
    manners = [iteration_trials._TrialConfig(2), iteration_trials._TrialConfig(1)]
    plan = iteration_trials._Plan(2, 1, 1, 1, 2)
    found, ended = iteration_trials._tried(Silent(), manners, plan)  # type: ignore[arg-type]
    assert [one.threads for one in found] == [2]
    assert ended


class Silent:
    """A child that takes every command."""

    def send(self, *_: object, **__: object) -> None:
        """Nothing comes of it."""
