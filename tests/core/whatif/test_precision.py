"""Number formats: conclusions from names and settings, and the gain of products in each place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.errors import UsageError
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.trace.facts import Device, ModuleFact, TorchSettings
from skyline.trace.kineto.reader import read
from skyline.trace.record import OperatorShape, RecordKind
from skyline.whatif.base import Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models.channels_last import WHATIF as CHANNELS_LAST
from skyline.whatif.catalogue.models.cudnn_benchmark import WHATIF as BENCHMARK
from skyline.whatif.catalogue.numerics.amp import WHATIF as AMP
from skyline.whatif.catalogue.numerics.tf32 import WHATIF as TF32
from skyline.whatif.composition import compose
from skyline.whatif.number_formats import FLOAT32, factors, formats, kernel_format
from skyline.whatif.question import Choice
from skyline.whatif.recorded import recorded
from skyline.whatif.subject import Grain

F32 = ("float32",)
LARGE = OperatorShape(
    "aten::mm", ((4096, 4096), (4096, 4096)), F32 * 2, ((4096, 4096),), F32, 2 * 4096**3, 3 * 4 * 4096**2
)
SMALL = OperatorShape("aten::mm", ((8, 8), (8, 8)), ("float32",) * 2, ((8, 8),), ("float32",), 1024, 768)
IMAGE = (8, 64, 56, 56)
CONV = OperatorShape("aten::convolution", (IMAGE, (64, 64, 3, 3)), F32 * 2, (IMAGE,), F32, 10**9, 10**7)


def on(profile, name, shape=LARGE, kernel="aten::mm", **settings):
    """A profile whose kernels are all of one shape, on a GPU of that name."""
    records = tuple(
        replace(one, shape=0, name=kernel) if one.kind is RecordKind.KERNEL else one
        for one in profile.trace.records
    )
    return replace(
        profile,
        environment=replace(profile.environment, device=Device(name, "cuda")),
        trace=replace(profile.trace, records=records, shapes=(shape,)),
        settings=TorchSettings(**settings),
    )


def products(start):
    return select(start.operators, kind=TaskKind.KERNEL)


def changed_by(start, *names):
    composed = compose(start, [Choice.parse(name) for name in names])
    return composed, composed.scenario.graph.durations[products(start)] / start.operators.durations[
        products(start)
    ]


@pytest.mark.parametrize(
    ("name", "number_format"),
    [
        ("ampere_sgemm_128x64_tn", "float32"),
        ("volta_scudnn_128x32_relu_interior_nn_v1", "float32"),
        ("cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4", "tfloat32"),
        ("sm86_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw", "tfloat32"),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_tn", "bfloat16"),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "float16"),
        ("turing_h1688gemm_128x128_ldg8_stages_32x1_tn", "float16"),
        ("void cutlass::Kernel<cutlass_tensorop_f16_s1688dgrad_optimized_f16_128x128>", "float16"),
        ("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_NNT", "bfloat16"),
        ("nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", "float16"),
        ("nvjet_sss_128x128_32x6_2x1_v_bz_TNN", "tfloat32"),
    ],
)
def test_kernels_tell_their_format(name, number_format):
    assert kernel_format(name) == number_format


def test_a_large_product_gains_what_the_peaks_allow_and_a_small_one_nothing(gpu_profile):
    for shape, least, most in ((LARGE, 1 / 16, 0.3), (SMALL, 0.999, 1.0)):
        start = baseline(on(gpu_profile, "NVIDIA A100-SXM4-80GB", shape))
        found = factors(start, start.operators, products(start), "bfloat16")
        assert least <= found.likely.min() <= found.likely.max() <= most
        assert (found.least <= found.likely).all()
        assert (found.likely <= found.most).all()


def test_tf32_is_what_convolutions_use_and_products_do_not(gpu_profile):
    start = baseline(on(gpu_profile, "NVIDIA A100-SXM4-80GB", CONV, "aten::convolution"))
    assert set(formats(start, start.operators, products(start))) == {"tfloat32"}
    plain = baseline(on(gpu_profile, "NVIDIA A100-SXM4-80GB", CONV, "aten::convolution", cudnn_tf32=False))
    assert set(formats(plain, plain.operators, products(plain))) == {FLOAT32}
    assert TF32.detect(start).reason == "no matrix product ran on the GPU"


def test_tf32_scales_products(gpu_profile):
    start = baseline(on(gpu_profile, "NVIDIA A100-SXM4-80GB"))
    assert TF32.detect(start).applicable
    _, ratios = changed_by(start, "tf32")
    assert (ratios < 0.4).all()


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("Tesla V100-SXM2-16GB", {}, "came with compute capability 8.0"),
        ("NVIDIA A100-SXM4-80GB", {"matmul_precision": "high"}, "may use TF32 already"),
        ("An unknown GPU", {}, "the GPU is not known"),
        ("An unknown GPU", {"compute_capability": (7, 5)}, "came with compute capability 8.0"),
    ],
)
def test_tf32_where_it_is_of_no_use(gpu_profile, name, settings, reason):
    assert reason in TF32.detect(baseline(on(gpu_profile, name, **settings))).reason


def test_tf32_needs_a_gpu(profile):
    assert "nothing ran on one" in TF32.detect(baseline(profile)).reason


def test_products_narrowed_by_amp_gain_no_more(gpu_profile):
    start = baseline(on(gpu_profile, "NVIDIA A100-SXM4-80GB"))
    alone, apart = changed_by(start, "amp")
    both, together = changed_by(start, "amp", "tf32")
    assert (together == apart).all()
    assert not both.reason
    assert any("TF32 adds nothing" in one for one in both.scenario.assumptions)
    assert alone.scenario.product_format == "bfloat16"


def test_float16_waits_before_each_step(profile, gpu_profile):

    trace = gpu_profile.trace
    steps = [one for one in profile.trace.records if one.phase.value == "optimizer"]
    first = steps[0]
    records = list(trace.records)
    for mark in trace.iterations:
        records.append(
            replace(first, iteration=mark.index, start_us=mark.end_us - 1.0, duration_us=0.5, line=-1)
        )
    start = baseline(
        on(replace(gpu_profile, trace=replace(trace, records=tuple(records))), "NVIDIA A100-SXM4-80GB")
    )
    with_checks = compose(start, [Choice("amp", "fp16")]).scenario.graph
    without = compose(start, [Choice("amp", "bf16")]).scenario.graph
    assert len(with_checks) == len(without) + 2 * start.steps
    assert start.step_ms(with_checks) > start.step_ms(without)


def test_formats_of_the_hardware(profile, gpu_profile):
    assert AMP.detect(baseline(on(gpu_profile, "Tesla V100-SXM2-16GB"))).values == ("fp16",)
    assert AMP.detect(baseline(on(gpu_profile, "NVIDIA A100-SXM4-80GB"))).values == ("bf16", "fp16")
    assert "no units" in AMP.detect(baseline(on(gpu_profile, "Tesla P4"))).reason
    narrow = on(gpu_profile, "NVIDIA A100-SXM4-80GB", autocast="bfloat16")
    assert "16 bits already" in AMP.detect(baseline(narrow)).reason
    start = baseline(on(gpu_profile, "Tesla V100-SXM2-16GB"))
    with pytest.raises(UsageError, match="not possible here"):
        AMP.transform(Scenario.of(start, Grain.OPERATORS), "bf16", start)


def test_emulated_bfloat16_is_a_slowdown(profile):
    machine = replace(profile.environment, cpu_features=("avx2", "avx512f"))
    start = baseline(replace(profile, environment=machine))
    found = AMP.detect(start)
    assert found.applicable
    changed = AMP.transform(Scenario.of(start, Grain.OPERATORS), found.default, start)
    assert start.step_ms(changed.graph) > 1.3 * start.step_ms(start.operators)
    assert "emulates bf16" in changed.assumptions[0]


def test_cudnn_looks_for_its_algorithms_on_nvidia_only(profile, gpu_profile):
    convolutions = on(gpu_profile, "NVIDIA A100-SXM4-80GB", CONV, "aten::convolution")
    start = baseline(convolutions)
    assert BENCHMARK.detect(start).applicable
    assert changed_by(start, "cudnn_benchmark")[1] == pytest.approx(0.9)
    for settings, reason in (
        ({"cudnn_benchmark": True}, "on already"),
        ({"deterministic": True}, "deterministic"),
    ):
        assert (
            reason
            in BENCHMARK.detect(baseline(replace(convolutions, settings=TorchSettings(**settings)))).reason
        )
    assert "nothing ran on one" in BENCHMARK.detect(baseline(profile)).reason
    assert "no convolution" in BENCHMARK.detect(baseline(on(gpu_profile, "NVIDIA A100-SXM4-80GB"))).reason
    amd = on(gpu_profile, "AMD Instinct MI300X", CONV, "aten::convolution")
    assert "NVIDIA GPUs only" in BENCHMARK.detect(baseline(amd)).reason


def test_channels_last_on_matrix_units(gpu_profile):
    start = baseline(on(gpu_profile, "NVIDIA A100-SXM4-80GB", CONV, "aten::convolution"))
    assert CHANNELS_LAST.detect(start).applicable
    assert changed_by(start, "channels_last")[1] == pytest.approx(0.9)
    plain = baseline(on(gpu_profile, "Tesla V100-SXM2-16GB", CONV, "aten::convolution"))
    assert changed_by(plain, "channels_last")[1] == pytest.approx(1.0)


def test_layouts_that_are_there_already(gpu_profile):
    given = on(gpu_profile, "NVIDIA A100-SXM4-80GB", CONV, "aten::convolution")
    laid = ModuleFact("Net.conv", "Conv2d", True, 10, True, {"kernel_size": (3, 3)}, channels_last=True)
    small = ModuleFact("Net.one", "Conv2d", True, 10, True, {"kernel_size": (1, 1)}, channels_last=False)
    assert "already" in CHANNELS_LAST.detect(baseline(replace(given, modules=(laid, small)))).reason
    assert CHANNELS_LAST.detect(
        baseline(replace(given, modules=(replace(laid, channels_last=False), small)))
    ).applicable
    sound = replace(CONV, inputs=((8, 64, 400), (64, 64, 3)), outputs=((8, 64, 400),))
    other = baseline(on(gpu_profile, "NVIDIA A100-SXM4-80GB", sound, "aten::convolution"))
    assert "not over images" in CHANNELS_LAST.detect(other).reason
    assert (
        CHANNELS_LAST.detect(baseline(on(gpu_profile, "NVIDIA A100-SXM4-80GB"))).reason
        == "no convolution was recorded"
    )


def test_channels_last_on_a_cpu_gains_most_where_filters_see_one_channel(profile):
    dense = replace(CONV, inputs=(IMAGE, (64, 64, 3, 3)))
    apart = replace(CONV, inputs=(IMAGE, (64, 1, 3, 3)))
    factors_found = []
    for shape in (dense, apart):
        records = tuple(
            replace(one, name="aten::conv2d", shape=0) if one.name == "aten::linear" else one
            for one in profile.trace.records
        )
        start = baseline(replace(profile, trace=replace(profile.trace, records=records, shapes=(shape,))))
        convolution = select(start.operators, name="conv2d")
        changed = compose(start, [Choice("channels_last")]).scenario.graph
        factors_found.append((changed.durations / start.operators.durations.clip(1e-9))[convolution][0])
    assert factors_found == pytest.approx([0.88, 0.4])


def test_conversions_of_a_trace_go_with_their_launches(tmp_path):
    text = (Path(__file__).parents[2] / "data" / "tiny_gpu.trace.json").read_text(encoding="utf-8")
    text = text.replace("ampere_sgemm_128x64_tn", "sm80_xmma_fprop_implicit_gemm_tf32f32").replace(
        '"relu_kernel"', '"void cudnn::ops::nchwToNhwcKernel<float, float>"'
    )
    path = tmp_path / "images.json"
    path.write_text(json.dumps(json.loads(text)), encoding="utf-8")
    one = recorded(read(path))
    changed = compose(one, [Choice("channels_last")]).scenario
    conversions = select(one.graph, name="nchwToNhwc")
    assert len(conversions)
    assert changed.graph.durations[conversions].sum() == 0
    assert any("conversions between layouts" in text for text in changed.assumptions)


def test_convolutions_in_16_bits_convert_their_images_unless_these_lie_channels_last(gpu_profile):
    """Two images of 1.6 million numbers, each read and written in 16 bits, at 2,039 GB/s."""
    start = baseline(on(gpu_profile, "NVIDIA A100-SXM4-80GB", CONV, "aten::convolution"))
    alone = compose(start, [Choice("amp")]).scenario.graph.durations[products(start)]
    converts = [Choice("amp"), Choice("channels_last")]
    both = compose(start, converts).scenario.graph.durations[products(start)]
    images_us = 2 * 8 * 64 * 56 * 56 * 4 / 2.039e6
    # Convolutions on matrix units take 0.9 times as long in this layout.
    assert alone - both / 0.9 == pytest.approx(images_us, rel=0.01)
