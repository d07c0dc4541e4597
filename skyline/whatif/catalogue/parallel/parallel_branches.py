"""What if independent branches of a model computed on separate cores, and not one after the other on all cores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from skyline.graph.column import Flags, Ids, Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import PHASE, WORK, TaskKind, WorkClass
from skyline.lazy_dataclass import dataclass
from skyline.source.branches import NotFollowed, Step, steps_of
from skyline.source.dataflow import ANY
from skyline.trace.facts import ModuleFact
from skyline.trace.record import PASSES, Phase
from skyline.units import format_ms, plural
from skyline.whatif.base import Applicability, Scenario, Subject, UsualWhatIf
from skyline.whatif.catalogue.host.traffic import traffic
from skyline.whatif.constant import CACHE_BYTES, WORTH_ASKING, Constant
from skyline.whatif.cost.branch_schedule import Schedule, Work, Workers, schedules, stretches
from skyline.whatif.cost.loader_model import cores_of
from skyline.whatif.cost.thread_scaling import factors, split_tasks
from skyline.whatif.dropout import OTHER_DRAWS, draws
from skyline.whatif.loader_setting import present_setting, threads_in
from skyline.whatif.question import MOST_AT_ONCE, whole_number
from skyline.whatif.subject import shapes

_ROUND_TRIP_US = Constant(
    69.0, 10.0, 74.0,
    "benchmarks/divided_models.py: a call by a waiting thread, until its end is noticed; two sittings: 69 (50 to 74), "
    "17 (10 to 26)",
    machine="two quiet cores of an AMD EPYC",
)  # fmt: skip
_CALL_US = Constant(
    28.0, 27.0, 32.0,
    "benchmarks/divided_models.py, where no core has to wake: of a call by another thread, the Python of both",
    machine="two busy cores, which no thread has to wake",
)  # fmt: skip
_BYTES_PER_US = Constant.at(10e3, "an assumption: a core reads 10 GB/s from the caches of another")
_LEAST_FOLLOWED = Constant.at(
    0.8, "an assumption: with less of a forward pass in steps, what waits for what is not known"
)
_ENDS = ("value", "low", "high")
"""The ends of the constants for the likely, best and worst case."""
_SPIN = "threads of the script's operators spin while branches compute; at best they sleep"
_LIMITS = {
    "spinning": "threads that wait for the next operator of the script spin on cores that the branches need",
    "python": "Python runs in one thread at a time",
    "memory": "the way to memory is busy already",
    "branch": "the longest branch takes that long on the cores that are its share",
    "threads": "operators gain as much from all cores as branches gain from separate cores",
}


@dataclass(frozen=True, slots=True)
class _Region:
    """A module whose ``forward`` was analysed, and its steps with containers split into their elements.

    ``keys`` is the member, or the own work of a step, of each task, or -1; ``owners`` the steps of each.
    """

    path: str
    names: tuple[str, ...]
    needs: tuple[frozenset[int], ...]
    keys: Indices
    owners: tuple[tuple[int, ...], ...]
    calls: float
    taken_bytes: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Times:
    """Times by task in µs: with all threads, with one worker's threads, and of work that two workers cannot overlap."""

    alone: Times
    apart: Times
    python: Times
    memory: Times


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Steps of one pass of a region that run on workers."""

    region: _Region
    phase: Phase
    schedule: Schedule

    @property
    def saved_us(self) -> float:
        """The time that an iteration saves, in µs."""
        return self.schedule.alone_us - self.schedule.span_us

    @property
    def said(self) -> str:
        """The steps with members, by name."""
        names = dict.fromkeys(self.region.names[one] for one in self.schedule.steps if self.region.names[one])
        shown = list(names)[:3]
        return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


@dataclass(frozen=True, slots=True)
class ParallelBranches(UsualWhatIf):
    """Runs independent steps on workers with a share of the cores each, if that takes less time."""

    name: str = "parallel_branches"
    excludes: tuple[str, ...] = ("cpu_threads", "compile", "cuda_graphs", "fuse_jobs")

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"independent branches of the model on {value or 'several'} threads with cores of their own"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if the source shows branches that take less time on separate cores than in turns on all cores."""
        _ = subject.script
        if not subject.ran_on_cpu:
            return Applicability.no(
                "it is predicted only for runs on a CPU: branches on a GPU share all of its units"
            )
        cores = cores_of(subject)
        if cores < 2:
            return Applicability.no("the machine has one core, and two branches cannot share it")
        scenario = Scenario.of(subject, self.grain)
        found = _regions(subject, scenario.graph)
        if isinstance(found, str):
            return Applicability.no(found)
        counts = sorted({2**power for power in range(1, cores.bit_length()) if 2**power <= cores})
        times = {count: _times(subject, scenario, count, "value") for count in counts}
        saved = {count: _saved_us(_chosen(subject, scenario, found, times[count], count)) for count in counts}
        best = max(saved, key=saved.__getitem__)
        if saved[best] < WORTH_ASKING.value * 1e3 * subject.iteration_ms.value:
            return Applicability.no(_why_not(subject, scenario, found, times))
        paying = tuple(str(count) for count, us in saved.items() if us > 0)
        return Applicability(True, values=paying, default=str(best))

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the work of each stretch of branches to the time of its schedule."""
        count, cores = whole_number(self.name, value, least=2, most=MOST_AT_ONCE), cores_of(subject)
        if count > cores:
            return replace(
                scenario, reason=f"{count} branches at a time need as many cores, and there are {cores}"
            )
        regions = _regions(subject, scenario.graph)
        if isinstance(regions, str):
            return replace(scenario, reason=regions)
        times = _times(subject, scenario, count, "value")
        chosen = _chosen(subject, scenario, regions, times, count)
        if not chosen:
            return replace(scenario, reason=_why_not(subject, scenario, regions, {count: times}))
        likely, least, most = (_scheduled(subject, scenario, regions, chosen, count, end) for end in _ENDS)
        largest = sorted(chosen, key=lambda one: one.saved_us, reverse=True)[:2]
        threads = _threads(subject, count)
        return scenario.between(
            subject,
            likely,
            least,
            most,
            assumptions=(
                *(
                    f"{one.phase.value} pass of {one.said}: "
                    f"{format_ms(one.schedule.alone_us / 1e3)} one after another, "
                    f"{format_ms(one.schedule.span_us / 1e3)} on {plural(one.schedule.used, 'worker')}"
                    for one in largest
                ),
                f"each of {count} workers computes on {plural(threads, 'thread')}",
                *(
                    (_SPIN,)
                    if any(_workers(subject, one, count, "value").spinning for one in regions)
                    else ()
                ),
                "the thread of a branch also runs its backward pass, which autograd otherwise does on one thread",
                "no branch writes into the tensors of another",
                *(("loader workers leave the cores to them",) if present_setting(subject).workers else ()),
                *((OTHER_DRAWS,) if draws(scenario.graph) else ()),
            ),
        )


def _saved_us(chosen: Iterable[_Stretch]) -> float:
    return sum(one.saved_us for one in chosen)


def _threads(subject: Subject, count: int) -> int:
    """The number of threads of each of ``count`` workers."""
    return max(1, min(threads_in(Scenario.of(subject), subject), cores_of(subject) // count))


def _regions(subject: Subject, graph: Graph) -> list[_Region] | str:
    """The modules with known steps, some of them independent; or the reason why there are none."""
    profile = subject.script
    texts = {source.path: source.text for source in profile.sources}
    children: dict[str, list[str]] = {}
    for module in profile.modules:
        parent, _, name = module.path.rpartition(".")
        children.setdefault(parent, []).append(name)
    found: list[_Region] = []
    reason = "the code of the model is not in the profile"
    for module in profile.modules:
        line = module.class_line
        if line is None or line.file not in texts or not module.calls_per_iteration:
            continue
        try:
            steps = steps_of(texts[line.file], line.line, children.get(module.path, ()))
        except NotFollowed as unknown:
            reason = f"the branches of {module.path} are not known: {unknown}"
            continue
        if not any(step.several for step in steps) and not stretches([step.needs for step in steps]):
            reason = (
                f"each step of {module.path} needs what the one before it gives: no branch is independent"
            )
            continue
        region = _region(subject, graph, module, steps, children)
        if region is None:
            reason = f"the branches of {module.path} are not known: much of its recorded work is in none of its steps"
        else:
            found.append(region)
    return found or reason


def _region(
    subject: Subject,
    graph: Graph,
    module: ModuleFact,
    steps: Sequence[Step],
    children: Mapping[str, Sequence[str]],
) -> _Region | None:
    """The region of a module; None if much of its forward pass is in none of the steps."""
    paths = graph.structure.modules
    inside = np.array([one == module.path or one.startswith(f"{module.path}.") for one in paths], np.bool_)
    keys = np.full(len(graph), -1, np.int64)
    owners: list[list[int]] = []
    names: list[str] = []
    needs: list[frozenset[int]] = []
    by_path: dict[str, int] = {}
    made: dict[int, list[int]] = {}
    for number, step in enumerate(steps):
        needed = frozenset(one for before in step.needs for one in made[before])
        named = [one for path in step.members for one in _each(module.path, path, children)]
        apart = [one for path in named if (one := _resolved(module.path, path, children)) != module.path]
        parts = [[one] for one in apart] if step.several and apart else [apart]
        made[number] = []
        for members in parts:
            made[number].append(len(needs))
            for member in dict.fromkeys(members):
                owners_of = by_path.setdefault(member, len(owners))
                if owners_of == len(owners):
                    owners.append([])
                owners[owners_of].append(len(needs))
            names.append(members[0].removeprefix(f"{module.path}.") if members else "")
            needs.append(needed)
    # A statement's own work belongs to its last step, which has members only in compound statements.
    for number, step in sorted(enumerate(steps), key=lambda pair: bool(pair[1].members)):
        mine = _own_work(graph, module, step) & (keys < 0)
        if mine.any():
            keys[mine] = len(owners)
            owners.append([made[number][-1]])
    passes = np.isin(graph.tasks.phase, [PHASE[one] for one in PASSES]) & (graph.tasks.module >= 0)
    for member, key in by_path.items():
        below = np.array([one == member or one.startswith(f"{member}.") for one in paths], np.bool_)
        keys[passes & _flag(below, graph.tasks.module)] = key
    whole = passes & _flag(inside, graph.tasks.module)
    spent = graph.durations + graph.gaps
    if spent[whole & (keys >= 0)].sum() < _LEAST_FOLLOWED.value * spent[whole].sum() or not whole.any():
        return None
    return _Region(
        module.path,
        tuple(names),
        tuple(needs),
        keys,
        tuple(map(tuple, owners)),
        module.calls_per_iteration,
        _taken_bytes(subject, graph, keys, owners, len(needs)),
    )


def _flag(table: Flags, codes: Ids) -> Flags:
    return np.append(table, False)[np.where(codes < len(table), codes, -1)]


def _each(path: str, member: str, children: Mapping[str, Sequence[str]]) -> list[str]:
    """The paths that a step's member stands for, with each element of a container in place of ``ANY``."""
    found = [path]
    for part in member.split("."):
        found = [
            f"{one}.{name}" for one in found for name in (children.get(one, ()) if part == ANY else (part,))
        ]
    return found


def _resolved(root: str, path: str, children: Mapping[str, Sequence[str]]) -> str:
    """The module of a path that may end with a method."""
    while path != root:
        parent, _, name = path.rpartition(".")
        if name in children.get(parent, ()):
            return path
        path = parent
    return path


def _own_work(graph: Graph, module: ModuleFact, step: Step) -> Flags:
    """The tasks of a module itself on the lines of a step."""
    structure, tasks, line = graph.structure, graph.tasks, module.class_line
    assert line is not None
    first, last = step.lines
    here = np.array(
        [one.file == line.file and first <= one.line <= last for one in structure.lines], np.bool_
    )
    of_module = np.array([one == module.path for one in structure.modules], np.bool_)
    passes = np.isin(tasks.phase, [PHASE[one] for one in PASSES])
    return passes & _flag(of_module, tasks.module) & _flag(here, tasks.line)


def _taken_bytes(
    subject: Subject, graph: Graph, keys: Indices, owners: Sequence[Sequence[int]], count: int
) -> tuple[float, ...]:
    """The bytes of the first input of each step's first operator in an iteration."""
    found = [0.0] * count
    seen: set[int] = set()
    first = select(graph, kind=TaskKind.CPU, phase=Phase.FORWARD, iteration=graph.iterations[0])
    first = first[keys[first] >= 0]
    for task, shape in zip(first.tolist(), shapes(subject, graph, first), strict=True):
        key = int(keys[task])
        if key in seen or shape is None:
            continue
        seen.add(key)
        reads = traffic(shape).reads
        for step in owners[key]:
            found[step] = found[step] or float(reads[0][1] if reads else 0)
    return tuple(found)


def _times(subject: Subject, scenario: Scenario, count: int, end: str) -> _Times:
    graph = scenario.graph
    now, threads = threads_in(Scenario.of(subject), subject), _threads(subject, count)
    apart = graph.durations.copy()
    if threads != now:
        chosen, divisions = split_tasks(subject, graph, scenario.pass_factor(subject), asked=threads)
        likely, least, most = factors(divisions, graph.durations[chosen], now, threads)
        apart[chosen] *= {"value": likely, "low": least, "high": most}[end]
    held = float(subject.script.environment.cache_bytes) or CACHE_BYTES.value
    everything = np.arange(len(graph))
    moved = [0 if one is None else traffic(one).size_bytes for one in shapes(subject, graph, everything)]
    plain = graph.tasks.work == WORK[WorkClass.OTHER]
    in_memory = plain & (np.array(moved, np.float64) * scenario.pass_factor(subject) > held)
    return _Times(
        graph.durations + graph.gaps,
        apart + graph.gaps,
        graph.gaps,
        np.where(in_memory, graph.durations, 0.0),
    )


def _works(graph: Graph, region: _Region, times: _Times, phase: Phase, larger: float) -> list[Work]:
    """The steps of one pass of an iteration; the steps of the backward pass are in reverse order."""
    count, steps = max(1, len(graph.iterations)), len(region.needs)
    chosen = (region.keys >= 0) & (graph.tasks.phase == PHASE[phase])
    columns: list[list[float]] = []
    for us in (times.alone, times.apart, times.python, times.memory):
        by_key = np.bincount(region.keys[chosen], us[chosen], len(region.owners)) / count
        by_step = np.zeros(steps)
        for key, owners in enumerate(region.owners):
            for step in owners:
                by_step[step] += by_key[key] / len(owners)
        columns.append(by_step.tolist())
    needs = region.needs if phase is Phase.FORWARD else _reversed(region.needs)
    order = range(steps) if phase is Phase.FORWARD else range(steps - 1, -1, -1)
    return [
        Work(
            columns[0][step],
            columns[1][step],
            needs[place],
            columns[2][step],
            columns[3][step],
            larger * region.taken_bytes[step],
        )
        for place, step in enumerate(order)
    ]


def _reversed(needs: Sequence[frozenset[int]]) -> tuple[frozenset[int], ...]:
    """The dependencies of the backward pass, whose first step is the last one of the forward pass."""
    last = len(needs) - 1
    found: list[set[int]] = [set() for _ in needs]
    for step, needed in enumerate(needs):
        for one in needed:
            found[last - one].add(last - step)
    return tuple(map(frozenset, found))


def _workers(subject: Subject, region: _Region, count: int, end: str) -> Workers:
    """The threads that run the branches, while the threads of the script's operators spin."""
    now, cores = threads_in(Scenario.of(subject), subject), cores_of(subject)
    threads = _threads(subject, count)
    # OpenMP lets its threads spin as long as they do not outnumber the cores. At best they sleep.
    spins = subject.thread_use.split > 0 and end != "low" and now + count * (threads - 1) <= cores
    called_us, trip_us = getattr(_CALL_US, end), getattr(_ROUND_TRIP_US, end)
    return Workers(
        count,
        (trip_us - called_us) / 2 * region.calls,
        _BYTES_PER_US.value,
        called_us * region.calls,
        threads,
        now - 1 if spins else 0,
        cores,
        kept=end == "high",
    )


def _stretches(
    subject: Subject, scenario: Scenario, region: _Region, times: _Times, count: int, end: str
) -> list[_Stretch]:
    """All stretches of a region with independent steps, in both passes, with step numbers of the forward pass."""
    workers = _workers(subject, region, count, end)
    found: list[_Stretch] = []
    for phase in PASSES:
        works = _works(scenario.graph, region, times, phase, scenario.pass_factor(subject))
        for one in schedules(works, workers):
            steps = one.steps
            if phase is Phase.BACKWARD:
                steps = tuple(sorted(len(works) - 1 - step for step in steps))
            found.append(_Stretch(region, phase, replace(one, steps=steps)))
    return found


def _chosen(
    subject: Subject, scenario: Scenario, regions: Sequence[_Region], times: _Times, count: int
) -> list[_Stretch]:
    """The stretches that gain; among nested regions, those with the larger gain."""
    gaining = {
        region.path: [
            one for one in _stretches(subject, scenario, region, times, count, "value") if one.saved_us > 0
        ]
        for region in regions
    }
    return _best("", gaining)


def _best(path: str, gaining: Mapping[str, list[_Stretch]]) -> list[_Stretch]:
    """The best stretches of the regions below a path: workers of a branch are not divided further."""
    below = [one for one in gaining if one != path and (not path or one.startswith(f"{path}."))]
    outermost = [one for one in below if not any(one.startswith(f"{other}.") for other in below)]
    inner = [stretch for one in outermost for stretch in _best(one, gaining)]
    own = gaining.get(path, [])
    return own if _saved_us(own) > _saved_us(inner) else inner


def _scheduled(
    subject: Subject,
    scenario: Scenario,
    regions: Sequence[_Region],
    chosen: Sequence[_Stretch],
    count: int,
    end: str,
) -> Graph:
    """The graph with the work of the chosen stretches scaled to their schedules."""
    graph = scenario.graph
    times = _times(subject, scenario, count, end)
    by_task = np.ones(len(graph))
    for region in regions:
        wanted = {(one.phase, one.schedule.steps) for one in chosen if one.region is region}
        if not wanted:
            continue
        for stretch in _stretches(subject, scenario, region, times, count, end):
            if (stretch.phase, stretch.schedule.steps) not in wanted:
                continue
            inside = set(stretch.schedule.steps)
            ratio = stretch.schedule.span_us / max(1e-9, stretch.schedule.alone_us)
            parts = [sum(one in inside for one in owners) / len(owners) for owners in region.owners]
            share = np.append(parts, 0.0)[region.keys]
            in_phase = graph.tasks.phase == PHASE[stretch.phase]
            by_task += np.where(in_phase, share * (ratio - 1), 0.0)
    return graph.with_times(graph.durations * by_task, graph.gaps * by_task)


def _why_not(
    subject: Subject, scenario: Scenario, regions: Sequence[_Region], by_count: Mapping[int, _Times]
) -> str:
    """The reason in words: the largest stretch of branches, in turns and on workers, with the bound on its time."""
    tried = [
        (one, count)
        for count, times in by_count.items()
        for region in regions
        for one in _stretches(subject, scenario, region, times, count, "value")
    ]
    known = [pair for pair in tried if pair[0].schedule.alone_us > 0]
    if not known:
        return "the branches were not recorded"
    one, count = max(known, key=lambda pair: (pair[0].schedule.alone_us, pair[0].saved_us))
    turns, span = format_ms(one.schedule.alone_us / 1e3), format_ms(one.schedule.span_us / 1e3)
    threads = plural(_threads(subject, count), "thread")
    start = f"{one.said or one.region.path} take {turns} one after another and {span} on {count} workers of {threads}"
    if one.saved_us > 0:
        return f"{start}: too little for an iteration of {format_ms(subject.iteration_ms.value)}"
    return f"{start}: {_LIMITS[one.schedule.limit]}"


WHATIF = ParallelBranches()
