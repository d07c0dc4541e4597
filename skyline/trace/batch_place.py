"""The place that sets the batch size of a profiled run, from its source and the files that it opened."""

from __future__ import annotations

import os
import re
from pathlib import PurePath

from skyline.lazy_dataclass import dataclass
from skyline.source.knob import DEFAULTS, Knob, KnobKind, SettingPlace
from skyline.trace.profile import Profile

_ATTRIBUTE = re.compile(r"\s*\w+\.([\w.]+)\s*=\s*")


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """The place to change for another batch size: ``knob`` or ``setting``. Without a knob, ``reason`` is a sentence.

    ``setting`` is the place in a settings file, if no literal in the code holds the batch size.
    """

    knob: Knob | None
    setting: SettingPlace | None
    reason: str


def batch_place(profile: Profile) -> BatchPlace:
    """The literal, option or setting that sets the batch size of this run, or the reason why none is known."""
    search, size = profile.knobs, profile.batch_size
    best, setting = search.best, profile.setting
    # A file that the run opened takes precedence over a default with the same number.
    overridden = (
        setting is not None
        and best is not None
        and (_overrides(setting, best) or _is_default_of(profile, best, setting))
    )
    if best is not None and best.value == size and not search.refusal and not overridden:
        return BatchPlace(best, None, "")
    if setting is not None:
        return BatchPlace(None, setting, f"The batch size is read from {setting.words}.")
    if best is not None and best.value == size:
        return BatchPlace(None, None, f"{search.refusal.rstrip('.')}.")
    loader = next(
        (one for one in profile.loaders if one.fetches_per_iteration and one.created_line is not None), None
    )
    if size is not None and loader is not None and loader.created_line is not None:
        place = f"{PurePath(loader.created_line.file).name}:{loader.created_line.line}"
        reason = f"The batch size {size} is set by the loader at {place}; no literal in the code holds it."
        return BatchPlace(None, None, reason)
    if best is not None:
        place = f"{PurePath(best.span.file).name}:{best.span.line}"
        reason = f"No batch of the run had the size {best.value} that {place} sets."
        return BatchPlace(None, None, f"{search.refusal.rstrip('.')}." if search.refusal else reason)
    tried = f"; looked for {'; '.join(search.tried)}" if search.tried else ""
    return BatchPlace(None, None, f"No literal that sets the batch size was found{tried}.")


def _overrides(setting: SettingPlace, knob: Knob) -> bool:
    """True if the file may override the default. A Python module does not set command line options."""
    from_module = setting.file.endswith(".py") and knob.kind is KnobKind.ARGPARSE_DEFAULT
    return knob.kind in DEFAULTS and not from_module


def _is_default_of(profile: Profile, knob: Knob, setting: SettingPlace) -> bool:
    """True for a default such as ``config.train.batch_size = 64`` (yacs) if the setting is ``train.batch_size``."""
    path = os.path.realpath(knob.span.file)
    lines = next(
        (source.text.split("\n") for source in profile.sources if os.path.realpath(source.path) == path),
        list[str](),
    )
    if not 1 <= knob.span.line <= len(lines):
        return False
    written = _ATTRIBUTE.fullmatch(lines[knob.span.line - 1][: knob.span.column])
    return written is not None and written[1] == setting.key


def held_settings(profile: Profile) -> tuple[SettingPlace, ...]:
    """The places of the batch size, loader workers and accumulated batches in settings files, if unambiguous."""
    batch_size = batch_place(profile).setting or profile.setting
    others = (each.places[0] for each in profile.configured if len(each.places) == 1)
    return (*([batch_size] if batch_size is not None else []), *others)
