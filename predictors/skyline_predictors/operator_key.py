"""By what the constants of an operator are looked up: its class and the format of its numbers."""

from __future__ import annotations

from skyline.predict.gpu_spec import GpuSpec
from skyline.trace.shape import OperatorShape
from skyline_predictors.number_format import MEASURED
from skyline_predictors.operator_class import OperatorClass, operator_class
from skyline_predictors.shape_reading import deciding_format

OperatorKey = tuple[OperatorClass, str]


def key_of(shape: OperatorShape, gpu: GpuSpec) -> OperatorKey:
    """The class of an operator, and the number format in which PyTorch's defaults have it computed."""
    kind, number_format = operator_class(shape.operator), deciding_format(shape)
    if kind is OperatorClass.CONVOLUTION and number_format == MEASURED and gpu.compute_capability >= (8, 0):
        # cuDNN's default, unlike that of matrix products.
        number_format = "tfloat32" if gpu.tflops_tf32 and gpu.vendor == "NVIDIA" else number_format
    return kind, number_format
