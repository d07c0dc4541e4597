"""One script and the server that knows about it: the questions the screen asks."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from skyline.errors import UsageError
from skyline.report import protocol
from skyline.report.devices import DevicesReport
from skyline.report.history import ComparisonReport, SavedProfile
from skyline.report.live_memory import LiveMemoryReport
from skyline.report.protocol import (
    ApplyResult,
    BestParams,
    CompareParams,
    DevicesParams,
    MemoryAtParams,
    OpenResult,
    PreviewResult,
    QuestionParams,
    RemoveParams,
    TimelineParams,
    UriParams,
    VerifyParams,
)
from skyline.report.schema import BestReport, EstimateReport, ProfileReport, VerifyReport, WhatIfReport
from skyline.report.timelines import TimelineReport
from skyline.source.project import project_root
from skyline_tui.client import Server
from skyline_tui.messages import Post, ProfileMoved


class ScreenSession(Protocol):
    """What the screen needs of a script; everything raises SkylineError with a reason to show."""

    script: Path
    uri: str
    runs: bool
    """Whether there is a script to measure; else this is something that was saved."""

    async def start(self) -> None:
        """Get ready to answer."""
        ...

    async def stop(self) -> None:
        """Let go of everything."""
        ...

    async def profile(self) -> None:
        """Measure the script; what comes of it is posted."""
        ...

    async def cancel(self) -> None:
        """Stop measuring."""
        ...

    async def use_later(self) -> None:
        """Show the measurement that was put aside; what comes of it is posted."""
        ...

    async def latest(self) -> ProfileReport | None:
        """The newest profile there is."""
        ...

    async def whatifs(self) -> WhatIfReport | None:
        """Every what-if asked singly."""
        ...

    async def simulate(self, question: QuestionParams) -> EstimateReport:
        """What would come of this change."""
        ...

    async def best(self, limits: BestParams) -> BestReport:
        """The best combination that keeps to some limits."""
        ...

    async def verify(self, question: VerifyParams) -> VerifyReport:
        """A prediction against its measurement, which takes minutes; ``cancel`` ends it."""
        ...

    async def devices(self, asked: DevicesParams) -> DevicesReport:
        """The script on GPUs that need not be here, which takes a minute; ``cancel`` ends it."""
        ...

    async def timeline(self, asked: TimelineParams) -> TimelineReport:
        """A window of an iteration as measured and as simulated."""
        ...

    async def memory_at(self, asked: MemoryAtParams) -> LiveMemoryReport:
        """What is live at a moment of the iteration."""
        ...

    async def history(self) -> tuple[SavedProfile, ...]:
        """The saved profiles, newest first."""
        ...

    async def compare(self, asked: CompareParams) -> ComparisonReport:
        """Two saved profiles, in numbers and in code."""
        ...

    async def preview(self, question: QuestionParams) -> PreviewResult:
        """The edits that would make the change."""
        ...

    async def apply(self, question: QuestionParams) -> ApplyResult:
        """Make the change in the files."""
        ...

    async def revert(self) -> ApplyResult:
        """Take the last change back."""
        ...

    async def remove(self, asked: RemoveParams) -> ApplyResult:
        """Take a what-if that the code has out of it."""
        ...


class ServerSession:
    """A script, asked about over the language-server protocol."""

    runs = True

    def __init__(self, script: Path, server: Server) -> None:
        self.script = script
        self.uri = script.as_uri()
        self._server = server

    async def start(self) -> None:
        """Start the server, at the root of the project that the script is in."""
        await self._server.start(project_root(self.script))

    async def stop(self) -> None:
        """End the server."""
        await self._server.stop()

    async def profile(self) -> None:
        """Have the script measured."""
        await self._server.execute(protocol.COMMAND_PROFILE, self.uri)

    async def cancel(self) -> None:
        """Have the measuring stopped."""
        await self._server.execute(protocol.COMMAND_CANCEL, self.uri)

    async def use_later(self) -> None:
        """Show the measurement that was made while the machine was busy."""
        await self._server.execute(protocol.COMMAND_USE_LATER, self.uri)

    async def latest(self) -> ProfileReport | None:
        """The newest profile the server has."""
        return await self._server.request_if_any(protocol.PROFILE, UriParams(self.uri), ProfileReport)

    async def whatifs(self) -> WhatIfReport | None:
        """Every what-if asked singly, in the server's order."""
        return await self._server.request_if_any(protocol.WHATIFS, UriParams(self.uri), WhatIfReport)

    async def simulate(self, question: QuestionParams) -> EstimateReport:
        """The combined estimate."""
        return await self._server.request(protocol.SIMULATE, question, EstimateReport)

    async def best(self, limits: BestParams) -> BestReport:
        """The best combination that keeps to some limits."""
        return await self._server.request(protocol.BEST, limits, BestReport)

    async def verify(self, question: VerifyParams) -> VerifyReport:
        """A prediction against its measurement, as the server makes it."""
        return await self._server.request(protocol.VERIFY, question, VerifyReport)

    async def devices(self, asked: DevicesParams) -> DevicesReport:
        """The script on GPUs that need not be here, as the server predicts it."""
        return await self._server.request(protocol.DEVICES, asked, DevicesReport)

    async def timeline(self, asked: TimelineParams) -> TimelineReport:
        """A window of both timelines, as the server cuts it."""
        return await self._server.request(protocol.TIMELINE, asked, TimelineReport)

    async def memory_at(self, asked: MemoryAtParams) -> LiveMemoryReport:
        """What is live at a moment, line by line."""
        return await self._server.request(protocol.MEMORY_AT, asked, LiveMemoryReport)

    async def history(self) -> tuple[SavedProfile, ...]:
        """The profiles saved beside the script, newest first."""
        return await self._server.request(protocol.HISTORY, UriParams(self.uri), tuple[SavedProfile, ...])

    async def compare(self, asked: CompareParams) -> ComparisonReport:
        """Two saved profiles, as the server compares them."""
        return await self._server.request(protocol.COMPARE, asked, ComparisonReport)

    async def preview(self, question: QuestionParams) -> PreviewResult:
        """The edits and their diff."""
        return await self._server.request(protocol.PREVIEW, question, PreviewResult)

    async def apply(self, question: QuestionParams) -> ApplyResult:
        """The edits, made: they come back as an edit of the workspace, which the client writes."""
        return await self._server.request(protocol.APPLY, question, ApplyResult)

    async def revert(self) -> ApplyResult:
        """The edits of the last apply, unmade."""
        return await self._server.request(protocol.REVERT, UriParams(self.uri), ApplyResult)

    async def remove(self, asked: RemoveParams) -> ApplyResult:
        """The edits that take a what-if out of the code, made."""
        return await self._server.request(protocol.REMOVE, asked, ApplyResult)


class SavedSession(ServerSession):
    """A saved profile or a profiler trace: everything is answered but what would need the script to run."""

    runs = False

    def __init__(self, file: Path, server: Server, post: Post) -> None:
        super().__init__(file, server)
        self._post = post

    async def start(self) -> None:
        """Start the server and have the file opened; what is in it is there at once."""
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


def _nothing_to_run(file: Path) -> UsageError:
    return UsageError(
        f"{file.name} is a recording: nothing can be run from it", hint="Open its script: skyline tui SCRIPT"
    )
