"""Lookups of rows by one thread for each element."""

import pytest

from skyline.predict.gpus import gpu_named
from skyline_predictors.kernel_row import rowwise
from skyline_predictors.learned import lookup
from skyline_predictors.learned.fitting import START
from skyline_predictors.learned.machine import machine
from skyline_predictors.learned.predictor import LearnedPredictor
from skyline_predictors.node_operators import node_work
from skyline_predictors.operator_graph import GraphNode


def test_lookups_by_element_take_their_instructions():
    node = GraphNode(0, "wte", "EMBEDDING", 1.0, ((4, 1024),), (4, 1024, 1280), ())
    (shape,) = node_work(node, training=False).forward
    assert shape.operator == lookup.OPERATOR
    gpu = gpu_named("H100")
    (answer,) = LearnedPredictor().predict([shape], gpu)
    least = lookup.least_us(shape, machine(gpu, START.product.rates))
    assert answer.time_us.value == pytest.approx(least)
    assert answer.time_us.low < least < answer.time_us.high
    # Reading and writing at the memory's rate would take less than half of it.
    assert least > 2 * shape.bytes_moved / (gpu.bandwidth_gb_s * 1e3)
    assert lookup.least_us(rowwise("add", 4096, 1280), machine(gpu, START.product.rates)) == 0
