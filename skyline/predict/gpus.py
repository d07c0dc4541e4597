"""The GPUs with known figures: those of installed packages, and those that the user added."""

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
"""Default GPUs of a comparison: those that clouds rent out."""


def gpus() -> tuple[GpuSpec, ...]:
    """All known GPUs in the order of their tables; the user's own come last and replace others of the same name.

    Raises:
        UsageError: the user's file cannot be used.
    """
    own = own_gpus(_installed())
    replaced = {spec.name for spec in own}
    return (*(spec for spec in _installed() if spec.name not in replaced), *own)


def gpu_named(name: str) -> GpuSpec:
    """The GPU that ``name`` refers to; case, spaces, hyphens and the vendor's name are ignored.

    Raises:
        UsageError: no GPU matches (the hint lists the nearest names), or the user's file cannot be used.
    """
    if not _installed():
        raise UsageError(
            "no table of GPUs is installed", hint="Reinstall skyline-profiler, which contains one."
        )
    own = own_gpus(_installed())
    # The user's own names take precedence.
    return find((*own, *_installed()), name)


def gpus_named(names: Sequence[str] = ()) -> tuple[GpuSpec, ...]:
    """The requested GPUs without duplicates; by default the usual ones and the user's own.

    Raises:
        UsageError: a GPU is unknown, or the user's file cannot be used.
    """
    if not names:
        own = [spec.name for spec in gpus() if spec.own]
        names = (*USUAL, *own)
    return tuple(dict.fromkeys(gpu_named(name) for name in names))


@cache
def _installed() -> tuple[GpuSpec, ...]:
    return tuple(spec for entry in entry_points(group=ENTRY_POINT_GROUP) for spec in entry.load()())
