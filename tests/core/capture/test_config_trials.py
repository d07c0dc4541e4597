"""Iterations of a script on other threads and under autocast, computed by the process that ran it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.capture import config_trials, turns
from skyline.capture.config_trials import _bare_ms, _plan, _plan_within, configs_take_s, operator_times
from skyline.capture.events import StepRow
from skyline.capture.turns import Turn, in_turns
from skyline.source.text import SourceText
from skyline.trace.profile import Profile
from skyline.trace.record import BareTimes, CodeLine, IterationMark, Phase, Record, RecordKind, Trace
from skyline.trace.trial import UNCHANGED, Choices, Trial, batch_trials
from skyline.whatif.catalogue.numerics.amp import WHATIF
from skyline.whatif.cost.tried_iterations import tried_iterations
from skyline.whatif.question import Choice, Question

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

    def as_recorded(times: BareTimes, trial: Trial) -> BareTimes:
        return replace(times, steps_ms=(trial.recorded_us / 1e3,) * len(times.steps_ms))

    (own,) = (trial for trial in profile.trials if trial.choices == UNCHANGED)
    trials = tuple(replace(one, times=as_recorded(one.times, one)) for one in profile.trials if one.operators)
    return replace(profile, times=as_recorded(profile.times, own), trials=trials)


def configs(profile: Profile, batch_size: int | None = None) -> list[tuple[int | None, str]]:
    """Threads and format of the trials at a batch size that were recorded."""
    return [
        (one.choices.threads, one.choices.number_format)
        for one in profile.trials
        if one.operators and one.choices.batch_size == batch_size
    ]


def test_all_configs_are_tried_and_their_operators_recorded(run: Run, tmp_path: Path) -> None:
    profile = tried(run, script(tmp_path))
    threads = profile.environment.intraop_threads
    other = 1 if threads > 1 else profile.environment.cpu_count
    own, *others = configs(profile)
    assert own == (None, "")
    numbers = {None} if other == threads else {None, other}
    assert {own, *others} == {(each, kind) for each in numbers for kind in ("", "bfloat16")}
    for trial in profile.trials:
        names = {one.name for one in trial.operators}
        assert {"aten::linear", "aten::relu", "AddmmBackward0"} <= names
        # Under autocast the gradients of weights that were cast come back in float32.
        assert ("ToCopyBackward0" in names) == bool(trial.choices.number_format)
        assert all(one.took_us > 0 for one in trial.operators)
        assert bool(trial.ratios) == (trial.choices != UNCHANGED)
        assert trial.null
    peaks = {
        one.choices.number_format: one.peak_bytes for one in profile.trials if one.choices.threads is None
    }
    assert peaks[""] is None
    answer = estimate(analyse(profile), Question(choices=(Choice("amp", "bf16"),)))
    assert answer.peak_bytes is not None
    assert peaks["bfloat16"] == pytest.approx(answer.peak_bytes.value)
    found = tried_iterations(undisturbed(profile))
    assert found is not None
    assert set(found.times_us) == {(each or threads, kind) for each, kind in configs(profile)}


def test_what_does_not_run_under_autocast_is_tried_on_other_threads(run: Run, tmp_path: Path) -> None:
    refuses = 'assert result.dtype is torch.float32, "must not be narrow"'
    profile = tried(run, script(tmp_path, within=refuses))
    assert {kind for _, kind in configs(profile)} == {""}
    # The script was started again for the rounds that were left.
    assert min(len(trial.null) for trial in profile.trials) > 1
    (failed,) = profile.failed_trials
    assert failed.choices == Choices(number_format="bfloat16")
    assert (failed.message, Path(failed.place.file).name) == (
        "AssertionError: must not be narrow",
        "train.py",
    )
    answer = WHATIF.detect(analyse(profile).baseline)
    assert not answer.applicable
    assert answer.reason == f"tried under autocast, train.py:{failed.place.line} raised {failed.message}"


def test_an_evaluation_that_fails_under_autocast_is_no_failed_trial(run: Run, tmp_path: Path) -> None:
    # Iterations under autocast are the last ones: the first turn ends in the evaluation.
    path = script(tmp_path, steps=60)
    checks = "\nassert model(torch.ones(1, 64)).dtype is torch.float32\n"
    path.write_text(path.read_text(encoding="utf-8") + checks, encoding="utf-8")
    profile = tried(run, path)
    assert len({kind for _, kind in configs(profile)}) == 2
    assert profile.failed_trials == ()


@pytest.mark.parametrize(
    ("frames", "found"),
    [
        (("/train.py", 5, "/net.py", 3), True),
        (("/train.py", 8, "/train.py", 2), False),
        (("/net.py", 5), False),
        ((), False),
    ],
)
def test_an_exception_counts_if_the_training_loop_is_on_its_stack(
    frames: tuple[str | int, ...], found: bool
) -> None:
    text = "def check(y):\n    y.numpy()\n\nfor x in loader:\n    y = model(x)\n    y.sum()\n    step()\ncheck(y)\n"
    run = SimpleNamespace(
        ready=SimpleNamespace(loop=CodeLine("/train.py", 7)), text_of=lambda file: SourceText.of(file, text)
    )
    traceback = "".join(
        f'  File "{file}", line {line}, in f\n    x\n'
        for file, line in zip(frames[::2], frames[1::2], strict=True)
    )
    assert config_trials._in_loop(traceback, cast(Any, run)) is found
    run.ready.loop = None
    assert not config_trials._in_loop(traceback, cast(Any, run))


def test_a_script_that_is_over_is_run_again(run: Run, tmp_path: Path) -> None:
    # It ends amid the first configs; a fresh run has the iterations for all.
    profile = tried(run, script(tmp_path, steps=60))
    assert len({kind for _, kind in configs(profile)}) == 2


def test_a_script_of_few_iterations_is_left_alone(run: Run, tmp_path: Path) -> None:
    assert run(script(tmp_path, steps=14), trials=True, settle_s=0.1).trials == ()


def test_compiled_scripts_are_left_alone(run: Run, tmp_path: Path) -> None:
    compiled = "model = torch.compile(model, backend='eager')"
    path = script(tmp_path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("optimizer = ", f"{compiled}\noptimizer = ", 1), encoding="utf-8")
    assert run(path, trials=True, warmup=2, steps=3, settle_s=0.1).trials == ()


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


def bare(*steps_ms: float) -> BareTimes:
    none = (0.0,) * len(steps_ms)
    return BareTimes(steps_ms, none, none, none)


def test_an_operator_takes_the_lower_median_of_all_its_times() -> None:
    [one], _ = operator_times([trace(100.0, 900.0), trace(120.0, 110.0)], bare())
    assert one.took_us == 110.0


def test_an_iteration_that_does_more_than_most_does_not_count() -> None:
    operators, _ = operator_times([trace(100.0, 300.0, 100.0, extra=1)], bare())
    assert [(one.name, one.took_us) for one in operators] == [("aten::mm", 100.0)]


def test_of_two_unlike_iterations_that_which_takes_as_long_as_bare_ones_counts() -> None:
    # The rest of the data is a batch of fewer samples, made in fewer calls; bare iterations take 0.3 ms.
    both = trace(100.0, 300.0, extra=1)
    operators, _ = operator_times([both], bare(0.31, 0.3, 0.1))
    assert [one.name for one in operators] == ["aten::mm", "aten::sum"]
    assert [one.name for one in operator_times([both], bare(0.1))[0]] == ["aten::mm"]


def test_the_overhead_of_recording_is_left_out() -> None:
    one = trace(100.0)
    noted = replace(one, records=tuple(replace(each, recording_us=40.0) for each in one.records))
    [found], _ = operator_times([noted], bare())
    assert found.took_us == 60.0


def test_the_bare_iterations_say_how_long_a_part_is() -> None:
    [one], python_us = operator_times([trace(100.0, python=60.0)], bare(0.12, 5.0, 0.12))
    assert one.took_us == pytest.approx(75.0)
    assert python_us[Phase.FORWARD] == pytest.approx(45.0)
    # Something else must have been under way.
    assert operator_times([trace(100.0)], bare(50.0))[0][0].took_us == pytest.approx(125.0)


ALL = tuple(
    Choices(threads=threads, number_format=kind) for kind in ("", "bfloat16") for threads in (None, 1)
)


def test_the_longer_an_iteration_is_the_fewer_are_tried() -> None:
    short, long = (_plan(0.0, *ms, 7.0, 2, ALL) for ms in ((20.0, 20.0), (300.0, 100.0)))
    assert short is not None
    assert long is not None
    assert long.iterations < short.iterations
    assert _plan(0.0, 5_000.0, 20.0, 7.0, 2, ALL) is None
    assert _plan(0.0, 20.0, 5_000.0, 7.0, 2, ALL) is None, "the unchanged script takes turns too"


@pytest.mark.parametrize(
    ("step_ms", "left_s", "time_s"),
    [(20.0, 20.0, 8.0), (20.0, 5.0, 3.0), (20.0, 0.0, 0.0), (1_200.0, 20.0, 20.0), (1_200.0, 8.0, 0.0)],
)
def test_slow_iterations_are_tried_where_nothing_else_took_the_budget(
    step_ms: float, left_s: float, time_s: float
) -> None:
    run: Any = SimpleNamespace(
        recording=SimpleNamespace(reading_ms=0.0), rows=SimpleNamespace(present_ms=step_ms)
    )
    found = _plan_within(run, [UNCHANGED, Choices(threads=1)], left_s)
    assert (found[0] if found is not None else 0.0) == time_s


def test_where_not_all_configs_fit_the_formats_are_tried() -> None:
    run: Any = SimpleNamespace(
        recording=SimpleNamespace(reading_ms=0.0), rows=SimpleNamespace(present_ms=600.0)
    )
    found = _plan_within(run, ALL, 10.0)
    assert found is not None
    assert found[2] == [one for one in ALL if one.threads is None]
    assert _plan_within(run, ALL, 4.0) is None


@pytest.mark.parametrize(
    ("sampled", "left_s", "kept_s"), [(False, 20.0, 8.0), (False, 0.0, 0.0), (True, 20.0, 0.0)]
)
def test_configs_that_will_be_tried_keep_their_time(sampled: bool, left_s: float, kept_s: float) -> None:
    environment = SimpleNamespace(
        intraop_threads=2, cpu_count=2, cpu_features=(), device=SimpleNamespace(kind="cpu")
    )
    run: Any = SimpleNamespace(
        request=SimpleNamespace(batch_points=3, trials=None, budget_s=20.0, side_effects="redirect"),
        recording=SimpleNamespace(reading_ms=0.0, settings=None, trace=SimpleNamespace(sampled=sampled)),
        rows=SimpleNamespace(present_ms=20.0),
        facts=SimpleNamespace(environment=environment, world_size=1, styles=()),
        ended_after=None,
    )
    assert configs_take_s(run, left_s) == kept_s


def test_reading_recorded_iterations_counts() -> None:
    quick, slow = (_plan(reading_ms, 20.0, 20.0, 7.0, 2, ALL) for reading_ms in (0.0, 500.0))
    assert quick is not None
    assert slow is not None
    assert slow.recordings < quick.recordings
    assert _plan(5_000.0, 20.0, 20.0, 7.0, 2, ALL) is None


def test_parts_together_are_a_typical_iteration() -> None:
    # Loading and computing are slow in turns: no part's middle is what it has in the middle of all iterations.
    times = replace(bare(*(10.0,) * 5), data_ms=(0.0, 0.0, 0.0, 8.0, 9.0))
    assert sum(_bare_ms(times).values()) == pytest.approx(10.0)


def test_other_batch_sizes_are_tried_in_the_same_configs(run: Run, tmp_path: Path) -> None:
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
    profile = run(path, batch_points=3, trials=None, warmup=2, steps=3, settle_s=0.1)
    assert len(configs(profile)) >= 2
    assert configs(profile) == configs(profile, 4) == configs(profile, 64)
    found = tried_iterations(undisturbed(profile))
    assert found is not None
    assert sorted(found.elsewhere_us) == [0.25, 4.0]
    # The rounds of the curve and of these trials are one trial.
    smaller = batch_trials(profile.trials)[4]
    assert smaller.operators
    assert len(smaller.ratios) > 3


@pytest.mark.parametrize(("step_ms", "count"), [(100.0, 4), (250.0, 2), (2_000.0, 0)])
def test_in_a_slow_batch_the_formats_are_tried_without_other_threads(
    monkeypatch: pytest.MonkeyPatch, step_ms: float, count: int
) -> None:
    monkeypatch.setattr(config_trials, "record_lightly", lambda child, iterations: trace(100.0))
    monkeypatch.setattr(config_trials, "run_bare", lambda child, iterations: (ROW,) * iterations)
    run = SimpleNamespace(
        recording=SimpleNamespace(reading_ms=0.0),
        facts=SimpleNamespace(environment=SimpleNamespace(intraop_threads=2)),
    )
    found = config_trials._trials_at(
        64, cast(Any, Held(step_ms)), cast(Any, Held(50.0)), cast(Any, run), ALL, 2.5
    )
    assert [one.choices for one in found] == [
        replace(one, batch_size=64) for one in ALL if count == 4 or (count == 2 and one.threads is None)
    ]


@pytest.mark.parametrize(("late_s", "rounds"), [(0.0, [8] * 4), (1.0, [2, 2])])
def test_on_a_machine_that_became_busy_the_rounds_end_with_their_time(
    monkeypatch: pytest.MonkeyPatch, late_s: float, rounds: list[int]
) -> None:
    clock = SimpleNamespace(now_s=0.0)

    def slow(child: object, iterations: int) -> tuple[StepRow, ...]:
        clock.now_s += late_s
        return (ROW,) * iterations

    clock.monotonic = lambda: clock.now_s
    monkeypatch.setattr(config_trials, "time", clock)
    monkeypatch.setattr(turns, "time", clock)
    monkeypatch.setattr(config_trials, "record_lightly", lambda child, iterations: trace(100.0))
    monkeypatch.setattr(config_trials, "run_bare", slow)
    run = SimpleNamespace(
        recording=SimpleNamespace(reading_ms=0.0),
        facts=SimpleNamespace(environment=SimpleNamespace(intraop_threads=2)),
    )
    found = config_trials._trials_at(64, cast(Any, Held()), cast(Any, Held()), cast(Any, run), ALL, 2.5)
    # Of a single round there are the two ends of its range.
    assert [len(one.ratios) for one in found] == rounds


def test_a_recording_without_an_iteration_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    recordings = [trace(100.0), replace(trace(), records=trace(100.0).records)]
    monkeypatch.setattr(config_trials, "record_lightly", lambda child, iterations: recordings.pop(0))
    monkeypatch.setattr(config_trials, "run_bare", lambda child, iterations: (ROW,) * iterations)
    plan = config_trials._Plan(2, 1, 1, 1, 2)
    own = config_trials._ConfigTurns(cast(Any, Held()), UNCHANGED, 2, plan)
    rounds = in_turns(own, [], rounds=1, wakes=False)
    assert len(own.traces) == 1
    assert [one.name for one in own.trial(rounds, None).operators] == ["aten::mm"]


ROW = StepRow(0.1, 0.0, 0.0, 0.0, 1, 1)


class Held:
    """A run whose child takes every command."""

    cycle = 1

    def __init__(self, typical_ms: float = 0.1) -> None:
        self.typical_ms = typical_ms

    def settling(self, timed: int) -> int:
        return 1

    def compute(self, work: Callable[[Any], Turn]) -> Turn:
        return work(SimpleNamespace(send=lambda *_, **__: None))
