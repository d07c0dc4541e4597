"""External effects that a script attempted while it was profiled, and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skyline.trace.record import CodeLine


@dataclass(frozen=True, slots=True)
class SideEffect:
    """One kind of effect on one target.

    ``kind`` is ``file``, ``folder``, ``removal``, ``tracker`` (W&B and similar), ``download``, ``network`` (a host that
    was looked up), ``program`` (a started program), ``profiler`` (PyTorch's, used by the script) or ``evaluation``.
    ``outcome`` is ``redirected`` (to a temporary folder, now deleted), ``held back`` (not executed, but reported to the
    script as successful), ``refused`` (not executed, and the script received an error), ``allowed`` (executed) or
    ``replayed`` (executed once, its result reused). For frequent effects, ``count`` is a lower bound within a factor of
    two.
    """

    kind: str
    target: str
    outcome: str
    count: int = 1
    line: CodeLine | None = None


@dataclass(frozen=True, slots=True)
class Protection:
    """The mechanism that protected the user's files from the run's writes.

    ``kernel``: Landlock, in addition to the interception of Python's calls. ``interception only``: native code and
    programs started by the script could write. ``off``: the user allowed everything. ``reason`` explains why the
    mechanism is not ``kernel``, or what this kernel does not cover. ``network`` is the reach of the run's Python code:
    ``open`` (every host) or ``loopback`` (this machine only).
    """

    state: Literal["kernel", "interception only", "off"]
    reason: str = ""
    network: Literal["open", "loopback"] = "open"
