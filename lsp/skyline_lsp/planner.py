"""Plans a script or a described transformer on clusters, on a worker thread, one plan at a time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from skyline.capture.request import Progress
from skyline.errors import UsageError
from skyline.plan.cluster import ClusterSpec, cluster_named
from skyline.plan.layers import ModelWork
from skyline.plan.script_layers import traced_program
from skyline.plan.search import Request
from skyline.plan.strategy import Precision
from skyline.plan.transformer import transformer_named
from skyline.predict.gpu_profile import gpu_profile
from skyline.predict.registry import predictor_for
from skyline.report.plan import Plan, Terms, plan
from skyline.report.protocol import PlanParams
from skyline.trace.profile import Profile
from skyline_lsp.background_task import BackgroundTask, Report
from skyline_lsp.capture_job import log_output
from skyline_lsp.launched import LaunchedRun
from skyline_lsp.state import ScriptState, differs

Key = TypeVar("Key")
Value = TypeVar("Value")
_REMEMBERED = 8
_MOST_ROWS = 200


@dataclass(slots=True)
class Planner:
    """Makes plans, and caches the latest plans and the shape traces they are made from."""

    task: BackgroundTask
    _plans: OrderedDict[tuple[PlanParams, str], Plan] = field(
        default_factory=OrderedDict[tuple[PlanParams, str], Plan]
    )
    """Plans by question and id of the trace used. The id is empty for a described transformer."""
    _traces: OrderedDict[LaunchedRun, Profile] = field(default_factory=OrderedDict[LaunchedRun, Profile])

    async def plan(self, state: ScriptState, asked: PlanParams) -> Plan:
        """Rank strategies. Raises SkylineError, or its subclass Cancelled.

        Raises UsageError if the question cannot be read, and while another plan is being made. A script without a
        trace for the cluster's GPU is traced by shape first, which needs trust and takes some seconds.
        """
        folder = Path(state.path).parent
        cluster = cluster_named(_beside(folder, asked.cluster, ".toml"))
        sizes = cluster.sizes(asked.gpus)
        terms = Terms.read(asked.amount, asked.budget, asked.deadline, cluster)
        model = transformer_named(_beside(folder, asked.model, ".json")) if asked.model else None
        trace = None if model is not None else self._trace_of(state, cluster)
        known = self._plans.get((asked, _id_of(trace)))
        if known is not None and (model is not None or trace is not None):
            return known
        self._require_free(state, traces=model is None and trace is None)
        run = self._run(state, cluster)
        starter = self.task.server.profiler.starter

        def work(report: Report, cancel: threading.Event) -> tuple[Plan, Profile | None]:
            used = trace
            if model is None and used is None:
                used = gpu_profile(
                    run.launched(), progress=report, output=log_output, cancel=cancel, starter=starter
                )
            report(Progress("plan", f"strategies on {cluster.name}", 0.9))
            program = traced_program(used) if used is not None else None
            found: ModelWork | None = model or program
            assert found is not None
            made = plan(
                found,
                cluster,
                sizes,
                predictor_for(cluster.gpu),
                Request(
                    Precision(asked.precision),
                    asked.globalBatch,
                    program.batch if program is not None else None,
                    asked.compiled,
                    program.passes if program is not None else 1,
                ),
                terms,
                min(max(asked.rows, 1), _MOST_ROWS),
                cancel,
            )
            return made, used

        def done(found: tuple[Plan, Profile | None]) -> str:
            return f"{found[0].report.fitting:,} of {found[0].report.considered:,} strategies can be used"

        title = f"Planning {asked.model or Path(state.path).name} on {cluster.name}"
        made, used = await self.task.run(state.path, title, work, done)
        if used is not None and used is not trace:
            _keep(self._traces, run, used)
        _keep(self._plans, (asked, _id_of(used)), made)
        return made

    def _trace_of(self, state: ScriptState, cluster: ClusterSpec) -> Profile | None:
        """A trace of the current code for the cluster's GPU. A recording without a script is its own trace."""
        prepared = state.prepared
        if Path(state.path).suffix not in {".py", ".pyw", ".ipynb"}:
            if prepared is None:
                raise UsageError(
                    "A profiler trace does not record the tensor shapes of a whole step",
                    hint="Choose a model by name, such as llama3-8b, or open the training script.",
                )
            return prepared.profile
        if prepared is not None and not state.stale and _is_for(prepared.profile, cluster):
            return prepared.profile
        known = self._traces.get(self._run(state, cluster))
        texts = self.task.server.texts
        if known is None or any(differs(texts, source.path, source.text) for source in known.sources):
            return None
        return known

    def _run(self, state: ScriptState, cluster: ClusterSpec) -> LaunchedRun:
        made = self.task.server.profiler.run_for(state)
        request = replace(made.request, gpu=cluster.gpu.name, device="auto", batch_points=0)
        return replace(made, request=request, host="")

    def _require_free(self, state: ScriptState, *, traces: bool) -> None:
        """Raise UsageError while another plan is being made.

        A script to be traced also needs trust, and must not be profiled at the same time.
        """
        if traces:
            self.task.require_free(state, "is being planned", "Plan it")
        elif self.task.path:
            raise UsageError(
                f"{Path(self.task.path).name} is being planned",
                hint="Wait until it has finished, or cancel it.",
            )


def _is_for(profile: Profile, cluster: ClusterSpec) -> bool:
    return profile.prediction is not None and profile.prediction.gpu == cluster.gpu.name


def _id_of(trace: Profile | None) -> str:
    return trace.id if trace is not None else ""


def _beside(folder: Path, name: str, suffix: str) -> str:
    """The path of a file name relative to the script's folder. Other names are returned unchanged."""
    return str(folder / Path(name).expanduser()) if name.endswith(suffix) else name


def _keep(known: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    known[key] = value
    if len(known) > _REMEMBERED:
        known.popitem(last=False)
