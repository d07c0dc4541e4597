"""Skyline: how fast a PyTorch training script is, where its time and memory go, and what a change would do.

The names below are imported on first use, so that importing ``skyline`` costs almost nothing::

    import skyline

    profile = skyline.profile(skyline.CaptureRequest(script=Path("train.py")), progress=print)
    analysis = skyline.analyse(profile)
    answer = skyline.estimate(analysis, skyline.Question(batch_size=64))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skyline.version import __version__

if TYPE_CHECKING:
    from skyline.analysis.analyse import Analysis, analyse
    from skyline.analysis.estimate import estimate, rank
    from skyline.capture.request import CaptureRequest
    from skyline.capture.session import capture as profile
    from skyline.errors import SkylineError
    from skyline.report.build import profile_report, whatif_report
    from skyline.trace.profile import Profile
    from skyline.trace.store import load, save
    from skyline.verification.verify import verify
    from skyline.whatif.question import Choice, Question

__all__ = [
    "Analysis",
    "CaptureRequest",
    "Choice",
    "Profile",
    "Question",
    "SkylineError",
    "__version__",
    "analyse",
    "estimate",
    "load",
    "profile",
    "profile_report",
    "rank",
    "save",
    "verify",
    "whatif_report",
]

_HOMES = {
    "Analysis": "skyline.analysis.analyse:Analysis",
    "CaptureRequest": "skyline.capture.request:CaptureRequest",
    "Choice": "skyline.whatif.question:Choice",
    "Profile": "skyline.trace.profile:Profile",
    "Question": "skyline.whatif.question:Question",
    "SkylineError": "skyline.errors:SkylineError",
    "analyse": "skyline.analysis.analyse:analyse",
    "estimate": "skyline.analysis.estimate:estimate",
    "load": "skyline.trace.store:load",
    "profile": "skyline.capture.session:capture",
    "profile_report": "skyline.report.build:profile_report",
    "rank": "skyline.analysis.estimate:rank",
    "save": "skyline.trace.store:save",
    "verify": "skyline.verification.verify:verify",
    "whatif_report": "skyline.report.build:whatif_report",
}


def load_ipython_extension(shell: object) -> None:
    """Add ``%%skyline`` and ``%skyline`` to an IPython shell. ``%load_ext skyline`` calls it."""
    from skyline.cli.magics import register

    register(shell)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = home.partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
