"""The stated shape of a case has to be the one that PyTorch makes of it."""

import sys
from itertools import islice
from pathlib import Path

import pytest

import skyline.calibrate
from skyline.calibrate.case_order import ordered_cases
from skyline.calibrate.designs import HOST, TRAINING, designs
from skyline_predictors.calibrated.family import family_of, features
from skyline_predictors.calibrated.measured_shape import shape_of

WHOLE_STEPS = ("adam_loop", "adam_foreach", "adam_fused")
NO_OPERATORS = (*HOST, *TRAINING)
CASES = {
    case.op: case
    for case in islice(ordered_cases(("fp32",), (0,), designs("cpu")), 400)
    # PyTorch counts a convolution in groups as if every channel met every other on the way back.
    if case.op not in NO_OPERATORS and dict(case.sizes).get("groups", 1) == 1
}


@pytest.fixture(scope="module")
def call_of():
    folder = Path(skyline.calibrate.__file__).parent / "child"
    sys.path.insert(0, str(folder))
    try:
        from operators import call_of as found
    finally:
        sys.path.remove(str(folder))
    return found


@pytest.mark.parametrize("op", sorted(set(CASES) - {*WHOLE_STEPS, "foreach"}))
def test_outputs_are_those_of_pytorch(call_of, op):
    torch = pytest.importorskip("torch")
    case = CASES[op]
    shape = shape_of(case)
    assert shape is not None
    made = call_of(op, dict(case.sizes), "fp32", "meta")()
    tensors = [one for one in (made if isinstance(made, tuple) else (made,)) if isinstance(one, torch.Tensor)]
    found = {tuple(one.shape) for one in tensors}
    if op == "conv_bwd":
        assert set(shape.outputs) == found
    else:
        assert shape.outputs[0] in found


@pytest.mark.parametrize("op", ["linear", "mm", "mm_t", "bmm", "conv", "conv_bwd"])
def test_arithmetic_is_counted_as_pytorch_counts_it(call_of, op):
    counter = pytest.importorskip("torch.utils.flop_counter")
    shape = shape_of(CASES[op])
    assert shape is not None
    call = call_of(op, dict(CASES[op].sizes), "fp32", "meta")
    with counter.FlopCounterMode(display=False) as counted:
        call()
    assert shape.flops == counted.get_total_flops()


@pytest.mark.parametrize("op", sorted(set(CASES) - {*WHOLE_STEPS}))
def test_every_case_speaks_for_a_family(op):
    shape = shape_of(CASES[op])
    assert shape is not None
    family = family_of(shape)
    assert family is not None
    assert all(size >= 0 for size in features(family, shape))


def test_a_whole_optimizer_step_is_no_operator():
    assert all(shape_of(CASES[op]) is None for op in WHOLE_STEPS)
