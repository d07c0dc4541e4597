"""Verifications on their way: on a worker thread, one at a time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

from skyline.capture.redactor import hides_something
from skyline.capture.request import CaptureRequest
from skyline.errors import SkylineError, UsageError
from skyline.report.schema import VerifyReport, WhatIfReport
from skyline.report.verification import verify_report
from skyline.trace import store
from skyline.verification.measure import Effort
from skyline.verification.verify import verify
from skyline.whatif.question import Question
from skyline_lsp.errand import Errand, Report
from skyline_lsp.state import Prepared, ScriptState, prepare, with_records


@dataclass(slots=True)
class Verifier:
    """Starts and ends verifications."""

    errand: Errand

    async def verify(
        self, state: ScriptState, asked: Question, effort: Effort, profile_id: str | None = None
    ) -> VerifyReport:
        """The prediction from a profile, the latest by default, against its measurement; raises SkylineError.

        A second one while one is under way is refused: the two would measure each other.
        """
        self.errand.server.require_trust()
        if self.errand.path:
            raise UsageError(
                f"{Path(self.errand.path).name} is being verified", hint="Wait for its end, or cancel it."
            )
        if state.job is not None:
            raise UsageError("The script is being profiled", hint="Verify it when that is done.")
        if state.prepared is None:
            raise SkylineError("There is no profile yet", hint="Run skyline.profile first.")
        server, latest, script = self.errand.server, state.prepared, Path(state.path)
        request, starter = server.profiler.request_for(state), server.profiler.starter

        def work(report: Report, cancel: threading.Event) -> tuple[VerifyReport, WhatIfReport]:
            earlier = profile_id is not None and profile_id != latest.profile.id
            prepared = _saved(script, profile_id or "") if earlier else latest
            found = verify(
                prepared.analysis,
                asked,
                request=_as_profiled(request, prepared),
                effort=effort,
                progress=report,
                cancel=cancel,
                starter=starter,
            )
            return verify_report(prepared.analysis, found), with_records(latest.whatifs, latest.analysis)

        def done(found: tuple[VerifyReport, WhatIfReport]) -> str:
            result, whatifs = found
            if state.prepared is latest:
                state.prepared = replace(latest, whatifs=whatifs)
            return f"measured {result.measured.ratio.value:.3f} of the time" if result.valid else "discarded"

        title = f"Verifying {Path(state.path).name}"
        return (await self.errand.run(state.path, title, work, done))[0]


def _as_profiled(request: CaptureRequest, prepared: Prepared) -> CaptureRequest:
    """As the profile was made, with the settings of now for what it does not tell.

    The code is that of the profile: what the editor holds may have the change in it already.
    """
    profile = prepared.profile
    known = not hides_something(profile.arguments)
    if not known and not request.arguments:
        raise UsageError(
            f"{request.script.name} was profiled with a secret among its arguments, which is not kept",
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
    """A saved profile of a script; raises UsageError where it is gone."""
    path = next((one for one in store.saved(script) if one.name == store.name_of(script, profile_id)), None)
    if path is None:
        raise UsageError(
            "The profile from before the change is no longer there",
            hint="Take the change back, profile the script, and make the change again.",
        )
    return prepare(store.load(path, script))
