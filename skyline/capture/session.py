"""A whole capture: run, warm up, time, record, and measure the curve over batch sizes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from skyline.capture import batch_trials
from skyline.capture.assemble import ScriptRun, assemble
from skyline.capture.bare import (
    LEAST_STEPS,
    LONG_MS,
    BareRows,
    beside_recording,
    beside_recording_on_device,
    first_steps,
    from_idle,
    iterations_to_record,
    run_bare,
    settle,
)
from skyline.capture.batch_trials import BatchTrials, measure_batch_sizes, ways
from skyline.capture.child_process import ChildProcess, ScriptEnded
from skyline.capture.config_trials import (
    ConfigTrials,
    config_trials,
    config_trials_elsewhere,
    configs_harmless,
    configs_take_s,
    configs_wanted,
)
from skyline.capture.early_facts import from_first_iterations, from_source
from skyline.capture.ended_early import LEAST_ITERATIONS, too_few
from skyline.capture.events import Ended, Ready
from skyline.capture.held_run import HeldRun
from skyline.capture.iteration import notes_on_cutting
from skyline.capture.layer_trials import layers_of_run, layers_on_threads
from skyline.capture.load_meter import LoadMeter
from skyline.capture.page_copies import with_page_copies
from skyline.capture.power import counter_of, measured
from skyline.capture.process import Starter, start_fresh
from skyline.capture.product_trials import product_trials
from skyline.capture.recording import ChildRecording, record, record_times
from skyline.capture.request import CaptureRequest, OutputCallback, ProgressCallback
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.trial_budget import TrialBudget
from skyline.capture.value_reading import SLOWER, has_large_table, tensor_values
from skyline.lazy_dataclass import dataclass
from skyline.source.knob import KnobSearch
from skyline.stage_failures import StageFailures
from skyline.trace.facts import MachineLoad, PowerFact
from skyline.trace.profile import Profile
from skyline.trace.record import BareTimes
from skyline.trace.tensor_values import TensorValues
from skyline.trace.trial import FailedTrial, LayerTrials, joined
from skyline.units import plural

_QUICK_MS = 8.0
"""If iterations are quicker, the first figures wait for further iterations and for values of tensors."""
_FIRST_S = 0.3
"""Seconds for these further iterations."""
_RECORDING = 1.5
"""Approximate maximum ratio of a recorded to a bare iteration."""
_SPARING_ITERATIONS = 4
"""One iteration to warm up, one to drop after it, two to record. A script with four has one left to record."""
_NO_CURVE = "Other batch sizes were not tried: an iteration takes too long for the time that trials have."
_PACE = replace(batch_trials.PACE, restarts=2)
"""The pace of the unchanged script; if it ends, it is started again for other batch sizes and for configs."""


def capture(
    request: CaptureRequest,
    *,
    progress: ProgressCallback,
    output: OutputCallback | None = None,
    cancel: threading.Event | None = None,
    on_partial: Callable[[Profile], None] | None = None,
    starter: Starter = start_fresh,
) -> Profile:
    """Run the script in a child process and measure it; the file on disk is not touched.

    ``on_partial`` receives the profile as soon as iterations are recorded. If more measurements follow, it receives it
    again after further iterations and after the curve; these take several times as long as the first measurements.
    ``starter`` starts the processes. Raises UsageError (no such file), ScriptFailed, CaptureImpossible, BudgetExceeded
    and Cancelled; in any case, no process is left behind.
    """

    def session(request: CaptureRequest, *notes: str) -> CaptureSession:
        launcher = ScriptLauncher(request, progress=progress, output=output, cancel=cancel, starter=starter)
        return CaptureSession(launcher, notes)

    def measured_within(request: CaptureRequest, *notes: str) -> Profile:
        try:
            return session(request, *notes).run(on_partial)
        except ScriptEnded as ended:
            if request.loop == "training" and request.ranks == 1 and ended.ended.only_evaluated:
                return measured_within(of_calls(request), _WITHOUT_TRAINING)
            # It ended before it was recorded: run it again, with fewer iterations before the recording.
            iterations = ended.ended.boundaries
            shorter = _shorter(request, iterations, timing=isinstance(ended, _EndedWhileTimed))
            if shorter is None:
                raise too_few(ended.ended, of=request.loop) from None
        few = f"The script ended after {iterations} iterations: few could be measured."
        found = measured_within(shorter, *((few,) if shorter.recorded == 1 else ()))
        asked = request.warmup is not None or shorter.warmup is None
        return found if asked else replace(found, warmup_reason="the script ends soon")

    return measured_within(of_calls(request) if request.loop == "inference" else request)


_CALLS = 100
"""Number of timed calls of a model, if there is time: the 99th percentile is the time of one call in 100."""
_WITHOUT_TRAINING = (
    "The script ended without a training step, so Skyline ran it again with each call of its model as an iteration; "
    "--inference does this immediately."
)


def of_calls(request: CaptureRequest) -> CaptureRequest:
    """The request for a script that does not train: its iterations are calls of its model."""
    return replace(request, loop="inference", steps=max(request.steps, _CALLS))


class _EndedWhileTimed(ScriptEnded):
    """A script on a device ended after the first timed iterations and before the recording."""


def _shorter(request: CaptureRequest, iterations: int, *, timing: bool) -> CaptureRequest | None:
    """The next request to try for a script with this many iterations; None if there is no other way."""
    if iterations < LEAST_ITERATIONS or request.recorded <= 1:
        return None
    if timing:
        return replace(request, times_first=False)
    steps = iterations - _SPARING_ITERATIONS if iterations > _SPARING_ITERATIONS else 1
    return replace(request, warmup=1, recorded=1, steps=steps, batch_points=0, times_first=False)


class CaptureSession:
    """The state of one capture."""

    def __init__(self, launcher: ScriptLauncher, notes: Sequence[str] = ()) -> None:
        self._launcher = launcher
        self._request = launcher.request
        self._notes = notes

    def run(self, on_partial: Callable[[Profile], None] | None) -> Profile:
        """Measure the profile; ``on_partial`` receives it once iterations are recorded, and when it becomes sharper.

        Once the script is recorded there is a profile: later failures only add a note.
        """
        late = StageFailures()

        def show(figures: str, made: Callable[[], Profile]) -> None:
            receive = on_partial
            if receive is not None:
                late.to(f"show the {figures} figures", lambda: receive(made()), None)

        def with_notes(run: ScriptRun) -> ScriptRun:
            return replace(run, notes=(*run.notes, *late.notes))

        with ExitStack() as stack:
            held = stack.enter_context(HeldRun(self._launcher, _PACE))
            held.launch(quiet=False)
            self._launcher.say("launch", f"starting {self._launcher.script.name}", 0.05)
            held.start()
            # The search for knobs runs while the script imports its libraries, which takes longer.
            base = self._measure_base(held, self._launcher.find_knobs())
            with held.at_rest():
                show("first", lambda: assemble(base.run, first=True))
                base = replace(base, run=with_page_copies(base.run))
            known = len(base.run.rows.rows)
            budget = TrialBudget(self._request.budget_s)
            step_s = base.run.rows.present_ms / 1e3
            run = self._measure_more(held, base, late, budget.for_iterations(self._request.settle_s, step_s))
            if run.failed:
                return assemble(with_notes(run))
            held.measured(run.rows.present_ms, run.recording, run.ended_after)
            sizes = BatchTrials(run)
            wanted = self._request.batch_points > 0 and budget.total_s > 0 and bool(ways(run))
            with_curve = wanted and run.rows.median_ms <= LONG_MS
            if wanted and not with_curve:
                sizes = BatchTrials(replace(run, notes=(*run.notes, _NO_CURVE)))
            if len(run.rows.rows) != known and (with_curve or self._tries_configs(run, budget)):
                with held.at_rest():
                    show("settled", lambda: assemble(with_notes(run)))
            if with_curve:
                sizes = late.to(
                    "measure other batch sizes",
                    lambda: measure_batch_sizes(
                        stack, self._launcher, held, run, budget, partial(configs_take_s, run)
                    ),
                    sizes,
                )
            if not self._tries_configs(sizes.run, budget):
                return assemble(with_notes(sizes.run), joined(sizes.trials))
            if sizes.trials:
                show("curve's", lambda: assemble(with_notes(sizes.run), joined(sizes.trials)))
            stage = "try layers with smaller factors"
            layers = late.to(stage, lambda: layers_of_run(held, sizes.run, budget), LayerTrials())
            configs = self._with_other_configs(held, sizes, budget, late)
            stage = f"{stage} on another number of threads"
            layers = late.to(stage, lambda: layers_on_threads(held, sizes.run, layers, budget), layers)
            return assemble(
                with_notes(sizes.run),
                joined((*sizes.trials, *configs.trials)),
                configs.products,
                layers,
                configs.failed,
            )

    @staticmethod
    def _tries_configs(run: ScriptRun, budget: TrialBudget) -> bool:
        return not run.recording.trace.sampled and configs_wanted(run) and budget.left_s > 0

    def _with_other_configs(
        self, held: HeldRun, sizes: BatchTrials, budget: TrialBudget, late: StageFailures
    ) -> ConfigTrials:
        """Trials of other threads and number formats, or of single products if whole iterations cannot be tried.

        They come last: the allocator may keep the memory they use, and place later blocks differently.
        """
        run = sizes.run
        failed: tuple[FailedTrial, ...] = ()
        self._launcher.say("try", "trying other threads and number formats", 0.95)
        if configs_harmless(run):
            stage = "try other threads and number formats"
            own = late.to(stage, lambda: config_trials(held, run, budget), ConfigTrials())
            if own.trials:
                elsewhere = late.to(
                    f"{stage} at other batch sizes",
                    lambda: config_trials_elsewhere(held, sizes.held, run, own.trials, budget),
                    (),
                )
                return replace(own, trials=(*own.trials, *elsewhere))
            failed = own.failed
        recording, environment = run.recording, run.facts.environment
        products = late.to(
            "try products in other number formats",
            lambda: held.compute(
                lambda child: product_trials(child, recording.trace, recording.modules, environment, budget)
            ),
            (),
        )
        return ConfigTrials(products=products, failed=failed)

    def _measure_base(self, held: HeldRun, knobs: KnobSearch) -> _Base:
        """The minimum for a profile: a few timed and a few recorded iterations."""
        request = self._request
        known = from_source(self._launcher.text, knobs)
        self._launcher.say("launch", f"starting {self._launcher.script.name}", 0.1, known)
        ready = held.await_ready(quiet=False)
        child = held.child
        self._launcher.say("measure", "timing iterations", 0.3)
        meter = LoadMeter(child)
        early = request.recorded > 1 and not _on_device(ready) and not _is_quick(BareRows([*ready.settled]))
        rows = (
            BareRows([*ready.settled]) if early else first_steps(child, request, held.typical_ms, ready.last)
        )
        first = from_first_iterations(known, knobs, ready, rows)
        self._launcher.say("measure", "timing iterations", 0.35, first)
        late = StageFailures()
        idle, power = None, None
        if _on_device(ready):
            idle, power = self._before_recording(child, ready, rows, late)
        self._launcher.say("record", "recording iterations", 0.4)
        lightly, full = iterations_to_record(request, rows)
        if not early:
            meter.pause()  # loader workers rest while an iteration is recorded
        recording = record(child, lightly, full=full, goes_on=early)
        meter.go_on()
        later = _Later(ended_after=recording.ended_after)
        if later.ended_after is None and not early:
            later = late.to(
                "time iterations after the recording",
                lambda: self._after_recording(child, ready, rows, recording),
                _FAILED,
            )
        run = ScriptRun(
            request=request,
            script=str(self._launcher.script),
            text=self._launcher.text,
            sources=self._launcher.sources,
            directory=str(self._launcher.directory),
            interpreter=self._launcher.interpreter,
            ready=ready,
            rows=rows,
            recording=recording,
            knobs=knobs,
            notes=(
                *self._notes,
                *child.notes,
                *notes_on_cutting(ready.facts),
                *later.notes,
                *late.notes,
            ),
            ended_after=later.ended_after,
            failed=later.failed,
            paired_ms=later.paired_ms,
            from_idle=idle,
            power=power,
            values=later.values,
            load=_load(meter, late),
            side_effects=child.side_effects(),
            protection=child.protection(),
            output_tail=child.output.tail_now(),
            redactor=child.redactor,
        )
        meter.pause()  # the first figures are computed meanwhile
        search = StageFailures()
        found = search.to("find the batch size of the run", run.with_batch, run)
        return _Base(replace(found, notes=(*found.notes, *search.notes)), meter, early)

    def _measure_more(
        self, held: HeldRun, base: _Base, late: StageFailures, budget: TrialBudget
    ) -> ScriptRun:
        """Add values of tensors, and iterations until their median is precise, within the budget."""
        run, meter = base.run, base.meter
        if run.failed or run.ended_after is not None:
            return run
        child = held.child
        self._launcher.say("measure", "timing more iterations", 0.45)
        meter.go_on()
        if base.early:
            meter = LoadMeter(child)
            stage = "time and record more iterations"
            failed = replace(run, failed=True)
            run = late.to(stage, lambda: self._timed_and_recorded(held, base.run, meter, budget), failed)
        later = _Later(ended_after=run.ended_after, failed=run.failed)
        if not run.failed and run.ended_after is None:
            later = late.to("time more iterations", lambda: self._more(child, run, budget), _FAILED)
        return replace(
            run,
            notes=(*run.notes, *later.notes),
            ended_after=later.ended_after,
            failed=later.failed,
            power=run.power or later.power,
            values=run.values or later.values,
            load=_load(meter, late) or run.load,
            side_effects=child.side_effects(),
            output_tail=child.output.tail_now(),
        )

    def _timed_and_recorded(
        self, held: HeldRun, run: ScriptRun, meter: LoadMeter, budget: TrialBudget
    ) -> ScriptRun:
        """The run with times of further bare and recorded iterations, which replace those of the first figures.

        If there is no time for the fewest, the first figures stay. Half of the time left is for recorded iterations. If
        one iteration is enough for the values, it comes first: a short script may end during the others.
        """
        child, request, early = held.child, self._request, run.rows
        step_s = early.present_ms / 1e3
        if step_s * 1e3 <= LONG_MS and not budget.fits((LEAST_STEPS + 1) * step_s):
            return run
        try:
            if not has_large_table(run.recording) and budget.fits(SLOWER * step_s):
                run = replace(run, values=self._values(child, run.ready, early, run.recording))
            rows = first_steps(child, request, held.typical_ms, run.ready.last, budget.left_s / 2)
            run = replace(run, rows=rows)
            lightly, _ = iterations_to_record(request, run.rows)
            step_s = run.rows.present_ms / 1e3
            affordable = budget.left_s / 2 / max(_RECORDING * step_s, 1e-6)
            if wanted := int(min(lightly, run.recording.readable, affordable)):
                meter.pause()
                recording = record_times(child, wanted)
                meter.go_on()
                run = replace(run, recording=recording, ended_after=recording.ended_after)
            if run.ended_after is None and budget.fits(step_s):
                paired_ms = beside_recording(child, request, run.rows, request.recorded, budget.left_s)
                run = replace(run, paired_ms=paired_ms)
            return run
        except ScriptEnded as ended:
            timed = BareRows([*ended.ended.rows[1:]])
            enough = run.rows is early and len(timed.rows) >= len(early.rows)
            return replace(run, rows=timed if enough else run.rows, ended_after=ended.ended.boundaries)

    def _before_recording(
        self, child: ChildProcess, ready: Ready, rows: BareRows, late: StageFailures
    ) -> tuple[BareTimes | None, PowerFact | None]:
        """Time further iterations on a device, added to ``rows``; returns iterations from idle, and the energy.

        They come before the recording, because the kernel recorder may stay attached to the process and slow down
        every later launch. Raises _EndedWhileTimed.
        """
        if not self._request.times_first:
            return None, None
        try:
            idle = from_idle(child, self._request, rows)
            settle(child, self._request, rows)
            power = late.to(
                "measure the energy", lambda: self._power(child, ready, rows), None, raising=(ScriptEnded,)
            )
        except ScriptEnded as ended:
            raise _EndedWhileTimed(ended.ended) from None
        return idle, power

    def _after_recording(
        self, child: ChildProcess, ready: Ready, rows: BareRows, recording: ChildRecording
    ) -> _Later:
        """Iterations right after the recorded ones, for comparison with them; on a CPU they are added to ``rows``.

        If iterations are quick, also values of their tensors, and enough iterations for a steady median.
        """
        recorded, later = self._request.recorded, _Later()
        try:
            if _on_device(ready):
                return _Later(paired_ms=beside_recording_on_device(child, recorded))
            later = _Later(paired_ms=beside_recording(child, self._request, rows, recorded))
            if _is_quick(rows):
                later = replace(later, values=self._values(child, ready, rows, recording))
                settle(child, self._request, rows, _FIRST_S)
            return later
        except ScriptEnded as ended:
            # There is enough for a profile; the curve will need a new run.
            return later.ended_with(ended.ended)

    def _more(self, child: ChildProcess, run: ScriptRun, budget: TrialBudget) -> _Later:
        """Results of further iterations; on a CPU the iterations are added to the rows of the run."""
        later, rows = _Later(), run.rows
        try:
            # This comes before the longest stage, during which a short script ends.
            if run.values is None and budget.fits(SLOWER * rows.present_ms / 1e3):
                later = replace(later, values=self._values(child, run.ready, rows, run.recording))
            if _on_device(run.ready):
                return later
            settle(child, self._request, rows, sum(rows.steps_ms) / 1e3 + budget.left_s)
            if not budget.fits(rows.present_ms / 1e3):
                return later
            return replace(later, power=self._power(child, run.ready, rows))
        except ScriptEnded as ended:
            return later.ended_with(ended.ended)

    def _values(
        self, child: ChildProcess, ready: Ready, rows: BareRows, recording: ChildRecording
    ) -> TensorValues | None:
        if ready.facts.model is not None:
            return None
        return tensor_values(child, self._request, recording, ready.facts.styles, rows.median_ms)

    def _power(self, child: ChildProcess, ready: Ready, rows: BareRows) -> PowerFact | None:
        device = ready.facts.environment.device
        counter = counter_of(device.kind, device.name, ready.facts.device_identities)
        if counter is None:
            return None
        self._launcher.say("measure", "measuring energy", 0.5)
        return measured(
            counter, rows.median_ms, self._request.settle_s, lambda count: len(run_bare(child, count))
        )


@dataclass(frozen=True, slots=True)
class _Later:
    """Results of the iterations after the recording; ``failed``: the run cannot be used any more."""

    paired_ms: tuple[float, ...] = ()
    power: PowerFact | None = None
    values: TensorValues | None = None
    ended_after: int | None = None
    failed: bool = False
    notes: tuple[str, ...] = ()

    def ended_with(self, ended: Ended) -> _Later:
        """These results for a script that ended meanwhile, with the values that were read until then."""
        if ended.values is None:
            return replace(self, ended_after=ended.boundaries)
        seen = plural(ended.values.iterations, "iteration")
        note = f"The script ended while Skyline read the values of its tensors: they come from {seen}."
        return replace(self, ended_after=ended.boundaries, values=ended.values, notes=(note,))


_FAILED = _Later(failed=True)


@dataclass(frozen=True, slots=True)
class _Base:
    """The script's own run after the first recording, and the meter of the machine's load."""

    run: ScriptRun
    meter: LoadMeter
    early: bool
    """True if its times come from the end of the warm-up, and its recording has only full iterations."""


def _is_quick(rows: BareRows) -> bool:
    return not rows.rows or rows.median_ms <= _QUICK_MS


def _on_device(ready: Ready) -> bool:
    return ready.facts.environment.device.kind != "cpu"


def _load(meter: LoadMeter, late: StageFailures) -> MachineLoad | None:
    return late.to("read how busy the machine is", meter.read, None)
