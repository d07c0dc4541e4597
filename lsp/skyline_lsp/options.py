"""What a client may say for one session or one profiling, over the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """The second argument of ``skyline.profile``; None: as in the settings.

    Later runs of the same script, such as those on save, keep them until others are given.
    """

    args: tuple[str, ...] | None = None
    steps: int | None = None
    warmup: int | None = None
    timeoutS: float | None = None
    batchPoints: int | None = None
    device: str | None = None
    gpu: str | None = None
    """A GPU to predict for, which need not be here: the script is traced and not run."""
    env: Mapping[str, str] | None = None
    """Variables over those of the settings."""
    cwd: str | None = None
    """The folder that the script runs in."""
    module: str | None = None
    """The dotted name under which the script is run, as by ``python -m``."""


@dataclass(frozen=True, slots=True)
class InitializationOptions:
    """What ``initializationOptions`` may hold beside the settings; camelCase because it is the wire format.

    ``trusted`` false: the person has not said that they trust this workspace, so that nothing of it is run.
    ``warmStart``: keep a process with torch imported, so that runs need not wait for the import.
    ``followDisk``: the client has no documents to save, so that a file that changes on disk counts as saved.
    ``scripts``: how each script was profiled last, by its uri, where the client keeps that from session to session.
    """

    trusted: bool = True
    warmStart: bool = True
    followDisk: bool = False
    scripts: Mapping[str, ProfileOptions] = field(default_factory=dict[str, ProfileOptions])
