"""The definition of an iteration for a script; every profile states it, because scripts differ."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IterationFact:
    """The boundaries of a script's iteration, and its contents.

    ``meaning`` is a sentence for the user, such as ``one step of Adam (train.py line 40), with 4 backward passes
    (gradient accumulation)``. ``boundary`` is ``optimizer step`` or ``backward pass``. The counts are means over the
    measured iterations.
    """

    meaning: str
    boundary: str
    optimizer_steps: float
    backward_passes: float
    batches: float
    styles: tuple[str, ...] = ()
    """Recognised features: ``gradient accumulation``, ``closure``, ``GradScaler``, ``torch.compile``,
    ``DistributedDataParallel``, ``Hugging Face Trainer``, ``PyTorch Lightning``, ``several optimizers``, …"""
    rank: int = 0
    world_size: int = 1
