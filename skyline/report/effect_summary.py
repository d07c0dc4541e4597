"""Short summaries of the side effects that profiling prevented and of those that it allowed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skyline.trace.side_effect import Protection, SideEffect

_NOUNS = {
    "file": ("file", "files"),
    "folder": ("folder", "folders"),
    "removal": ("removal", "removals"),
    "download": ("downloaded file", "downloaded files"),
    "program": ("program", "programs"),
}
_MOST_NAMED = 3


def prevented(effects: Sequence[SideEffect]) -> str:
    """``2 files, 1 folder; W&B off``; empty where nothing was prevented."""
    kept = [effect for effect in effects if effect.outcome in ("redirected", "held back")]
    counted = _counted(effect for effect in kept if effect.kind in _NOUNS)
    trackers = dict.fromkeys(effect.target for effect in kept if effect.kind in ("tracker", "profiler"))
    named = f"{', '.join(trackers)} off" if trackers else ""
    refused = _counted(effect for effect in effects if effect.outcome == "refused")
    hosts = _hosts(
        effect.target for effect in effects if effect.kind == "network" and effect.outcome == "refused"
    )
    parts = (counted, named, f"{refused} refused" if refused else "", f"{hosts} refused" if hosts else "")
    return "; ".join(part for part in parts if part)


def allowed(effects: Sequence[SideEffect]) -> str:
    """``1 downloaded file; host example.org; program git``; empty where nothing notable happened."""
    happened = [effect for effect in effects if effect.outcome == "allowed"]
    counted = _counted(effect for effect in happened if effect.kind in _NOUNS and effect.kind != "program")
    parts = [counted]
    for kind, one, many in (
        ("network", "host", "hosts"),
        ("program", "program", "programs"),
        ("tracker", "", ""),
    ):
        names = list(dict.fromkeys(effect.target for effect in happened if effect.kind == kind))
        if names:
            shown = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
            parts.append(f"{one if len(names) == 1 else many} {shown}".strip())
    return "; ".join(part for part in parts if part)


def _hosts(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    shown = ", ".join(found[:_MOST_NAMED]) + (", …" if len(found) > _MOST_NAMED else "")
    return f"{'host' if len(found) == 1 else 'hosts'} {shown}" if found else ""


def protected_by(protection: Protection | None) -> str:
    """The protection of the files, its gaps, and the network that the run can reach; empty where unknown."""
    if protection is None:
        return ""
    reached = "this machine only" if protection.network == "loopback" else "open"
    return f"{_files(protection)}; network: {reached}"


def _files(protection: Protection) -> str:
    reason = f" ({protection.reason})" if protection.reason else ""
    if protection.state == "kernel":
        return f"kernel and interception{reason}"
    if protection.state == "off":
        return f"off{reason}"
    return f"interception only{reason}: native code and programs that the script starts can write"


def _counted(effects: Iterable[SideEffect]) -> str:
    counts: dict[str, int] = {}
    for effect in effects:
        counts[effect.kind] = counts.get(effect.kind, 0) + 1
    return ", ".join(
        f"{counts[kind]} {one if counts[kind] == 1 else many}"
        for kind, (one, many) in _NOUNS.items()
        if kind in counts
    )
