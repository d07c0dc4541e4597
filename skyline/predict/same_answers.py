"""Which GPUs a script cannot tell apart by what it asks them: they share one tracing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from skyline.predict.gpu_spec import GpuSpec

_ANSWERS: dict[str, Callable[[GpuSpec], object]] = {
    "is_bf16_supported": lambda gpu: gpu.compute_capability[0] >= 8,
    "get_device_capability": lambda gpu: gpu.compute_capability,
    "get_arch_list": lambda gpu: gpu.compute_capability,
}
"""What a GPU answers to a question as it is traced. To every other, such as its name, each has its own answer."""


def same_answers(asked: Iterable[str], one: GpuSpec, other: GpuSpec) -> bool:
    """Whether a script that asks for all of ``asked`` hears the same from both."""
    return all(_answer(question, one) == _answer(question, other) for question in asked)


def _answer(question: str, gpu: GpuSpec) -> object:
    return _ANSWERS[question](gpu) if question in _ANSWERS else gpu
