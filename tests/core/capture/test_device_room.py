"""Runs that share a device, and those for which it has no room."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from skyline.capture import held_run as held_run_module
from skyline.capture.batch_trials import PACE, sizes_to_measure, tensor_bytes
from skyline.capture.device_room import DeviceRoom, Sharing
from skyline.capture.events import StepRow
from skyline.capture.held_run import HeldRun
from skyline.capture.request import CaptureRequest
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.size_costs import SizeCosts
from skyline.capture.turns import PastTurn, Turn, in_turns, trial
from skyline.errors import ScriptFailed
from skyline.trace.facts import DeviceMemoryFact
from skyline.trace.trial import UNCHANGED
from skyline.verification import measure as measuring

GB = 10**9
NO_LOADERS = SimpleNamespace(facts=SimpleNamespace(loaders=()))


def room(free: int, reserved: int = 0, fixed: int = 0, peak: int = 0, context: int = 1) -> DeviceRoom:
    return DeviceRoom(free * GB, context * GB, reserved * GB, fixed * GB, peak * GB, 0.0)


def test_runs_stay_together_while_all_of_them_fit():
    assert room(free=70, reserved=9).sharing([20 * GB, 20 * GB, 20 * GB]) is Sharing.TOGETHER
    assert room(free=62, reserved=9, fixed=3).sharing([20 * GB, 20 * GB, 20 * GB]) is Sharing.RELEASING


def test_a_model_over_half_the_card_has_a_curve_all_the_same():
    # Of 80 GB it reserves 45, 10 of which outlive an iteration.
    half = room(free=34, reserved=45, fixed=10, peak=44)
    assert half.sharing([40 * GB]) is Sharing.RELEASING
    assert half.sharing([75 * GB]) is Sharing.ALONE
    sizes = sizes_to_measure(
        8,
        3,
        SizeCosts(8, 0.001, 0.0, 3),
        longest_step_ms=100.0,
        fixed_bytes=10 * GB,
        peak_bytes=44 * GB,
        free_bytes=half.tensor_bytes,
        dataset_size=None,
        budget_s=12.0,
    )
    assert sizes == (16, 2, 4)
    assert half.sharing([tensor_bytes(16, 8, 10 * GB, 44 * GB)]) is Sharing.ALONE


@pytest.mark.parametrize(
    ("step_ms", "start_s", "sizes"),
    [
        (50.0, 0.0, (16, 2, 32)),
        (300.0, 0.0, (16, 2)),
        (2000.0, 0.0, (16, 2)),
        (50.0, 4.0, (16, 2)),
        (50.0, 8.0, (16, 2)),
    ],
)
def test_a_slow_script_is_measured_at_fewer_sizes(step_ms: float, start_s: float, sizes: tuple[int, ...]):
    found = sizes_to_measure(
        8,
        3,
        SizeCosts(8, step_ms / 1e3, start_s, 3),
        longest_step_ms=6_000.0,
        fixed_bytes=0,
        peak_bytes=GB,
        free_bytes=100 * GB,
        dataset_size=None,
        budget_s=12.0,
    )
    assert found == sizes


def test_what_others_hold_is_left_to_them():
    shared = room(free=4, reserved=45, fixed=10, peak=44)
    assert shared.tensor_bytes == 49 * GB
    assert shared.sharing([50 * GB]) is Sharing.ALONE
    memory = DeviceMemoryFact(80 * GB, 4 * GB, 44 * GB, 45 * GB, 31 * GB, 0)
    told = DeviceRoom.of(memory, 10 * GB, 44 * GB)
    assert told.free_bytes == 4 * GB
    assert told.context_bytes <= 1 << 30, "31 GB are no context, but another program's"
    assert told.fragments == pytest.approx(0.05)


def test_held_runs_keep_their_tensors_while_another_computes():
    assert room(free=34, reserved=45, fixed=10, peak=44).sharing_of_held([44 * GB] * 2) is Sharing.RELEASING
    assert room(free=34, reserved=45, fixed=20, peak=44).sharing_of_held([44 * GB] * 2) is Sharing.ALONE
    assert room(free=120, reserved=45, fixed=20, peak=44).sharing_of_held([44 * GB] * 2) is Sharing.TOGETHER


class Child:
    """Notes what is asked of it, and computes one iteration a millisecond."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def send(self, do: str, **fields: Any) -> None:
        self.asked.append(do)

    def receive(self, *wanted: str) -> dict[str, Any]:
        return {"free_bytes": 5}

    def go_on(self) -> None:
        self.asked.append("go on")

    def stop(self) -> None:
        self.asked.append("stop")

    def close(self) -> None:
        self.asked.append("close")

    def cpu_s(self) -> tuple[float, float]:
        return 0.0, 0.0


def rows(child: Child, iterations: int) -> tuple[StepRow, ...]:
    child.asked.append("run")
    return tuple(StepRow(2.0, 0.0, 0.0, 0.0, 1, 1) for _ in range(iterations))


def test_who_stands_still_gives_back_what_it_does_not_need(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    monkeypatch.setattr(held_run_module, "run_bare", rows)
    script = tmp_path / "train.py"
    script.write_text("")
    children = [Child(), Child()]
    held = [HeldRun(ScriptLauncher(CaptureRequest(script)), PACE) for _ in children]
    for run, child in zip(held, children, strict=True):
        run._child, run._ready = cast("Any", child), cast("Any", NO_LOADERS)
        run.share(Sharing.RELEASING)
    base, other = held
    done = in_turns(base, [other], rounds=8)
    assert trial(UNCHANGED, done).ratios == (1.0,) * 8
    for child in children:
        assert child.asked == ["go on", "release"] + ["run", "go on", "release"] * (len(child.asked) // 3)


def test_a_run_that_has_the_device_to_itself_is_set_against_what_was_measured_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
):
    monkeypatch.setattr(held_run_module, "run_bare", rows)
    script = tmp_path / "train.py"
    script.write_text("")
    one = HeldRun(ScriptLauncher(CaptureRequest(script)), PACE)
    one._child, one._ready = cast("Any", Child()), cast("Any", NO_LOADERS)
    assert trial(UNCHANGED, in_turns(PastTurn(4.0), [one], rounds=3)).ratios == (0.5, 0.5, 0.5)


class Held(HeldRun):
    """A run of a child that is made up; a ``full`` one finds no memory while another has begun and is there."""

    others: list[Held]
    full = False
    took: DeviceRoom | None = None

    def launch(self, *, quiet: bool = True) -> None:
        self._child = cast("Any", Child())

    def _begin(self, *, recorded: bool) -> None:
        child = self._child
        assert child is not None
        self._lives += 1
        there = [one for one in self.others if one is not self and one._child and one._ready]
        if self.full and there:
            raise ScriptFailed("CUDA out of memory. Tried to allocate 20.00 GiB", traceback="", hint="")
        self._ready = cast("Any", object())
        self.room = self.took
        self._used = 0


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[Held]:
    script = tmp_path / "train.py"
    script.write_text("")
    monkeypatch.setattr(held_run_module, "run_bare", rows)
    made = [Held(ScriptLauncher(CaptureRequest(script))) for _ in range(3)]
    for run in made:
        run.others = made
    return made


def turn_ms(run: Held) -> float:
    turn = run.turn()
    return cast("Turn", turn).typical_ms


def warmed_up(runs: list[Held]) -> Sharing:
    sharing = Sharing.TOGETHER
    for run in runs:
        run.launch()
    for run in runs:
        sharing = measuring._warmed_up(run, runs, sharing, measuring._of_the_change)
    return sharing


def test_a_verification_shares_a_device_that_is_large_enough(runs: list[Held]):
    runs[0].took = room(free=80, reserved=20, fixed=5, peak=18)
    assert warmed_up(runs) is Sharing.TOGETHER
    runs[1].turn()
    assert cast("Any", runs[1]._child).asked[-3:] == ["go on", "run", "stop"]


def test_a_verification_of_a_model_over_half_the_card_releases_what_rests(runs: list[Held]):
    runs[0].took = room(free=34, reserved=45, fixed=10, peak=44)
    assert warmed_up(runs) is Sharing.RELEASING
    assert cast("Any", runs[0]._child).asked[-3:] == ["go on", "release", "stop"]
    runs[1].turn()
    assert cast("Any", runs[1]._child).asked[-5:] == ["go on", "run", "go on", "release", "stop"]


def test_where_no_two_fit_each_turn_is_a_run_of_its_own(runs: list[Held]):
    runs[0].took = room(free=4, reserved=75, fixed=60, peak=74)
    assert warmed_up(runs) is Sharing.ALONE
    assert [run._child for run in runs] == [None] * 3
    for run in runs:
        assert turn_ms(run) == 2.0
        assert run._child is None
        assert run.lives == 2


def test_who_finds_no_memory_although_it_should_gets_the_device_to_itself(runs: list[Held]):
    for run in runs[1:]:
        run.full = True
    assert warmed_up(runs) is Sharing.ALONE
    assert [run._child for run in runs] == [None] * 3
    assert [turn_ms(run) for run in runs] == [2.0] * 3


def test_other_failures_are_those_of_the_change(runs: list[Held], monkeypatch: pytest.MonkeyPatch):
    def fails(self: Held, *, recorded: bool) -> None:
        raise ScriptFailed("shapes do not match", traceback="", hint="")

    monkeypatch.setattr(Held, "_begin", fails)
    with pytest.raises(ScriptFailed, match="With the change"):
        measuring._warmed_up(runs[1], runs, Sharing.TOGETHER, measuring._of_the_change)
