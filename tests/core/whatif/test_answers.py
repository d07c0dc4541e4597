"""Each answer about two made-up scripts: a change of a cost model shows in the differences of these tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from skyline.analysis.estimate import answer
from skyline.errors import SkylineError
from skyline.interval import Interval
from skyline.trace.facts import (
    CallFact,
    Device,
    LoaderFact,
    MemoryFact,
    ModuleFact,
    OptimizerFact,
    ParallelFact,
    TorchSettings,
)
from skyline.trace.profile import Prediction, Profile
from skyline.trace.record import (
    Allocation,
    BareTimes,
    CodeLine,
    IterationMark,
    OperatorShape,
    Phase,
    Record,
    RecordKind,
    Trace,
)
from skyline.trace.trial import ProductTrial, TriedTimes
from skyline.whatif.baseline import baseline
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs
from skyline.whatif.subject import Subject

GOLDEN = Path(__file__).parent / "golden"
MB = 1_000_000
F, B, S = Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER
IMAGE, TOKENS, WORDS = (16, 64, 28, 28), (16, 128, 512), (16, 128, 30_001)
PAIRS, HEADS, TURNED = (16, 8, 128, 128), (16, 8, 128, 64), (16, 8, 64, 128)
TABLE, WEIGHT, HEAD = (30_001, 512), (512, 512), (30_001, 512)
# Operator, kernel, phase, µs, module, sizes of the inputs and of the result, arithmetic.
WORK = [
    ("aten::embedding", "indexSelectLargeIndex", F, 300, "table", (TABLE, (16, 128)), TOKENS, 0),
    ("aten::conv2d", "cudnn_fprop_sgemm", F, 1500, "conv", (IMAGE, (64, 64, 3, 3)), IMAGE, 924_844_032),
    ("aten::batch_norm", "batch_norm_fwd", F, 250, "norm", (IMAGE, (64,)), IMAGE, 0),
    ("aten::relu", "relu_kernel", F, 200, "act", (IMAGE,), IMAGE, 0),
]  # fmt: skip
for block in ("blocks.0", "blocks.1"):
    WORK += [
        ("aten::linear", "ampere_sgemm_64x64", F, 700, f"{block}.fc", (TOKENS, WEIGHT), TOKENS, 1_073_741_824),
        ("aten::matmul", "ampere_sgemm_bmm", F, 300, block, (HEADS, TURNED), PAIRS, 268_435_456),
        ("aten::mul", "mul_kernel", F, 90, block, (PAIRS,), PAIRS, 0),
        ("aten::softmax", "softmax_warp_forward", F, 120, block, (PAIRS,), PAIRS, 0),
        ("aten::matmul", "ampere_sgemm_bmm", F, 300, block, (PAIRS, HEADS), HEADS, 268_435_456),
        ("aten::gelu", "gelu_kernel", F, 150, block, (TOKENS,), TOKENS, 0),
        ("aten::add", "add_kernel", F, 6, block, ((512,), (512,)), (512,), 0),
        ("aten::dropout", "dropout_kernel", F, 5, block, ((512,),), (512,), 0),
    ]  # fmt: skip
ATTENTION = (HEADS,) * 3
WORK += [
    ("aten::scaled_dot_product_attention", "flash_fwd", F, 260, "blocks.1", ATTENTION, HEADS, 536_870_912),
    ("aten::linear", "ampere_sgemm_128x128", F, 4000, "head", (TOKENS, HEAD), WORDS, 62_916_657_152),
    ("aten::log_softmax", "softmax_forward", F, 900, "", (WORDS,), WORDS, 0),
    ("ScaledDotProductFlashAttentionForCpuBackward0", "flash_bwd", B, 610, "blocks.1", ATTENTION, HEADS, 0),
    ("AddmmBackward0", "ampere_sgemm_128x128", B, 8000, "head", (WORDS,), TOKENS, 125_833_314_304),
]  # fmt: skip
for block in ("blocks.1", "blocks.0"):
    WORK += [
        ("AddBackward0", "add_kernel", B, 6, block, ((512,),), (512,), 0),
        ("GeluBackward0", "gelu_backward", B, 160, block, (TOKENS,), TOKENS, 0),
        ("BmmBackward0", "ampere_sgemm_bmm", B, 600, block, (HEADS,), PAIRS, 536_870_912),
        ("SoftmaxBackward0", "softmax_warp_backward", B, 200, block, (PAIRS,), PAIRS, 0),
        ("MulBackward0", "mul_kernel", B, 90, block, (PAIRS,), PAIRS, 0),
        ("BmmBackward0", "ampere_sgemm_bmm", B, 600, block, (PAIRS,), HEADS, 536_870_912),
        ("AddmmBackward0", "ampere_sgemm_64x64", B, 1400, f"{block}.fc", (TOKENS,), TOKENS, 2_147_483_648),
    ]  # fmt: skip
WORK += [
    ("ReluBackward0", "threshold_backward", B, 200, "act", (IMAGE,), IMAGE, 0),
    ("NativeBatchNormBackward0", "batch_norm_bwd", B, 500, "norm", (IMAGE,), IMAGE, 0),
    ("ConvolutionBackward0", "cudnn_dgrad_sgemm", B, 3000, "conv", (IMAGE,), IMAGE, 1_849_688_064),
    ("EmbeddingBackward0", "embedding_backward", B, 900, "table", (TOKENS,), TABLE, 0),
    ("torch::autograd::AccumulateGrad", "add_kernel", B, 400, "table", (TABLE,), TABLE, 0),
    ("torch::autograd::AccumulateGrad", "add_kernel", B, 8, "conv", ((64, 64, 3, 3),), (64, 64, 3, 3), 0),
    ("aten::zero_", "fill_kernel", S, 150, "", (TABLE,), TABLE, 0),
    *[("aten::add_", "add_kernel", S, 4, "", ((1,),), (1,), 0)] * 12,
    *[("aten::mul_", "mul_kernel", S, 300, "", (one,), one, 0) for one in (TABLE, HEAD, WEIGHT, WEIGHT)],
    *[("aten::lerp_", "lerp_kernel", S, 500, "", (one, one), one, 0) for one in (TABLE, HEAD, WEIGHT, WEIGHT)],
    *[("aten::addcdiv_", "addcdiv", S, 700, "", (one,) * 3, one, 0) for one in (TABLE, HEAD, WEIGHT, WEIGHT)],
]  # fmt: skip
ROOT, WRAPPER = "Net", "DistributedDataParallel"
NAMES = (
    "",
    ".table",
    ".conv",
    ".norm",
    ".act",
    ".blocks.0",
    ".blocks.0.fc",
    ".blocks.1",
    ".blocks.1.fc",
    ".head",
)
SYNC, LAUNCH = "cudaStreamSynchronize", "cudaLaunchKernel"


def module(
    path: str, kind: str, count: int = 0, kept_mb: int = 0, library: bool = True, **options
) -> ModuleFact:
    return ModuleFact(path, kind, library, count, True, options, kept_bytes=kept_mb * MB)


def modules(root: str) -> tuple[ModuleFact, ...]:
    return (
        module(root, "Net", library=False, kept_mb=400),
        module(f"{root}.table", "Embedding", prod(TABLE), num_embeddings=30_001, embedding_dim=512, sparse=False),
        module(f"{root}.conv", "Conv2d", 36_928, 13, in_channels=64, out_channels=64, kernel_size=(3, 3)),
        module(f"{root}.norm", "BatchNorm2d", 128, 13, num_features=64),
        module(f"{root}.act", "ReLU", 0, 13),
        replace(module(f"{root}.blocks", "ModuleList"), calls_per_iteration=0.0),
        *(module(f"{root}.blocks.{n}", "Block", kept_mb=90, library=False) for n in (0, 1)),
        *(
            module(f"{root}.blocks.{n}.fc", "Linear", prod(WEIGHT), 4, in_features=512, out_features=512)
            for n in (0, 1)
        ),
        module(f"{root}.head", "Linear", prod(HEAD), 4, in_features=512, out_features=30_001),
    )  # fmt: skip


class Writer:
    """Two iterations of the work, on a CPU, or launched to a GPU; of replicas where there is a wrapper."""

    def __init__(self, on_gpu: bool, wrapped: bool) -> None:
        self.root = f"{WRAPPER}.module" if wrapped else ROOT
        self.modules = tuple(f"{self.root}{name}" for name in NAMES) + ((WRAPPER,) if wrapped else ())
        self.on_gpu, self.wrapped = on_gpu, wrapped
        self.records: list[Record] = []
        self.marks: list[IterationMark] = []
        self.now = self.free = 0.0
        rows = dict.fromkeys(
            (name, inputs, result, flops) for name, _, _, _, _, inputs, result, flops in WORK
        )
        self.shapes = tuple(map(shape_of, rows))
        self.rows = list(rows)
        for index in range(2):
            self.iteration(index)

    def add(self, name, kind, phase, took, **given) -> None:
        lane, start = given.pop("lane", "main"), given.pop("start", self.now)
        self.records.append(Record(name, kind, phase, lane, len(self.marks), start, took, **given))
        if lane == "main":
            self.now += took

    def iteration(self, index: int) -> None:
        begin = self.now
        self.add("next", RecordKind.DATA, Phase.DATA, 2000.0, line=0)
        if self.on_gpu:
            self.launch("Memcpy HtoD (Pageable -> Device)", Phase.DATA, 400.0, RecordKind.COPY)
        for name, kernel, phase, took, where, *rest in WORK:
            place = self.modules.index(f"{self.root}.{where}" if where else self.root)
            known = {"module": place, "shape": self.rows.index((name, *rest)), "line": 1}
            if self.on_gpu:
                self.add(name, RecordKind.OPERATOR, phase, 15.0, **known)
                self.launch(kernel, phase, took / 2, RecordKind.KERNEL, **known)
            else:
                self.add(name, RecordKind.OPERATOR, phase, float(took), **known)
            self.add("python", RecordKind.PYTHON, phase, 40.0, module=place)
            if name.endswith("Backward0") and where in ("head", "table") and self.wrapped and self.on_gpu:
                self.launch("ncclDevKernel_AllReduce_Sum_f32", Phase.COMMUNICATION, 800.0, RecordKind.KERNEL)
        if self.wrapped and not self.on_gpu:
            self.add("python", RecordKind.PYTHON, B, 6000.0)
            copy = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
            self.add(copy, RecordKind.OPERATOR, B, 900.0)
            self.add("python", RecordKind.PYTHON, F, 300.0, module=len(self.modules) - 1)
        wait = max(0.0, self.free - self.now) + 8.0
        self.add(SYNC if self.on_gpu else "python", RecordKind.RUNTIME if self.on_gpu else RecordKind.PYTHON,
                 Phase.OTHER, wait, line=2)  # fmt: skip
        self.marks.append(IterationMark(index, begin, self.now))

    def launch(self, name: str, phase: Phase, took: float, kind: RecordKind, **known) -> None:
        number = len(self.records) + 1
        start = max(self.free, self.now + 5.0)
        self.add(LAUNCH, RecordKind.RUNTIME, phase, 5.0, correlation=number, line=1)
        self.free = start + took
        self.add(name, kind, phase, took, lane="stream 7", start=start, correlation=number, **known)

    def trace(self) -> Trace:
        last = self.marks[-1].start_us
        kept = [(0.1, 90, 1), (0.15, 90, 2), (0.2, 200, 3), (0.6, -200, 3), (0.7, -90, 2), (0.75, -90, 1)]
        length = self.marks[-1].end_us - last
        events = tuple(
            Allocation(last + part * length, size * MB, at, F if size > 0 else B, 1)
            for part, size, at in kept
        )
        lines = tuple(CodeLine("/project/train.py", number, "train") for number in (4, 5, 8))
        return Trace(tuple(self.marks), lines, self.modules, tuple(self.records), events, self.shapes)


def shape_of(row) -> OperatorShape:
    name, inputs, result, flops = row
    formats = ("float32", "int64") if "embedding" in name else ("float32",) * len(inputs)
    moved = 4 * sum(map(prod, (*inputs, result)))
    return OperatorShape(name, inputs, formats, (result,), ("float32",), flops, moved)


def script(profile: Profile, device: Device, **changes) -> Profile:
    on_gpu, wrapped = device.kind == "cuda", changes.get("parallel") is not None
    written = Writer(on_gpu, wrapped)
    step = written.marks[-1].end_us / 2e3
    parts = [sum(one.duration_us for one in written.records if one.phase is phase and one.lane == "main") / 2e3
             for phase in (Phase.DATA, B, S)]  # fmt: skip
    tried = TriedTimes(700.0, 420.0, 1150.0, 600.0), TriedTimes(1400.0, 900.0, 2400.0, 1300.0)
    calls = (
        CallFact("zero_grad", 1.0, None, {"set_to_none": False}),
        CallFact("item", 1.0, CodeLine("/project/train.py", 8), {"device": device.kind}),
        CallFact("to", 1.0, None, {"device": "cpu", "copies": True, "non_blocking": False}),
    )
    made = replace(
        profile,
        environment=replace(profile.environment, device=device, cpu_count=8, intraop_threads=2,
                            cpu_features=("avx512_bf16",), memory_capacity_bytes=16_000 * MB),
        trace=written.trace(),
        times=BareTimes((step,) * 9, (parts[0],) * 9, (parts[1],) * 9, (parts[2],) * 9),
        memory=MemoryFact(126 * MB, 126 * MB, 252 * MB, 10 * MB),
        peak_bytes=900 * MB,
        modules=modules(written.root),
        calls=calls,
        settings=TorchSettings("highest", False, False, False, "", (8, 0) if on_gpu else None),
        loaders=(LoaderFact(16, 0, 10_000, 1.0),),
        optimizers=(OptimizerFact("Adam", 1, 8, 32_000_000, 252 * MB, {"foreach": False}),),
        trials=tuple(
            replace(one, peak_bytes=peak * MB) for one, peak in zip(profile.trials, (760, 1200), strict=True)
        ),
        product_trials=(ProductTrial("aten::linear", (TOKENS, WEIGHT), "bfloat16", *tried, prod(TOKENS),
                                     1_073_741_824, 2, 1),),
    )  # fmt: skip
    return replace(made, **changes)


PREDICTED = Prediction("H100", "roofline", "figures", Interval.exact(10.0), 0.0)
CPU, GPU = Device("Test CPU", "cpu"), Device("NVIDIA A100-SXM4-80GB", "cuda")
REPLICAS = ParallelFact(WRAPPER, "gloo", 4, 25.0, False, False, False, gradient_bytes=126 * MB)
EVALUATION = {"grad_enabled": True, "training": False, "module": ROOT, "inference_mode": False}
OTHER = {
    "loaders": (LoaderFact(16, 2, 10_000, 1.0, prefetch_factor=2),),
    "optimizers": (OptimizerFact("SGD", 1, 8, 32_000_000, 0, {}),),
    "settings": TorchSettings("high", True, True, False, "", (8, 0)),
    "calls": (CallFact("eval forward", 1.0, None, EVALUATION),),
}
"""Of a script with workers and plain SGD, which evaluates in each iteration."""
SCRIPTS = {
    "cpu": (CPU, {}),
    "cpu_sgd": (CPU, OTHER),
    "gpu": (GPU, {}),
    "replicas": (CPU, {"parallel": replace(REPLICAS, find_unused_parameters=True), **OTHER}),
    "gpu_replicas": (GPU, {"parallel": replace(REPLICAS, backend="nccl"), **OTHER}),
}
RANKS = {"data_parallel": "4", "fuse_jobs": "4", "tick_tock": "0.5", "topk": "0.01:4"}
"""Values of what-ifs that offer none; ``p3`` takes seconds."""


def questions(subject: Subject) -> Iterator[tuple[Choice, ...]]:
    """Each what-if at each value that it offers, with a larger batch, and with other products."""
    for name, whatif in whatifs().items():
        found = whatif.detect(subject)
        usual = found.default or RANKS.get(name, "")
        for value in found.values or (usual,):
            yield (Choice(name, value),)
        if found.applicable:
            for other in (Choice("batch_size", "32"), Choice("amp", "bf16"), Choice("cpu_threads", "4")):
                if other.name != name and whatifs()[other.name].detect(subject).applicable:
                    yield Choice(name, usual), other


def told(subject: Subject, asked: tuple[Choice, ...]) -> str:
    question = " ".join(map(str, asked))
    try:
        found = answer(subject, asked)
    except SkylineError as error:
        return f"{question}: {error.message}"
    if found.reason is not None:
        return f"{question}: {found.reason}"
    assert all(isinstance(one, str) and one for one in (found.title, *found.assumptions))
    parts = [ranged(found.iteration_ms, "ms"), ranged(found.peak_bytes, "B"), found.provenance]
    parts += [f"once {ranged(found.one_off_s, 's')}"] if found.one_off_s is not None else []
    parts += [f"now and then {found.occasional_ms:.3g} ms"] if found.occasional_ms else []
    return f"{question}: {', '.join(parts)}"


def ranged(of: Interval | None, unit: str) -> str:
    return "unknown" if of is None else f"{of.value:.4g} ({of.low:.4g} to {of.high:.4g}) {unit}"


@pytest.mark.parametrize("name", SCRIPTS)
def test_answers(profile: Profile, name: str) -> None:
    device, changes = SCRIPTS[name]
    subject = baseline(script(profile, device, **changes))
    lines = [told(subject, asked) for asked in questions(subject)]
    path, found = GOLDEN / f"{name}.txt", "\n".join(lines) + "\n"
    if os.environ.get("SKYLINE_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def renamed(before: str, after: str):
    """The script with another name for its records of one."""

    def change(profile: Profile) -> Profile:
        records = tuple(
            replace(one, name=after) if one.name == before else one for one in profile.trace.records
        )
        return replace(profile, trace=replace(profile.trace, records=records))

    return change


def having(**changes):
    return lambda profile: replace(profile, **changes)


@pytest.mark.parametrize(
    ("name", "change", "asked", "reason"),
    [
        ("gpu", renamed("mul_kernel", "GraphLaunch"), "cuda_graphs", "CUDA graphs are in use already"),
        ("gpu", renamed("mul_kernel", "GraphLaunch"), "compile", "CUDA graphs are in use"),
        ("cpu", having(calls=(CallFact("compile", 0.0),)), "compile", "it is compiled already"),
        ("cpu", having(batch_size=1), "grad_accumulation", "a batch of one sample cannot be split"),
        (
            "cpu",
            having(batch_size=17),
            "grad_accumulation",
            "a batch of 17 samples cannot be split into equal parts",
        ),
        ("cpu", having(optimizers=()), "fused_optimizer", "no PyTorch optimizer takes the step"),
        ("cpu", having(optimizers=()), "offload_optimizer", "nothing ran on a GPU"),
        ("replicas", having(prediction=PREDICTED), "ddp_bucket", "a predicted profile"),
        ("replicas", renamed("torch::autograd::AccumulateGrad", "x"), "network", "where gradients arrive"),
        ("replicas", renamed("python", "x"), "static_graph", ""),
        ("gpu", renamed("mul_kernel", "triton_fused"), "compile", "the script already runs compiled code"),
    ],
)
def test_reasons(profile: Profile, name: str, change, asked: str, reason: str) -> None:
    device, changes = SCRIPTS[name]
    found = answer(baseline(change(script(profile, device, **changes))), [Choice(asked)])
    assert found.applicable == (not reason)
    assert reason in (found.reason or "")


def test_a_script_of_too_many_operators_is_asked_about_its_batch_alone(profile: Profile) -> None:
    made = script(profile, CPU)
    subject = baseline(replace(made, trace=replace(made.trace, sampled=True)))
    assert answer(subject, [Choice("amp")]).reason == "an iteration has too many operators to record each"
    assert answer(subject, [Choice("batch_size", "32")]).applicable
