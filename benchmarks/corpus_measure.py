"""Profile one script of the corpus as the command line does, and time it by hand in turns with Skyline.

``python corpus_measure.py TASK`` reads a task as JSON and prints an outcome as JSON. ``capture_corpus.py`` gives each
script its own process, so that a hang or crash of one does not affect the others.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, redirect_stdout
from dataclasses import asdict, replace
from pathlib import Path

from corpus_batch import batch_outcome
from corpus_environment import last_line
from interleaved import HAND_TIMER, HandTimed, TimedScript
from iteration_time import SkylineTimed
from plain_notebook import plain_script
from ratio import Ratio, is_steady

from skyline.analysis.analyse import Analysis, analyse
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.turns import in_turns, trial
from skyline.errors import SkylineError
from skyline.report.build import profile_report
from skyline.report.cells import CellPlaces, told_in_cells
from skyline.trace.trial import Choices, Trial

_ROUNDS = ((100.0, 5), (1000.0, 3))
"""(milliseconds, rounds): the number of rounds for iterations shorter than that. Longer ones get two rounds."""
_REPEATS = 3
"""Number of times that all processes are started. Two processes of one script may differ by a quarter for their whole
life (``fresh_processes.py`` shows why), and further rounds of the same three processes do not show that."""
_SETTLE_S, _BRIEFLY_S = 4.0, 0.5
_CONTROL_S = 90.0
_ENOUGH_STEPS = 4
_LAUNCHER = re.compile(r"torch[./]distributed[./]elastic")


def measure(task: dict[str, object]) -> dict[str, object]:
    """The outcome of one script: ``works`` with its figures, or the reason why it does not work."""
    script, folder = Path(str(task["script"])), Path(str(task["folder"]))
    arguments = tuple(str(argument) for argument in task["arguments"])  # type: ignore[attr-defined]
    subject = TimedScript(script, arguments, str(task["interpreter"]), folder)
    size, ranks = task.get("batch_size"), int(str(task.get("ranks", 1)))
    outcome = profiled(
        subject, size if isinstance(size, int) else None, timed=bool(task.get("timed", True)), ranks=ranks
    )
    if not outcome["works"]:
        outcome |= control(subject, ranks)
    elif ranks > 1:
        outcome["not_timed"] = f"{ranks} ranks, which wait for each other"
    elif task["stopwatch"]:
        steps = max(1, round(float(outcome.get("optimizer_steps") or 1)))
        outcome |= by_hand(replace(subject, stamps=steps), float(outcome["skyline_ms"]))  # type: ignore[arg-type]
    return outcome


def profiled(
    subject: TimedScript, size: int | None = None, *, timed: bool = True, ranks: int = 1
) -> dict[str, object]:
    """One profile without the batch-size curve, with the time until its headline. ``size``: see ``corpus_batch``."""
    request = CaptureRequest(
        script=subject.script,
        arguments=subject.arguments,
        interpreter=subject.interpreter,
        working_directory=subject.folder,
        batch_points=0,
        # Wait for steady times only if they are published.
        settle_s=_SETTLE_S if timed else _BRIEFLY_S,
        ranks=ranks,
    )
    begin = time.monotonic()
    try:
        profile = capture(request, progress=lambda _: None)
        analysis = analyse(profile)
        headline_s = time.monotonic() - begin
        report = profile_report(analysis)
    except SkylineError as error:
        reason = told_in_cells(str(error)).replace("\n", " ")
        return {"works": False, "reason": reason, "gave_up_s": time.monotonic() - begin}
    except Exception as error:
        reason = f"crash: {type(error).__name__}: {error}"
        return {"works": False, "reason": reason, "gave_up_s": time.monotonic() - begin}
    iteration = profile.iteration
    return {
        "works": True,
        "headline_s": headline_s,
        "skyline_ms": report.iteration_ms.value,
        "overhead": analysis.overhead,
        "attributed": 1.0 - report.unattributed_share,
        "meaning": CellPlaces.of(profile.sources).told(iteration.meaning) if iteration else "",
        "styles": list(iteration.styles) if iteration else [],
        "optimizer_steps": iteration.optimizer_steps if iteration else None,
        "warmup": profile.warmup_iterations,
        "side_effects": [
            f"{effect.outcome}: {effect.kind} x{effect.count}" for effect in profile.side_effects
        ],
        "notes": list(report.notes),
        "findings": [finding.code for finding in report.findings],
        "peak_bytes": profile.peak_bytes,
        "batch": _batch(analysis, request, size),
    }


def _batch(analysis: Analysis, request: CaptureRequest, size: int | None) -> dict[str, object]:
    """The outcome of the batch-size change. An error here does not affect the outcome of the profile."""
    try:
        return batch_outcome(analysis, request, size)
    except Exception as error:
        return {
            "size": size,
            "found": False,
            "rewritten": "",
            "said": f"crash: {type(error).__name__}: {error}",
        }


def control(subject: TimedScript, ranks: int = 1) -> dict[str, object]:
    """Train the script without Skyline. The outcome has the first steps timed by hand, or the script's own error."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        stamps, errors = Path(place, "stamps"), Path(place, "errors")
        stamps.touch()
        script, variables = subject.script, dict(os.environ)
        if script.suffix == ".ipynb":
            # Jupyter finds modules next to the notebook.
            beside = (str(subject.folder or script.parent), variables.get("PYTHONPATH", ""))
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, beside))
            script = Path(place, "notebook.py")
            script.write_text(plain_script(subject.script), encoding="utf-8")
        with errors.open("wb") as sink:
            process = subprocess.Popen(
                [
                    subject.interpreter,
                    *started_as(ranks),
                    str(HAND_TIMER),
                    str(stamps),
                    str(script),
                    *subject.arguments,
                ],
                cwd=subject.folder,
                env=variables,
                stdout=subprocess.DEVNULL,
                stderr=sink,
                start_new_session=True,
            )
            deadline = time.monotonic() + _CONTROL_S
            try:
                while process.poll() is None and time.monotonic() < deadline:
                    if len(stamps.read_bytes().splitlines()) >= _ENOUGH_STEPS:
                        break
                    time.sleep(0.1)
                code = process.poll()
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
        if code is None or code == 0 or len(stamps.read_bytes().splitlines()) >= _ENOUGH_STEPS:
            return {"runs_by_hand": True}
        return {"runs_by_hand": False, "own_error": own_error(errors.read_text("utf-8", errors="replace"))}


def own_error(text: str) -> str:
    """The error of a script from its output. With several ranks, the error of a rank, before the launcher's report."""
    of_ranks = re.findall(r"^\[rank\d+\]: ?(\w[\w.]*(?:Error|Exception)\b.*)$", text, re.MULTILINE)
    if of_ranks:
        return of_ranks[-1]
    lines = text.splitlines()
    report = next((number for number, line in enumerate(lines) if _LAUNCHER.search(line)), len(lines))
    return last_line("\n".join(lines[:report]))


def started_as(ranks: int) -> tuple[str, ...]:
    """Arguments of the interpreter that start ``ranks`` ranks of a script. Empty for one rank."""
    if ranks == 1:
        return ()
    return ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}")


def by_hand(subject: TimedScript, skyline_ms: float) -> dict[str, object]:
    """The iteration time by stopwatch, in turns with Skyline's bare timing and with a second stopwatch.

    Ratio and null are medians over the repeats, each the median of its rounds.
    """
    rounds = next((count for below_ms, count in _ROUNDS if skyline_ms < below_ms), 2)
    repeats: list[tuple[float, Trial]] = []
    try:
        for _ in range(_REPEATS):
            with ExitStack() as stack:
                base, again = stack.enter_context(HandTimed(subject)), stack.enter_context(HandTimed(subject))
                done = in_turns(base, [SkylineTimed(subject, stack)], again, rounds=rounds)
            found = trial(Choices(), done)
            if found.ratios and found.null:
                repeats.append((statistics.median(one.base_ms for one in done), found))
    except Exception as error:
        return {"not_timed": str(error).replace("\n", " ")}
    if not repeats:
        return {"not_timed": "it ends too soon to be timed in turns"}
    ratio = Ratio.of([statistics.median(one.ratios) for _, one in repeats])
    null = Ratio.of([statistics.median(one.null) for _, one in repeats])
    return {
        "by_hand_ms": statistics.median(ms for ms, _ in repeats),
        "ratio": asdict(ratio),
        "null": asdict(null),
        "steady": is_steady(null.value),
        "repeats": [{"ratios": one.ratios, "nulls": one.null} for _, one in repeats],
    }


if __name__ == "__main__":
    noise = io.StringIO()
    with redirect_stdout(noise):
        result = measure(json.loads(sys.argv[1]))
    print(json.dumps(result))
