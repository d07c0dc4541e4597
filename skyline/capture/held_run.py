"""A run of a script that is warmed up once and then computes in turns, standing still between them."""

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
"""An iteration longer than this many turns is not dropped for being the first of its turn."""
WARMS_AGAIN_MS = 10.0
_MOST_SETTLING = 32
"""A turn runs so long, or for so many iterations, until these take what they take in a run that goes on
(``benchmarks/turn_starts.py``)."""
_LEAST_PER_TURN = 3
_RECORDED = 2
_TAKEN_BY_RECORDING = 4
"""Iterations that pass while the memory of two is recorded."""
_SHORT_RUN = 24
"""A script with no more iterations than this has a warm-up of one iteration."""
_ALONE_TURNS = 4
"""Factor on the length of a turn for which the script is started again."""

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class TurnPace:
    """The length of the turns of a run.

    A turn takes about ``turn_s``, at least ``least`` iterations (for a loader with several workers that many times the
    number of workers) and at most ``most``. A script that ends has iterations for ``turns_per_life`` turns, where
    they suffice, and is started again up to ``restarts`` times. A run that is ``stopped`` between its turns stands
    still with all of its processes, and each turn reads the load of other programs; that takes about a tenth of a
    second a turn. A run with loader workers stands still in any case.
    """

    turn_s: float = 0.7
    least: int = _LEAST_PER_TURN
    most: int = 240
    turns_per_life: int = 4
    restarts: int = 39
    stopped: bool = True


PACE = TurnPace()


class HeldRun:
    """One run of a script, started, warmed up and held; ``turn`` lets it compute for a moment.

    A script that comes to its end is started again for its next turn. Everything raises what ``capture`` raises.
    """

    def __init__(
        self,
        launcher: ScriptLauncher,
        pace: TurnPace = PACE,
        *,
        sized: SizedRun | None = None,
        total: int | None = None,
        in_full: bool = False,
    ) -> None:
        """``sized`` runs the script at another batch size; ``total`` is the number of its iterations, if known.

        ``in_full`` records operators and shapes too, where else memory alone is recorded.
        """
        self._launcher = launcher
        self._pace = pace
        self._turn_s = pace.turn_s
        self._sized = sized
        self._child: ChildProcess | None = None
        self._ready: Ready | None = None
        self._typical_ms = 0.0
        self._used = 0
        """Iterations of this life of the script."""
        self._total = total
        """Number of the script's iterations, if known."""
        self._lives = 0
        self._warmup = launcher.request.warmup
        self._in_full = in_full
        self.recording: ChildRecording | None = None
        """The full recording after the warm-up, if asked for; None where the run ended too soon."""
        self.peak_bytes: int | None = None
        """Peak of live tensor memory in an iteration; None where it ended too soon to be recorded."""
        self.room: DeviceRoom | None = None
        """The memory that it leaves of its device; None on a CPU, and where it ended too soon to be recorded."""
        self._sharing: Sharing = Sharing.TOGETHER
        self.cycle = 1
        """Over how many iterations a typical one is formed: see ``typical_ms``."""

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
        """Run the script until the end of its warm-up; returns before that."""
        self._lives += 1
        self._used = 0
        self._launcher.start(self.child, self._sized, warmup=self._warmup, may_start_again=True)

    def await_ready(self, *, quiet: bool = True) -> Ready:
        """Wait for the end of the warm-up; ``child`` may be another afterwards."""
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
        """Start from now on with iterations that begin and end as in that run."""
        self._launcher.cut_like(ready)

    def measured(self, typical_ms: float, recording: ChildRecording, total: int | None) -> None:
        """Take note of iterations that the caller had run; with ``total`` of them the script came to its end."""
        self._typical_ms, self._total = typical_ms, total
        self._recorded(recording)
        if total is not None:
            self.close()

    def warm_up(self) -> None:
        """Run until step times have settled, record the memory of two iterations, and stand still."""
        if self._child is None:
            self.launch()
        try:
            self._begin(recorded=True)
        except ScriptEnded as ended:
            if not self._pace.restarts:
                raise
            # The warm-up of a long run and the recording took all iterations: spend fewer on both.
            self._learn(ended)
            self._begin_again()
        self._rest()

    def share(self, sharing: Sharing) -> None:
        """Share the device in this way from now on, and free the memory that it does not allow."""
        if sharing is not self._sharing:
            self._sharing = sharing
            self._turn_s *= _ALONE_TURNS if sharing is Sharing.ALONE else 1
            self._rest()

    @property
    def typical_ms(self) -> float:
        """The typical iteration of the last turn, before that of the warm-up."""
        return self._typical_ms

    def turn(self) -> Turn | None:
        """Go on for a moment, or for two iterations at least, and stand still again."""
        if self._left() < 2:
            self.close()
        return self.compute(self._turn)

    def compute(self, work: Callable[[ChildProcess], _Result]) -> _Result:
        """Let the run go on for some work of its child; a script that ends within is started again for it.

        Where the work fails, the run is closed; the next work starts the script again.
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
        """Stand still meanwhile, with all processes where loader workers would go on."""
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

        Workers that went on would fill their queue: a short turn would find all of its batches there, however long
        they take to make, and other runs would share the cores with them.
        """
        ready = self._ready
        return self._pace.stopped or (
            ready is not None and any(loader.num_workers for loader in ready.facts.loaders)
        )

    def settling(self, timed: int) -> int:
        """Iterations at the beginning of a turn of ``timed`` others that do not count.

        Another run, or another execution config, had the caches and the threads. Where the script ends, the others
        come first.
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
            # Starting it again costs more than a longer turn brings.
            most = min(most, (self._total - self.ready.warmup) // self._pace.turns_per_life - 1)
        wanted = max(1, least * self.cycle, min(most, round(self._turn_s * 1e3 / step_ms)))
        return wanted if wanted < self.cycle else -(-wanted // self.cycle) * self.cycle

    def _left(self) -> int:
        """Iterations that this life of the script still has; very many where that is not known."""
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
                f"The script was started {self._lives} times and ended each time",
                hint="Give it more iterations or more data for the measurement.",
            )
        self.close()
        self.launch()
        try:
            self._begin(recorded=self.peak_bytes is None and self._left_for_recording())
        except ScriptEnded as ended:
            raise too_few(ended.ended) from None

    def _left_for_recording(self) -> bool:
        return self._total is not None and self._total > self._taken_by_recording + _LEAST_PER_TURN + 1

    @property
    def _taken_by_recording(self) -> int:
        """A full recording is followed by a light one."""
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
    """The median over groups of ``cycle`` iterations that follow each other, of their mean.

    With one loader worker, or none, that is the median iteration. Several workers deliver their batches in bursts:
    of ``n`` iterations one waits and the others find their batch there, and only their mean says how fast it goes.
    """
    whole = len(steps_ms) - len(steps_ms) % cycle
    if whole < cycle or whole == 0:
        return statistics.fmean(steps_ms)
    return statistics.median(
        statistics.fmean(steps_ms[index : index + cycle]) for index in range(0, whole, cycle)
    )
