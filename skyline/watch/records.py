"""The records that a watched run sends, each a line of JSON; times in seconds, memory in bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from skyline.trace.record import CodeLine


class Start(msgspec.Struct, frozen=True, tag="start", tag_field="kind"):
    """The first iteration of a process has ended."""

    process: int
    rank: int = 0
    world: int = 1
    torch: str = ""
    script: str = ""


class Line(msgspec.Struct, frozen=True, tag="line", tag_field="kind"):
    """The line of a ``site``: step, backward, loader, validation or save."""

    site: str
    file: str
    line: int
    function: str = ""


class Window(msgspec.Struct, frozen=True, tag="window", tag_field="kind"):
    """The iterations of a fraction of a second; ``iteration`` is the last of them.

    ``at_s`` is the time since the first iteration. ``wait_s`` is the time in which the loop waited for its
    loaders, ``own_s`` the time until backward passes began, ``watching_s`` the time of the hooks since the
    start. ``processor_s`` is the processor time of the training thread, ``delayed_s`` the time in which that
    thread was ready but had no processor; None if unknown. ``idle_s`` is the part of one iteration in which
    the device had no work before the batch arrived; None if unknown. ``earlier``: one of the first windows,
    sent again to a later watcher.
    """

    iteration: int
    iterations: int
    seconds: float
    typical_s: float
    at_s: float = 0.0
    wait_s: float = 0.0
    longest_wait_s: float = 0.0
    fetches: int = 0
    own_s: float = 0.0
    processor_s: float | None = None
    delayed_s: float | None = None
    loss: float | None = None
    largest_loss: float | None = None
    idle_s: float | None = None
    optimizers: int = 1
    watching_s: float = 0.0
    device: str = ""
    allocated_bytes: int = 0
    free_bytes: int | None = None
    total_bytes: int | None = None
    earlier: bool = False

    @property
    def iteration_s(self) -> float:
        """Mean time of an iteration."""
        return self.seconds / self.iterations


class ParameterRow(msgspec.Struct, frozen=True):
    """A trained parameter; ``line`` is where its module was made."""

    name: str
    dimensions: int = 2
    elements: int = 1
    line: CodeLine | None = None


class Parameters(msgspec.Struct, frozen=True, tag="parameters", tag_field="kind"):
    """Further rows of the table of parameters, to which samples refer by number."""

    rows: tuple[ParameterRow, ...]


class Sample(msgspec.Struct, frozen=True, tag="sample", tag_field="kind"):
    """Statistics of the tensors of one iteration.

    ``gradients`` are norms by parameter, ``missing`` parameters without a gradient, ``updates`` the norms of
    change, weights and gradient over a part of a parameter. ``activations`` are the kind, the parameter of
    the layer before (-1: unknown) and the share of dead units or flat outputs. ``clipped`` is the norm before
    the script's own clipping.
    """

    iteration: int
    gradients: tuple[tuple[int, float], ...] = ()
    missing: tuple[int, ...] = ()
    updates: tuple[tuple[int, float, float, float], ...] = ()
    activations: tuple[tuple[str, int, float], ...] = ()
    clipped: float | None = None
    targets: tuple[int, ...] = ()
    classes: int = 0
    weighted: bool = False

    @property
    def gradient_norm(self) -> float | None:
        """The norm of all gradients, before clipping if the script clips."""
        if self.clipped is not None:
            return self.clipped
        return sum(norm * norm for _, norm in self.gradients) ** 0.5 if self.gradients else None


class Validation(msgspec.Struct, frozen=True, tag="validation", tag_field="kind"):
    """The mean loss of ``batches`` calls of a loss function without gradients, after ``iteration``."""

    iteration: int
    loss: float
    batches: int = 1


class Save(msgspec.Struct, frozen=True, tag="save", tag_field="kind"):
    """A call of ``torch.save``."""

    iteration: int
    seconds: float
    path: str = ""


class Output(msgspec.Struct, frozen=True, tag="output", tag_field="kind"):
    """A line that the script wrote, starting at the mark of a benchmark's logger, after ``iteration``."""

    iteration: int
    text: str


class Checkpoint(msgspec.Struct, frozen=True, tag="checkpoint", tag_field="kind"):
    """The checkpoint before a stop; ``problem`` is the reason if it could not be written."""

    iteration: int
    path: str = ""
    problem: str = ""


class Moment(msgspec.Struct, frozen=True, tag="moment", tag_field="kind"):
    """A trace of some iterations was written."""

    path: str


class Failed(msgspec.Struct, frozen=True, tag="failed", tag_field="kind"):
    """A hook failed, and watching ended; the run goes on."""

    problem: str


Record = (
    Start | Line | Window | Parameters | Sample | Validation | Save | Output | Checkpoint | Moment | Failed
)


def parsed(line: bytes) -> Record:
    """One record. Uses Python's own JSON reader, since a loss may be NaN. Raises ValueError for anything else."""
    content: Any = json.loads(line)
    return msgspec.convert(content, Record)
