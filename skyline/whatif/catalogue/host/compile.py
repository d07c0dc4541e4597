"""What if ``torch.compile`` compiled the model."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

import numpy as np

from skyline.errors import UsageError
from skyline.graph.column import Flags, Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.launching import launches
from skyline.graph.task import KIND, ON_GPU, PHASE, WORK, TaskKind, WorkClass
from skyline.interval import ENDS, Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import FRAMEWORKS
from skyline.trace.profile import Profile
from skyline.trace.record import OperatorShape, Phase
from skyline.whatif.base import Applicability, Grain, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.blocks import open_blocks
from skyline.whatif.catalogue.host.compiling import (
    KERNEL_CALL_US,
    call_scale,
    compiling_s,
    graph_calls_us,
    shapes_change,
    without_calls,
)
from skyline.whatif.catalogue.host.fusion import (
    BEST,
    LIKELY,
    WORST,
    FusionBound,
    Group,
    Regions,
    drawn,
    fused,
    regions,
)
from skyline.whatif.catalogue.host.traffic import most_numbers
from skyline.whatif.constant import Constant
from skyline.whatif.cost.operator_call import MOST_US
from skyline.whatif.cost.thread_scaling import gained, threads_of
from skyline.whatif.dropout import OTHER_DRAWS, draws
from skyline.whatif.memory import Memory
from skyline.whatif.predicted_kernels import PredictedKernels

MASK_NS = Interval(23.0, 17.0, 30.0)
"""The time in ns of each truth value on one core: written in the forward pass, and read in the backward pass.
Measured by ``benchmarks/compiled_masks.py`` on one CPU: 17 to 32 ns in two runs, and -1 to 2 if none is
kept."""
MASK_PART = 0.95
"""The part of this time that threads divide among them."""
_SLOW, _QUICK = "avx2", "avx512f"
_BY_RESULT = frozenset({"aten::relu", "aten::relu_"})
"""Rectifiers whose backward pass needs only their output, which a following product keeps in any case."""
_BY_INPUT = frozenset(
    f"aten::{name}{ending}"
    for name in ("leaky_relu", "hardtanh", "relu6", "clamp", "clamp_min", "clamp_max", "threshold")
    for ending in ("", "_")
)
_NORM = "norm"
"""Its input is kept, and all later work, including comparisons, is recomputed from it."""


def kept_masks(
    subject: Subject, graph: Graph, found: Regions, larger: float, checkpointed: Flags | None
) -> Times:
    """The number of truth values that compiled code would keep, by task; 0 if they are stored at full speed.

    Counts are for the recorded batch; the batch of ``graph`` is ``larger`` times as large. Blocks that are
    also ``checkpointed`` keep none.
    """
    kept = np.zeros(len(graph))
    profile = subject.profile
    features = profile.environment.cpu_features if profile is not None else ()
    if subject.on_gpu or _SLOW not in features or _QUICK in features:
        return kept
    computing = np.setdiff1d(found.host, found.views)
    for group in found.groups:
        if graph.tasks.phase[group.tasks[0]] == PHASE[Phase.FORWARD] and group.calls:
            kept[group.tasks] = _kept(graph, group, larger, _before_product(graph, computing, group.tasks))
    return kept if checkpointed is None else np.where(checkpointed, 0.0, kept)


def _kept(graph: Graph, group: Group, larger: float, before_product: bool) -> Times:
    names = [call.operator for call in group.calls]
    found = drawn(graph, group, larger)
    for place, name in enumerate(names):
        if any(_NORM in earlier for earlier in names[:place]):
            continue
        if name in _BY_INPUT or (name in _BY_RESULT and not (before_product and place == len(names) - 1)):
            found[place] = most_numbers(group.calls[place])
    return found


def _before_product(graph: Graph, computing: Indices, tasks: Indices) -> bool:
    """True if the next operator is a product or convolution of the same pass."""
    place = int(np.searchsorted(computing, int(tasks[-1]), side="right"))
    if place == len(computing):
        return False
    after = int(computing[place])
    same = graph.tasks.phase[after] == graph.tasks.phase[tasks[-1]]
    return bool(same and graph.tasks.work[after] != WORK[WorkClass.OTHER])


_REDUCES = re.compile(r"norm|softmax|::sum|::mean|::amax|::amin|::var|loss", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class FusedTimes:
    """The time in µs of the first task of each group, which stands for the whole group."""

    heads: Indices
    likely: Times
    least: Times
    most: Times


def fused_as_predicted(subject: Subject, graph: Graph, found: Regions) -> FusedTimes | None:
    """The times of the fused kernels by the predictor; None without a prediction.

    The present time of a group is scaled by the ratio of the two predictions, so that earlier changes stay in
    effect.
    """
    known = PredictedKernels.of(subject, graph)
    groups = [group for group in found.groups if group.calls and group.external_bytes > 0]
    if known is None or not groups:
        return None
    joined = [_joined(group) for group in groups]
    # Predicted together with the whole step, whose products tell the predictor its number format.
    calls = [call for group in groups for call in group.calls]
    us = known.us([*known.shapes, *calls, *joined])
    rows: list[Interval] = []
    for group, shape in zip(groups, joined, strict=True):
        before = sum(us[call].value for call in group.calls)
        now = float(graph.durations[group.tasks].sum())
        # A group is at most as slow as the sum of its parts, which would otherwise not be fused, and no
        # faster than any of them: a normalization reads its input twice in generated code, too.
        longest = max(us[call].value for call in group.calls)
        factor = min(1.0, max(longest, us[shape].value) / before) if before > 0 else 1.0
        after = us[shape]
        spread = (after.low / after.value, after.high / after.value) if after.value > 0 else (1.0, 1.0)
        rows.append(Interval(now * factor, now * factor * spread[0], min(now, now * factor * spread[1])))
    cases = (np.array([getattr(row, end) for row in rows], np.float64) for end in ENDS)
    return FusedTimes(np.array([group.tasks[0] for group in groups], np.int64), *cases)


def _joined(group: Group) -> OperatorShape:
    """The fused kernel of a group as an operator, by the bytes it moves."""
    first, last = group.calls[0], group.calls[-1]
    reduces = any(_REDUCES.search(call.operator) for call in group.calls)
    largest = max((size for call in group.calls for size in call.inputs), key=prod, default=())
    layouts = {call.layout for call in group.calls}
    return OperatorShape(
        "inductor::reduction" if reduces else "inductor::pointwise",
        (largest,),
        first.dtypes[:1],
        last.outputs[:1],
        last.output_dtypes[:1],
        0,
        group.external_bytes,
        layouts.pop() if len(layouts) == 1 else "",
    )


DEFAULT, REDUCE_OVERHEAD, MAX_AUTOTUNE = "default", "reduce-overhead", "max-autotune"
_FIRST = (2, 0)
_ON_WINDOWS_CPU = (2, 5)
_ACTIVATIONS = Interval(0.9, 0.5, 1.0)
_REPLAY_US = 15.0
"""The time in µs to copy the inputs and to launch one CUDA graph."""
_TUNED = Interval(0.95, 0.8, 1.0)
"""Ratio of the time of products and convolutions with kernels chosen by trials to their present time."""
_CALLING = Constant(
    1.0,
    0.7,
    1.6,
    "of the time of calls in units of small operators: on an EPYC 1.1 for a piece, 1.15 for a backward graph and 0.7 "
    "for a forward one, benchmarks/compiled_calls.py",
)
_AS_ELSEWHERE = Constant(
    1.0,
    0.25,
    1.6,
    "the same where no small operators tell the machine: the calls of that EPYC are the low end",
)
_WORTH_ASKING = 0.02


@dataclass(frozen=True, slots=True)
class Compile(UsualWhatIf):
    """Fuses neighbouring pointwise operators in the passes over the model, and removes Python from them."""

    name: str = "compile"
    stage: Stage = Stage.FUSION

    def title(self, value: str) -> str:
        """The change in a few words."""
        return (
            "compile the model (torch.compile)" if value in ("", DEFAULT) else f"torch.compile, mode {value}"
        )

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if PyTorch can compile the script and has not done so, and if there is work to compile."""
        profile = subject.profile
        if profile is not None and (reason := _impossible(profile)):
            return Applicability.no(reason)
        graph = subject.graph_of(self.grain)
        if any(_COMPILED.search(name) for name in graph.tasks.names):
            return Applicability.no("the script already runs compiled code")
        if any("GraphLaunch" in name for name in graph.tasks.names):
            return Applicability.no("CUDA graphs are in use, and the work inside them was not recorded")
        found = regions(subject, graph)
        if not len(found.host) and found.breaks:
            return Applicability.no(
                "PyTorch compiles none of the model's operators: its layers are recurrent, or its loops "
                "read values of tensors"
            )
        if not len(found.host):
            return Applicability.no(
                "no operator of the model was recorded in a forward or backward pass: "
                "the script calls model.forward(x); call model(x) instead"
            )
        touched = graph.durations[found.fused].sum() + (graph.durations + graph.gaps)[found.host].sum()
        if float(touched) / 1e3 < _WORTH_ASKING * subject.steps * subject.iteration_ms.value:
            return Applicability.no("the model's share of the iteration is too small to matter")
        values = (DEFAULT, REDUCE_OVERHEAD, MAX_AUTOTUNE) if subject.on_gpu else (DEFAULT,)
        return Applicability(True, values=values, default=DEFAULT)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Fuse each group of operators into one, and reduce the host's time in the passes to almost nothing."""
        mode = _mode(value, subject)
        graph = scenario.graph
        blocks = _checkpointed_blocks(scenario, subject)
        found = regions(subject, graph, blocks)
        larger, threads = scenario.pass_factor(subject), threads_of(subject)
        checkpointed = _inside(graph, blocks) if blocks else None
        masks = larger * kept_masks(subject, graph, found, larger, checkpointed)

        told = None if checkpointed is not None else fused_as_predicted(subject, graph, found)
        # The call from generated code replaces each operator's own call.
        uncalled = without_calls(subject, subject.graph_of(self.grain), graph, found)

        def compiled(case: FusionBound, calls: float, tuned: float, mask_ns: float) -> Graph:
            durations, gaps = fused(
                uncalled,
                found,
                case,
                larger=larger,
                threads=threads,
                checkpointed=checkpointed,
                channels_last="channels_last" in scenario.choices,
            )
            if told is not None:
                durations[told.heads] = {LIKELY: told.likely, BEST: told.least}.get(case, told.most)
            masks_us = masks * mask_ns / 1e3 * gained(MASK_PART, threads)
            return _compiled(graph, found, calls_us, calls, mode, tuned, (durations + masks_us, gaps))

        recorded = subject.graph_of(self.grain)
        calls_us = graph_calls_us(subject, recorded, found)
        calling = (_AS_ELSEWHERE if subject.on_gpu else _CALLING).scaled(call_scale(subject, recorded))
        likely = compiled(LIKELY, calling.value, _TUNED.value, MASK_NS.value)
        least = compiled(BEST, calling.low, _TUNED.low, MASK_NS.low)
        most = compiled(WORST, calling.high, _TUNED.high, MASK_NS.high)
        made = scenario.between(
            subject,
            likely,
            least,
            most,
            assumptions=_assumptions(found, subject, mode),
            memory=_with_fewer_activations,
            one_off_s=compiling_s(found, subject, graph, tuned=mode == MAX_AUTOTUNE),
        )
        if not found.breaks and not shapes_change(subject):
            return made
        # Broken graphs and recompiled graphs may gain nothing.
        return replace(made, above_ms=max(made.above_ms, subject.step_ms(graph) - subject.step_ms(likely)))


_COMPILED = re.compile(r"CompiledFunction|Torch-Compiled|TorchDynamo|^triton_|graph_\d+_cpp_fused|cpp_fused_")


def _checkpointed_blocks(scenario: Scenario, subject: Subject) -> tuple[str, ...]:
    """The blocks that the question also checkpoints."""
    value = scenario.choices.get("checkpointing")
    if value is None:
        return ()
    paths = open_blocks(subject.profile, scenario.graph.structure.modules)
    return paths[: int(value)] if value.isdigit() else paths


def _inside(graph: Graph, paths: tuple[str, ...]) -> Flags:
    """Flags of the tasks that belong to one of these modules."""
    names = graph.structure.modules
    inside = [any(name == path or name.startswith(f"{path}.") for path in paths) for name in names]
    return np.array([*inside, False])[graph.tasks.module]


def _impossible(profile: Profile) -> str:
    """The reason why the run cannot be compiled, as far as known; empty if it can."""
    if "torch.compile" in (profile.iteration.styles if profile.iteration is not None else ()):
        return "it is compiled already"
    if any(call.name == "compile" for call in profile.calls):
        return "it is compiled already"
    if _only_parts_are_called(profile):
        return (
            "the script calls parts of the model or its forward method, never the model itself: "
            "call model(x), or compile the parts"
        )
    environment = profile.environment
    version = _numbers(environment.torch)
    if version and version < _FIRST:
        return f"PyTorch {environment.torch} has no torch.compile"
    python = _numbers(environment.python)
    if python >= (3, 12) and (2, 0) <= version < (2, 4):
        return f"PyTorch {environment.torch} does not compile under Python {environment.python}"
    if python >= (3, 13) and (2, 0) <= version < (2, 6):
        return f"PyTorch {environment.torch} does not compile under Python {environment.python}"
    on_windows = environment.platform.lower().startswith("win")
    if on_windows and version < _ON_WINDOWS_CPU:
        return f"PyTorch {environment.torch} does not compile on Windows"
    return ""


def _only_parts_are_called(profile: Profile) -> bool:
    """True if the user's own loop uses the model as a container. Frameworks compile more than its forward pass."""
    roots = [module for module in profile.modules if "." not in module.path]
    parts = [module for module in profile.modules if "." in module.path]
    styles = profile.iteration.styles if profile.iteration is not None else ()
    return (
        bool(roots)
        and not any(root.library or root.calls_per_iteration for root in roots)
        and any(part.calls_per_iteration for part in parts)
        and not set(FRAMEWORKS).intersection(styles)
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _mode(value: str, subject: Subject) -> str:
    if value in ("", DEFAULT):
        return DEFAULT
    if value in (REDUCE_OVERHEAD, MAX_AUTOTUNE) and subject.on_gpu:
        return value
    known = f"{DEFAULT}, {REDUCE_OVERHEAD} or {MAX_AUTOTUNE}" if subject.on_gpu else DEFAULT
    raise UsageError(f"compile={value} is not possible", hint=f"Possible here: {known}.")


def _compiled(
    graph: Graph,
    found: Regions,
    calls_us: Times,
    calls: float,
    mode: str,
    tuned: float,
    joined: tuple[Times, Times],
) -> Graph:
    durations, gaps = joined
    kinds = graph.tasks.kind
    on_gpu = bool(ON_GPU[kinds].any())
    durable = found.host if on_gpu else found.host[kinds[found.host] != KIND[TaskKind.CPU]]
    durations[durable] = 0.0
    gaps[found.host] = 0.0
    own = calls * calls_us
    if mode == REDUCE_OVERHEAD:
        own = own + _REPLAY_US
    elif on_gpu:
        durations[_remaining_launches(graph, found)] = calls * KERNEL_CALL_US
    else:
        called = np.union1d(
            [group.tasks[0] for group in found.groups], np.intersect1d(found.host, _heavy(graph))
        )
        durations[called.astype(np.int64)] += calls * MOST_US
    if mode == MAX_AUTOTUNE:
        heavy = np.intersect1d(_heavy(graph), np.flatnonzero(ON_GPU[kinds]))
        durations[heavy] *= tuned
    # The call of the compiled graph, including guards. On a CPU it is host time, which threads do not divide.
    (durations if on_gpu else gaps)[found.entries] += own
    return graph.with_times(durations=durations, gaps=gaps)


def _heavy(graph: Graph) -> Indices:
    """The products, convolutions and attention."""
    return np.flatnonzero(graph.tasks.work != WORK[WorkClass.OTHER])


def _remaining_launches(graph: Graph, found: Regions) -> np.ndarray:
    """The launches in the passes, without those of work that has become part of another kernel."""
    dropped = np.zeros(len(graph), np.bool_)
    for group in found.groups:
        dropped[group.tasks[1:]] = True
    edges = launches(graph)
    inside = np.zeros(len(graph), np.bool_)
    inside[found.host] = True
    return np.unique(edges.source[inside[edges.source] & ~dropped[edges.target]])


def _assumptions(found: Regions, subject: Subject, mode: str) -> tuple[str, ...]:
    steps = max(1, subject.steps)
    joined = sum(len(group.tasks) for group in found.groups) / steps
    made = len(found.groups) / steps
    lines = [
        f"{joined:.0f} pointwise operators and reductions of an iteration become {made:.0f} kernels",
        "products, convolutions and attention stay as they are",
        "the inputs of the model have the same shapes in every iteration; other shapes are compiled again",
        "the optimizer, the loss and the loop are not compiled",
    ]
    if found.breaks:
        breaks = f"the graph breaks {found.breaks:.3g} times an iteration"
        lines.append(f"{breaks}, where a number is read, or where operators are not compiled")
    if mode == REDUCE_OVERHEAD:
        lines.append("nothing in the passes depends on values on the GPU, and inputs are copied in")
    if not subject.on_gpu:
        lines.append(
            "a C++ compiler is installed: PyTorch calls g++ or clang++ for the code that it generates"
        )
    if draws(subject.graph_of(Grain.OPERATORS)):
        lines.append(OTHER_DRAWS)
    if subject.profile is None:
        lines.append("shapes are not known from the trace: a fused kernel takes as long as its longest part")
    return tuple(lines)


def _with_fewer_activations(memory: Memory) -> Memory:
    return memory.with_activations(_ACTIVATIONS)


WHATIF = Compile()
