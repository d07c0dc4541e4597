"""A run of a script that is warmed up once and then computes in turns, and waits between them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from skyline.capture.bare import run_bare
from skyline.capture.batch_way import SizedRun
from skyline.capture.child_process import ChildProcess, ScriptEnded, VariablesRead
from skyline.capture.device_room import DeviceRoom, Sharing
from skyline.capture.ended_early import too_few
from skyline.capture.events import Ready
from skyline.capture.load_meter import LoadMeter
from skyline.capture.recording import ChildRecording, record
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.turns import Turn
from skyline.errors import CaptureImpossible
from skyline.lazy_dataclass import dataclass

_LONG_STEP_MS = 2_000.0
_LONG_TURNS = 4.0
"""If an iteration takes longer than this many turns, the first one of a turn is not dropped."""
WARMS_AGAIN_MS = 10.0
_MOST_SETTLING = 32
"""After this time, or this many iterations, iterations of a turn take as long as in a continuous run
(``benchmarks/turn_starts.py``)."""
_LEAST_PER_TURN = 3
_RECORDED = 2
_TAKEN_BY_RECORDING = 4
"""Iterations that run while the memory of two is recorded."""
_SHORT_RUN = 24
"""A script with no more iterations than this has a warm-up of one iteration."""
_ALONE_TURNS = 4
"""Factor on the length of a turn if the script is started again for each turn."""

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class TurnPace:
    """The length and number of the turns of a run.

    A turn takes about ``turn_s``, with at least ``least`` iterations (multiplied by the number of loader workers) and
    at most ``most``. The iterations of a script that ends are divided into ``turns_per_life`` turns, if they suffice,
    and it is started again up to ``restarts`` times. If ``stopped``, all processes of the run are stopped between
    its turns, and each turn reads the load of other programs; that takes about a tenth of a second per turn. A run
    with loader workers is stopped in any case.
    """

    turn_s: float = 0.7
    least: int = _LEAST_PER_TURN
    most: int = 240
    turns_per_life: int = 4
    restarts: int = 39
    stopped: bool = True


PACE = TurnPace()


class HeldRun:
    """One run of a script that is started, warmed up and held; ``turn`` lets it compute for a moment.

    A script that ends is started again for its next turn. All methods raise the same errors as ``capture``.
    """

    def __init__(
        self,
        launcher: ScriptLauncher,
        pace: TurnPace = PACE,
        *,
        sized: SizedRun | None = None,
        total: int | None = None,
        recorded: bool = True,
        in_full: bool = False,
    ) -> None:
        """``sized`` runs the script at another batch size; ``total`` is the number of its iterations, if known.

        Iterations are only ``recorded`` if asked for: operators and shapes too if ``in_full``, otherwise memory.
        """
        self._launcher = launcher
        self._pace = pace
        self._turn_s = pace.turn_s
        self._sized = sized
        self._child: ChildProcess | None = None
        self._ready: Ready | None = None
        self._typical_ms = 0.0
        self._used = 0
        """Iterations done since the script was last started."""
        self._total = total
        """Number of the script's iterations, if known."""
        self._lives = 0
        self._warmup = launcher.request.warmup
        self._with_recording, self._in_full = recorded, in_full
        self.recording: ChildRecording | None = None
        """The full recording after the warm-up, if requested; None if the run ended too soon."""
        self.peak_bytes: int | None = None
        """Peak of live tensor memory in an iteration; None if not recorded, or if the run ended too soon."""
        self.room: DeviceRoom | None = None
        """The memory that it leaves free on its device; None on a CPU, or if the run ended too soon."""
        self._sharing: Sharing = Sharing.TOGETHER
        self.cycle = 1
        """Number of consecutive iterations that are averaged: see ``typical_ms``."""

    def __enter__(self) -> HeldRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def ready(self) -> Ready:
        """The facts of the run at the end of its warm-up."""
        assert self._ready is not None
        return self._ready

    @property
    def lives(self) -> int:
        """Number of starts of the script."""
        return self._lives

    @property
    def child(self) -> ChildProcess:
        """The running process."""
        assert self._child is not None
        return self._child

    def launch(self, *, quiet: bool = True) -> None:
        """Start the process; a ``quiet`` one imports PyTorch in the meantime, and its output is not passed on."""
        self._child = self._launcher.launch(quiet=quiet)
        if quiet:
            self._child.send("prepare")

    def start(self) -> None:
        """Start the script, which runs until the end of its warm-up. Does not wait for that."""
        self._lives += 1
        self._used = 0
        self._launcher.start(self.child, self._sized, warmup=self._warmup, may_start_again=True)

    def await_ready(self, *, quiet: bool = True) -> Ready:
        """Wait for the end of the warm-up; ``child`` may be another process afterwards."""
        try:
            self._ready, step_ms = self._launcher.await_ready(self.child, quiet=quiet)
        except VariablesRead:
            self._launcher.plain = True
            self.close()
            self.launch(quiet=quiet)
            self.start()
            self._lives -= 1
            self._ready, step_ms = self._launcher.await_ready(self.child, quiet=quiet)
        self.cut_like(self._ready)
        self._used = self._ready.warmup + 1
        self._typical_ms = self._typical_ms or step_ms
        self.cycle = max([1, *(loader.num_workers for loader in self._ready.facts.loaders)])
        return self._ready

    def cut_like(self, ready: Ready) -> None:
        """Make later starts divide the run into iterations in the same way as that run."""
        self._launcher.cut_like(ready)

    def measured(self, typical_ms: float, recording: ChildRecording, total: int | None) -> None:
        """Take over results of iterations that the caller ran; the script ended if ``total`` is not None."""
        self._typical_ms, self._total = typical_ms, total
        self._recorded(recording)
        if total is not None:
            self.close()

    def warm_up(self) -> None:
        """Run until step times have settled, record the memory of two iterations, and rest."""
        if self._child is None:
            self.launch()
        try:
            self._begin(recorded=self._with_recording)
        except ScriptEnded as ended:
            if not self._pace.restarts:
                raise
            # A warm-up as for long runs and the recording used up all iterations: use fewer for both.
            self._learn(ended)
            self._begin_again()
        self._rest()

    def share(self, sharing: Sharing) -> None:
        """Share the device in this way from now on, and free memory accordingly."""
        if sharing is not self._sharing:
            self._sharing = sharing
            self._turn_s *= _ALONE_TURNS if sharing is Sharing.ALONE else 1
            self._rest()

    @property
    def typical_ms(self) -> float:
        """Time of a typical iteration in ms, from the last turn, or from the warm-up before the first turn."""
        return self._typical_ms

    def turn(self) -> Turn | None:
        """Compute for a moment, at least for two iterations, and rest again."""
        if self._left() < 2:
            self.close()
        return self.compute(self._turn)

    def compute(self, work: Callable[[ChildProcess], _Result]) -> _Result:
        """Wake the run for some work with its child; if the script ends meanwhile, it is started again for the work.

        If the work fails, the run is closed; the next work starts the script again.
        """
        while True:
            if self._child is None:
                self._begin_again()
            child = self.child
            if self._stands_still:
                child.go_on()
            try:
                result = work(child)
            except ScriptEnded as ended:
                self._learn(ended)
                self.close()
                continue
            except BaseException:
                self.close()
                raise
            self._rest()
            return result

    @contextmanager
    def at_rest(self) -> Generator[None]:
        """Rest meanwhile; all processes are stopped if loader workers would otherwise continue."""
        child = self._child if self._ready is not None and self._stands_still else None
        if child is not None:
            child.stop()
        try:
            yield
        finally:
            if child is not None:
                child.go_on()

    def close(self) -> None:
        """End the run and everything it started."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _rest(self) -> None:
        child = self._child
        if child is None or self._ready is None:
            return
        if self._sharing is Sharing.ALONE:
            self.close()
            return
        if self._sharing is Sharing.RELEASING:
            child.go_on()
            child.send("release")
            child.receive("released")
        if self._stands_still:
            child.stop()

    @property
    def _stands_still(self) -> bool:
        """True if all processes are stopped between turns.

        Workers that continued would fill their queue: a short turn would find all its batches there, however long
        they take to make, and the workers would take cores from other runs.
        """
        ready = self._ready
        return self._pace.stopped or (
            ready is not None and any(loader.num_workers for loader in ready.facts.loaders)
        )

    def settling(self, timed: int) -> int:
        """Iterations to drop at the beginning of a turn, before ``timed`` others.

        Before it, another run or execution config used the caches and the threads. If the script ends, the ``timed``
        iterations have priority.
        """
        wanted = min(_MOST_SETTLING, round(WARMS_AGAIN_MS / max(self._typical_ms, 0.01)))
        if self._total is not None:
            wanted = min(wanted, (self._total - self.ready.warmup) // self._pace.turns_per_life - timed)
        return max(1, wanted)

    def _turn(self, child: ChildProcess) -> Turn:
        iterations = max(1, min(self._per_turn(), self._left() - 1))
        is_long = iterations == 1 and self._typical_ms > _LONG_TURNS * 1e3 * self._turn_s
        dropped = 0 if is_long else max(1, min(self.settling(iterations), self._left() - iterations))
        meter = LoadMeter(child) if self._pace.stopped else None
        rows = run_bare(child, iterations + dropped)
        load = meter.read() if meter is not None else None
        self._used += len(rows)
        rows = rows[dropped:]
        self._typical_ms = typical_ms([row.step_ms for row in rows], self.cycle)
        return Turn(self._typical_ms, rows, load.others_cores if load is not None else 0.0)

    def _per_turn(self) -> int:
        step_ms = max(self._typical_ms, 0.01)
        least = min(self._pace.least, 2) if step_ms > _LONG_STEP_MS else self._pace.least
        most = self._pace.most
        if self._total is not None:
            # A restart costs more than a longer turn gains.
            most = min(most, (self._total - self.ready.warmup) // self._pace.turns_per_life - 1)
        wanted = max(1, least * self.cycle, min(most, round(self._turn_s * 1e3 / step_ms)))
        return wanted if wanted < self.cycle else -(-wanted // self.cycle) * self.cycle

    def _left(self) -> int:
        """Iterations until the script ends; a very large number if unknown."""
        return 1 << 30 if self._total is None else self._total - self._used

    def _learn(self, ended: ScriptEnded) -> None:
        self._total = ended.ended.boundaries
        if self._total <= _SHORT_RUN:
            self._warmup = 1
        if self._total < _LEAST_PER_TURN:
            raise too_few(ended.ended) from None

    def _begin_again(self) -> None:
        if self._lives > self._pace.restarts:
            raise CaptureImpossible(
                f"The script ended in each of its {self._lives} runs, before the measurement was complete",
                hint="Give it more iterations or more data for the measurement.",
            )
        self.close()
        self.launch()
        try:
            wanted = self._with_recording and self.peak_bytes is None
            self._begin(recorded=wanted and self._left_for_recording())
        except ScriptEnded as ended:
            raise too_few(ended.ended) from None

    def _left_for_recording(self) -> bool:
        return self._total is not None and self._total > self._taken_by_recording + _LEAST_PER_TURN + 1

    @property
    def _taken_by_recording(self) -> int:
        """Iterations of the recording; a full one takes twice as many, since a light one follows."""
        return _TAKEN_BY_RECORDING * (2 if self._in_full else 1)

    def _begin(self, *, recorded: bool) -> None:
        self.start()
        self.await_ready()
        if recorded:
            self._recorded(record(self.child, _RECORDED, with_stacks=self._in_full))
            self._used += self._taken_by_recording

    def _recorded(self, recording: ChildRecording) -> None:
        self.recording = recording if self._in_full else None
        self.peak_bytes = recording.peak_bytes
        if recording.device_memory is not None:
            fixed_bytes = recording.memory.total_bytes
            self.room = DeviceRoom.of(recording.device_memory, fixed_bytes, recording.peak_bytes)


def typical_ms(steps_ms: Sequence[float], cycle: int) -> float:
    """The median over groups of ``cycle`` consecutive iterations of the mean of each group, in ms.

    With one loader worker or none, it is the median iteration. ``n`` workers deliver their batches in bursts: one of
    ``n`` iterations waits and the others find their batch ready, so that only the mean shows the actual speed.
    """
    whole = len(steps_ms) - len(steps_ms) % cycle
    if whole < cycle or whole == 0:
        return statistics.fmean(steps_ms)
    return statistics.median(
        statistics.fmean(steps_ms[index : index + cycle]) for index in range(0, whole, cycle)
    )
