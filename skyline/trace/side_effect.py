"""What a script tried to do to the world while it was profiled, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skyline.trace.record import CodeLine


@dataclass(frozen=True, slots=True)
class SideEffect:
    """One kind of effect on one target.

    ``kind`` is ``file``, ``folder``, ``removal``, ``tracker`` (W&B and its like), ``download``, ``network`` (a
    host that was looked up), ``program`` (one that was started), ``profiler`` (PyTorch's, used by the script) or
    ``evaluation``. ``outcome`` is ``redirected``
    (went to a scratch place that is gone), ``held back`` (did not happen, and seemed so to the script alone),
    ``refused`` (did not happen, and the script was given an error), ``allowed`` (happened) or ``replayed`` (ran
    once, its result was used again). ``count`` of what repeats often is a lower bound within
    a factor of two.
    """

    kind: str
    target: str
    outcome: str
    count: int = 1
    line: CodeLine | None = None


@dataclass(frozen=True, slots=True)
class Protection:
    """What kept the run's writes from the person's files.

    ``kernel``: Landlock, beneath the interception of Python's calls; ``interception only``: native code and programs
    that the script started could write; ``off``: the person allowed everything. ``reason`` says why not ``kernel``,
    or what this kernel does not cover. ``network`` is what the run's Python could reach: ``open`` (every host) or
    ``loopback`` (this machine alone).
    """

    state: Literal["kernel", "interception only", "off"]
    reason: str = ""
    network: Literal["open", "loopback"] = "open"
