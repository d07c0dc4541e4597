from __future__ import annotations

import numpy as np
import pytest

from skyline.graph.graph import Cause, CyclicGraph, Dependency
from skyline.graph.replication import stitch
from skyline.graph.task import WorkClass, work_class
from skyline.simulate.engine import simulate

LAUNCH = Cause.LAUNCH


def test_graphs_that_differ_in_times_share_their_structure(chain):
    graph = chain(("main", 10), ("main", 20), gaps={0: 4})
    other = graph.with_times(durations=[1, 2])
    assert other.durations.tolist() == [1, 2]
    assert other.gaps is graph.gaps
    assert other.structure is graph.structure


def test_columns_cannot_be_written_to(chain):
    graph = chain(("main", 10), ("gpu", 20), waits=(Dependency(0, 1, LAUNCH),))
    for column in (graph.durations, graph.gaps, graph.tasks.kind, graph.structure.dependencies.lag_us):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_a_writable_array_of_the_callers_is_not_locked(chain):
    durations = np.array([1.0])
    chain(("main", 10)).with_times(durations=durations)
    durations[0] = 2.0


def test_times_of_another_length_are_an_error(chain):
    with pytest.raises(ValueError, match="2 gaps for 1 tasks"):
        chain(("main", 10)).with_times(gaps=[1, 2])


def test_dependencies_against_the_lane_order_are_an_error(chain):
    graph = chain(("main", 1), ("main", 1), waits=(Dependency(1, 0, LAUNCH),))
    with pytest.raises(CyclicGraph, match="t0 on main"):
        _ = graph.structure.order


def test_stitch_repeats_whole_iterations(chain):
    graph = chain(("main", 10), ("gpu", 4), waits=(Dependency(0, 1, LAUNCH),))
    stitched = stitch(graph, 3)
    assert stitched.iterations == (0, 1, 2)
    assert simulate(stitched).ends[5] == 34


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::addmm", WorkClass.MATMUL),
        ("AddmmBackward0", WorkClass.MATMUL),
        ("aten::linear", WorkClass.MATMUL),
        ("ampere_sgemm_128x64_nn", WorkClass.MATMUL),
        ("ConvolutionBackward0", WorkClass.CONVOLUTION),
        ("aten::scaled_dot_product_attention", WorkClass.ATTENTION),
        ("aten::relu", WorkClass.OTHER),
        ("aten::add_", WorkClass.OTHER),
        ("GroupedMmBackward0", WorkClass.MATMUL),
        ("aten::_scaled_mm", WorkClass.MATMUL),
        ("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_NNT", WorkClass.MATMUL),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7", WorkClass.ATTENTION),
        (
            "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float>",
            WorkClass.OTHER,
        ),
        ("multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>", WorkClass.OTHER),
        ("aten::upsample_bilinear2d", WorkClass.OTHER),
        ("triton_poi_fused_addmm_relu_0", WorkClass.OTHER),
        ("triton_tem_fused_mm_0", WorkClass.MATMUL),
        ("aten::lgamma", WorkClass.OTHER),
        ("aten::cummax", WorkClass.OTHER),
    ],
)
def test_work_is_classed_by_name(name, expected):
    assert work_class(name) is expected
