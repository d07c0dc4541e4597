"""The settings of ``skyline watch``: ``[tool.skyline.watch]`` of a ``pyproject.toml``."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class WatchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table without the tables of the rules, which contain their thresholds."""

    off: Annotated[tuple[str, ...], Meta(description="Rules that do not apply.")] = ()
    overhead: Annotated[
        float, Meta(gt=0, le=0.1, description="Largest share of the run's time that watching may take.")
    ] = 0.002
