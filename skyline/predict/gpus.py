"""The GPUs with known figures: those of installed packages, and those that the user added; found by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.metadata import entry_points

from skyline.errors import UsageError
from skyline.memory.size import FORMS, size_bytes
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.own_table import TableEntry, own_entries

_NOISE = re.compile(r"nvidia|geforce|tesla|amd|instinct|graphics|gpu|[^a-z0-9]+")


_PART = re.compile(r"\bMIG[\s-]+\d+(c\.\d+)?g[\s.\-]\S*", re.IGNORECASE)
"""An instance of a divided NVIDIA GPU, in the driver's notation: ``MIG 1g.5gb``."""


def find(specs: Sequence[GpuSpec], name: str) -> GpuSpec:
    """The one of ``specs`` that ``name`` refers to; case, spaces, hyphens and the vendor's name are ignored.

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


_GIB, _MIB = 1 << 30, 1 << 20
_TFLOPS = (0.01, 100_000, "TFLOP/s, dense")
_PEAKS = ("tflops_fp64", "tflops_tf32", "tflops_fp16", "tflops_bf16", "tflops_fp8")
_KEYS = (
    "name",
    "like",
    "full_name",
    "vendor",
    "architecture",
    "aliases",
    "memory",
    "memory_gib",
    "bandwidth_gb_s",
    "multiprocessors",
    "clock_mhz",
    "l2_mib",
    "compute_capability",
    "power_watts",
    "tflops_fp32",
    *_PEAKS,
    "fp16_on_tensor_cores",
    "link_gb_s",
    "pcie_gb_s",
    "source",
)


def own_gpus(known: Sequence[GpuSpec]) -> tuple[GpuSpec, ...]:
    """The GPUs of the user's file, in order. ``like`` refers to one of ``known`` or to an earlier entry of the file.

    Raises:
        UsageError: an entry cannot be used; the message names it.
    """
    found: list[GpuSpec] = []
    for entry in own_entries("gpu"):
        entry.known(_KEYS)
        spec = _spec(entry, (*found, *known))
        if any(one.name == spec.name for one in found):
            raise entry.wrong("it is there twice", "Give each GPU a name of its own.")
        found.append(spec)
    return tuple(found)


def _spec(entry: TableEntry, known: Sequence[GpuSpec]) -> GpuSpec:
    base = _base(entry, known)
    name = entry.text("name")
    spec = GpuSpec(
        name=name,
        full_name=entry.text("full_name", name),
        vendor=entry.text("vendor", base.vendor if base else "NVIDIA"),
        architecture=entry.text("architecture", base.architecture if base else "other"),
        memory_bytes=_memory(entry, base.memory_bytes if base else None),
        bandwidth_gb_s=entry.number(
            "bandwidth_gb_s", 10, 100_000, "GB/s", base.bandwidth_gb_s if base else None
        ),
        multiprocessors=round(
            entry.number("multiprocessors", 1, 2000, "pieces", base.multiprocessors if base else None)
        ),
        clock_mhz=round(entry.number("clock_mhz", 200, 6000, "MHz", base.clock_mhz if base else None)),
        l2_bytes=_scaled(entry, "l2_mib", 0.25, 4096, "MiB", _MIB, base.l2_bytes if base else None),
        compute_capability=_capability(entry, base),
        board_power_watts=round(
            entry.number("power_watts", 5, 10_000, "W", base.board_power_watts if base else None)
        ),
        tflops_fp32=entry.number("tflops_fp32", *_TFLOPS, base.tflops_fp32 if base else None),
        aliases=entry.texts("aliases"),
        fp16_on_tensor_cores=_flag(
            entry, "fp16_on_tensor_cores", base.fp16_on_tensor_cores if base else True
        ),
        link_gb_s=entry.optional("link_gb_s", 1, 100_000, "GB/s", base.link_gb_s if base else None),
        pcie_gb_s=entry.optional("pcie_gb_s", 1, 10_000, "GB/s", base.pcie_gb_s if base else None),
        source=entry.text("source", str(entry.path)),
        own=True,
    )
    return replace(
        spec,
        **{key: entry.optional(key, *_TFLOPS, getattr(base, key) if base else None) for key in _PEAKS},
    )


def _base(entry: TableEntry, known: Sequence[GpuSpec]) -> GpuSpec | None:
    if "like" not in entry.values:
        return None
    from skyline.predict.gpus import find

    try:
        return find(known, entry.text("like"))
    except UsageError as error:
        raise entry.wrong(f"like: {error.message}", error.hint) from None


def _memory(entry: TableEntry, base: int | None) -> int:
    if "memory" not in entry.values:
        return _scaled(entry, "memory_gib", 0.5, 4096, "GiB", _GIB, base)
    text = entry.text("memory")
    try:
        return size_bytes(text)
    except ValueError as error:
        raise entry.wrong(f"memory = {text!r}: {error}", f"Write {FORMS}.") from None


def _scaled(
    entry: TableEntry, key: str, low: float, high: float, unit: str, factor: int, base: int | None
) -> int:
    return round(entry.number(key, low, high, unit, base / factor if base is not None else None) * factor)


def _capability(entry: TableEntry, base: GpuSpec | None) -> tuple[int, int]:
    """Parsed from ``"8.9"``; as a number, 12.0 and 12.10 would be indistinguishable."""
    if "compute_capability" not in entry.values and base is not None:
        return base.compute_capability
    if isinstance(entry.values.get("compute_capability"), int | float):
        raise entry.wrong('compute_capability belongs in quotes, as in "8.9"')
    major, dot, minor = entry.text("compute_capability").partition(".")
    if not (dot and major.isdigit() and minor.isdigit()):
        raise entry.wrong('compute_capability must be written as in "8.9"')
    return int(major), int(minor)


def _flag(entry: TableEntry, key: str, default: bool) -> bool:
    value = entry.values.get(key, default)
    if not isinstance(value, bool):
        raise entry.wrong(f"{key} must be true or false, not {value!r}")
    return value
