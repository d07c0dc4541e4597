"""Parts of a model that ``torch.compile`` leaves as they are: recurrent layers, and loops and blocks with breaks."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from skyline.graph.column import Flags, Indices
from skyline.graph.graph import Graph
from skyline.graph.task import PHASE
from skyline.trace.facts import ModuleFact
from skyline.trace.profile import Profile
from skyline.trace.record import Phase
from skyline.whatif.constant import Constant
from skyline.whatif.subject import Subject

_RECURRENT = ("RNN", "LSTM", "GRU")
"""Layers that the compiler leaves out of its graphs (``torch._dynamo.config.allow_rnn`` is false by default).
Cells, which compute one step, are compiled. The rest of a function after such a call begins with the layer
again, and is not compiled either."""
_MOST_ON_A_LINE = Constant.at(
    8, "an assumption: a line that reads more numbers than that in one call of its module is in a loop"
)


def left_alone(subject: Subject, graph: Graph, reads: Flags) -> Flags:
    """Flags of the tasks that run uncompiled; ``reads`` marks the tasks that read a number.

    A graph cannot break inside a loop: PyTorch does not compile a function with such a loop ("graph break in
    loop: frame skipped"), nor the functions that call it. The user's modules that these functions call are
    compiled separately, PyTorch's layers are not. Without a profile, the modules are unknown, and no task is
    marked.
    """
    profile, names, tasks = subject.profile, graph.structure.modules, graph.tasks
    alone = np.zeros(len(names) + 1, np.bool_)
    if profile is None:
        return alone[np.full(len(graph), -1)]
    facts = {fact.path: fact for fact in profile.modules}
    recurrent = tuple(path for path, fact in facts.items() if fact.library and fact.class_name in _RECURRENT)
    looped = {_owner(names[module], facts) for module in _looped(profile, graph, reads)}
    looped |= {owner for path in recurrent if (owner := _looping(path, facts))}
    skipped = {above for path in looped for above in _upward(path)}
    owners = [_owner(name, facts) for name in names]
    inside = np.array([any(above in recurrent for above in _upward(name)) for name in names] + [False])
    module = np.where(tasks.module < len(names), tasks.module, -1)
    alone[:-1] = [owner in skipped for owner in owners]
    found = alone[module] | inside[module]
    for owner in {_owner(path, facts) for path in recurrent} - {""}:
        own = np.array([each == owner for each in owners] + [False])[module]
        found |= own & _behind(graph, own & inside[module])
    return found


def checkpointed_alone(subject: Subject, graph: Graph, breaking: Flags, chosen: Collection[str]) -> Flags:
    """Flags of the tasks of checkpointed blocks that run uncompiled, and of the loop over these blocks.

    ``breaking`` marks the tasks at which a graph breaks; ``chosen`` are blocks that are checkpointed in
    addition to the script's own. A checkpointed block becomes part of the graph as a whole or not at all: a
    block with a break runs with the compiler disabled, including all that it calls. The loop that calls the
    blocks breaks there and stays uncompiled, so the blocks next to it run uncompiled, too.
    ``benchmarks/checkpointed_graphs.py`` counts these graphs.
    """
    profile, names, tasks = subject.profile, graph.structure.modules, graph.tasks
    facts = {} if profile is None else {fact.path: fact for fact in profile.modules}
    blocks = {*chosen, *(path for path, fact in facts.items() if fact.checkpointed)}
    if not blocks:
        return np.zeros(len(graph), np.bool_)
    module = np.where(tasks.module < len(names), tasks.module, -1)
    # Modules inside a checkpointed block were recorded as checkpointed, too: the outermost one counts.
    around = [
        min((above for above in _upward(name) if above in blocks), key=len, default="") for name in names
    ]
    forward: Indices = np.flatnonzero(breaking & (tasks.phase == PHASE[Phase.FORWARD]) & (module >= 0))
    codes: list[int] = np.unique(module[forward]).tolist()
    broken = {around[code] for code in codes} - {""}
    loops = {_caller(path, facts) for path in broken} - {""}
    alone = np.zeros(len(names) + 1, np.bool_)
    alone[:-1] = [
        block in broken or (_caller(block, facts) if block else _owner(name, facts)) in loops
        for name, block in zip(names, around, strict=True)
    ]
    return alone[module]


def _caller(path: str, facts: dict[str, ModuleFact]) -> str:
    """The module of the user that calls a block."""
    return _owner(path.rpartition(".")[0], facts)


def _behind(graph: Graph, layers: Flags) -> Flags:
    """Flags of the tasks after these layers' first task in a forward pass, and before their last in a backward pass."""
    tasks = graph.tasks
    found = np.zeros(len(graph), np.bool_)
    places = np.arange(len(graph))
    for iteration in np.unique(tasks.iteration[layers]).tolist():
        here = tasks.iteration == iteration
        forward, backward = (here & (tasks.phase == PHASE[one]) for one in (Phase.FORWARD, Phase.BACKWARD))
        if (first := np.flatnonzero(forward & layers)[:1]).size:
            found |= forward & (places > first[0])
        if (last := np.flatnonzero(backward & layers)[-1:]).size:
            found |= backward & (places < last[0])
    return found


def _looped(profile: Profile, graph: Graph, reads: Flags) -> list[int]:
    """The modules in which one line reads too many numbers for one call."""
    tasks = graph.tasks
    found: Indices = np.flatnonzero(reads & (tasks.line >= 0) & (tasks.module >= 0))
    found = found[tasks.module[found] < len(graph.structure.modules)]
    if not len(found):
        return []
    calls = {fact.path: max(1.0, fact.calls_per_iteration) for fact in profile.modules}
    steps = len(np.unique(tasks.iteration[found]))
    places, numbers = np.unique(
        np.stack([tasks.module[found], tasks.line[found]]), axis=1, return_counts=True
    )
    modules: list[int] = places[0].tolist()
    return [
        module
        for module, number in zip(modules, numbers.tolist(), strict=True)
        if number > _MOST_ON_A_LINE.value * steps * calls.get(graph.structure.modules[module], 1.0)
    ]


def _looping(path: str, facts: dict[str, ModuleFact]) -> str:
    """The module of the user that calls a recurrent layer several times; empty if it calls it once."""
    owner = _owner(path, facts)
    fact = facts.get(owner)
    several = fact is not None and facts[path].calls_per_iteration > 1.5 * max(1.0, fact.calls_per_iteration)
    return owner if several else ""


def _owner(path: str, facts: dict[str, ModuleFact]) -> str:
    """This module or the nearest one around it whose class is the user's; empty if there is none."""
    for above in _upward(path):
        fact = facts.get(above)
        if fact is not None and not fact.library:
            return above
    return ""


def _upward(path: str) -> Iterator[str]:
    """A path and the paths of the modules around it, the innermost first."""
    while path:
        yield path
        path = path.rpartition(".")[0]
