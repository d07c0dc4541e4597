"""Verifications on their way: on a worker thread, one at a time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

from skyline.capture.request import CaptureRequest
from skyline.capture.secrecy import HIDDEN
from skyline.errors import SkylineError, UsageError
from skyline.report.schema import VerifyReport, WhatIfReport
from skyline.report.verification import verify_report
from skyline.verification.measure import Effort
from skyline.verification.verify import verify
from skyline.whatif.question import Question
from skyline_lsp.errand import Errand, Report
from skyline_lsp.state import Prepared, ScriptState, with_records


@dataclass(slots=True)
class Verifier:
    """Starts and ends verifications."""

    errand: Errand

    async def verify(self, state: ScriptState, asked: Question, effort: Effort) -> VerifyReport:
        """The prediction against its measurement; raises SkylineError, Cancelled among them.

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
        prepared, request = state.prepared, self._request(state, state.prepared)
        starter = self.errand.server.profiler.starter

        def work(report: Report, cancel: threading.Event) -> tuple[VerifyReport, WhatIfReport]:
            found = verify(
                prepared.analysis,
                asked,
                request=request,
                effort=effort,
                progress=report,
                cancel=cancel,
                starter=starter,
            )
            return verify_report(prepared.analysis, found), with_records(prepared.whatifs, prepared.analysis)

        def done(found: tuple[VerifyReport, WhatIfReport]) -> str:
            result, whatifs = found
            if state.prepared is prepared:
                state.prepared = replace(prepared, whatifs=whatifs)
            return f"measured {result.measured.ratio.value:.3f} of the time" if result.valid else "discarded"

        title = f"Verifying {Path(state.path).name}"
        return (await self.errand.run(state.path, title, work, done))[0]

    def _request(self, state: ScriptState, prepared: Prepared) -> CaptureRequest:
        """As the profile was made, with the settings of now for what it does not tell."""
        profile, request = prepared.profile, self.errand.server.profiler.request_for(state)
        known = not any(HIDDEN in argument for argument in profile.arguments)
        return replace(
            request,
            arguments=profile.arguments if known else request.arguments,
            interpreter=profile.interpreter or request.interpreter,
            working_directory=Path(profile.working_directory),
            module=profile.module,
            gpu="",
        )
