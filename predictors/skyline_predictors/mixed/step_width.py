"""The width of a step's interval: by its kind and layout, and by whether such steps were measured on its GPU."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import cache
from importlib.resources import files

import msgspec

from skyline.predict.gpu_spec import GpuSpec
from skyline.trace.record import OperatorShape
from skyline_predictors.mixed.call_kind import CONVOLUTIONS, call_kind, is_backward


class StepKind(str, Enum):
    """Kinds of steps whose errors differ."""

    TRAINING = "training"
    TRAINING_LAST = "training, channels last"
    INFERENCE = "inference"
    INFERENCE_LAST = "inference, channels last"
    COMPILED = "compiled inference"


class StepWidth(msgspec.Struct, frozen=True):
    """Factors on the kinds' standard deviations that give intervals with nine in ten measured steps inside.

    ``seen`` applies on the GPUs in ``gpus``, whose steps of this kind the constants were fitted on.
    ``unseen`` applies on all others.
    """

    seen: float
    unseen: float
    gpus: tuple[str, ...]


def step_kind(shapes: Iterable[OperatorShape]) -> StepKind:
    """The kind of the step that consists of these calls, in their order.

    The first convolution decides the layout of the images. Later ones may see another layout.
    """
    compiled = backward = False
    first: OperatorShape | None = None
    for shape in shapes:
        backward = backward or is_backward(shape)
        compiled = compiled or shape.operator.startswith("inductor::")
        if first is None and call_kind(shape) in CONVOLUTIONS:
            first = shape
    last = first is not None and first.layout == "channels last"
    if backward:
        return StepKind.TRAINING_LAST if last else StepKind.TRAINING
    if compiled:
        return StepKind.COMPILED
    return StepKind.INFERENCE_LAST if last else StepKind.INFERENCE


@cache
def step_widths() -> dict[StepKind, StepWidth]:
    """The factors that ``benchmarks/calibrate_mixed.py`` found."""
    text = files("skyline_predictors.mixed").joinpath("step_widths.json").read_bytes()
    return msgspec.json.decode(text, type=dict[StepKind, StepWidth])


def width_factor(shapes: Iterable[OperatorShape], device: GpuSpec) -> float:
    """The factor for the step that consists of these calls on a GPU."""
    width = step_widths()[step_kind(shapes)]
    return width.seen if device.name in width.gpus else width.unseen
