"""Compares GPUs for a script on a worker thread, one comparison at a time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

from skyline.errors import UsageError
from skyline.predict.energy import own_grid_g_per_kwh
from skyline.predict.gpus import gpus_named
from skyline.predict.outlook import outlooks
from skyline.predict.prices import check_provider
from skyline.report.devices import DevicesReport, devices_report
from skyline.report.protocol import DevicesParams
from skyline_lsp.errand import Errand, Report
from skyline_lsp.state import ScriptState


@dataclass(slots=True)
class Comparer:
    """Starts and ends comparisons."""

    errand: Errand

    async def compare(self, state: ScriptState, asked: DevicesParams) -> DevicesReport:
        """Predict the script on each GPU. Raises SkylineError, or its subclass Cancelled.

        Raises UsageError during another comparison, and while the script is being profiled: the comparison would
        disturb that measurement.
        """
        self.errand.server.require_trust()
        if self.errand.path:
            raise UsageError(
                f"{Path(self.errand.path).name} is being compared",
                hint="Wait until it has finished, or cancel it.",
            )
        if state.job is not None:
            raise UsageError("The script is being profiled", hint="Compare GPUs when profiling has finished.")
        chosen = gpus_named(asked.gpus)
        if asked.provider:
            check_provider(asked.provider)
        grid = asked.gridGPerKwh if asked.gridGPerKwh is not None else own_grid_g_per_kwh()
        profiler = self.errand.server.profiler
        request = replace(profiler.request_for(state), gpu=chosen[0].name, device="auto")
        starter = profiler.starter

        def work(report: Report, cancel: threading.Event) -> DevicesReport:
            found = outlooks(request, chosen, progress=report, cancel=cancel, starter=starter)
            return devices_report(found, provider=asked.provider, grid_g_per_kwh=grid)

        return await self.errand.run(
            state.path,
            f"Comparing GPUs for {Path(state.path).name}",
            work,
            lambda _: f"predicted on {len(chosen)} GPU{'s' * (len(chosen) != 1)}",
        )
