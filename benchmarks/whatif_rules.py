"""Amdahl's law with a rule of thumb for each what-if: an estimate from the phases alone."""

from __future__ import annotations

from skyline.analysis.analyse import Analysis
from skyline.whatif.question import Choice

_RULES: dict[str, tuple[tuple[str, ...], float]] = {
    "fused_optimizer": (("optimizer",), 28 / 80),
    "zero_grad": (("optimizer",), 0.9),
    "sparse_embedding": (("optimizer",), 0.1),
    "num_workers": (("data",), 0.0),
    "persistent_workers": (("data",), 0.9),
    "prefetch_factor": (("data",), 0.9),
    "pin_memory": (("data",), 0.5),
    "amp": (("forward", "backward"), 0.5),
    "tf32": (("forward", "backward"), 0.5),
    "compile": (("forward", "backward"), 0.7),
    "cuda_graphs": (("forward", "backward"), 0.7),
    "channels_last": (("forward", "backward"), 0.8),
    "sdpa": (("forward", "backward"), 0.8),
    "cudnn_benchmark": (("forward", "backward"), 0.85),
    "checkpointing": (("forward",), 2.0),
    "inference_mode": (("forward",), 0.9),
    "remove_sync": (("other",), 0.0),
    "grad_accumulation": ((), 1.0),
    "pad_to_multiple": (("forward", "backward"), 1.0),
}
"""The phases affected by a change, and the remaining share of their time, from publications or data sheets."""


def rule_of_thumb(analysis: Analysis, choice: Choice) -> float:
    """The iteration time with the change over the iteration time without it."""
    total = analysis.baseline.iteration_ms.value
    if choice.name == "batch_size":
        return int(choice.value) / (analysis.profile.batch_size or int(choice.value))
    if choice.name == "cpu_threads":
        return analysis.profile.environment.intraop_threads / int(choice.value)
    phases, left = _RULES.get(choice.name, ((), 1.0))
    if choice.name == "prune":
        phases, left = ("forward", "backward"), (1 - float(choice.value.partition(":")[0])) ** 2
    worked_on = sum(getattr(analysis.phases, phase) for phase in phases) / total
    return 1 - worked_on * (1 - left)
