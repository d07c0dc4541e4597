"""Pooling in generated code: which kind each operator is, and the factors of kinds and layouts."""

import pytest

from skyline.trace.record import OperatorShape
from skyline.whatif.catalogue.host.pooling import POOLING, PoolingKind, pooling_kinds

IMAGES = OperatorShape("aten::max_pool2d", ((8, 16, 28, 28),), ("float32",))
LAST = OperatorShape("aten::max_pool2d", ((8, 16, 28, 28),), ("float32",), layout="channels last")
FORWARD = ["aten::batch_norm", "aten::relu", "aten::max_pool2d"]
BACKWARD = ["MaxPool2DWithIndicesBackward0", "ReluBackward0", "NativeBatchNormBackward0"]


def _factors(names, calls=None, *, backward=False, channels_last=False):
    kinds = pooling_kinds(names, calls or [IMAGES] * len(names))
    return POOLING.likely.of(kinds, backward=backward, channels_last=channels_last).tolist()


def test_pooling_behind_a_norm_takes_many_channels_at_a_time():
    assert _factors(FORWARD) == [1.0, 1.0, pytest.approx(0.1)]


def test_a_comparison_that_is_kept_makes_pooling_slow():
    kept, plain = _factors(["aten::relu", "aten::max_pool2d"])[1], _factors(["aten::max_pool2d"])[0]
    assert kept > 1 > plain


def test_a_rectifier_behind_the_pooling_keeps_none():
    assert _factors(["aten::max_pool2d", "aten::relu"])[0] == _factors(["aten::max_pool2d"])[0]


def test_backwards_the_order_is_the_other_way_round():
    with_norm = _factors(BACKWARD, backward=True)[0]
    assert _factors(BACKWARD[:2], backward=True)[0] > with_norm > 1
    # The ReLU stands before the pooling in the list, and so behind it in the model.
    assert _factors(["ReluBackward0", "MaxPool2DWithIndicesBackward0"], backward=True)[1] == with_norm


def test_images_that_lie_channels_last_gain_nothing_forwards():
    recorded = _factors(FORWARD, [LAST] * 3)[2]
    assert recorded == _factors(FORWARD, channels_last=True)[2] > _factors(FORWARD)[2]
    assert _factors(["aten::relu", "aten::max_pool2d"], channels_last=True)[1] > recorded


def test_other_operators_have_no_kind():
    assert pooling_kinds(["aten::relu", "aten::avg_pool2d"], [None, None]).tolist() == [PoolingKind.NONE] * 2


@pytest.mark.parametrize("backward", [False, True])
def test_the_likely_factors_lie_in_the_range(backward):
    ends = [
        getattr(one, "backward" if backward else "forward")
        for one in (POOLING.least, POOLING.likely, POOLING.most)
    ]
    assert all(low <= likely <= high for low, likely, high in zip(*ends, strict=True))
