"""The GPUs with known figures: those of installed packages, and those that the user added; found by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from skyline.entry_points import entry_points
from skyline.errors import UsageError
from skyline.memory.size import FORMS, size_bytes
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.own_table import TableEntry, own_entries

_NOISE = re.compile(r"nvidia|geforce|tesla|amd|instinct|graphics|gpu|[^a-z0-9]+")


_PART = re.compile(r"\bMIG[\s-]+\d+(c\.\d+)?g[\s.\-]\S*", re.IGNORECASE)
"""An instance of a divided NVIDIA GPU, in the driver's notation: ``MIG 1g.5gb``."""


def find(specs: Sequence[GpuSpec], name: str) -> GpuSpec:
    """The GPU in ``specs`` that ``name`` refers to. Case, spaces, hyphens and the vendor's name are ignored.

    Names take precedence over aliases, and earlier entries over later ones.

    Raises:
        UsageError: no GPU matches; the hint lists the nearest names.
    """
    known: dict[str, GpuSpec] = {}
    for spec in specs:
        known.setdefault(_plain(spec.name), spec)
    for spec in specs:
        for alias in (*spec.aliases, spec.full_name):
            known.setdefault(_plain(alias), spec)
    wanted = _plain(name)
    if wanted in known:
        return known[wanted]
    part = _PART.search(name)
    if part is not None:
        whole = name[: part.start()].strip()
        raise UsageError(
            f"{name!r} is a part of a divided GPU ({part.group().strip()}); only whole GPUs are known",
            hint=f"Predict for {_name_of(known, whole)}, or enter the part with its own figures in your devices.toml.",
        )
    near = [known[match] for match in get_close_matches(wanted, known, n=5, cutoff=0.4)] if wanted else []
    if wanted:
        holding = [plain for plain in known if wanted in plain or plain in wanted]
        # Of many names that contain the word, the shortest ones come first.
        holding.sort(key=lambda plain: abs(len(plain) - len(wanted)))
        near = [known[plain] for plain in holding] + near
    names = list(dict.fromkeys(spec.name for spec in near))[:4]
    raise UsageError(
        f"no GPU called {name!r} is known",
        hint=(f"Did you mean {', '.join(names)}? " if names else "") + "The whole list: skyline gpus",
    )


def _name_of(known: dict[str, GpuSpec], name: str) -> str:
    spec = known.get(_plain(name))
    return spec.name if spec is not None else "the whole GPU"


def is_called(spec: GpuSpec, *names: str) -> bool:
    """True if one of ``names`` is a name of this GPU."""
    own = {_plain(name) for name in (spec.name, spec.full_name, *spec.aliases)}
    return any(_plain(name) in own for name in names)


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    return _NOISE.sub("", name.lower())


ENTRY_POINT_GROUP = "skyline.gpus"
USUAL = ("T4", "L4", "A10G", "L40S", "A100-80GB-SXM", "H100", "H200", "MI300X")
"""Default GPUs of a comparison: those that clouds offer for rent."""


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
    return tuple(spec for entry in entry_points(ENTRY_POINT_GROUP) for spec in entry.load()())


_GIB, _MIB = 1 << 30, 1 << 20
_PEAKS = ("tflops_fp64", "tflops_tf32", "tflops_fp16", "tflops_bf16", "tflops_fp8")
_LACKED = (*_PEAKS, "link_gb_s", "pcie_gb_s")
"""Keys of properties that some GPUs lack. The value ``false`` states this."""
_SAME = (
    "vendor",
    "architecture",
    "bandwidth_gb_s",
    "multiprocessors",
    "clock_mhz",
    "tflops_fp32",
    "fp16_on_tensor_cores",
    *_LACKED,
)
"""Keys with the names and units of ``GpuSpec``."""
_Text = Annotated[str, Meta(min_length=1)]
_Tflops = Annotated[float, Meta(ge=0.01, le=100_000)]


class _OwnGpu(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An entry of the user's file. The limits are wide enough for real values, and detect a wrong unit."""

    name: _Text
    like: str = ""
    full_name: str = ""
    vendor: _Text = "NVIDIA"
    architecture: _Text = "other"
    aliases: tuple[str, ...] = ()
    memory: str = ""
    memory_gib: Annotated[float, Meta(ge=0.5, le=4096)]
    bandwidth_gb_s: Annotated[float, Meta(ge=10, le=100_000)]
    multiprocessors: Annotated[int, Meta(ge=1, le=2000)]
    clock_mhz: Annotated[float, Meta(ge=200, le=6000)]
    l2_mib: Annotated[float, Meta(ge=0.25, le=4096)]
    compute_capability: Annotated[str, Meta(pattern=r"^[0-9]+\.[0-9]+$")]
    """A string, because as numbers 12.0 and 12.10 could be confused with 12 and 12.1."""
    power_watts: Annotated[float, Meta(ge=5, le=10_000)]
    tflops_fp32: _Tflops
    tflops_fp64: _Tflops | None = None
    tflops_tf32: _Tflops | None = None
    tflops_fp16: _Tflops | None = None
    tflops_bf16: _Tflops | None = None
    tflops_fp8: _Tflops | None = None
    fp16_on_tensor_cores: bool = True
    link_gb_s: Annotated[float, Meta(ge=1, le=100_000)] | None = None
    pcie_gb_s: Annotated[float, Meta(ge=1, le=10_000)] | None = None
    source: str = ""


def own_gpus(known: Sequence[GpuSpec]) -> tuple[GpuSpec, ...]:
    """The GPUs of the user's file, in order. ``like`` refers to one of ``known`` or to an earlier entry of the file.

    Raises:
        UsageError: an entry cannot be used; the message names it.
    """
    found: list[GpuSpec] = []
    for entry in own_entries("gpu"):
        spec = _spec(entry, (*found, *known))
        if any(one.name == spec.name for one in found):
            raise entry.wrong("it is listed twice", "Give each GPU a name of its own.")
        found.append(spec)
    return tuple(found)


def _spec(entry: TableEntry, known: Sequence[GpuSpec]) -> GpuSpec:
    values = {**_like(entry, known), **_memory(entry), **entry.values}
    values.update((key, None) for key in _LACKED if values.get(key) is False)
    own = entry.converted(values, _OwnGpu)
    major, _, minor = own.compute_capability.partition(".")
    return GpuSpec(
        name=own.name,
        full_name=own.full_name or own.name,
        memory_bytes=round(own.memory_gib * _GIB),
        l2_bytes=round(own.l2_mib * _MIB),
        compute_capability=(int(major), int(minor)),
        board_power_watts=round(own.power_watts),
        aliases=own.aliases,
        source=own.source or str(entry.path),
        own=True,
        **{key: getattr(own, key) for key in _SAME},
    )


def _like(entry: TableEntry, known: Sequence[GpuSpec]) -> dict[str, Any]:
    """The figures of the GPU that an entry is like, under the keys of the file."""
    like = entry.values.get("like")
    if not isinstance(like, str):
        return {}
    try:
        base = find(known, like)
    except UsageError as error:
        raise entry.wrong(f"like: {error.message}", error.hint) from None
    return {
        **{key: getattr(base, key) for key in _SAME},
        "memory_gib": base.memory_bytes / _GIB,
        "l2_mib": base.l2_bytes / _MIB,
        "compute_capability": ".".join(map(str, base.compute_capability)),
        "power_watts": base.board_power_watts,
    }


def _memory(entry: TableEntry) -> dict[str, float]:
    text = entry.values.get("memory")
    if not isinstance(text, str):
        return {}
    try:
        return {"memory_gib": size_bytes(text) / _GIB}
    except ValueError as error:
        raise entry.wrong(f"memory = {text!r}: {error}", f"Write {FORMS}.") from None
