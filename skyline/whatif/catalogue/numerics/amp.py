"""What if the passes over the model ran under autocast, in bfloat16 or float16."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np

from skyline.errors import UsageError
from skyline.graph.dependency import Cause, Dependency
from skyline.graph.graph import Graph
from skyline.graph.insertion import InsertedGpuWork, insert_gpu_work
from skyline.graph.launching import launches
from skyline.graph.selection import select
from skyline.graph.task import HEAVY, PHASE, WORK, Task, TaskKind, WorkClass, work_class
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import OperatorShape, Phase
from skyline.trace.trial import Choices, failed_in
from skyline.whatif.base import (
    Applicability,
    Provenance,
    Scenario,
    Semantics,
    Stage,
    Subject,
    UsualWhatIf,
)
from skyline.whatif.catalogue.models.channels_last import CONVERSIONS, lie_channels_last
from skyline.whatif.catalogue.numerics.casts import (
    KEEP_NARROW,
    KEEP_WIDE_ON_GPU,
    has_weight,
    heavy_tasks,
    scaler_call_us,
)
from skyline.whatif.catalogue.numerics.cpu_narrowing import EMULATED_CPU, emulated, narrowed_on_cpu
from skyline.whatif.catalogue.numerics.gpu_narrowing import narrowed_on_gpu
from skyline.whatif.constant import Constant
from skyline.whatif.memory import Memory, is_outside_passes, most_activations_for
from skyline.whatif.number_formats import (
    BFLOAT16,
    FIRST_WITH_BFLOAT16,
    FIRST_WITH_FLOAT16,
    FLOAT16,
    NARROW,
    capability,
    gpu,
)
from skyline.whatif.recording import computes_in_16_bits
from skyline.whatif.subject import shapes

_FORMATS = {"bf16": BFLOAT16, "fp16": FLOAT16}
_KEEP_WIDE_ON_CPU = re.compile(r"layer_norm|group_norm|rms_norm")
"""Operators that keep their inputs in float32 on a CPU, by autocast's lists."""
_UNSCALE_BYTES = 8
"""Bytes per gradient: it is read, multiplied and written back in float32, and checked for infinities on the way."""
_UNSCALE_US = 10.0
_TRIED_WITHIN = Constant.at(
    0.02, "an assumption: activations differ this much between iterations, as batches do"
)
_EMULATES = f"this CPU emulates bf16: products take about {EMULATED_CPU.value:g} times as long"


@dataclass(frozen=True, slots=True)
class Amp(UsualWhatIf):
    """Scales products, convolutions and attention of both passes, and the operators between them; adds the casts."""

    name: str = "amp"
    semantics: Semantics = Semantics.NUMERICS
    stage: Stage = Stage.PRECISION

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"automatic mixed precision with {_FORMATS.get(value, BFLOAT16)}"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if products run in more than 16 bits; also if bfloat16 is emulated, as a slowdown."""
        values = _possible(subject)
        if not values:
            return Applicability.no(_lacking(subject))
        if _narrow_already(subject):
            return Applicability.no("its matrix products run in 16 bits already")
        if (failure := _failure(subject)) is not None:
            return Applicability.no(failure)
        if not len(heavy_tasks(subject, subject.graph_of(self.grain))):
            return Applicability.no("no matrix product, convolution or attention was recorded")
        return Applicability(True, values=values, default=values[0])

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the work and add the casts; activations shrink according to the operators that keep them."""
        possible = _possible(subject)
        if value not in possible:
            raise UsageError(
                f"amp={value} is not possible here", hint=f"Possible: amp={', amp='.join(possible)}."
            )
        graph = _unscaled(subject, scenario.graph) if value == "fp16" else scenario.graph
        if subject.on_gpu:
            converted = not (
                "channels_last" in scenario.choices
                or lie_channels_last(subject)
                or len(select(graph, kind=TaskKind.KERNEL, name=CONVERSIONS))
            )
            ends = narrowed_on_gpu(subject, graph, _FORMATS[value], converted=converted)
        else:
            ends = narrowed_on_cpu(subject, graph, _FORMATS[value], scenario.pass_factor(subject))
        likely, least, most = ends
        kept, copies = _kept_factor(subject, scenario.graph), _weight_copies(subject, scenario.graph)
        modelled = kept.value + copies.value / max(1.0, _most_activations(subject))
        tried = _tried_factor(subject, _FORMATS[value], modelled)
        if tried is not None and "compile" in scenario.choices:
            # Compiled code may keep fewer of the copies that autocast makes.
            tried = Interval(tried.value, min(modelled, tried.low), tried.high)
        if tried is not None:
            kept, copies = tried, Interval.exact(0.0)
        changed = replace(scenario, product_format=_FORMATS[value])
        provenance, assumptions = _assumptions(subject, value)
        return changed.between(
            subject,
            likely,
            least,
            most,
            assumptions=assumptions,
            provenance=provenance,
            memory=lambda memory: _changed(memory, subject, kept, copies),
            unsure=_tried_spread(subject, _FORMATS[value]),
        )


def _tried_spread(subject: Subject, target: str) -> float:
    """The relative uncertainty of tried iterations in a format; 0 if none were tried."""
    return 0.0 if subject.tried is None else subject.tried.spreads.get((subject.tried.threads, target), 0.0)


def _changed(memory: Memory, subject: Subject, kept: Interval, copies: Interval) -> Memory:
    """The memory with smaller activations, and with 16-bit ``copies`` of the present weights among them."""
    weights = memory.parameters / max(1.0, subject.peak.parameters)
    return memory.with_activations(kept).more("activations", copies.scaled(weights))


def _most_activations(subject: Subject) -> float:
    return 0.0 if subject.memory is None else subject.memory.levels.most_activations


def _tried_factor(subject: Subject, number_format: str, modelled: float) -> Interval | None:
    """The factor on the activations that gives the peak of the iterations that were tried.

    None without that peak, and if it is outside the passes and allows the factor of the model.
    """
    tried = Choices(number_format=number_format)
    trials = () if subject.profile is None else subject.profile.trials
    peak = next((one.peak_bytes for one in trials if one.choices == tried), None)
    if peak is None or subject.memory is None:
        return None
    levels = subject.memory.levels
    factor = most_activations_for(levels, peak)
    if is_outside_passes(levels, peak) and modelled <= factor:
        return None
    return Interval(factor, (1 - _TRIED_WITHIN.value) * factor, (1 + _TRIED_WITHIN.value) * factor)


def _kept_factor(subject: Subject, graph: Graph) -> Interval:
    """The ratio of activations with autocast to those without: the inputs of products become half as large.

    Tensors that norms, softmax and losses keep stay in float32. Without shapes, the result is a fixed range.
    """
    # With a recorded GPU, operators have the shapes of all their tensors, but only some kernels do.
    predicted = subject.profile is not None and subject.profile.prediction is not None
    forward = select(graph, phase=Phase.FORWARD, kind=TaskKind.KERNEL if predicted else TaskKind.CPU)
    keeps_wide = KEEP_WIDE_ON_GPU if subject.on_gpu else _KEEP_WIDE_ON_CPU
    narrow = wide = 0
    tasks = graph.tasks
    heavy = [WORK[one] for one in HEAVY]
    for index, shape in zip(forward.tolist(), shapes(subject, graph, forward), strict=True):
        if shape is None or not shape.inputs or not shape.dtypes or shape.dtypes[0] != "float32":
            continue
        name = tasks.names[int(tasks.name[index])]
        if tasks.work[index] in heavy:
            narrow += prod(_activation(shape))
        elif keeps_wide.search(name):
            wide += prod(shape.inputs[0])
        elif KEEP_NARROW.search(name):
            narrow += prod(shape.inputs[0])
    if not narrow + wide:
        return Interval(0.65, 0.5, 0.9)
    value = (0.5 * narrow + wide) / (narrow + wide)
    return Interval(value, max(0.5, value - 0.15), min(1.1, value + 0.15))


def _activation(shape: OperatorShape) -> tuple[int, ...]:
    return max((each for each in shape.inputs if len(each) > 1), key=prod, default=())


def _weight_copies(subject: Subject, graph: Graph) -> Interval:
    """The bytes of 16-bit copies of the weights that an iteration multiplies with, at most half of all weights.

    Embedding tables and scales of norms stay as they are.
    """
    all_weights = subject.peak.parameters / 2
    heavy = heavy_tasks(subject, graph)
    forward = heavy[has_weight(subject, graph, heavy)]
    forward = forward[graph.tasks.phase[forward] == PHASE[Phase.FORWARD]]
    if not len(forward):
        return Interval.exact(0.0)
    known = [shape for shape in shapes(subject, graph, forward) if shape is not None]
    if not known:
        return Interval(all_weights, 0.0, all_weights)
    sizes = ([prod(each) for each in shape.inputs if len(each) > 1] for shape in known)
    copied = 2.0 * sum(min(each) for each in sizes if each) / subject.steps
    return Interval(min(copied, all_weights), 0.0, all_weights)


def _unscaled(subject: Subject, graph: Graph) -> Graph:
    """The graph with a pass over all gradients before each step, the script's wait for it, and its host calls."""
    tasks = graph.tasks
    streams = tasks.lane[launches(graph).target]
    if not len(streams):
        return graph
    lane = tasks.lanes[int(np.bincount(streams).argmax())]
    stepping = select(graph, phase=Phase.OPTIMIZER, lane=subject.lane)
    own = select(graph, lane=subject.lane)
    _, places = np.unique(tasks.iteration[stepping], return_index=True)
    work: list[InsertedGpuWork] = []
    waits: list[Dependency] = []
    gaps, scaler_us = graph.gaps.copy(), scaler_call_us(subject, graph)
    for first in stepping[places].tolist():
        before = own[np.searchsorted(own, first) - 1]
        if before >= first:
            continue
        made = Task(
            "unscale", TaskKind.KERNEL, WorkClass.OTHER, lane, Phase.OPTIMIZER, int(tasks.iteration[first])
        )
        waits.append(Dependency(len(graph) + len(work), first, Cause.SYNC))
        gaps[before] += scaler_us
        work.append(InsertedGpuWork(made, _unscale_us(subject), int(before)))
    # In the recording of a script that runs ahead, the wait would be for work of earlier steps. A steady step
    # then takes the stream's time in any case.
    if not work:
        return graph
    waited = () if subject.gpu_lags else waits
    return insert_gpu_work(graph.with_times(gaps=gaps), work, dependencies=waited)


def _unscale_us(subject: Subject) -> float:
    spec, memory = gpu(subject), subject.memory
    if spec is None or memory is None:
        return _UNSCALE_US
    return max(_UNSCALE_US, memory.parameters / 4 * _UNSCALE_BYTES / (spec.bandwidth_gb_s * 1e3))


def _assumptions(subject: Subject, value: str) -> tuple[Provenance, tuple[str, ...]]:
    """The provenance of the answer, and its assumptions."""
    if not subject.on_gpu:
        return _assumptions_on_cpu(subject, value)
    sized = gpu(subject) is not None and subject.profile is not None
    made = ["softmax, norms and losses stay in float32, weights are cast once in each iteration"]
    made.append(
        "products keep the share of the GPU's peak that a product of their size can reach"
        if sized
        else "a range for products of unknown size: small ones gain nothing"
    )
    if subject.on_gpu and len(select(subject.graph, kind=TaskKind.KERNEL, work=WorkClass.CONVOLUTION)):
        made.append(
            "images are converted to the layout of the matrix units, unless channels_last is applied too"
        )
    if value == "fp16":
        made.append("gradients are scaled: before each step all are checked, and the script waits for that")
    if subject.profile is None:
        if capability(subject) == (0, 0):
            made.append(f"the GPU computes in {value}: the trace does not name it")
        if (subject.graph.tasks.origin < 0).any():
            made.append("work of CUDA graphs in the pauses of the trace does not change")
    return Provenance.MODELLED if sized else Provenance.ASSUMED, tuple(made)


def _assumptions_on_cpu(subject: Subject, value: str) -> tuple[Provenance, tuple[str, ...]]:
    tried = subject.tried
    if tried is not None and (tried.threads, _FORMATS[value]) in tried.times_us:
        said = "operators take the bf16 times of the script's own iterations under autocast"
        return Provenance.TRIED, (said,)
    if subject.script.product_trials:
        said = "matrix products take the bf16 times of separate trials on this processor"
        return Provenance.TRIED, (said,)
    if emulated(subject.cpu_features or ()):
        return Provenance.ASSUMED, (_EMULATES,)
    return Provenance.ASSUMED, ("matrix products take half their time in bf16, within a wide range",)


def _possible(subject: Subject) -> tuple[str, ...]:
    """The formats that the GPU or CPU computes in, including emulated bf16 on a CPU."""
    if not subject.on_gpu:
        features = subject.cpu_features
        if features is None:
            return ()
        return () if emulated(features) and "avx512f" not in features else ("bf16",)
    version, spec = capability(subject), gpu(subject)
    if spec is not None and spec.vendor != "NVIDIA":
        return tuple(one for one, has in (("bf16", spec.tflops_bf16), ("fp16", spec.tflops_fp16)) if has)
    if version == (0, 0) or version >= FIRST_WITH_BFLOAT16:
        return ("bf16", "fp16")
    return ("fp16",) if version >= FIRST_WITH_FLOAT16 else ()


def _lacking(subject: Subject) -> str:
    if subject.on_gpu:
        return "this GPU has no units for 16-bit products"
    if subject.cpu_features is None:
        return "a trace does not show whether this CPU computes in bf16"
    return "this CPU emulates bf16, so that it would be slower"


def _failure(subject: Subject) -> str | None:
    """The exception that the script raised when its iterations were tried under autocast. None without one."""
    failed = failed_in(subject.profile.failed_trials if subject.profile else (), BFLOAT16)
    if failed is None:
        return None
    place = f"{Path(failed.place.file).name}:{failed.place.line}"
    return f"tried under autocast, {place} raised {failed.message}"


def _narrow_already(subject: Subject) -> bool:
    if subject.recording is not None:
        return computes_in_16_bits(subject.recording)
    profile = subject.script
    if profile.settings is not None and profile.settings.autocast:
        return True
    heavy = [one for one in profile.trace.shapes if work_class(one.operator) in HEAVY]
    return any(name in NARROW for one in heavy for name in one.dtypes)


WHATIF = Amp()
