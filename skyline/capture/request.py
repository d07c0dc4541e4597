"""The parameters of a capture, and reports of its progress."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass

MOST_PROCESSES = 512
"""Largest number of processes that a run may have."""


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """The parameters to profile one script once.

    ``interpreter`` None means that it is searched for. ``steps`` is the minimum number of bare iterations to
    time; more follow until their spread is small or ``settle_s`` is spent. ``recorded`` is the number of
    iterations to record. ``batch_points`` is the number of further batch sizes to measure for the curve.
    ``timeout_s`` limits every wait for the script's next iteration, ``memory_limit_bytes`` the resident
    memory of the script and its workers (None: nine tenths of the free memory), ``scratch_limit_bytes`` the
    files that it writes (None: half of the free disk space, 20 GB at most), ``process_limit`` its processes.
    ``side_effects`` is ``redirect`` (written files go to a scratch folder, trackers are off) or ``allow``
    (everything happens as without Skyline). ``warmup`` None means: until the step times have settled.
    ``module`` is the dotted name under which the script is run, as with ``python -m``. ``evaluation``: ``run``
    executes every forward pass of an evaluation before or between the first steps, ``replay`` only the first
    two of each kind. ``ranks`` is the number of processes that train together: the others are started
    with the measured one. ``budget_s`` is the time from the first figures to the end, for further iterations
    and for trials of other batch sizes, threads and number formats; 0: no trials. ``gpu`` names a GPU for which
    the profile is predicted; empty: the profile is measured here. ``gpu_memory_bytes`` replaces the memory of
    that GPU. ``variables`` are added to the environment of the script. ``trials``: True tries other numbers of
    threads and number formats on a CPU at the end, False does not; None: only if a curve is requested.
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
    process_limit: int = MOST_PROCESSES
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
    """Hosts that the script may reach; ``loopback``: only this machine, as far as Python's own calls are concerned."""
    longest_step_s: float | None = 8.0
    """An optimizer step that takes longer and has several backward passes is measured pass by pass; None: never."""
    source_overrides: tuple[tuple[str, str], ...] = ()
    """(path, text) pairs: run this text in place of the file, as for an editor's unsaved buffer.

    A Python source is run with this text; any other file is read with it.
    """
    times_first: bool = True
    """On a GPU, time all bare iterations before the recording. False: only the fewest, for scripts that end early."""
    loader_batch: LoaderBatch | None = None
    """Another batch size for the loaders created on one line."""


@dataclass(frozen=True, slots=True)
class Known:
    """Facts known during a run; the figures of the later profile may differ a little.

    Before the first timed iterations, all facts come from the source, and ``iteration_ms`` is None.
    """

    batch_size: int | None
    loop_line: int | None
    iteration_ms: Interval | None = None
    throughput: Interval | None = None
    """Samples per second."""
    script_s: float | None = None
    """Run time of the script until its first timed iteration."""
    files: tuple[str, ...] = ()
    """Real paths of the user's modules that the script has imported."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a capture: ``stage`` is its name (launch, warm up, measure, record, curve, analyse).

    ``known`` is set in two reports only: at the launch, and with the first times.
    """

    stage: str
    message: str
    fraction: float
    known: Known | None = None


ProgressCallback = Callable[[Progress], None]
OutputCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LoaderBatch:
    """Loaders created on this line with a batch size of ``size`` get ``wanted`` instead."""

    file: str
    line: int
    size: int
    wanted: int
