"""The GPUs whose figures are known: those that packages bring, and those that a person added."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points

from skyline.errors import UsageError
from skyline.predict.gpu_names import find
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.own_gpus import own_gpus

ENTRY_POINT_GROUP = "skyline.gpus"
USUAL = ("T4", "L4", "A10G", "L40S", "A100-80GB-SXM", "H100", "H200", "MI300X")
"""What is compared where nothing was asked for: what clouds rent out."""


def gpus() -> tuple[GpuSpec, ...]:
    """All known GPUs, in the order of their tables, the person's own last; those replace others of their name.

    Raises:
        UsageError: the person's file cannot be used.
    """
    own = own_gpus(_installed())
    replaced = {spec.name for spec in own}
    return (*(spec for spec in _installed() if spec.name not in replaced), *own)


def gpu_named(name: str) -> GpuSpec:
    """The GPU that ``name`` stands for; case, spaces, hyphens and the maker's name do not matter.

    Raises:
        UsageError: it is not known (the hint names those that are nearest), or the person's file cannot be used.
    """
    if not _installed():
        raise UsageError("no table of GPUs is installed", hint="Reinstall skyline-profiler: it brings one.")
    own = own_gpus(_installed())
    # What a person calls something is what they mean by it.
    return find((*own, *_installed()), name)


def gpus_named(names: Sequence[str] = ()) -> tuple[GpuSpec, ...]:
    """The GPUs that were asked for, each once; the usual ones and the person's own where none was.

    Raises:
        UsageError: one is not known, or the person's file cannot be used.
    """
    if not names:
        own = [spec.name for spec in gpus() if spec.own]
        names = (*USUAL, *own)
    return tuple(dict.fromkeys(gpu_named(name) for name in names))


@cache
def _installed() -> tuple[GpuSpec, ...]:
    return tuple(spec for entry in entry_points(group=ENTRY_POINT_GROUP) for spec in entry.load()())
