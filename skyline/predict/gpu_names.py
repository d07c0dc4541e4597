"""Look-up of a GPU by its common names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache

from skyline.errors import UsageError
from skyline.predict.gpu_spec import GpuSpec

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
