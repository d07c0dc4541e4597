"""The saved profiles of a script, and a comparison of two of them with their sources."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.report.diff import DiffReport, diff
from skyline.report.place import common_base, short_path
from skyline.report.schema import ProfileReport
from skyline.trace.profile import Profile


@dataclass(frozen=True, slots=True)
class SavedProfile:
    """One saved profile; times are medians in ms, memory is bytes."""

    id: str
    path: str
    created: str
    mode: str
    device: str
    batch_size: int | None
    iteration_ms: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """Two profiles of a script compared, and the changes of its source as a unified diff."""

    profiles: DiffReport
    source: str


def saved_profile(profile: Profile, path: str) -> SavedProfile:
    """A saved profile as a row."""
    said = profile.prediction
    return SavedProfile(
        profile.id,
        path,
        profile.created,
        profile.mode,
        profile.environment.device.name,
        profile.batch_size,
        said.iteration_ms.value if said is not None else median(profile.times.steps_ms),
        profile.peak_bytes,
    )


def compared(
    before: ProfileReport, after: ProfileReport, profile_before: Profile, profile_after: Profile
) -> ComparisonReport:
    """The changes between two profiles, in numbers and code."""
    return ComparisonReport(diff(before, after), "".join(_source(profile_before, profile_after)))


def _source(before: Profile, after: Profile) -> Iterator[str]:
    """The diff of the files that differ; files that only one side ran are skipped."""
    then = {source.path: source.text for source in before.sources}
    now = {source.path: source.text for source in after.sources}
    base = common_base(after.script, tuple(now))
    for path, text in now.items():
        if path in then and then[path] != text:
            name = short_path(path, base)
            for line in difflib.unified_diff(
                then[path].splitlines(), text.splitlines(), f"{name} ({before.id})", name, lineterm=""
            ):
                yield line + "\n"
