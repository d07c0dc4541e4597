"""What if blocks of the model were computed again in the backward pass instead of keeping their activations."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from skyline.errors import UsageError
from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.launching import launches
from skyline.graph.recomputation import Recomputed, recompute
from skyline.graph.selection import select
from skyline.graph.task import KIND, ON_GPU, PHASE, TaskKind, is_operator
from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import usable_bytes
from skyline.trace.facts import ModuleFact
from skyline.trace.record import Phase
from skyline.whatif.base import Applicability, Grain, Scenario, Subject, UsualWhatIf
from skyline.whatif.blocks import open_blocks, repeated_blocks
from skyline.whatif.constant import Constant
from skyline.whatif.memory import Memory
from skyline.whatif.subject import NEEDS_PROFILE

_CALLS_PER_BLOCK = 260.0
_CALLS_PER_TENSOR = 13.0
"""Ratio of Python's time for ``checkpoint()``, and for each tensor that is not kept, to a call from Python in
a pass.

Measured with blocks that compute next to nothing, and other work between them that fills the caches, on an
EPYC (PyTorch 2.13, without reentrance): 1 tensor cost 550 µs, 10 cost 950, 18 cost 1020, 42 cost 1750. A call
took 1.6 µs in a loop, and a third more in a pass. On another EPYC a block cost 245 µs, and each of 1 to 80
tensors 17 µs.
"""
_TENSORS_PER_OPERATOR = 2
_TENSORS_KEPT = {"batch_norm": 6, "layer_norm": 5, "group_norm": 5} | dict.fromkeys(
    ("relu", "relu_", "gelu", "silu", "sigmoid", "tanh", "exp", "sqrt", "softmax", "log_softmax"), 1
)
"""The number of tensors kept by norms (statistics, running averages, scales and the input), and by operators
that keep only their input or output."""
_WITH_PYTHON = 1.3
"""Ratio of the time of a call from Python to that of the called operator, if it computes next to nothing."""
_QUICK = 10
"""Percentile of the operators' times in the passes that is taken as the cost of a bare call."""
_QUICK_STEPPING = 5
"""The same percentile in an optimizer step, which calls a few operators on each tensor."""
_CALLS_IN_STEP = Constant.at(
    20, "an assumption: a step with fewer operators updates all tensors together, and may show no bare call"
)
_KEEP_NOTHING = frozenset({
    "add", "add_", "sub", "sub_", "neg", "view", "_unsafe_view", "reshape", "transpose", "permute", "t",
    "contiguous", "clone", "cat", "stack", "split", "chunk", "slice", "select", "narrow", "squeeze", "unsqueeze",
    "expand", "expand_as", "flatten", "unflatten", "movedim", "to", "_to_copy", "detach", "mean", "sum", "unbind",
    "roll", "size", "pad",
})  # fmt: skip
"""Operators whose backward pass needs no tensor."""
_KEEP_INPUTS = frozenset({
    "linear", "addmm", "mm", "bmm", "baddbmm", "matmul", "einsum", "convolution", "conv1d", "conv2d", "conv3d",
    "gelu", "silu", "embedding", "leaky_relu", "hardtanh", "softplus",
})  # fmt: skip
"""Operators whose backward pass needs only their inputs, which are known before they run."""


def parts_of(subject: Subject, graph: Graph, paths: tuple[str, ...]) -> tuple[Recomputed, ...]:
    """The forward work of the blocks at ``paths`` that is repeated before their backward work, pass by pass.

    The repetition ends as soon as the last tensor that the backward pass needs is computed
    (torch.utils.checkpoint without reentrance), so the last operators of a block are often not repeated.
    """
    tasks, lane = graph.tasks, subject.lane
    below = [(path, f"{path}.") for path in paths]
    of_module = np.array(
        [
            next((n for n, (path, prefix) in enumerate(below) if m == path or m.startswith(prefix)), -1)
            for m in graph.structure.modules
        ]
        + [-1]
    )
    block = of_module[tasks.module]
    on_host = ~ON_GPU[tasks.kind] & (tasks.kind != KIND[TaskKind.DATA])
    forward = np.flatnonzero(
        on_host & (block >= 0) & (tasks.phase == PHASE[Phase.FORWARD]) & (tasks.lane == tasks.lane_code(lane))
    )
    backward = np.flatnonzero(on_host & (block >= 0) & (tasks.phase == PHASE[Phase.BACKWARD]))
    call_us = _call_us(subject, graph, np.concatenate((forward, backward)))
    names = _operators(graph, forward)
    found: list[Recomputed] = []
    for iteration in graph.iterations:
        for number in range(len(paths)):
            first = forward[(block[forward] == number) & (tasks.iteration[forward] == iteration)]
            second = backward[(block[backward] == number) & (tasks.iteration[backward] == iteration)]
            # With micro-batches, forward and backward passes alternate; forward passes without a backward
            # pass are not training.
            turn = np.searchsorted(second, first)
            for each in np.unique(turn[turn < len(second)]):
                rows = _needed(first[turn == each], names)
                if len(rows):
                    found.append(Recomputed(rows, int(second[each]), call_us * _calls(rows, names)))
    return tuple(found)


def _needed(rows: Indices, names: dict[int, str]) -> Indices:
    """The rows without the operators at the end whose results the backward pass does not need."""
    end = len(rows)
    while end:
        name = names.get(int(rows[end - 1]), "")
        if name in _KEEP_INPUTS:
            return rows[: end - 1]
        if name and name not in _KEEP_NOTHING:
            break
        end -= 1
    return rows[:end]


def _operators(graph: Graph, rows: Indices) -> dict[int, str]:
    """The bare names of tasks that are operators, or that launch a kernel named like an operator."""
    tasks = graph.tasks
    bare = [name.removeprefix("aten::") if name.startswith("aten::") else "" for name in tasks.names]
    codes: list[int] = tasks.name[rows].tolist()
    found = {row: bare[code] for row, code in zip(rows.tolist(), codes, strict=True) if bare[code]}
    launched = launches(graph)
    wanted = np.isin(launched.source, rows)
    sources: list[int] = launched.source[wanted].tolist()
    kernels: list[int] = tasks.name[launched.target[wanted]].tolist()
    found.update({row: bare[code] for row, code in zip(sources, kernels, strict=True) if bare[code]})
    return found


def _calls(rows: Indices, names: dict[int, str]) -> float:
    called = (names.get(row, "") for row in rows.tolist())
    kept = sum(
        _TENSORS_KEPT.get(name, _TENSORS_PER_OPERATOR)
        for name in called
        if name and name not in _KEEP_NOTHING
    )
    return _CALLS_PER_BLOCK + _CALLS_PER_TENSOR * kept


def _call_us(subject: Subject, graph: Graph, passes: Indices) -> float:
    """The time in µs of a call from Python to an operator that computes next to nothing.

    It comes from the optimizer step if that calls many operators. Otherwise it is at most the time of the quickest
    calls in the passes, some of which are several calls in one expression. If iterations were tried, the step's
    times are free of recording overhead, and the Python time around the operators is most of a call. The script's
    own step is used, because other changes may have replaced it by one with fewer calls.
    """
    own = subject.graph_of(Grain.OPERATORS)
    stepping = select(own, phase=Phase.OPTIMIZER, kind=TaskKind.CPU)
    stepping = stepping[_are_operators(own)[stepping]]
    durations = own.durations[stepping]
    called = _WITH_PYTHON * durations if subject.tried is None else durations + own.gaps[stepping]
    known = [(called[called > 0], _QUICK_STEPPING)]
    if len(stepping) < _CALLS_IN_STEP.value * subject.steps:
        quick = _WITH_PYTHON * graph.durations[passes[_are_operators(graph)[passes]]]
        known.append((quick[quick > 0], _QUICK))
    return min((float(np.percentile(us, share)) for us, share in known if len(us)), default=0.0)


def _are_operators(graph: Graph) -> npt.NDArray[np.bool_]:
    return graph.tasks.named(lambda name: is_operator(name) or "Backward" in name)


_ALL, _FIT = "all", "fit"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_UNSURE = (0.15, 0.25)
"""The shares of the repeated work by which the time may be lower and higher: the caches hold other data the
second time."""
_UNSURE_OF_PYTHON = 0.5


@dataclass(frozen=True, slots=True)
class Checkpointing(UsualWhatIf):
    """Repeats the forward work of blocks right before their backward work, and removes the tensors that they kept."""

    name: str = "checkpointing"
    training_only: bool = True

    def title(self, value: str) -> str:
        """The change in a few words."""
        if value in ("", _ALL):
            return "activation checkpointing of all blocks"
        if value == _FIT:
            return "activation checkpointing of as many blocks as needed to fit into memory"
        if value.isdigit():
            return f"activation checkpointing of {value} block{'s' if value != '1' else ''}"
        return f"activation checkpointing for a peak of {value}"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to a model with repeated blocks that are not checkpointed; by default as many as are needed."""
        graph = subject.graph_of(Grain.OPERATORS)
        groups = repeated_blocks(subject.profile, graph.structure.modules)
        if not groups:
            return Applicability.no("the model has no repeated blocks that could be recomputed")
        paths = open_blocks(subject.profile, graph.structure.modules)
        if not paths:
            return Applicability.no("the blocks of the model are checkpointed already")
        if not parts_of(subject, graph, paths[:1]):
            return Applicability.no(
                NEEDS_PROFILE if subject.profile is None else "no backward work of the blocks was recorded"
            )
        count = len(paths)
        numbers = dict.fromkeys(str(count * share // 4) for share in (1, 2, 3) if count * share // 4)
        values = (_ALL, *numbers, *((_FIT,) if subject.profile is not None else ()))
        return Applicability(True, values=values, default=self._default(subject))

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Repeat the first blocks of the model, as many as requested."""
        graph = scenario.graph
        paths = open_blocks(subject.profile, graph.structure.modules)
        count, short = number_of_blocks(value, paths, scenario.memory, subject)
        chosen = paths[:count]
        parts = parts_of(subject, graph, chosen)
        repeated = np.concatenate([part.rows for part in parts]) if parts else np.zeros(0, np.int64)
        repeated_ms = float((graph.durations + graph.gaps)[repeated].sum()) / 1e3 / subject.steps
        python_ms = sum(part.overhead_us for part in parts) / 1e3 / subject.steps
        changed = scenario.changed(
            recompute(graph, parts),
            below_ms=_UNSURE[0] * repeated_ms + _UNSURE_OF_PYTHON * python_ms,
            above_ms=_UNSURE[1] * repeated_ms + _UNSURE_OF_PYTHON * python_ms,
            assumptions=_assumptions(subject, chosen, len(paths), known=_is_known(scenario.memory)),
            memory=(lambda memory: _memory(memory, chosen)) if _is_known(scenario.memory) else None,
        )
        return replace(changed, reason=short) if short else changed

    def _default(self, subject: Subject) -> str:
        memory = subject.memory
        if memory is None or not _is_known(memory):
            return _ALL
        capacity = usable_bytes(subject.script)
        if not capacity or memory.peak_bytes.value <= capacity:
            return _ALL
        return _FIT


def number_of_blocks(
    value: str,
    paths: tuple[str, ...],
    memory: Memory | None,
    subject: Subject,
) -> tuple[int, str]:
    """The number of blocks that a value means, and a message if even all of them are not enough.

    Raises:
        UsageError: the what-if does not accept the value.
    """
    if value in ("", _ALL):
        return len(paths), ""
    if value.isdigit() and int(value) > 0:
        return min(int(value), len(paths)), ""
    target = _target_bytes(value, subject)
    if target is None:
        return len(paths), ""
    if memory is None or not _is_known(memory):
        return len(paths), "the memory that the blocks keep is not known"
    for count in range(len(paths) + 1):
        if _memory(memory, paths[:count]).peak_bytes.high <= target:
            return count, ""
    return len(paths), f"even with all {len(paths)} blocks the peak stays above {_told(value, target)}"


def _target_bytes(value: str, subject: Subject) -> float | None:
    if value == _FIT:
        return None if subject.profile is None else usable_bytes(subject.script)
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        hint = "Give all, fit, a number of blocks, or a target for the peak memory: checkpointing=2GB."
        raise UsageError(f"checkpointing={value} is not possible", hint=hint)
    base = 1024 if match[3] else 1000
    return float(match[1]) * base ** _POWERS[match[2].lower()]


def _told(value: str, target: float) -> str:
    return f"the {target / 1e9:.1f} GB that are available" if value == _FIT else value


def _is_known(memory: Memory | None) -> bool:
    """True if the memory that the blocks keep was recorded."""
    return memory is not None and bool(memory.levels.kept)


def _memory(memory: Memory, chosen: tuple[str, ...]) -> Memory:
    """The memory with the chosen blocks recomputed."""
    return memory.changed(lambda levels: levels.recomputed(chosen))


def _assumptions(subject: Subject, chosen: tuple[str, ...], count: int, *, known: bool) -> tuple[str, ...]:
    of_all = "all" if len(chosen) == count else f"the first {len(chosen)} of"
    said = [f"{of_all} {count} blocks are computed again in the backward pass, as fast as the first time"]
    if not known:
        said.append("the saved memory is not known")
    profile = subject.profile
    facts: tuple[ModuleFact, ...] = () if profile is None else profile.modules
    names = {fact.class_name for fact in facts if fact.path.startswith(chosen)}
    if any("BatchNorm" in name for name in names):
        said.append(
            "BatchNorm updates its running statistics twice in each step; the training itself stays the same"
        )
    if any("Dropout" in name for name in names):
        said.append("random numbers are repeated exactly (preserve_rng_state)")
    return tuple(said)


WHATIF = Checkpointing()
