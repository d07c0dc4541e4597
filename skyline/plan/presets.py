"""The presets that come with Skyline."""

from __future__ import annotations

from collections.abc import Callable

from skyline.errors import UsageError
from skyline.plan.academic_bert import academic_bert
from skyline.plan.preset import Preset

_PRESETS: dict[str, Callable[[], Preset]] = {"academic-bert": academic_bert}


def preset_names() -> tuple[str, ...]:
    """The names of all presets."""
    return tuple(_PRESETS)


def preset_named(name: str) -> Preset:
    """A preset by its name.

    Raises:
        UsageError: there is no preset with this name.
    """
    made = _PRESETS.get(name)
    if made is None:
        raise UsageError(f"no preset {name} is known", hint=f"Available: {', '.join(preset_names())}.")
    return made()
