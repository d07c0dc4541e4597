"""What the numbers of a report rest on, in the words that stand beside them."""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePath

from skyline import units
from skyline.report.schema import CurvePointReport, ProfileReport
from skyline.source.knob import KnobKind


def when(created: str) -> str:
    """The moment of the measurement as a date and a time of day, in the time zone it was taken in."""
    try:
        moment = datetime.fromisoformat(created.replace("Z", "+00:00"))
    except ValueError:
        return created
    return moment.strftime("%Y-%m-%d %H:%M")


def command_line(report: ProfileReport) -> str:
    """The script's name and its arguments as they were typed."""
    return " ".join((PurePath(report.script).name, *report.arguments))


def basis_parts(report: ProfileReport) -> tuple[str, ...]:
    """How the numbers came about: when, on what, from how many steps, at what cost."""
    count = report.intraop_threads
    threads = f", {count} thread{'s' if count != 1 else ''}" if report.device.kind == "cpu" else ""
    parts = [f"{report.mode} {when(report.created)} on {device_name(report)}{threads}"]
    if report.mode == "measured":
        parts.append(f"{len(report.steps)} step{'s' if len(report.steps) != 1 else ''}")
        parts.append(f"overhead of recording {units.format_ratio(report.overhead)}")
    return tuple(parts)


def device_name(report: ProfileReport) -> str:
    """``CPU (AMD EPYC 7B13)``, or the name of the GPU."""
    if report.device.kind != "cpu":
        return report.device.name
    return f"CPU ({report.device.name})" if report.device.name.lower() not in {"", "cpu"} else "CPU"


def batch_size_remark(report: ProfileReport, where: str) -> str:
    """What sets the batch size (``where`` is the place of the literal as it is shown), or why nothing does."""
    batch = report.batch_size
    if batch.knob is not None:
        remark = f"set by the {batch.knob.kind} {batch.knob.text} at {where}"
        if batch.knob.kind == KnobKind.COMMAND_LINE.value:
            remark = f"set on the command line to {batch.value}, over the {batch.knob.text} at {where}"
        return f"{remark}, which cannot be rewritten: {batch.reason}" if batch.reason else remark
    if not batch.reason:
        return ""
    if batch.candidates:
        return f"cannot be changed in the code: {batch.reason}"
    return f"no place in the code was found that sets it; looked for {batch.reason}"


def point_basis(point: CurvePointReport) -> str:
    """One word for how a point of the batch-size curve is known."""
    if point.measured:
        return "measured"
    return "extrapolated" if point.extrapolated else "interpolated"


def measured_range(curve: tuple[CurvePointReport, ...]) -> str:
    """Which batch sizes were run, and what follows for the others; empty where there is no curve."""
    measured = sorted(point.batch_size for point in curve if point.measured)
    if not measured:
        return "no batch size was run: every point is a prediction" if curve else ""
    if len(measured) == 1:
        return f"measured at {measured[0]} only: every other batch size is extrapolated"
    sizes = ", ".join(str(size) for size in measured)
    return f"measured at {sizes}; below {measured[0]} and above {measured[-1]} it is extrapolated"
