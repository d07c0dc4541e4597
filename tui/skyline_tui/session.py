"""One script and its server: the requests of the screen."""

from __future__ import annotations

from pathlib import Path

from skyline.errors import UsageError
from skyline.report import protocol
from skyline.report.commit_history import HistoryReport
from skyline.report.device_rows import DevicesReport
from skyline.report.history import ComparisonReport, SavedProfile
from skyline.report.live_memory import LiveMemoryReport
from skyline.report.plan_report import PlanChoices, PlanReport
from skyline.report.protocol import (
    ApplyResult,
    BestParams,
    CommandResult,
    CompareParams,
    DevicesParams,
    MemoryAtParams,
    OpenResult,
    PlanExportParams,
    PlanParams,
    PlanTimelineParams,
    PreviewResult,
    QuestionParams,
    RemoveParams,
    TimelineParams,
    TuneParams,
    UriParams,
    VerifyParams,
    WatchedParams,
)
from skyline.report.schema import BestReport, EstimateReport, ProfileReport, VerifyReport, WhatIfReport
from skyline.report.timeline_report import TimelineReport
from skyline.report.tune import TuneProgress, TuneReport
from skyline.source.project import project_root
from skyline.watch.watch_report import WatchReport
from skyline_tui.client import Server
from skyline_tui.messages import Post, ProfileMoved


class ServerSession:
    """A script, accessed through the language server; every method raises SkylineError with a reason to show."""

    runs = True
    """True if there is a script to measure. False for a saved profile or a trace."""

    def __init__(self, script: Path, server: Server) -> None:
        self.script = script
        self.uri = script.as_uri()
        self._server = server

    async def start(self) -> None:
        """Start the server in the root folder of the script's project."""
        await self._server.start(project_root(self.script))

    async def stop(self) -> None:
        """End the server."""
        await self._server.stop()

    async def profile(self) -> None:
        """Measure the script; results are posted."""
        await self._server.execute(protocol.COMMAND_PROFILE, self.uri)

    async def cancel(self) -> None:
        """Cancel the measurement."""
        await self._server.execute(protocol.COMMAND_CANCEL, self.uri)

    async def use_later(self) -> None:
        """Show the measurement that was made on a busy machine."""
        await self._server.execute(protocol.COMMAND_USE_LATER, self.uri)

    async def latest(self) -> ProfileReport | None:
        """The newest profile the server has."""
        return await self._server.request_if_any(protocol.PROFILE, UriParams(self.uri), ProfileReport)

    async def whatifs(self) -> WhatIfReport | None:
        """The answer to every single what-if, in the server's order."""
        return await self._server.request_if_any(protocol.WHATIFS, UriParams(self.uri), WhatIfReport)

    async def simulate(self, question: QuestionParams) -> EstimateReport:
        """The combined estimate."""
        return await self._server.request(protocol.SIMULATE, question, EstimateReport)

    async def best(self, limits: BestParams) -> BestReport:
        """The best combination within limits."""
        return await self._server.request(protocol.BEST, limits, BestReport)

    async def verify(self, question: VerifyParams) -> VerifyReport:
        """Measure a prediction, which takes minutes; ``cancel`` ends it."""
        return await self._server.request(protocol.VERIFY, question, VerifyReport)

    async def devices(self, asked: DevicesParams) -> DevicesReport:
        """Predict the script on other GPUs, which may be absent. This takes a minute; ``cancel`` ends it."""
        return await self._server.request(protocol.DEVICES, asked, DevicesReport)

    async def timeline(self, asked: TimelineParams) -> TimelineReport:
        """A window of an iteration as measured and as simulated."""
        return await self._server.request(protocol.TIMELINE, asked, TimelineReport)

    async def memory_at(self, asked: MemoryAtParams) -> LiveMemoryReport:
        """The live memory at a moment, by line."""
        return await self._server.request(protocol.MEMORY_AT, asked, LiveMemoryReport)

    async def history(self) -> tuple[SavedProfile, ...]:
        """The profiles saved for the script, newest first."""
        return await self._server.request(protocol.HISTORY, UriParams(self.uri), tuple[SavedProfile, ...])

    async def commits(self) -> HistoryReport | None:
        """The states of the script over its commits; None without a profile."""
        return await self._server.request_if_any(protocol.COMMITS, UriParams(self.uri), HistoryReport)

    async def compare(self, asked: CompareParams) -> ComparisonReport:
        """Two saved profiles, compared."""
        return await self._server.request(protocol.COMPARE, asked, ComparisonReport)

    async def plan_choices(self) -> PlanChoices:
        """The clusters and models to plan for."""
        return await self._server.request(protocol.PLAN_CHOICES, UriParams(self.uri), PlanChoices)

    async def plan(self, asked: PlanParams) -> PlanReport:
        """Rank strategies on a cluster, which takes seconds; ``cancel`` ends it."""
        return await self._server.request(protocol.PLAN, asked, PlanReport)

    async def plan_timeline(self, asked: PlanTimelineParams) -> TimelineReport:
        """A window of the timeline of a row."""
        return await self._server.request(protocol.PLAN_TIMELINE, asked, TimelineReport)

    async def plan_export(self, asked: PlanExportParams) -> CommandResult:
        """The timeline of a row as a file."""
        return await self._server.request(protocol.PLAN_EXPORT, asked, CommandResult)

    async def watched(self, asked: WatchedParams) -> WatchReport | None:
        """A run of ``skyline watch``; None if there is none."""
        return await self._server.request_if_any(protocol.WATCHED, asked, WatchReport)

    async def tune(self, asked: TuneParams) -> TuneReport:
        """Search by measured trials, which takes minutes; ``cancel`` ends it and keeps its trials."""
        return await self._server.request(protocol.TUNE, asked, TuneReport)

    async def tuned(self) -> TuneProgress | None:
        """The trials of the last search."""
        return await self._server.request_if_any(protocol.TUNED, UriParams(self.uri), TuneProgress)

    async def preview(self, question: QuestionParams) -> PreviewResult:
        """The edits and their diff."""
        return await self._server.request(protocol.PREVIEW, question, PreviewResult)

    async def apply(self, question: QuestionParams) -> ApplyResult:
        """Apply the edits: the server returns them as a workspace edit, which the client writes."""
        return await self._server.request(protocol.APPLY, question, ApplyResult)

    async def revert(self) -> ApplyResult:
        """Undo the edits of the last apply."""
        return await self._server.request(protocol.REVERT, UriParams(self.uri), ApplyResult)

    async def remove(self, asked: RemoveParams) -> ApplyResult:
        """Make the edits that remove a what-if from the code."""
        return await self._server.request(protocol.REMOVE, asked, ApplyResult)


class SavedSession(ServerSession):
    """A saved profile or a profiler trace: all requests work except those that need to run the script."""

    runs = False

    def __init__(self, file: Path, server: Server, post: Post) -> None:
        super().__init__(file, server)
        self._post = post

    async def start(self) -> None:
        """Start the server and open the file; its content is available immediately."""
        await super().start()
        await self._server.request(protocol.OPEN, UriParams(self.uri), OpenResult)
        self._post(ProfileMoved(protocol.ProfileChanged(self.uri, self.script.name, "", stale=False)))

    async def profile(self) -> None:
        """Refused, with the next step."""
        raise _nothing_to_run(self.script)

    async def verify(self, question: VerifyParams) -> VerifyReport:
        """Refused, with the next step."""
        raise _nothing_to_run(self.script)

    async def devices(self, asked: DevicesParams) -> DevicesReport:
        """Refused, with the next step."""
        raise _nothing_to_run(self.script)

    async def tune(self, asked: TuneParams) -> TuneReport:
        """Refused, with the next step."""
        raise _nothing_to_run(self.script)


def _nothing_to_run(file: Path) -> UsageError:
    return UsageError(
        f"{file.name} is a recording: nothing can be run from it", hint="Open its script: skyline tui SCRIPT"
    )
