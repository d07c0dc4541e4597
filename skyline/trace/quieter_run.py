"""Choice between two measurements of the same code: a quiet machine's is not replaced by a busy machine's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from skyline.errors import UsageError
from skyline.interval import median
from skyline.source.line_map import same_code
from skyline.trace import store
from skyline.trace.profile import Profile

_AS_GOOD = 1.1
"""Ratio of iteration times up to which two measurements agree: the spread of the same code on a quiet machine."""


def kept_instead(profile: Profile) -> Profile | None:
    """The earlier measurement if it remains the one to show, with a note on the new one; otherwise None.

    It remains if it measured the same code on the same machine, the new one is slower, and other programs used more
    processor time during the new one.
    """
    if profile.load is None or not profile.load.busy:
        return None
    path = store.latest(Path(profile.script))
    try:
        earlier = None if path is None else store.load(path)
    except UsageError:
        return None
    if earlier is None or not _comparable(earlier, profile):
        return None
    before_ms, now_ms = median(earlier.times.steps_ms), median(profile.times.steps_ms)
    if now_ms <= _AS_GOOD * before_ms:
        return None
    note = (
        f"The machine was busy during the new measurement ({profile.created}): other programs used "
        f"{profile.load.others_cores:.1f} of {profile.load.cores} cores, and an iteration took {now_ms:.4g} ms "
        f"instead of {before_ms:.4g} ms. The earlier measurement is shown. An editor and the terminal UI can show "
        "the later one; skyline profile --replace measures again and always shows the new one."
    )
    return replace(earlier, notes=(*earlier.notes, note), set_aside=True)


def keep(profile: Profile) -> Profile:
    """Save a profile and return the one to show: this profile, or the earlier one that it does not replace.

    Raises UsageError if no folder is writable.
    """
    earlier = kept_instead(profile)
    store.save(profile, aside=earlier is not None)
    return earlier or profile


def shown(script: Path) -> Profile | None:
    """The saved profile to show, marked if a later one was set aside; None if there is none.

    Raises UsageError if the profile is unreadable.
    """
    path = store.latest(script)
    if path is None:
        return None
    return replace(store.load(path, script), set_aside=store.saved(script)[0] != path)


def _others(profile: Profile) -> float:
    return 0.0 if profile.load is None else profile.load.others_cores


def _comparable(earlier: Profile, profile: Profile) -> bool:
    quieter = earlier.load is None or not earlier.load.busy or _others(earlier) < _others(profile)
    if not quieter or earlier.mode != "measured" or profile.mode != "measured":
        return False
    asked = ("arguments", "module", "environment", "batch_size", "interpreter")
    if any(getattr(earlier, name) != getattr(profile, name) for name in asked):
        return False
    before = {source.path: source.text for source in earlier.sources}
    now = {source.path: source.text for source in profile.sources}
    return before.keys() == now.keys() and all(same_code(before[path], now[path]) for path in now)
