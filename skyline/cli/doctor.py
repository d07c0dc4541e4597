"""``skyline doctor``: check what works on this machine, with a reason and a remedy for each failure."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from skyline.cli.accelerators import PROBE, Check, found_devices, gpu_recording
from skyline.cli.command_line import parser
from skyline.cli.streams import encoded, say, tell, write_data
from skyline.errors import CaptureImpossible, ExitCode, UsageError
from skyline.version import __version__

DOCTOR_SCHEMA = "skyline.doctor/1"

_MARKS = {"ok": "ok  ", "warning": "note", "failed": "FAIL"}

_PROBE_TIMEOUT_S = 90
_RECORDERS = ("CUPTI", "roctracer", "rocprofiler", "XPUPTI")
"""Names under which recorders of GPU work report errors."""


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "doctor",
        "[options] [SCRIPT]",
        "List the parts that work here, and the parts that do not with the reason and the\n"
        "remedy. With SCRIPT, for that script.",
    )
    command.add_argument(
        "script", metavar="SCRIPT", nargs="?", help="the script whose environment is checked"
    )
    command.add_argument("--interpreter", metavar="PYTHON", help="the Python that runs the scripts")
    command.add_argument(
        "--json", metavar="FILE", help="write the checks as JSON ('-': to stdout, without other output)"
    )
    return command


def run(arguments: Sequence[str]) -> int:
    """Run the command. The exit code is 3 if nothing can be profiled."""
    options = make_parser().parse_args(arguments)
    script = Path(options.script) if options.script else Path.cwd() / "train.py"
    checks = (
        Check("skyline", "ok", f"{__version__} on Python {platform.python_version()}, {platform.platform()}"),
        owners(_distributions("skyline")),
        *_interpreter_checks(script.absolute(), options.interpreter),
        _processor(),
        energy_check(),
        _own_devices(),
        _saving(script.absolute()),
        _protection(),
        _network(script.absolute().parent),
        _front_ends(),
    )
    if options.json is not None:
        write_data(options.json, encoded({"schema": DOCTOR_SCHEMA, "checks": checks}))
    if options.json != "-":
        _print(checks)
    failed = any(check.verdict == "failed" for check in checks)
    return int(ExitCode.CAPTURE_IMPOSSIBLE if failed else ExitCode.OK)


def owners(distributions: Sequence[str]) -> Check:
    """Check that no other distribution has overwritten the package ``skyline``."""
    others = sorted({name for name in distributions if name.lower() != "skyline-profiler"})
    if not others:
        return Check("import name", "ok", "only skyline-profiler provides this package")
    return Check(
        "import name",
        "failed",
        f"skyline is also installed by {', '.join(others)}: files of the two are mixed",
        f"pip uninstall {' '.join(others)}, then reinstall skyline-profiler; or install Skyline with pipx.",
    )


def _distributions(package: str) -> list[str]:
    from importlib.metadata import packages_distributions

    return list(packages_distributions().get(package, []))


def _interpreter_checks(script: Path, asked: str | None) -> tuple[Check, ...]:
    from skyline.capture.interpreter import resolve_interpreter

    try:
        interpreter = resolve_interpreter(script, asked)
    except CaptureImpossible as error:
        return (Check("interpreter", "failed", error.message, error.hint),)
    facts = _probe(interpreter)
    python = Check("interpreter", "ok", f"{interpreter} (Python {facts.get('python', 'unknown')})")
    if "torch" not in facts or "error" in facts:
        reason = facts.get("error", "it did not answer")
        remedy = f"{interpreter} -m pip install torch, or name another interpreter with --interpreter."
        return python, Check("torch", "failed", f"not usable: {reason}", remedy)
    torch = Check("torch", "ok", f"{facts['torch']}, {_threads(facts['threads'])}, {facts['cpu']}")
    recording = (gpu_recording(facts),) if facts.get("gpus") else ()
    return python, torch, found_devices(facts), *recording


def _threads(count: object) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _probe(interpreter: str) -> dict[str, object]:
    try:
        done = subprocess.run(
            [interpreter, "-c", PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
        facts = cast(dict[str, object], json.loads(done.stdout.strip().splitlines()[-1]))
        said = [line for line in done.stderr.splitlines() if any(mark in line for mark in _RECORDERS)]
        return {**facts, "said": said[0].strip()} if said else facts
    except subprocess.TimeoutExpired:
        return {"error": f"importing torch took longer than {_PROBE_TIMEOUT_S} s"}
    except (OSError, ValueError, IndexError) as error:
        return {"error": f"it could not be started: {error}"}


def _processor() -> Check:
    import psutil

    cores = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    memory = psutil.virtual_memory()
    features = _features()
    formats = f"; fast formats: {', '.join(features)}" if features else "; no bfloat16 instructions"
    return Check(
        "machine",
        "ok",
        f"{cores} cores, {memory.available / 1e9:.1f} of {memory.total / 1e9:.1f} GB free{formats}",
    )


def _features() -> list[str]:
    """The instruction sets of this CPU that make lower precision faster."""
    wanted = ("avx512_bf16", "amx_bf16", "amx_int8", "avx512_vnni", "bf16", "i8mm")
    try:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return []
    return [name for name in wanted if name in flags]


def energy_check() -> Check:
    """Check that the energy of an iteration can be measured. Without a counter no energy is shown."""
    from skyline.capture.power import gpu_counter, gpu_names, processor_counter

    asked = (*(gpu_counter(name) for name in gpu_names()), processor_counter())
    found = [counter for counter in asked if counter is not None]
    if found:
        sources = dict.fromkeys(f"{one.of} ({one.source})" for one in found)
        return Check("energy", "ok", f"measured by the counters of {', '.join(sources)}")
    finding = "no energy counter can be read here, so profiles show no energy"
    if os.path.isdir("/sys/class/powercap"):
        finding += "; the processor has one that only root can read"
    return Check("energy", "ok", f"{finding}. NVIDIA's needs nvidia-ml-py next to Skyline (extra: power)")


def _own_devices() -> Check:
    from skyline.predict.gpus import gpus
    from skyline.predict.own_table import own_table_path
    from skyline.predict.prices import own_prices

    path = own_table_path()
    try:
        own, prices = sum(spec.own for spec in gpus()), len(own_prices())
    except UsageError as error:
        return Check("your own GPUs", "warning", error.message, error.hint)
    if not path.exists():
        return Check("your own GPUs", "ok", f"none: there is no {path}")
    return Check(
        "your own GPUs",
        "ok",
        f"{own} GPU{'s' * (own != 1)} and {prices} price{'s' * (prices != 1)} in {path}",
    )


def _saving(script: Path) -> Check:
    from skyline.trace.store import FOLDER

    folder = script.parent / FOLDER
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        return Check(
            "saving",
            "warning",
            f"{nearest} cannot be written ({error.strerror or error}): profiles go to your cache folder",
            "Name a folder with --output-dir if they should go elsewhere.",
        )
    return Check("saving", "ok", f"profiles go to {folder}")


def _protection() -> Check:
    """Check the protection of the user's files from a profiled script."""
    from skyline.capture.child.sandbox import landlock

    if os.environ.get("SKYLINE_LANDLOCK") == "0":
        reason = "SKYLINE_LANDLOCK is 0"
    else:
        try:
            found = landlock.version()
        except landlock.Unavailable as error:
            reason = str(error)
        else:
            gaps = str(landlock.gaps(found))  # pyright: ignore[reportUnknownMemberType]: of the untyped child
            told = f"protected by the kernel (Landlock {found}) and by interception"
            return Check("files", "ok", f"{told}; {gaps}" if gaps else told)
    return Check(
        "files",
        "warning",
        f"protected by interception only: {reason}",
        "Native code and programs that a script starts can write while it is profiled.",
    )


def _network(folder: Path) -> Check:
    """Report the hosts that a profiled script may reach."""
    from skyline.settings.pyproject import project_settings
    from skyline.settings.source import resolve

    after_a_save = resolve((project_settings(folder),)).settings.network
    reached = "this machine only" if after_a_save == "loopback" else "every host"
    return Check(
        "network",
        "ok",
        f"runs that you start can reach every host; runs after a save: {reached} (Python's calls)",
    )


def _front_ends() -> Check:
    from importlib.util import find_spec

    parts = {"language server": "skyline_lsp", "terminal interface": "skyline_tui"}
    missing = [name for name, module in parts.items() if find_spec(module) is None]
    if missing == ["terminal interface"]:
        # The copy in an editor extension has no terminal UI.
        remedy = "To add the terminal UI: pipx install skyline-profiler."
        return Check("front ends", "warning", "language server", remedy)
    if missing:
        return Check("front ends", "failed", f"missing: {', '.join(missing)}", "Reinstall skyline-profiler.")
    return Check("front ends", "ok", ", ".join(parts))


def _print(checks: Sequence[Check]) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        tell(f"{_MARKS[check.verdict]}  {check.name:<{width}}  {check.finding}")
        if check.remedy and check.verdict != "ok":
            tell(f"{'':<{width + 8}}{check.remedy}")
    if any(check.verdict == "failed" for check in checks):
        say("skyline: not everything works; see FAIL above")
