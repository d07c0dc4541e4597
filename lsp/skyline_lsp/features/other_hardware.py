"""Predictions for GPUs and clusters that need not be present. The client may cancel the requests."""

from __future__ import annotations

import asyncio
from pathlib import Path

from skyline.errors import UsageError
from skyline.report import protocol
from skyline.report.device_rows import DevicesReport
from skyline.report.plan import Plan, choices
from skyline.report.plan_report import PlanChoices, PlanReport
from skyline.report.protocol import (
    CommandResult,
    DevicesParams,
    PlanExportParams,
    PlanParams,
    PlanTimelineParams,
    UriParams,
)
from skyline.report.timeline_report import TimelineReport
from skyline.report.timelines import sides_of_simulation, window
from skyline.whole_file import write_whole
from skyline_lsp import convert, wire
from skyline_lsp.server import SkylineServer
from skyline_lsp.state import ScriptState

_MOST = 4000


def register(server: SkylineServer) -> None:
    """Answer ``skyline/devices``, ``skyline/plan``, and requests for its choices and the timelines of its rows."""

    @server.feature(protocol.PLAN_CHOICES)
    @wire.answers(UriParams)
    async def plan_choices(asked: UriParams) -> PlanChoices:
        path = convert.path_of(asked.uri)
        folder = Path(path).parent if path is not None else None
        return await asyncio.to_thread(choices, folder)

    @server.feature(protocol.PLAN)
    @wire.answers(PlanParams)
    async def plan(asked: PlanParams) -> PlanReport:
        return (await server.planner.plan(_state(server, asked), asked)).report

    @server.feature(protocol.PLAN_TIMELINE)
    @wire.answers(PlanTimelineParams)
    async def plan_timeline(asked: PlanTimelineParams) -> TimelineReport:
        made = await server.planner.plan(_state(server, asked.plan), asked.plan)
        return await asyncio.to_thread(_timeline, made, asked)

    @server.feature(protocol.PLAN_EXPORT)
    @wire.answers(PlanExportParams)
    async def plan_export(asked: PlanExportParams) -> CommandResult:
        state = _state(server, asked.plan)
        made = await server.planner.plan(state, asked.plan)
        path = Path(state.path).parent / Path(asked.path).expanduser()
        await asyncio.to_thread(_export, made, asked.row, path)
        return CommandResult("written", path=str(path))

    @server.feature(protocol.DEVICES)
    @wire.answers(DevicesParams)
    async def devices(asked: DevicesParams) -> DevicesReport:
        state = server.touch(asked.uri)
        if state is None:
            raise UsageError(
                "Predictions for other GPUs need a script on this machine",
                hint="Save the script to a file first.",
            )
        return await server.comparer.compare(state, asked)


def _state(server: SkylineServer, asked: PlanParams) -> ScriptState:
    state = server.touch(asked.uri)
    if state is None:
        raise UsageError("A plan needs a script on this machine", hint="Save the script to a file first.")
    return state


def _timeline(made: Plan, asked: PlanTimelineParams) -> TimelineReport:
    row = made.report.rows[asked.row - 1] if 1 <= asked.row <= len(made.report.rows) else None
    sides = sides_of_simulation(made.timeline(asked.row), row.label if row is not None else "")
    return window(sides, asked.beginMs, asked.endMs, min(max(asked.most, 1), _MOST))


def _export(made: Plan, row: int, path: Path) -> None:
    data = made.perfetto(row)
    try:
        write_whole(path, data)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror or error}", hint="Choose another file."
        ) from error
