"""What one iteration is in a script, since scripts differ: said in every profile."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IterationFact:
    """How a script's iteration was cut, and what one contains.

    ``meaning`` is a sentence for the person, such as ``one step of Adam (train.py line 40), with 4 backward
    passes (gradient accumulation)``. ``boundary`` is ``optimizer step`` or ``backward pass``. The counts are
    means over the measured iterations.
    """

    meaning: str
    boundary: str
    optimizer_steps: float
    backward_passes: float
    batches: float
    styles: tuple[str, ...] = ()
    """What was recognised: ``gradient accumulation``, ``closure``, ``GradScaler``, ``torch.compile``,
    ``DistributedDataParallel``, ``Hugging Face Trainer``, ``PyTorch Lightning``, ``several optimizers``, …"""
    rank: int = 0
    world_size: int = 1
