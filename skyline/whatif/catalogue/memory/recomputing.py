"""Which operators run again where blocks are checkpointed, and what Python takes to arrange it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.launching import launches
from skyline.graph.recomputation import Recomputed
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.graph.tasks import KIND, ON_GPU, PHASE
from skyline.trace.phase import Phase
from skyline.whatif.subject import Grain, Subject

_CALLS_PER_BLOCK = 55.0
_CALLS_PER_TENSOR = 12.0
"""Python's time for ``checkpoint()``, and for each tensor that is not kept, over that of a bare call of an operator.

From blocks that compute next to nothing: 1 operator cost 81 calls, 4 operators 171 (PyTorch 2.13, without reentrance).
"""
_TENSORS_PER_OPERATOR = 2
_TENSORS_KEPT = {"batch_norm": 7, "layer_norm": 5, "group_norm": 5}
"""Of operators that keep more: statistics, their running averages and scales, and the input."""
_WITH_PYTHON = 2.5
"""A call from Python over the operator that it calls, where that does next to nothing.

1.3 in a loop that does nothing else; within a step, whose work has taken the caches, 2 to 3 (blocks of a small network
for images: 800 µs each, where a call in the optimizer's step takes 0.9).
"""
_QUICK = 10
"""Percentile of the times of operators in the passes that is the cost of a bare call."""
_USUAL = 50
"""The same in an optimizer's step, which for most tensors computes next to nothing."""
_KEEP_NOTHING = frozenset(
    {
        *(
            "add",
            "add_",
            "sub",
            "sub_",
            "neg",
            "view",
            "_unsafe_view",
            "reshape",
            "transpose",
            "permute",
            "t",
        ),
        *("contiguous", "clone", "cat", "stack", "split", "chunk", "slice", "select", "narrow", "squeeze"),
        *(
            "unsqueeze",
            "expand",
            "expand_as",
            "flatten",
            "unflatten",
            "movedim",
            "to",
            "_to_copy",
            "detach",
            "mean",
        ),
        *("sum", "unbind", "roll", "size", "pad"),
    }
)
"""Operators whose backward pass needs no tensor."""
_KEEP_INPUTS = frozenset(
    {
        *(
            "linear",
            "addmm",
            "mm",
            "bmm",
            "baddbmm",
            "matmul",
            "einsum",
            "convolution",
            "conv1d",
            "conv2d",
            "conv3d",
        ),
        *("gelu", "silu", "embedding", "leaky_relu", "hardtanh", "softplus"),
    }
)
"""Operators whose backward pass needs what went into them, which is known before they run."""


def parts_of(subject: Subject, graph: Graph, paths: tuple[str, ...]) -> tuple[Recomputed, ...]:
    """The forward work of the blocks at ``paths``, pass by pass, as it would run again before their backward work.

    Computing again ends as soon as the last tensor that the backward pass needs
    is there (torch.utils.checkpoint without reentrance), so that what comes last in a block is often not repeated.
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
    call_us = _WITH_PYTHON * _call_us(subject, graph, np.concatenate((forward, backward)))
    names = _operators(graph, forward)
    found: list[Recomputed] = []
    for iteration in graph.iterations:
        for number in range(len(paths)):
            first = forward[(block[forward] == number) & (tasks.iteration[forward] == iteration)]
            second = backward[(block[backward] == number) & (tasks.iteration[backward] == iteration)]
            # With micro-batches forward and backward passes alternate; passes without a backward one are no training.
            turn = np.searchsorted(second, first)
            for each in np.unique(turn[turn < len(second)]):
                rows = _needed(first[turn == each], names)
                if len(rows):
                    found.append(Recomputed(rows, int(second[each]), call_us * _calls(rows, names)))
    return tuple(found)


def _needed(rows: Indices, names: dict[int, str]) -> Indices:
    """Without the operators at the end that give nothing the backward pass needs."""
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
    """The bare names of tasks that are operators or launch the kernel of one that is named like it."""
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
    """An operator of the passes, or of the optimizer's step, that computes next to nothing.

    Blocks of a few heavy operators have none such; those of an optimizer's step are small then, most of them. Where
    iterations were tried these have lost what recording took in them, and Python around them is most of a call. The
    step is the script's own: other changes may have made it another one, in fewer calls.
    """
    own = subject.graph_of(Grain.OPERATORS)
    stepping = select(own, phase=Phase.OPTIMIZER, kind=TaskKind.CPU)
    quick = graph.durations[passes[_are_operators(graph)[passes]]]
    stepping = stepping[_are_operators(own)[stepping]]
    usual = own.durations[stepping]
    if subject.tried is not None:
        usual = usual + own.gaps[stepping]
    known = ((quick[quick > 0], _QUICK), (usual[usual > 0], _USUAL))
    return min((float(np.percentile(us, share)) for us, share in known if len(us)), default=0.0)


def _are_operators(graph: Graph) -> npt.NDArray[np.bool_]:
    names = [name.startswith("aten::") or "Backward" in name for name in graph.tasks.names]
    return np.array(names, np.bool_)[graph.tasks.name]
