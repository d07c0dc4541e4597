"""Generates the TypeScript types of all messages beyond the standard protocol.

Usage: ``python -m skyline_lsp.typescript``.
"""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Union

from skyline.lazy_dataclass import dataclass
from skyline.report import devices, protocol, schema
from skyline.report.commit_history import HistoryReport
from skyline.report.device_rows import DevicesReport
from skyline.report.history import ComparisonReport, SavedProfile
from skyline.report.live_memory import LiveMemoryReport
from skyline.report.plan_report import PlanChoices, PlanReport
from skyline.report.schema import BestReport, EstimateReport, ProfileReport, VerifyReport, WhatIfReport
from skyline.report.timeline_report import TimelineReport
from skyline.report.tune import TuneProgress, TuneReport
from skyline.watch.watch_report import WatchReport
from skyline_lsp.exported_file import ExportOptions
from skyline_lsp.options import InitializationOptions, ProfileOptions

Kind = Literal["request", "notification", "event", "command", "options"]


@dataclass(frozen=True, slots=True)
class Method:
    """One message. ``sent`` is the type of its parameters, ``answer`` is the type of its result (None: no result).

    An ``event`` goes to the client; all other messages come from it. For a ``command``, ``sent`` is the type of
    the optional second argument; the first argument is the script's URI.
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
    Method(protocol.COMMITS, "request", protocol.UriParams, HistoryReport | None),
    Method(protocol.COMPARE, "request", protocol.CompareParams, ComparisonReport),
    Method(protocol.PLAN_CHOICES, "request", protocol.UriParams, PlanChoices),
    Method(protocol.PLAN, "request", protocol.PlanParams, PlanReport),
    Method(protocol.PLAN_TIMELINE, "request", protocol.PlanTimelineParams, TimelineReport),
    Method(protocol.PLAN_EXPORT, "request", protocol.PlanExportParams, protocol.CommandResult),
    Method(protocol.WATCHED, "request", protocol.WatchedParams, WatchReport | None),
    Method(protocol.TUNE, "request", protocol.TuneParams, TuneReport),
    Method(protocol.TUNED, "request", protocol.UriParams, TuneProgress | None),
    Method(protocol.TUNING, "event", TuneProgress),
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


_HEAD = """\
// Made by `python -m skyline_lsp.typescript` from the types of the Python protocol. Not to be edited by hand.
/* eslint-disable */
"""
_PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


class Declarations:
    """The interfaces that a set of types needs, each declared once, in order of first use.

    In messages from the client, fields with a default are optional. Messages to the client have all fields.
    """

    def __init__(self) -> None:
        self._interfaces: dict[str, str] = {}
        self._known: dict[str, tuple[Any, bool]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._interfaces.values())

    def name(self, kind: Any, *, sent: bool) -> str:
        """The TypeScript expression of a type. Also declares the interfaces that it needs."""
        origin, parts = typing.get_origin(kind), typing.get_args(kind)
        if kind in _PLAIN:
            return _PLAIN[kind]
        if kind is Any or kind is object:
            return "unknown"
        if origin is typing.Annotated:
            return self.name(parts[0], sent=sent)
        if origin is typing.Literal:
            return " | ".join(f'"{part}"' for part in parts)
        if origin in (Union, types.UnionType):
            return " | ".join(dict.fromkeys(self.name(part, sent=sent) for part in parts))
        if origin is tuple and (len(parts) != 2 or parts[1] is not Ellipsis):
            return f"readonly [{', '.join(self.name(part, sent=sent) for part in parts)}]"
        if origin in (tuple, list, frozenset, Sequence):
            inner = self.name(parts[0], sent=sent)
            return f"readonly ({inner})[]" if " " in inner else f"readonly {inner}[]"
        if origin in (dict, Mapping):
            return f"Readonly<Record<string, {self.name(parts[1], sent=sent)}>>"
        if isinstance(kind, type) and issubclass(kind, Enum):
            return " | ".join(f'"{member.value}"' for member in kind)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            return self._interface(kind, sent=sent)
        raise TypeError(f"no TypeScript for {kind!r}")

    def _interface(self, kind: type[Any], *, sent: bool) -> str:
        name = kind.__name__
        if name in self._known:
            if self._known[name] != (kind, sent):
                raise TypeError(f"{name} is the name of two different types")
            return name
        self._known[name] = (kind, sent)
        self._interfaces[name] = ""
        hints = typing.get_type_hints(kind, include_extras=True)
        lines = [f"/** {_summary(kind)} */", f"export interface {name} {{"]
        for field in dataclasses.fields(kind):
            optional = sent and (
                field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
            )
            words = self.name(hints[field.name], sent=sent)
            lines.append(f"  readonly {field.name}{'?' if optional else ''}: {words};")
        self._interfaces[name] = "\n".join([*lines, "}"])
        return name


def generated() -> str:
    """The content of the generated file."""
    declared = Declarations()
    sections: list[str] = []
    for kind, title in (
        ("request", "Requests of the client: what goes along and what comes back."),
        ("command", "Commands by `workspace/executeCommand`: the second argument and what comes back."),
        ("event", "Notifications to the client."),
        ("notification", "Notifications to the server."),
    ):
        rows = [_row(method, declared) for method in METHODS if method.kind == kind]
        name = f"Skyline{kind.capitalize()}s"
        sections.append("\n".join([f"/** {title} */", f"export interface {name} {{", *rows, "}"]))
    for method in METHODS:
        if method.kind == "options":
            declared.name(method.sent, sent=True)
    names = [f'  {_constant(method)}: "{method.name}",' for method in METHODS if method.kind != "options"]
    constants = "\n".join(
        ["/** The names of all of them. */", "export const METHODS = {", *names, "} as const;"]
    )
    return "\n\n".join([_HEAD.rstrip(), *declared, *_aliases(declared), *sections, constants]) + "\n"


def _row(method: Method, declared: Declarations) -> str:
    sent = "undefined" if method.sent is None else declared.name(method.sent, sent=method.kind != "event")
    if method.kind not in ("request", "command"):
        return f'  "{method.name}": {sent};'
    answer = declared.name(method.answer, sent=False)
    return f'  "{method.name}": {{ readonly sent: {sent}; readonly answer: {answer} }};'


def _aliases(declared: Declarations) -> Iterator[str]:
    """Type aliases for analysis types that the report modules import under another name."""
    known = {text.split()[text.split().index("interface") + 1] for text in declared}
    for module in (schema, devices):
        for name, value in vars(module).items():
            if isinstance(value, type) and name != value.__name__ and value.__name__ in known:
                yield f"export type {name} = {value.__name__};"


def _constant(method: Method) -> str:
    prefix = "command" if method.kind == "command" else ""
    word = method.name.replace(".", "/").partition("/")[2]
    return prefix + word[:1].upper() + word[1:] if prefix else word


def _summary(kind: type[Any]) -> str:
    text = (kind.__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(text.replace("``", "`").split()).replace("*/", "* /")


if __name__ == "__main__":
    sys.stdout.write(generated())
