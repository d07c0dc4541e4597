"""Cached answers to the questions whether the user's code allows a change, contains it, and allows its removal."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from skyline.errors import RewriteRefused, SkylineError, UsageError
from skyline.graph.rules.names import launches_graph
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.registry import entry_named
from skyline.rewrite.removal import present, reason_of, removal_edits
from skyline.source.text import SourceText, TextEdit
from skyline.stage_failures import failure
from skyline.trace.profile import Profile, settings_files
from skyline.trace.record import ON_DEVICE, RecordKind

logger = logging.getLogger(__name__)

Availability = tuple[Literal["available", "refused", "none"], str | None]


@dataclass(frozen=True, slots=True)
class TriedRewrite:
    """One change, tried on the sources of the profile.

    ``edits`` None: the change cannot be written. ``refused`` is then the reason, or None if no rewrite exists.
    """

    value: str
    edits: tuple[TextEdit, ...] | None
    refused: SkylineError | None = None

    @property
    def availability(self) -> Availability:
        """The result in the terms of an estimate."""
        if self.edits is not None:
            return "available", None
        return ("none", None) if self.refused is None else ("refused", self.refused.message)


@dataclass(frozen=True, slots=True)
class Presence:
    """The value of a change in the profiled code, None if absent or not in force; and whether it can be removed."""

    value: str | None
    removal: Literal["available", "refused", "none"] = "none"
    reason: str | None = None


class Rewrites:
    """Dry-runs the rewrites on the sources of a profile and caches the answers, so that a drag stays fast.

    The feasibility of a change is assumed not to depend on its value: either the place is found or not.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._sources = {source.path: source.text for source in profile.sources}
        self._settings_files = settings_files(profile)
        self._context = RewriteContext(profile, self._read)
        self._tried: dict[str, TriedRewrite] = {}
        self._present: dict[str, Presence] = {}

    def availability(self, parts: Iterable[tuple[str, str]]) -> Availability:
        """Joint availability of parts (name, value) of a question: refused if one is, none if one has no rewrite."""
        answers = [(name, self._of(name, value).availability) for name, value in parts]
        for worst in ("refused", "none"):
            for name, (answer, reason) in answers:
                if answer == worst:
                    return answer, f"{name}: {reason}" if reason and len(answers) > 1 else reason
        return ("available", None) if answers else ("none", None)

    def tried(self, name: str, value: str) -> TriedRewrite:
        """The result for a change with exactly this value."""
        known = self._tried.get(name)
        return known if known is not None and known.value == value else self._try(name, value)

    def presence(self, name: str) -> Presence:
        """The presence of a change in the code."""
        if name not in self._present:
            try:
                self._present[name] = self._look_for(name)
            except Exception:
                # Its presence stays unknown; the prediction does not depend on it.
                logger.info("%s could not be looked for in the code", name, exc_info=True)
                self._present[name] = Presence(None)
        return self._present[name]

    def _look_for(self, name: str) -> Presence:
        value = present(self._context, name)
        if value is None or known_absent(self._profile, name):
            return Presence(None)
        try:
            edits = removal_edits(self._context, name)
        except SkylineError as refused:
            return Presence(value, "refused", reason_of(refused))
        if edits and not any(edit.old_text for edit in edits):
            # A default of PyTorch without any code that requests it; it could only be overruled.
            return Presence(None)
        return Presence(value, "none" if edits is None else "available")

    def _of(self, name: str, value: str) -> TriedRewrite:
        if name not in self._tried:
            self._tried[name] = self._try(name, value)
        return self._tried[name]

    def _try(self, name: str, value: str) -> TriedRewrite:
        try:
            entry = entry_named(name)
            edits = None if entry is None else entry.carried_out(self._context, value).edits()
            return TriedRewrite(value, edits)
        except SkylineError as refused:
            return TriedRewrite(value, None, refused)
        except Exception as error:
            logger.info("%s could not be written", name, exc_info=True)
            return TriedRewrite(value, None, RewriteRefused(failure(error)))

    def _read(self, path: str) -> SourceText:
        text = self._sources.get(path)
        if text is None and path in self._settings_files:
            # A profile does not keep the text of a settings file, which may hold secrets.
            return SourceText.read(path)
        if text is None:
            raise UsageError(f"{Path(path).name} is not among the sources of this profile")
        return SourceText.of(path, text)


def known_absent(profile: Profile, name: str) -> bool:
    """True if the recorded run shows that it lacked the change. False if nothing shows it."""
    settings = profile.settings
    match name:
        case "tf32":
            return settings is not None and settings.matmul_precision == "highest"
        case "cudnn_benchmark":
            return settings is not None and settings.cudnn_benchmark is False
        case "channels_last":
            return _no_channels_last(profile)
        case "cuda_graphs":
            return _never_compiled(profile) and _no_graph_launched(profile)
        case _:
            return False


def _no_channels_last(profile: Profile) -> bool:
    """True if no weight has that layout, and either weights have another one or there are no convolutions."""
    layouts = [one.channels_last for one in profile.modules]
    convolves = any("Conv2d" in one.class_name for one in profile.modules)
    return bool(layouts) and True not in layouts and (False in layouts or not convolves)


def _never_compiled(profile: Profile) -> bool:
    """True if calls were recorded, but no compilation. A trace for a GPU omits the compiler, so it has no calls."""
    return (
        profile.mode == "measured"
        and bool(profile.calls)
        and not any(one.name == "compile" for one in profile.calls)
    )


def _no_graph_launched(profile: Profile) -> bool:
    """True if kernels were recorded, but no launch of a graph."""
    records = profile.trace.records
    return any(one.kind in ON_DEVICE for one in records) and not any(
        one.kind is RecordKind.RUNTIME and launches_graph(one.name) for one in records
    )
