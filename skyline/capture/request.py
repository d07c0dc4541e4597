"""What to run and measure, and how far to go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """One profiling of one script.

    ``interpreter`` None means the one that runs this code. ``steps`` is the number of bare iterations to
    time at least; more follow until their spread is small or ``settle_s`` is spent. ``recorded`` iterations
    are then recorded in full. ``batch_points`` is how many further batch sizes to measure for the curve.
    ``timeout_s`` bounds every wait for the script's next iteration, ``memory_limit_bytes`` the resident
    memory of the script and its workers (None: nine tenths of what is free), ``scratch_limit_bytes`` the files
    that it writes (None: half of the room there is, 20 GB at most), ``process_limit`` its processes.
    ``side_effects`` is ``redirect`` (what it writes goes to a scratch folder, trackers are off) or ``allow``
    (everything happens as without Skyline). ``warmup`` None means: until the
    step times have settled. ``module`` is the dotted name under which the script is to be run, as by
    ``python -m``. ``evaluation`` says whether a forward pass that the script repeats for an evaluation before
    or between its first steps is run each time. ``ranks`` is how many processes train together: the others
    are started together with the measured one. ``budget_s`` is the time from the first figures to the end: for further
    iterations, and trials of other batch sizes, threads and number formats; 0: no trials. ``gpu`` names the GPU that
    the profile is predicted for instead of being measured; empty: it is measured here. ``gpu_memory_bytes`` takes the
    place of that GPU's memory. ``variables`` are added to the environment of the script. ``trials`` says whether, last
    of all, other numbers of threads and number formats are tried on a CPU; None: where a curve is asked for.
    """

    script: Path
    arguments: tuple[str, ...] = ()
    interpreter: str | None = None
    working_directory: Path | None = None
    device: str = "auto"
    warmup: int | None = None
    steps: int = 8
    settle_s: float = 4.0
    recorded: int = 3
    batch_points: int = 3
    timeout_s: float = 180.0
    memory_limit_bytes: int | None = None
    scratch_limit_bytes: int | None = None
    process_limit: int = 512
    side_effects: Literal["redirect", "allow"] = "redirect"
    module: str = ""
    evaluation: Literal["run", "replay"] = "replay"
    loop: Literal["training", "inference"] = "training"
    """The work of an iteration: a training step, or a call of the model in a script that does not train."""
    ranks: int = 1
    gpu: str = ""
    gpu_memory_bytes: int | None = None
    variables: tuple[tuple[str, str], ...] = ()
    trials: bool | None = None
    budget_s: float = 20.0
    network: Literal["open", "loopback"] = "open"
    """Hosts that the script may reach; ``loopback``: this machine alone, as far as Python's own calls are concerned."""
    longest_step_s: float | None = 8.0
    """An optimizer step with several backward passes that takes longer is measured pass by pass; None: never."""
    source_overrides: tuple[tuple[str, str], ...] = ()
    """(path, text) pairs: run this text in place of the file, as for an editor's unsaved buffer.

    A Python source is run so, any other file is read so.
    """
    times_first: bool = True
    """On a GPU, time all bare iterations before the recording. False: the fewest, as the script would end meanwhile."""
    loader_batch: LoaderBatch | None = None
    """Loaders made on one line come up with another batch size."""


@dataclass(frozen=True, slots=True)
class Known:
    """Facts known during a run; the figures of the later profile may differ a little.

    Before the first timed iterations all of it comes from the source, and ``iteration_ms`` is None.
    """

    batch_size: int | None
    loop_line: int | None
    iteration_ms: Interval | None = None
    throughput: Interval | None = None
    """Samples per second."""
    script_s: float | None = None
    """Run time of the script until its first timed iteration."""
    files: tuple[str, ...] = ()
    """Real paths of the person's modules that the script has imported."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a capture: ``stage`` is a word (launch, warm up, measure, record, curve, analyse).

    ``known`` comes with the two events at which there is news: at the launch, and with the first times.
    """

    stage: str
    message: str
    fraction: float
    known: Known | None = None


ProgressCallback = Callable[[Progress], None]
OutputCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LoaderBatch:
    """Loaders that are made on this line with a batch size of ``size`` get ``wanted`` in its place."""

    file: str
    line: int
    size: int
    wanted: int
