"""All messages beyond the standard protocol, with the types of their contents.

The TypeScript types of the clients are generated from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from skyline.report import protocol
from skyline.report.devices import DevicesReport
from skyline.report.history import ComparisonReport, SavedProfile
from skyline.report.live_memory import LiveMemoryReport
from skyline.report.schema import BestReport, EstimateReport, ProfileReport, VerifyReport, WhatIfReport
from skyline.report.timelines import TimelineReport
from skyline_lsp.exporting import ExportOptions
from skyline_lsp.options import InitializationOptions, ProfileOptions

Kind = Literal["request", "notification", "event", "command", "options"]


@dataclass(frozen=True, slots=True)
class Method:
    """One message. ``sent`` is the type of its parameters, ``answer`` that of its result (None: no result).

    An ``event`` goes to the client, the others come from it. For a ``command``, ``sent`` is the optional second
    argument; the first is the script's URI.
    """

    name: str
    kind: Kind
    sent: Any
    answer: Any = None


METHODS = (
    Method("initialize", "options", InitializationOptions),
    Method(protocol.PROFILE_CHANGED, "event", protocol.ProfileChanged),
    Method(protocol.MEASURING, "event", protocol.Measuring),
    Method(protocol.TRUST, "notification", protocol.TrustParams),
    Method(protocol.CONFIG, "request", protocol.ConfigParams, protocol.ConfigResult),
    Method(protocol.PROFILE, "request", protocol.UriParams, ProfileReport | None),
    Method(protocol.WHATIFS, "request", protocol.UriParams, WhatIfReport | None),
    Method(protocol.SIMULATE, "request", protocol.QuestionParams, EstimateReport),
    Method(protocol.BEST, "request", protocol.BestParams, BestReport),
    Method(protocol.PREVIEW, "request", protocol.QuestionParams, protocol.PreviewResult),
    Method(protocol.APPLY, "request", protocol.QuestionParams, protocol.ApplyResult),
    Method(protocol.REMOVE, "request", protocol.RemoveParams, protocol.ApplyResult),
    Method(protocol.REVERT, "request", protocol.UriParams, protocol.ApplyResult),
    Method(protocol.CODE_CHANGES, "request", protocol.UriParams, protocol.CodeChanges | None),
    Method(protocol.CODE_CHANGED, "event", protocol.CodeChanges),
    Method(protocol.ORIGINAL, "request", protocol.UriParams, tuple[protocol.OriginalText, ...]),
    Method(protocol.VERIFY, "request", protocol.VerifyParams, VerifyReport),
    Method(protocol.DEVICES, "request", protocol.DevicesParams, DevicesReport),
    Method(protocol.ENTRY_SCRIPTS, "request", protocol.UriParams, protocol.EntryScripts),
    Method(protocol.OPEN, "request", protocol.UriParams, protocol.OpenResult),
    Method(protocol.TIMELINE, "request", protocol.TimelineParams, TimelineReport),
    Method(protocol.MEMORY_AT, "request", protocol.MemoryAtParams, LiveMemoryReport),
    Method(protocol.HISTORY, "request", protocol.UriParams, tuple[SavedProfile, ...]),
    Method(protocol.COMPARE, "request", protocol.CompareParams, ComparisonReport),
    Method(protocol.COMMAND_PROFILE, "command", ProfileOptions, protocol.CommandResult),
    Method(protocol.COMMAND_CANCEL, "command", None, protocol.CommandResult),
    Method(protocol.COMMAND_CLEAR, "command", None, protocol.CommandResult),
    Method(protocol.COMMAND_USE_LATER, "command", None, protocol.CommandResult),
    Method(protocol.COMMAND_SHOW_REPORT, "command", None, protocol.CommandResult),
    Method(protocol.COMMAND_EXPORT, "command", ExportOptions, protocol.CommandResult),
    Method(protocol.COMMAND_WHATIF, "command", protocol.QuestionOptions, EstimateReport),
    Method(protocol.COMMAND_APPLY_REWRITE, "command", protocol.QuestionOptions, protocol.ApplyResult),
    Method(protocol.COMMAND_REVERT, "command", None, protocol.ApplyResult),
    Method(protocol.COMMAND_VERIFY, "command", protocol.VerifyOptions, VerifyReport),
)
