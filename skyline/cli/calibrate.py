"""``skyline calibrate``: measure this machine's operators, so that predictions for it use these measurements."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli.capture_options import running
from skyline.cli.command_line import parser
from skyline.cli.streams import encoded, say, tell, write_data
from skyline.errors import CaptureImpossible, ExitCode, UsageError

if TYPE_CHECKING:
    from skyline.calibrate.machine import CalibratedDevice
    from skyline.calibrate.session import SessionResult

CALIBRATE_SCHEMA = "skyline.calibrate/1"
_EXAMPLES = """\
  skyline calibrate                             three minutes; run again to continue
  skyline calibrate --minutes 10 --device cuda  longer, the GPU
  skyline calibrate --export workstation.csv    a file to share
  skyline calibrate --add workstation.csv       predict for that machine, too
  skyline calibrate --list                      what was measured or added"""
_UNSTEADY = 0.25
"""Variation of a fixed product's time, as a share, above which the machine was busy or its clock was throttled."""


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "calibrate",
        "[options]",
        "Measure the speed of operators on this machine, CPU or GPU, and save it. Later\n"
        "predictions for it (skyline profile --gpu NAME, where NAME is the GPU or cpu)\n"
        "use these measurements. You can stop at any time; the next call continues.\n"
        "Settings of the device do not change, and no data leave the machine.",
        _EXAMPLES,
    )
    command.add_argument(
        "--minutes", type=_minutes, default=3.0, metavar="M", help="for how long (default: 3)"
    )
    command.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="device to measure (default: the GPU, if any)",
    )
    command.add_argument("--interpreter", metavar="PYTHON", help="the Python whose PyTorch is measured")
    command.add_argument(
        "--export", metavar="FILE", help="measure nothing; copy the measurements of the device"
    )
    command.add_argument("--add", metavar="FILE", help="measure nothing; add what another machine exported")
    command.add_argument(
        "--list", action="store_true", help="measure nothing; list the devices and their files"
    )
    command.add_argument(
        "--forget", metavar="NAME", help="measure nothing; remove the measurements of a device"
    )
    command.add_argument(
        "--json", metavar="FILE", help="write the outcome as JSON ('-': to stdout, without other output)"
    )
    command.add_argument("-q", "--quiet", action="store_true", help="print no progress and no notes")
    return command


def run(arguments: Sequence[str]) -> int:
    options = make_parser().parse_args(list(arguments))
    if options.list:
        return _list()
    if options.forget:
        return _forget(options.forget)
    if options.add:
        return _add(Path(options.add))
    interpreter = _interpreter(options.interpreter)
    device = _device(options.device, interpreter)
    if options.export:
        return _export(Path(options.export), interpreter, device)
    return _measure(interpreter, device, options)


def _measure(interpreter: str, device: str, options: argparse.Namespace) -> int:
    from skyline.calibrate.session import run_session
    from skyline.capture.request import Progress

    cancel = threading.Event()
    with running(quiet=options.quiet) as (display, _):

        def progress(fraction: float, known: int, machine: CalibratedDevice) -> None:
            display.progress(Progress("calibrate", f"{machine.name}: {known} operators measured", fraction))

        try:
            session = run_session(interpreter, device, options.minutes, progress=progress, cancel=cancel)
        except KeyboardInterrupt:
            say(
                "skyline: stopped; the measurements so far are saved, and skyline calibrate continues from there"
            )
            return int(ExitCode.INTERRUPTED)
    _tell(session, options)
    return int(ExitCode.OK)


def _tell(session: SessionResult, options: argparse.Namespace) -> None:
    from skyline.predict.registry import calibration_gain

    name = "cpu" if session.machine.device == "cpu" else session.machine.name
    gain = calibration_gain(name)
    if options.json is not None:
        outcome = {
            "schema": CALIBRATE_SCHEMA,
            "machine": session.machine,
            "path": str(session.path),
            "measured": session.measured,
            "failed": session.failed,
            "before": session.before,
            "drift": session.drift,
            "median_error_uncalibrated": gain.before if gain else None,
            "median_error_calibrated": gain.after if gain else None,
        }
        write_data(options.json, encoded(outcome))
        if options.json == "-":
            return
    if session.set_aside is not None:
        say(
            "skyline: earlier measurements are damaged, or come from another PyTorch or another machine of this name; "
            f"they were moved to {session.set_aside}",
            quiet=options.quiet,
        )
    total = session.before + session.measured
    tell(f"{session.machine.name}: {session.measured} operators measured now, {total} in all")
    if session.failed:
        tell(f"  {session.failed} could not be run here: the device does not support their formats or sizes")
    if gain is not None:
        tell(
            f"  median error of operator times: {gain.before:.0%} before, {gain.after:.0%} now\n"
            f"  (each of {gain.count} predicted from the others)"
        )
    if session.drift > _UNSTEADY:
        say(
            f"skyline: the same product took up to {1 + session.drift:.1f} times as long at times: other programs "
            "were running, or the clock rate was reduced. Measure again on a quiet machine: "
            f"skyline calibrate --forget {session.machine.slug}, then again.",
            quiet=options.quiet,
        )
    tell(f"  saved in {session.path}\n  try: skyline profile --gpu {name!r} train.py".replace("'cpu'", "cpu"))


def _list() -> int:
    from skyline.calibrate.store import folder, stored

    files = stored()
    if not files:
        tell(f"Nothing was measured or added so far ({folder()}).")
    for machine, rows in files:
        count = sum(one.time_us is not None for one in rows)
        tell(f"{machine.slug}: {machine.name}, {count} operators, PyTorch {machine.torch}")
    return int(ExitCode.OK)


def _forget(name: str) -> int:
    from skyline.calibrate.store import folder, path_of, stored

    for machine, _ in stored():
        if name in (machine.slug, machine.name):
            path_of(machine).unlink()
            say(f"skyline: forgot {machine.slug}")
            return int(ExitCode.OK)
    damaged = {path.stem: path for path in folder().glob("*.csv")}.get(name)
    if damaged is not None:
        damaged.unlink()
        say(f"skyline: removed {damaged}, which could not be read")
        return int(ExitCode.OK)
    raise UsageError(f"there are no measurements of {name!r}", hint="The list: skyline calibrate --list")


def _add(path: Path) -> int:
    from skyline.calibrate.store import append, path_of, read

    machine, rows = read(path)
    target = path_of(machine)
    known = {one.case.key for one in read(target)[1]} if target.exists() else set[object]()
    new = [one for one in rows if one.case.key not in known]
    append(target, machine, new)
    tell(f"{machine.name}: {len(new)} operators added")
    tell(f"  try: skyline profile --gpu {machine.slug} train.py")
    return int(ExitCode.OK)


def _export(path: Path, interpreter: str, device: str) -> int:
    from skyline.calibrate.session import machine_here
    from skyline.calibrate.store import path_of

    machine = machine_here(interpreter, device)
    source = path_of(machine)
    if not source.exists():
        raise UsageError(f"{machine.name} was not measured yet", hint="First: skyline calibrate")
    write_data(str(path), source.read_bytes())
    say(f"skyline: wrote {path}")
    return int(ExitCode.OK)


def _interpreter(asked: str | None) -> str:
    from skyline.capture.interpreter import resolve_interpreter

    return resolve_interpreter(Path.cwd() / "train.py", asked)


def _device(asked: str, interpreter: str) -> str:
    import subprocess

    if asked == "cpu":
        return asked
    probe = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 3)"
    found = subprocess.run([interpreter, "-I", "-c", probe], check=False, capture_output=True).returncode == 0
    if asked == "cuda" and not found:
        raise CaptureImpossible(
            f"PyTorch of {interpreter} sees no GPU",
            hint="skyline doctor says why; --device cpu measures the CPU.",
        )
    return "cuda" if found else "cpu"


def _minutes(text: str) -> float:
    value = float(text)
    if not 0 < value <= 600:
        raise argparse.ArgumentTypeError("minutes must be between 0 and 600")
    return value
