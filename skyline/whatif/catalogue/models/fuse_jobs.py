"""What if several runs of the script, with different seeds or learning rates, trained together in one process."""

from __future__ import annotations

from dataclasses import replace

from skyline.errors import UsageError
from skyline.graph.graph import scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.units import format_ms
from skyline.whatif.base import Applicability, Scenario, Semantics, Stage, Subject, UsualWhatIf
from skyline.whatif.catalogue.models.batched_operators import batched_on_cpu, batched_on_gpu
from skyline.whatif.cost.loader_model import cores_of
from skyline.whatif.cost.thread_scaling import factors, split_tasks
from skyline.whatif.dropout import OTHER_DRAWS, draws
from skyline.whatif.loader_setting import threads_in
from skyline.whatif.memory import Memory
from skyline.whatif.question import MOST_AT_ONCE

_OWN = "own"
_UNBATCHED = ("LSTM", "GRU", "RNN")
"""Layers of PyTorch for which ``vmap`` has no batching rule, up to PyTorch 2.13."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """The number of fused runs, and whether each reads its own batches."""

    count: int
    own_data: bool = False

    @classmethod
    def parse(cls, name: str, value: str) -> Jobs:
        """``4``, or ``4@own`` for runs that do not share their batches. Raises UsageError."""
        count, at, data = value.partition("@")
        found = cls(int(count) if count.isdecimal() and len(count) < 6 else 0, bool(at))
        if not 2 <= found.count <= MOST_AT_ONCE or data not in ("", _OWN) or (at and not data):
            raise UsageError(
                f"{name} needs a number of runs" if not value else f"{name}={value} is not possible",
                hint=f"{name}=4 for 4 runs on the same batches, {name}=4@{_OWN} where each reads its own.",
            )
        return found


@dataclass(frozen=True, slots=True)
class FuseJobs(UsualWhatIf):
    """Gives each operator the work of all runs; calls, Python, launches and the loader happen once.

    HFTA (Wang, Yang, Zheng, Li, Pekhimenko, MLSys 2021) fuses runs with its own operators; here
    ``torch.func`` does it.
    """

    name: str = "fuse_jobs"
    training_only: bool = True
    semantics: Semantics = Semantics.NUMERICS
    stage: Stage = Stage.WORKLOAD
    excludes: tuple[str, ...] = ("data_parallel", "p3", "grad_accumulation")

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"{value.partition('@')[0] or 'several'} runs of the script in one process, operators batched"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to a script of one rank whose operators can be batched."""
        profile = subject.script
        if profile.parallel is not None and profile.parallel.world_size > 1:
            return Applicability.no("the script has several ranks already")
        if profile.prediction is not None and not subject.on_gpu:
            return Applicability.no("a profile that is predicted for a processor does not show its calls")
        layers = [one for one in profile.modules if one.library and one.class_name in _UNBATCHED]
        if layers:
            found = layers[0]
            return Applicability.no(
                f"torch.func cannot batch the {found.class_name} {found.path}: write a loop over its cell"
            )
        sparse = next((one for one in profile.modules if one.options.get("sparse")), None)
        if sparse is not None:
            return Applicability.no(f"{sparse.path} has sparse gradients, which torch.func does not support")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Batch all operators; samples, and memory except for the batch, multiply by the number of runs."""
        jobs = Jobs.parse(self.name, value)
        if subject.on_gpu:
            found = batched_on_gpu(subject, scenario.graph, jobs.count, jobs.own_data)
        else:
            found = batched_on_cpu(scenario, subject, jobs.count, jobs.own_data)
        likely, least, most = found
        now_ms = subject.iteration_ms.value
        fused_ms = now_ms * subject.step_ms(likely) / max(1e-9, subject.step_ms(subject.graph_of(self.grain)))
        others = scenario.choices.keys() - {self.name}
        changed = scenario.between(
            subject,
            likely,
            least,
            most,
            assumptions=(
                _data_said(jobs),
                "one optimizer updates the stacked weights; different learning rates need a parameter group per run",
                *(() if others else (_at_once_said(subject, jobs.count, fused_ms),)),
                *((OTHER_DRAWS,) if draws(scenario.graph) else ()),
            ),
            memory=lambda memory: _memory(memory, subject, jobs),
        )
        return replace(changed, samples_factor=changed.samples_factor * jobs.count)


def _data_said(jobs: Jobs) -> str:
    if jobs.own_data:
        return "each run reads batches of its own, one after the other in the one loader"
    return "all runs train on the same batches, which are loaded once"


def _memory(memory: Memory, subject: Subject, jobs: Jobs) -> Memory:
    """Weights, gradients, optimizer state and activations of each run; other tensors once."""
    many = float(jobs.count)
    batches = (many - 1) * subject.batch_bytes if jobs.own_data else 0.0
    owned = memory.with_weights(many).with_activations(Interval.exact(many))
    return owned.more("other", Interval.exact(batches))


def _at_once_said(subject: Subject, jobs: int, fused_ms: float) -> str:
    """The time of as many processes at once on this device, compared with the fused run, and its assumption."""
    processes_ms, assumed = processes_at_once(subject, jobs)
    return (
        f"{jobs} processes at once would take {format_ms(processes_ms)} for an iteration of each, "
        f"{processes_ms / fused_ms:.2g} times as long as the fused one, if {assumed}"
    )


def processes_at_once(subject: Subject, jobs: int) -> tuple[float, str]:
    """The time in ms in which each of ``jobs`` processes on this device does an iteration, and its assumption."""
    now_ms = subject.iteration_ms.value
    graph = subject.operators
    if subject.on_gpu:
        kernels = select(graph, kind=TaskKind.KERNEL)
        busy_ms = float(graph.durations[kernels].sum()) / 1e3 / max(1, len(graph.iterations))
        # A GPU cannot be busy for longer than the iteration takes.
        busy_ms = min(busy_ms, now_ms)
        return max(now_ms, jobs * busy_ms), "each has a core, and the GPU runs the kernels of one at a time"
    cores = cores_of(subject)
    threads = max(1, cores // jobs)
    before = threads_in(Scenario.of(subject), subject)
    alone_ms = now_ms
    if threads != before:
        chosen, divisions = split_tasks(subject, graph, asked=threads)
        slower, _, _ = factors(divisions, graph.durations[chosen], min(before, cores), threads)
        alone_ms *= subject.step_ms(scale(graph, chosen, slower)) / max(1e-9, subject.step_ms(graph))
    each = "one thread" if threads == 1 else f"{threads} threads"
    return alone_ms * max(
        1.0, jobs * threads / cores
    ), f"each computes on {each} and they share {cores} cores evenly"


WHATIF = FuseJobs()
