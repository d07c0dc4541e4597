"""The budget of a training script: ``[tool.skyline.budget]`` of its ``pyproject.toml``."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_Amount = Annotated[float, Meta(gt=0)]
_Percent = Annotated[str, Meta(pattern=r"^\s*\d+(\.\d+)?\s*%\s*$")]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of one iteration; None if there is no limit."""

    slower: Annotated[
        _Percent | None,
        Meta(
            description="Largest allowed increase of the iteration time over the base revision, such as `5%`."
        ),
    ] = None
    iteration_ms: Annotated[
        _Amount | None, Meta(description="Longest allowed iteration, in milliseconds.")
    ] = None
    samples_per_s: Annotated[
        _Amount | None, Meta(description="Smallest allowed throughput, in samples per second.")
    ] = None
    peak_mb: Annotated[
        _Amount | None, Meta(description="Largest allowed peak of live tensor memory, in MB (10^6 bytes).")
    ] = None

    @property
    def slower_share(self) -> float | None:
        """The allowed increase as a share: 0.05 for ``5%``."""
        return None if self.slower is None else float(self.slower.strip().removesuffix("%")) / 100


class Budget(Limits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The limits of a project's script, and the way to run it."""

    script: Annotated[
        str | None, Meta(description="The script, relative to the folder of `pyproject.toml`.")
    ] = None
    arguments: Annotated[tuple[str, ...], Meta(description="Arguments of the script.")] = ()
    base: Annotated[str | None, Meta(description="Git revision to compare with, such as `origin/main`.")] = (
        None
    )
    cpu: Annotated[
        Limits | None, Meta(description="Limits that apply instead if the script runs on a CPU.")
    ] = None
    cuda: Annotated[
        Limits | None, Meta(description="Limits that apply instead if the script runs on a GPU.")
    ] = None

    def limits_on(self, device_kind: str) -> Limits:
        """The limits for a kind of device: its own ones, else the common ones."""
        own = {"cpu": self.cpu, "cuda": self.cuda}.get(device_kind)
        return Limits(
            **{name: getattr(own, name, None) or getattr(self, name) for name in Limits.__struct_fields__}
        )
