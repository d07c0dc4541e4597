"""GPUs that a script cannot distinguish by its queries: they share one trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from skyline.predict.gpu_spec import GpuSpec

_ANSWERS: dict[str, Callable[[GpuSpec], object]] = {
    "is_bf16_supported": lambda gpu: gpu.compute_capability[0] >= 8,
    "get_device_capability": lambda gpu: gpu.compute_capability,
    "get_arch_list": lambda gpu: gpu.compute_capability,
}
"""A GPU's answers to queries during tracing. For all other queries, such as its name, every GPU differs."""


def same_answers(asked: Iterable[str], one: GpuSpec, other: GpuSpec) -> bool:
    """True if both GPUs give equal answers to all queries in ``asked``."""
    return all(_answer(question, one) == _answer(question, other) for question in asked)


def _answer(question: str, gpu: GpuSpec) -> object:
    return _ANSWERS[question](gpu) if question in _ANSWERS else gpu
