"""The GPUs whose figures are installed, found by whatever a person calls them."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points

from skyline.errors import UsageError
from skyline.predict.gpu_spec import GpuSpec

ENTRY_POINT_GROUP = "skyline.gpus"
_NOISE = re.compile(r"nvidia|geforce|tesla|amd|instinct|graphics|gpu|[^a-z0-9]+")


@cache
def gpus() -> tuple[GpuSpec, ...]:
    """All known GPUs, in the order of their tables."""
    return tuple(spec for entry in entry_points(group=ENTRY_POINT_GROUP) for spec in entry.load()())


def gpu_named(name: str) -> GpuSpec:
    """The GPU that ``name`` stands for; case, spaces, hyphens and the maker's name do not matter.

    Raises:
        UsageError: it is not known; the hint names those that are nearest.
    """
    known: dict[str, GpuSpec] = {}
    for spec in gpus():
        known[_plain(spec.name)] = spec
    for spec in gpus():
        for alias in (*spec.aliases, spec.full_name):
            known.setdefault(_plain(alias), spec)
    wanted = _plain(name)
    if wanted in known:
        return known[wanted]
    if not known:
        raise UsageError("no table of GPUs is installed", hint="Reinstall skyline-profiler: it brings one.")
    near = [known[match] for match in get_close_matches(wanted, known, n=5, cutoff=0.4)] if wanted else []
    if wanted:
        near = [spec for plain, spec in known.items() if wanted in plain or plain in wanted] + near
    names = list(dict.fromkeys(spec.name for spec in near))[:4] or [spec.name for spec in gpus()]
    raise UsageError(
        f"no GPU called {name!r} is known",
        hint=f"Did you mean {', '.join(names)}? The whole list: skyline gpus",
    )


def _plain(name: str) -> str:
    return _NOISE.sub("", name.lower())
