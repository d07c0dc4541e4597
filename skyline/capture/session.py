"""One profiling from beginning to end: run, warm up, time, record, and the curve over batch sizes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import psutil

from skyline.attempt import Attempts
from skyline.capture.assemble import ScriptRun, assemble
from skyline.capture.bare import (
    BareRows,
    beside_recording,
    first_steps,
    iterations_to_record,
    run_bare,
    settle,
    slower_since,
)
from skyline.capture.batch_in_force import UNKNOWN, may_follow
from skyline.capture.batch_sizes import sizes_to_measure, tensor_bytes
from skyline.capture.batch_way import BatchWay, followed_by, ignored, loader_way, sized_run
from skyline.capture.child_process import ChildProcess, ScriptEnded
from skyline.capture.device_room import DeviceRoom, Sharing
from skyline.capture.ended_early import LEAST_ITERATIONS, too_few
from skyline.capture.events import Ready
from skyline.capture.known import from_first_iterations, from_source
from skyline.capture.load_meter import LoadMeter
from skyline.capture.power import counter_of, measured
from skyline.capture.process import Starter, start_fresh
from skyline.capture.recording import notes_on, record
from skyline.capture.request import CaptureRequest, OutputCallback, ProgressCallback
from skyline.capture.rounds import Contender, measure_by_itself, measure_in_rounds
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.trials import trials_wanted, with_trials
from skyline.errors import BudgetExceeded, ScriptFailed
from skyline.source.knob import Knob, KnobSearch
from skyline.trace.power import PowerFact
from skyline.trace.profile import BatchPoint, Profile

_LONGEST_POINT_STEP_MS = 6_000.0
_CURVE_BUDGET_S = 12.0
_SPARING_ITERATIONS = 4
"""One to warm up, one to drop after it, two to record; with four in all one is left to record."""
_SHARE_OF_FREE_MEMORY = 0.5
_MOST_LITERALS = 2
"""So many candidates are tried with other values."""


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

    ``on_partial`` receives the profile as soon as the script itself is measured, before the curve over batch
    sizes, which takes as long again; ``starter`` makes the processes. Raises UsageError (no such file),
    ScriptFailed, CaptureImpossible, BudgetExceeded and Cancelled; whatever happens, no process is left behind.
    """

    def session(request: CaptureRequest, *notes: str) -> CaptureSession:
        launcher = ScriptLauncher(request, progress=progress, output=output, cancel=cancel, starter=starter)
        return CaptureSession(launcher, notes)

    try:
        return session(request).run(on_partial)
    except ScriptEnded as ended:
        iterations = ended.ended.boundaries
        if iterations < LEAST_ITERATIONS:
            raise too_few(ended.ended) from None
        # It ended before it was recorded: run it again and spend its iterations sparingly.
        steps = iterations - _SPARING_ITERATIONS if iterations > _SPARING_ITERATIONS else 1
        short = replace(request, warmup=1, recorded=1, steps=steps, batch_points=0)
    note = f"The script ended after {iterations} iterations: few could be measured."
    try:
        return session(short, note).run(on_partial)
    except ScriptEnded as ended:
        raise too_few(ended.ended) from None


class CaptureSession:
    """The state of one profiling; lives for the length of ``capture``."""

    def __init__(self, launcher: ScriptLauncher, notes: Sequence[str] = ()) -> None:
        self._launcher = launcher
        self._request = launcher.request
        self._notes = notes

    def run(self, on_partial: Callable[[Profile], None] | None) -> Profile:
        """The profile, measured; ``on_partial`` gets it before the curve over batch sizes.

        Once the script itself is recorded there is a profile: what fails from then on costs a note.
        """
        with ExitStack() as stack:
            base = stack.enter_context(self._launcher.launch())
            self._launcher.say("launch", f"starting {self._launcher.script.name}", 0.05)
            self._launcher.start(base)
            # The script imports its libraries meanwhile, which takes longer.
            run = self._measure_base(base, self._launcher.find_knobs())
            profile = assemble(run, ())
            late = Attempts()
            if on_partial is not None:
                late.to("show the first figures", lambda: on_partial(profile), None)
            if run.failed:
                return replace(profile, notes=(*profile.notes, *late.notes))
            with_curve = self._request.batch_points > 0 and bool(_ways(run))
            points: tuple[BatchPoint, ...] = ()
            if with_curve:
                run, points = self._with_curve(stack, base, run, late)
            else:
                run = self._with_trials(stack, base, run, late)
            finished = assemble(replace(run, notes=(*run.notes, *late.notes)), points)
            # Without a curve it goes by the name under which it was shown.
            return finished if with_curve else replace(finished, id=profile.id)

    def _with_curve(
        self, stack: ExitStack, base: ChildProcess, run: ScriptRun, late: Attempts
    ) -> tuple[ScriptRun, tuple[BatchPoint, ...]]:
        """The curve over batch sizes, and what is tried in the runs that it takes."""

        def curve() -> tuple[ChildProcess, tuple[BatchPoint, ...], ScriptRun, list[Contender]]:
            child = base if run.ended_after is None else self._anew(stack)
            return child, *self._curve(stack, child, run)

        found = late.to("measure other batch sizes", curve, None, ended=ScriptEnded)
        if found is None:
            return run, ()
        child, points, run, others = found
        return self._with_trials(stack, child, run, late, others), points

    def _measure_base(self, child: ChildProcess, knobs: KnobSearch) -> ScriptRun:
        request = self._request
        known = from_source(self._launcher.text, knobs)
        self._launcher.say("launch", f"starting {self._launcher.script.name}", 0.1, known)
        ready, step_ms = self._launcher.await_ready(child)
        self._launcher.say("measure", "timing iterations", 0.3)

        def tell(rows: BareRows) -> None:
            first = from_first_iterations(known, knobs, ready, rows)
            self._launcher.say("measure", "timing iterations", 0.35, first)

        meter = LoadMeter(child)
        rows = first_steps(child, request, step_ms, tell)
        self._launcher.say("record", "recording iterations", 0.4)
        recording = record(child, iterations_to_record(request, rows), full=min(2, request.recorded))
        late = Attempts()
        later = _Later(ended_after=recording.ended_after)
        before = len(rows.rows)
        if later.ended_after is None:
            self._launcher.say("measure", "timing more iterations", 0.45)
            failed = _Later(failed=True)
            later = late.to("time more iterations", lambda: self._more(child, ready, rows), failed)
        on_device = ready.facts.environment.device.kind != "cpu"
        slower = slower_since(rows, before) if on_device else ()
        load = late.to("read how busy the machine is", meter.read, None)
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
                *notes_on(recording, ready.facts.environment.device.kind),
                *slower,
                *late.notes,
            ),
            ended_after=later.ended_after,
            failed=later.failed,
            paired_ms=later.paired_ms,
            power=later.power,
            load=load,
            side_effects=child.side_effects(),
            protection=child.protection(),
            output_tail=child.output.tail_now(),
            redactor=child.redactor,
        )
        search = Attempts()
        found = search.to("find the batch size of the run", run.with_batch, run)
        return replace(found, notes=(*found.notes, *search.notes))

    def _more(self, child: ChildProcess, ready: Ready, rows: BareRows) -> _Later:
        """Further iterations, added to ``rows``, and what they show."""
        paired: tuple[float, ...] = ()
        try:
            on_device = ready.facts.environment.device.kind != "cpu"
            paired = beside_recording(child, self._request, rows, self._request.recorded, on_device=on_device)
            settle(child, self._request, rows)
            return _Later(paired, self._power(child, ready, rows))
        except ScriptEnded as ended:
            # It had enough for a profile; the curve will need a fresh run.
            return _Later(paired, ended_after=ended.ended.boundaries)

    def _anew(self, stack: ExitStack) -> ChildProcess:
        """Another run of the script as it stands, warmed up."""
        child = stack.enter_context(self._launcher.launch(quiet=True))
        self._launcher.start(child)
        self._launcher.await_ready(child, quiet=True)
        return child

    def _with_trials(
        self,
        stack: ExitStack,
        child: ChildProcess,
        run: ScriptRun,
        late: Attempts,
        others: Sequence[Contender] = (),
    ) -> ScriptRun:
        """Last of all: what is tried takes memory, which the allocator may keep and share out in other ways then."""
        if not trials_wanted(run):
            return run
        self._launcher.say("try", "trying other threads and number formats", 0.95)
        return with_trials(run, child, others, late, anew=lambda: self._anew(stack))

    def _power(self, child: ChildProcess, ready: Ready, rows: BareRows) -> PowerFact | None:
        device = ready.facts.environment.device
        counter = counter_of(device.kind, device.name, ready.facts.device_identities)
        if counter is None:
            return None
        self._launcher.say("measure", "measuring energy", 0.5)
        return measured(
            counter, rows.median_ms, self._request.settle_s, lambda count: len(run_bare(child, count))
        )

    def _curve(
        self, stack: ExitStack, base: ChildProcess, run: ScriptRun
    ) -> tuple[tuple[BatchPoint, ...], ScriptRun, list[Contender]]:
        """Measure the curve in the first way that the run follows, whose other runs stay as they are.

        The run comes back with what that showed: which literal sets its batch size, or that none does.
        """
        failed: list[str] = []
        refused: list[str] = []
        for way in _ways(run):
            notes: list[str] = []
            size = way.value if isinstance(way, Knob) else run.batch_size
            assert size is not None
            points: list[BatchPoint] = []
            reference = self._reference(base, run, size)
            others = self._contenders(stack, way, reference, run, notes, points)
            if others is None:
                (refused if isinstance(way, Knob) else failed).append(ignored(way))
                continue
            if not others and not points and not isinstance(way, Knob):
                # It could not run so: what is set elsewhere as well may go along in another way.
                failed += notes
                continue
            if others or not points:
                self._launcher.say("curve", "measuring in turns", 0.75)
                points += measure_in_rounds(reference, others, _CURVE_BUDGET_S)
            own = BatchPoint(size, run.rows.times(), (1.0, 1.0), reference.peak_bytes, run.leading)
            if isinstance(way, Knob):
                found = replace(run.in_force, size=size, knobs=(way,))
                run = replace(run, in_force=found, knobs=run.knobs.preferring((way,)))
            else:
                run = _without_literal(run, refused)
            run = replace(run, notes=(*run.notes, *refused, *notes))
            return tuple(sorted((*points, own), key=lambda point: point.batch_size)), run, others
        if refused and not run.in_force.sure:
            run = replace(run, in_force=UNKNOWN)
        return (), replace(_without_literal(run, refused), notes=(*run.notes, *refused, *failed)), []

    def _reference(self, base: ChildProcess, run: ScriptRun, size: int) -> Contender:
        left = run.iterations_left(size)
        return Contender(size, base, run.rows.median_ms, run.recording.peak_bytes, run.leading, left)

    def _contenders(
        self,
        stack: ExitStack,
        way: BatchWay,
        base: Contender,
        run: ScriptRun,
        notes: list[str],
        points: list[BatchPoint],
    ) -> list[Contender] | None:
        """Runs at other batch sizes, warmed up and held; None if the run's batch does not follow.

        Where they do not all fit on the device they are there one at a time: none is left then, and what was measured
        is in ``points``.
        """
        recording, count = run.recording, self._request.batch_points
        fixed_bytes, peak_bytes = recording.memory.total_bytes, recording.peak_bytes
        on_device = recording.device_memory
        room = None if on_device is None else DeviceRoom.of(on_device, fixed_bytes, peak_bytes)
        host_bytes = int(psutil.virtual_memory().available * _SHARE_OF_FREE_MEMORY / max(1, count))
        sizes = sizes_to_measure(
            base.batch_size,
            count,
            step_ms=run.rows.median_ms,
            longest_step_ms=_LONGEST_POINT_STEP_MS,
            fixed_bytes=fixed_bytes,
            peak_bytes=peak_bytes,
            free_bytes=host_bytes if room is None else room.tensor_bytes,
            dataset_size=run.dataset_size,
        )
        self._launcher.say("curve", f"starting at batch sizes {', '.join(map(str, sizes))}", 0.6)
        peaks = {size: tensor_bytes(size, base.batch_size, fixed_bytes, peak_bytes) for size in sizes}
        if room is not None and sizes and room.sharing(list(peaks.values())) is not Sharing.TOGETHER:
            # The ones for which the run has to go come last.
            order = sorted(sizes, key=lambda size: room.sharing([peaks[size]]) is Sharing.ALONE)
            for number, size in enumerate(order):
                alone = room.sharing([peaks[size]]) is Sharing.ALONE
                if not self._one_beside(way, base, size, run, notes, points, alone=alone, among=len(order)):
                    # A literal that the first does not follow none of them would.
                    return None if number == 0 else []
            return []
        # They import torch side by side but warm up one by one: computing together, with more threads than
        # cores, they would spend their time waiting for each other.
        children = [(size, stack.enter_context(self._launcher.launch(quiet=True))) for size in sizes]
        for _, child in children:
            child.send("prepare")
        contenders: list[Contender] = []
        for size, child in children:
            contender = self._contender(child, way, base.batch_size, size, run, notes)
            if contender is None:
                return _closed(children)
            if contender.alive:
                contenders.append(contender)
        return contenders

    def _one_beside(
        self,
        way: BatchWay,
        base: Contender,
        size: int,
        run: ScriptRun,
        notes: list[str],
        points: list[BatchPoint],
        *,
        alone: bool,
        among: int,
    ) -> bool:
        """Measure at one batch size, in turns with the run or after it; whether the batch followed."""
        if alone:
            base.child.close()
        else:
            base.releases = True
            base.release()
        with self._launcher.launch(quiet=True) as child:
            child.send("prepare")
            one = self._contender(child, way, base.batch_size, size, run, notes)
            if one is None:
                return False
            if one.alive and alone:
                points += measure_by_itself(one, run.rows.median_ms)
            elif one.alive:
                one.releases = True
                one.release()
                self._launcher.say("curve", f"measuring batch size {size} in turns", 0.75)
                points += measure_in_rounds(base, [one], _CURVE_BUDGET_S / among)
        return True

    def _contender(
        self, child: ChildProcess, way: BatchWay, own: int, size: int, run: ScriptRun, notes: list[str]
    ) -> Contender | None:
        """A run at one batch size, warmed up and held; not alive where it could not run so, None if it ignores it."""
        contender = Contender(size, child, 0.0, 0, (), run.iterations_left(size))
        try:
            sized = sized_run(way, size, self._request.arguments, self._launcher.sources)
            if sized is None:
                return None
            self._launcher.start(child, sized)
            ready, contender.typical_ms = self._launcher.await_ready(child, quiet=True)
            facts = ready.facts
            if not followed_by(way, own, size, run.facts, run.in_force.loader, facts):
                return None
            contender.peak_bytes = record(child, 2, with_stacks=False).peak_bytes
            contender.leading = facts.batch_sizes_seen
        except ScriptEnded as ended:
            child.close()
            contender.alive = False
            notes.append(
                f"Batch size {size} was left out: the script ended after {ended.ended.boundaries} iterations."
            )
        except (ScriptFailed, BudgetExceeded) as failure:
            child.close()
            contender.alive = False
            notes.append(f"Batch size {size} was left out: {failure.message}.")
        return contender


@dataclass(frozen=True, slots=True)
class _Later:
    """What the iterations after the recording show; ``failed``: the run is of no use any more."""

    paired_ms: tuple[float, ...] = ()
    power: PowerFact | None = None
    ended_after: int | None = None
    failed: bool = False


def _closed(children: Sequence[tuple[int, ChildProcess]]) -> None:
    for _, child in children:
        child.close()


def _ways(run: ScriptRun) -> Sequence[BatchWay]:
    """How other batch sizes may be brought about: by a literal, by the loader itself, by a file of settings."""
    found = run.in_force
    if found.size is None:
        # A multiple proves nothing yet, but the run may be seen to follow.
        return [knob for knob in run.knobs.candidates if may_follow(knob, run.facts)][:_MOST_LITERALS]
    loader = loader_way(found.loader)
    return [*found.knobs[:_MOST_LITERALS], *([loader] if loader else []), *found.places[:1]]


def _without_literal(run: ScriptRun, refused: Sequence[str]) -> ScriptRun:
    """A literal that the run does not follow must not be rewritten as if it were the batch size."""
    return replace(run, knobs=replace(run.knobs, refusal=" ".join(refused))) if refused else run
