"""Options of a client for one session or one run, which override the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """The second argument of ``skyline.profile``. None: as in the settings.

    Later runs of the same script, such as those on save, use the same options until new ones are given.
    """

    args: tuple[str, ...] | None = None
    steps: int | None = None
    warmup: int | None = None
    timeoutS: float | None = None
    batchPoints: int | None = None
    device: str | None = None
    gpu: str | None = None
    """The GPU to predict for. It need not be present: the script is traced, not run."""
    env: Mapping[str, str] | None = None
    """Environment variables, which override those of the settings."""
    cwd: str | None = None
    """The folder that the script runs in."""
    module: str | None = None
    """The dotted name to run the script under, as with ``python -m``."""
    launcher: tuple[str, ...] | None = None
    """The words before the script, such as ``torchrun --nproc-per-node 2``."""


@dataclass(frozen=True, slots=True)
class InitializationOptions:
    """``initializationOptions`` in addition to the settings, in camelCase as on the wire.

    ``trusted`` false: the user has not trusted this workspace, so none of its code is run.
    ``warmStart``: keep a process with torch imported, so that runs need not wait for the import.
    ``followDisk``: the client has no documents to save, so a file change on disk counts as a save.
    ``scripts``: the last profile options of each script by URI, if the client stores them between sessions.
    """

    trusted: bool = True
    warmStart: bool = True
    followDisk: bool = False
    scripts: Mapping[str, ProfileOptions] = field(default_factory=dict[str, ProfileOptions])
