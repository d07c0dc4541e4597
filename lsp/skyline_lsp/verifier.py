"""Runs verifications on a worker thread, one at a time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

from skyline.capture.redactor import hides_something
from skyline.capture.request import CaptureRequest
from skyline.errors import UsageError
from skyline.predict.energy import own_grid_g_per_kwh
from skyline.predict.gpus import gpus_named
from skyline.predict.outlook import outlooks
from skyline.predict.prices import check_provider
from skyline.report.device_rows import DevicesReport
from skyline.report.devices import devices_report
from skyline.report.protocol import DevicesParams
from skyline.report.schema import VerifyReport, WhatIfReport
from skyline.report.verification import removal_report, verify_report
from skyline.trace import store
from skyline.units import plural
from skyline.verification.compare import verify_removal
from skyline.verification.measure import Effort
from skyline.verification.verify import verify
from skyline.whatif.question import Question
from skyline_lsp.background_task import BackgroundTask, Report
from skyline_lsp.on_host import check_measured_here
from skyline_lsp.state import Prepared, ScriptState, prepare, with_records


@dataclass(slots=True)
class Verifier:
    """Starts and ends verifications."""

    task: BackgroundTask

    async def verify(
        self,
        state: ScriptState,
        asked: Question,
        removes: tuple[str, ...],
        effort: Effort,
        profile_id: str | None = None,
    ) -> VerifyReport:
        """Measure a change and compare it with its prediction. ``profile_id`` defaults to the latest profile.

        ``removes`` are what-ifs to remove from the profiled code. Removals have no prediction.

        Raises SkylineError if the verification fails. Raises UsageError if another verification is running: the two
        would disturb each other's measurements.
        """
        self.task.require_free(state, "is being verified", "Verify it")
        server, latest, script = self.task.server, state.profiled(), Path(state.path)
        launch, starter = server.profiler.run_for(state), server.profiler.starter

        def work(report: Report, cancel: threading.Event) -> tuple[VerifyReport, WhatIfReport]:
            earlier = profile_id is not None and profile_id != latest.profile.id
            prepared = _saved(script, profile_id or "") if earlier else latest
            check_measured_here(prepared.profile, "Verify")
            analysis, run = prepared.analysis, as_profiled(launch.launched(), prepared)
            if removes:
                removal = verify_removal(
                    analysis,
                    removes,
                    asked,
                    request=run,
                    effort=effort,
                    progress=report,
                    cancel=cancel,
                    starter=starter,
                )
                return removal_report(analysis, removes, asked, removal), latest.whatifs
            found = verify(
                analysis,
                asked,
                request=run,
                effort=effort,
                progress=report,
                cancel=cancel,
                starter=starter,
            )
            return verify_report(analysis, found), with_records(latest.whatifs, latest.analysis)

        def done(found: tuple[VerifyReport, WhatIfReport]) -> str:
            result, whatifs = found
            if state.prepared is latest:
                state.prepared = replace(latest, whatifs=whatifs)
            return (
                f"measured {result.measured.ratio.value:.3f} of the unchanged time"
                if result.valid
                else "discarded"
            )

        title = f"Verifying {Path(state.path).name}"
        return (await self.task.run(state.path, title, work, done))[0]


def as_profiled(request: CaptureRequest, prepared: Prepared) -> CaptureRequest:
    """The request that repeats the profile's run, with current settings where the profile records none.

    Uses the profile's code, because the editor's text may already contain the change.
    """
    profile = prepared.profile
    known = not hides_something(profile.arguments)
    if not known and not request.arguments:
        raise UsageError(
            f"{request.script.name} was profiled with a secret among its arguments, and secrets are not stored",
            hint="Set skyline.profile.args, or profile the script with its arguments again.",
        )
    others = [each for each in request.source_overrides if each[0] not in prepared.sources]
    return replace(
        request,
        arguments=profile.arguments if known else request.arguments,
        interpreter=profile.interpreter or request.interpreter,
        working_directory=Path(profile.working_directory),
        module=profile.module,
        gpu="",
        source_overrides=(*others, *((path, source.text) for path, source in prepared.sources.items())),
    )


def _saved(script: Path, profile_id: str) -> Prepared:
    """Load a saved profile of a script. Raises UsageError if it no longer exists."""
    path = store.saved_as(script, profile_id)
    if path is None:
        raise UsageError(
            "The profile that was made before the change no longer exists",
            hint="Undo the change, profile the script, and make the change again.",
        )
    return prepare(store.load(path, script))


@dataclass(slots=True)
class Comparer:
    """Starts and ends comparisons."""

    task: BackgroundTask

    async def compare(self, state: ScriptState, asked: DevicesParams) -> DevicesReport:
        """Predict the script on each GPU. Raises SkylineError, or its subclass Cancelled.

        Raises UsageError during another comparison, and while the script is being profiled, because the comparison
        would disturb that measurement.
        """
        self.task.require_free(state, "is being compared", "Compare GPUs")
        chosen = gpus_named(asked.gpus)
        if asked.provider:
            check_provider(asked.provider)
        grid = asked.gridGPerKwh if asked.gridGPerKwh is not None else own_grid_g_per_kwh()
        profiler = self.task.server.profiler
        run = profiler.run_for(state)
        starter = profiler.starter

        def work(report: Report, cancel: threading.Event) -> DevicesReport:
            request = replace(run.launched(), gpu=chosen[0].name, device="auto")
            found = outlooks(request, chosen, progress=report, cancel=cancel, starter=starter)
            return devices_report(found, provider=asked.provider, grid_g_per_kwh=grid)

        return await self.task.run(
            state.path,
            f"Comparing GPUs for {Path(state.path).name}",
            work,
            lambda _: f"predicted on {plural(len(chosen), 'GPU')}",
        )
