"""Points on this machine: runs of the script with different values take turns with the first of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from statistics import median

from skyline.analysis.gpu_costs import samples_of
from skyline.capture.assemble import ScriptRun, assemble
from skyline.capture.bare import BareRows
from skyline.capture.child_process import ScriptEnded
from skyline.capture.device_room import Sharing
from skyline.capture.ended_early import too_few
from skyline.capture.events import StepRow
from skyline.capture.held_run import HeldRun, TurnPace
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.turns import Round, Turn, in_turns
from skyline.errors import SkylineError, UsageError
from skyline.interval import Interval, interval_of
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named
from skyline.sweep.collected import Collected
from skyline.sweep.point import SweepPoint, Values
from skyline.sweep.setting import SweptScript
from skyline.sweep.work import work_of
from skyline.trace.facts import Device
from skyline.trace.profile import Profile

_AT_A_TIME = 4
"""The number of runs that are held together with the first one; each has its own memory."""
LEAST_ROUNDS = 3
"""The least number of rounds of a group of points, even after the time is spent: fewer show no spread."""
_PACE = TurnPace(turn_s=0.35)


@dataclass(slots=True)
class _MeasuredRun:
    """A held run, the ratios of its turns to those of the first run, and its point without the time."""

    point: SweepPoint
    held: HeldRun
    launcher: ScriptLauncher
    ratios: list[float] = field(default_factory=list[float])
    rows: list[StepRow] = field(default_factory=list[StepRow])
    error: SkylineError | None = None

    def turn(self) -> Turn | None:
        """A turn of the run; None from its first failure on."""
        if self.error is not None:
            return None
        try:
            return self.held.turn()
        except SkylineError as error:
            self.error = error
            return None

    def profile(self) -> Profile | None:
        """The facts that the run showed. None if it ended before it could be recorded."""
        recording, launcher = self.held.recording, self.launcher
        if recording is None or not self.rows:
            return None
        run = ScriptRun(
            request=launcher.request,
            script=str(launcher.script),
            text=launcher.text,
            sources=launcher.sources,
            directory=str(launcher.directory),
            interpreter=launcher.interpreter,
            ready=self.held.ready,
            rows=BareRows(list(self.rows)),
            recording=recording,
            knobs=launcher.find_knobs(),
            notes=(),
        )
        return assemble(run.with_batch())


class MeasuredPoints:
    """The measurement of a sweep. It holds the first run, with which all others are compared."""

    def __init__(
        self,
        script: SweptScript,
        collected: Collected,
        rounds: int,
        on_first: Callable[[Profile], None] = lambda _: None,
    ) -> None:
        self._script = script
        self._collected = collected
        self._rounds = rounds
        self._on_first = on_first
        self._base_ms: list[float] = []
        self._others: list[float] = []
        self._runs: list[_MeasuredRun] = []
        """All runs that had turns; the others are compared with the first one."""

    @property
    def others_cores(self) -> float:
        """The typical number of cores that other programs kept busy."""
        return median(self._others or [0.0])

    def take(self, wanted: Sequence[Values]) -> None:
        """Measures the points in their order, a few at a time. Raises an error of the first run."""
        left = list(wanted)
        with ExitStack() as stack:
            base = None
            while left and base is None:
                base = self._warmed_up(left.pop(0), stack, None)
            if base is None:
                return
            self._runs.append(base)
            on_device = base.held.ready.facts.environment.device.kind != "cpu"
            while not self._base_ms or (left and not self._collected.is_over):
                with ExitStack() as group:
                    # On a GPU only one further run is held at a time, and idle runs free unused memory.
                    count = min(len(left), 1 if on_device else _AT_A_TIME)
                    started = [self._warmed_up(left.pop(0), group, base) for _ in range(count)]
                    runs = [one for one in started if one is not None]
                    if on_device:
                        for one in (base, *runs):
                            one.held.share(Sharing.RELEASING)
                    if runs or not self._base_ms:
                        self._runs += runs
                        self._take_rounds(base, runs)

    def _warmed_up(self, values: Values, stack: ExitStack, base: _MeasuredRun | None) -> _MeasuredRun | None:
        """The run with these values, idle after its warm-up. None if it failed, which is recorded."""
        self._collected.say(f"{self._script.words(values)}: starting")
        try:
            launcher = ScriptLauncher(self._script.at(values), starter=self._script.starter)
            held = stack.enter_context(HeldRun(launcher, _PACE, in_full=True))
            if base is not None:
                held.cut_like(base.held.ready)
            try:
                held.warm_up()
            except ScriptEnded as ended:
                raise too_few(ended.ended) from None
        except SkylineError as error:
            self._collected.fail(values, error)
            return None
        return _MeasuredRun(SweepPoint(values, Interval.exact(0.0)), held, launcher)

    def _take_rounds(self, base: _MeasuredRun, runs: list[_MeasuredRun]) -> None:
        """Runs turns of the first run and of some others; each round adds to the points."""
        named = ", ".join(self._script.words(one.point.values) for one in (runs or [base]))
        for number in range(self._rounds):
            if number >= LEAST_ROUNDS and self._collected.left_s <= 0:
                break
            self._collected.say(f"{named}: round {number + 1} of {self._rounds}")
            order = runs[::-1] if number % 2 else runs
            for one in in_turns(base.held, order, rounds=1, wakes=number == 0):
                self._note(one, base, order)
            for run in (base, *runs):
                if number == 0 and run.point.work is None:
                    self._describe(run)
            self._publish()
        for run in runs:
            if run.error is not None and not run.ratios:
                self._collected.fail(run.point.values, run.error)

    def _note(self, one: Round, base: _MeasuredRun, order: Sequence[_MeasuredRun]) -> None:
        self._others.append(one.others_cores)
        for turn in (one.base, one.again):
            if turn is not None:
                self._base_ms.append(turn.typical_ms)
                base.rows += turn.rows
        base.ratios.append(1.0)
        for index, run in enumerate(order):
            ratio, turn = one.ratio(index), one.variants[index]
            if ratio is not None and turn is not None:
                run.ratios.append(ratio)
                run.rows += turn.rows

    def _describe(self, run: _MeasuredRun) -> None:
        """Adds the figures other than the time to the point of a run."""
        profile = run.profile()
        if profile is None:
            return
        if run is self._runs[0]:
            self._on_first(profile)
        work = work_of(profile, device_of(profile.environment.device))
        run.held.recording = None
        run.point = replace(run.point, samples=samples_of(profile), peak_bytes=run.held.peak_bytes, work=work)

    def _publish(self) -> None:
        """Publishes all points, based on the time of the first run over the whole sweep so far."""
        for run in self._runs:
            if not run.ratios:
                continue
            if run is self._runs[0]:
                time = interval_of(self._base_ms)
            else:
                time = interval_of(run.ratios).scaled(median(self._base_ms))
            self._collected.add(replace(run.point, iteration_ms=time))


def device_of(device: Device) -> GpuSpec | None:
    """The data sheet of a run's device, also for this machine's processor. None for an unknown device."""
    try:
        return gpu_named("cpu" if device.kind == "cpu" else device.name)
    except UsageError:
        return None
